"""What servers say of remote files, to notice that one was replaced: size and date, or a tag."""

from __future__ import annotations

import contextlib
import re
import urllib.request
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from pathlib import Path
from urllib.parse import urlsplit

__all__ = ["ask", "is_remote"]

#: How many files servers are asked for at a time, and how many seconds they have to answer.
_AT_A_TIME, _TIMEOUT = 32, 10
_REMOTE = re.compile(r"^[A-Za-z][A-Za-z0-9+.-]*:")


def is_remote(path: str) -> bool:
    """Whether FAST-HEP treats ``path`` as a URI instead of a file of this machine."""
    return bool(_REMOTE.match(path))


def ask(urls: Iterable[str]) -> dict[str, str]:
    """Return what makes each file the same file; without those of servers that do not answer.

    ``http(s)://`` is asked by HEAD (length, entity tag or modification date), ``root://`` by
    XRootD's stat, where its Python bindings are installed. Of ``file://``, this machine is asked.
    """
    wanted = list(dict.fromkeys(urls))
    if not wanted:
        return {}
    with ThreadPoolExecutor(max_workers=min(_AT_A_TIME, len(wanted))) as pool:
        answers = list(pool.map(_ask, wanted))
    return {url: answer for url, answer in zip(wanted, answers, strict=True) if answer is not None}


def _ask(url: str) -> str | None:
    scheme = urlsplit(url).scheme.lower()
    with contextlib.suppress(Exception):  # whatever a server or a client library may raise
        if scheme in ("http", "https"):
            return _ask_http(url)
        if scheme in ("root", "xroot", "roots"):
            return _ask_xrootd(url)
        if scheme == "file":
            # What uproot opens: it takes the rest as it is.
            status = Path(url.partition(":")[2].removeprefix("//")).stat()
            return f"{status.st_size}|{status.st_mtime_ns}"
    return None


def _ask_http(url: str) -> str | None:
    request = urllib.request.Request(url, method="HEAD")
    with urllib.request.urlopen(request, timeout=_TIMEOUT) as answer:
        headers = answer.headers
    when = headers.get("ETag") or headers.get("Last-Modified")
    length = headers.get("Content-Length")
    return f"{length or ''}|{when or ''}" if length or when else None


def _ask_xrootd(url: str) -> str | None:
    parts = urlsplit(url)
    client = import_module("XRootD.client")
    server = client.FileSystem(f"{parts.scheme}://{parts.netloc}")
    status, found = server.stat(f"/{parts.path.lstrip('/')}", timeout=_TIMEOUT)
    return f"{found.size}|{found.modtime or ''}" if status.ok else None  # 0: it has no times

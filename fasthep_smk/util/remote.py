"""Which file a name in a workflow means: one of this machine, or one that a server has.

FAST-HEP takes a name that begins like a URL's as uproot does, and any other one as a path. Of
remote files, servers are asked for what tells that one was replaced: size and date, or a tag.
"""

from __future__ import annotations

import contextlib
import os
import posixpath
import re
import socket
import struct
import threading
import time
import urllib.request
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from urllib.parse import unquote, urlsplit

#: How many files servers are asked for at a time, and how many seconds they have to answer.
_AT_A_TIME, _TIMEOUT = 32, 10
#: How many seconds a server has to take a connection, and to say its first word: a user may have
#: told XRootD. Its own client tries for minutes.
_CONNECTS, _ANSWERS = "XRD_CONNECTIONWINDOW", "XRD_REQUESTTIMEOUT"
_SECONDS = {_CONNECTS: 6, _ANSWERS: 8}
_DAY = 86_400
#: What a client says first. XRootD's server answers with the number of the stream, 0.
_GREETINGS = {"root": struct.pack(">5i", 0, 0, 0, 4, 2012), "http": b"HEAD / HTTP/1.0\r\n\r\n"}
_GREETED = bytes(2)
#: How a name begins that FAST-HEP hands to uproot as it is.
_SCHEME = re.compile(r"\s*[A-Za-z][A-Za-z0-9+.-]*:")
#: A file, and what in it is meant: uproot's ``_object_in_path_regex``.
_WITHIN = re.compile(r"(.+\.root(?:\.[0-9]+)?):(.*[^\s/].*)", re.IGNORECASE)
#: Copies that fsspec keeps of a file; and how it marks a path.
_CACHES = re.compile(r"(?:(?:simple|file|block)cache::)+")
_PATH = re.compile(r"(?:file|local):(?://)?")
#: Servers that may want a credential, by scheme: which one has the same files, and its usual port.
SERVERS = {
    **dict.fromkeys(("root", "roots", "xroot", "xroots", "xrootd"), ("root", ":1094")),
    **dict.fromkeys(("http", "dav"), ("http", ":80")),
    **dict.fromkeys(("https", "davs"), ("http", ":443")),
}


def is_remote(name: str) -> bool:
    """Whether a server has the file that FAST-HEP opens by ``name``."""
    return local_path(name) is None


def local_path(name: str) -> str | None:
    """Return the path of the file that FAST-HEP opens by ``name``; ``None``: a server has it."""
    if not _SCHEME.match(name):
        return name
    file = _parts(name)[0]
    if marked := _PATH.match(file):
        return os.path.expanduser(file[marked.end() :])  # noqa: PTH111
    return None if "://" in file or "::" in file else file


def within(name: str) -> str:
    """Return what of a file is meant by ``name``, such as a folder in it; usually nothing."""
    return _parts(name)[1] if _SCHEME.match(name) else ""


def _parts(name: str) -> tuple[str, str]:
    """Return the file and what in it is meant, of a name that begins like a URL's."""
    file = _CACHES.sub("", name.strip(), count=1)
    match = _WITHIN.fullmatch(file)
    return (match[1], re.sub("/+", "/", match[2]).strip(" /")) if match else (file, "")


def same_file(name: str) -> str:
    """Return what is the same for all names of one file, by links and by other spellings, too.

    A server's paths know no ``//``, and its users share their files; what follows ``?`` are
    options of XRootD's, and may be the file itself elsewhere.
    """
    path, inside = local_path(name), within(name)
    if path is not None:
        with contextlib.suppress(OSError, ValueError):
            status = os.stat(path)  # noqa: PTH116
            return f"{status.st_dev}:{status.st_ino}:{inside}"
        return name
    try:
        url = urlsplit(_parts(name)[0])
    except ValueError:  # half of an IPv6 address's brackets
        return name
    server, port = SERVERS.get(url.scheme, (url.scheme, ""))
    host = url.netloc.rpartition("@")[2].lower().removesuffix(port).rstrip(".")
    path, query = (url.path, "") if server == "root" else (unquote(url.path), url.query)
    path = posixpath.normpath("/" + path.lstrip("/"))
    return f"{server}://{host}{path}?{query}:{inside}"


def ask(urls: Iterable[str]) -> dict[str, str]:
    """Return what makes each file the same file; without those of servers that do not answer.

    ``http(s)://`` is asked by HEAD (length, entity tag or modification date), ``root://`` by
    XRootD's stat, where its Python bindings are installed.
    """
    wanted = list(dict.fromkeys(urls))
    if not wanted:
        return {}
    with ThreadPoolExecutor(max_workers=min(_AT_A_TIME, len(wanted))) as pool:
        answers = list(pool.map(_ask, wanted))
    return {url: answer for url, answer in zip(wanted, answers, strict=True) if answer is not None}


def server_of(name: str) -> str | None:
    """Return the host and port of the server that has a file; ``None`` if that is not known."""
    try:
        url = urlsplit(_parts(name)[0])
        server, host, port = SERVERS[url.scheme], url.hostname, url.port
    except (KeyError, ValueError):
        return None
    if not host or "," in host:
        return None
    return f"{f'[{host}]' if ':' in host else host}{f':{port}' if port else server[1]}"


def silent_servers(names: Iterable[str]) -> dict[str, str]:
    """Return the servers that do not answer, of all that have these files, and what is wrong.

    All are asked side by side, for some seconds. Whatever one answers, it is there: it may want a
    credential, or not have the file.
    """
    asked = {server: name for name in names if (server := server_of(name))}
    seconds = sum(map(_seconds, _SECONDS))
    problems = dict.fromkeys(asked, f"no answer within {seconds} s")

    def look(server: str) -> None:
        problems[server] = _problem(asked[server], server)

    threads = [threading.Thread(target=look, args=(server,), daemon=True) for server in asked]
    for thread in threads:
        thread.start()
    end = time.monotonic() + seconds
    for thread in threads:
        thread.join(max(0.0, end - time.monotonic()))
    return {server: problem for server, problem in list(problems.items()) if problem}


def _seconds(variable: str) -> int:
    value = os.environ.get(variable, "").strip()
    return min(max(1, int(value)), _DAY) if value.isdecimal() else _SECONDS[variable]


def _problem(name: str, server: str) -> str:
    """Return why a server does not answer; nothing if it does."""
    kind = SERVERS[urlsplit(_parts(name)[0]).scheme][0]
    host, _, port = server.rpartition(":")
    try:
        address = host.strip("[]"), int(port)
        with socket.create_connection(address, timeout=_seconds(_CONNECTS)) as connection:
            connection.settimeout(_seconds(_ANSWERS))
            try:
                connection.sendall(_GREETINGS[kind])
                answer = connection.recv(16)
            except ConnectionError:
                answer = b""
    except TimeoutError:
        return "no answer in time"
    except OSError as error:
        return error.strerror or str(error)
    except ValueError as error:  # no name of a host
        return str(error)
    # One that wants TLS takes offence at a line of plain text: it is there.
    if kind == "http" or answer.startswith(_GREETED):
        return ""
    return "it does not speak XRootD's protocol" if answer else "it closes the connection"


def _ask(url: str) -> str | None:
    file = _parts(url)[0]
    scheme = file.partition(":")[0].lower()
    with contextlib.suppress(Exception):  # whatever a server or a client library may raise
        if scheme in ("http", "https"):
            return _ask_http(file)
        if scheme in ("root", "xroot", "roots"):
            return _ask_xrootd(file)
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
    status, info = server.stat(f"/{parts.path.lstrip('/')}", timeout=_TIMEOUT)
    return f"{info.size}|{info.modtime or ''}" if status.ok else None  # 0: it has no times

"""The page on a build folder as a server of this machine shows it, to this machine alone.

It reads and writes nothing but answers. Who asks must know the token in the address: on a machine
of many users, each of them can reach its ports. A page of another host that lets its name point to
this machine is refused by the name that it asks for.
"""

from __future__ import annotations

import contextlib
import secrets
import threading
import time
from functools import partial
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urlsplit

from fasthep_smk.report import document, page, results
from fasthep_smk.report.facts import gather
from fasthep_smk.storage import layout
from fasthep_smk.util import files
from fasthep_smk.util.errors import Findings
from fasthep_smk.util.masking import masked

__all__ = ["Server"]

_HERE = ("127.0.0.1", "localhost")
_CHUNK = 1 << 16
_TEXT, _BYTES = "text/plain; charset=utf-8", "application/octet-stream"
#: No file that jobs have made runs anything, whatever it is.
_SANDBOX = "default-src 'none'; style-src 'unsafe-inline'; sandbox"


class Server(ThreadingHTTPServer):
    """Serves the page of a build folder on a port of this machine: ``serve_forever``.

    Raises:
        OSError: the port is taken.
    """

    daemon_threads = True

    def __init__(self, build: Path, port: int = 0) -> None:
        self._path = f"/{secrets.token_urlsafe(16)}/"
        super().__init__((_HERE[0], port), partial(_Answer, self._path, _Page(build)))

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing: whoever can reach the port could fill the terminal."""

    @property
    def url(self) -> str:
        """The address of the page, with the token that opens it."""
        return f"http://{_HERE[0]}:{self.server_port}{self._path}"


class _Page:
    """The page of a build folder, made anew when it is asked for, but not too often."""

    def __init__(self, build: Path) -> None:
        self.build = build
        self._lock = threading.Lock()
        self._content, self._until, self._pause = b"", 0.0, 0.0

    def content(self) -> bytes:
        """Return the page.

        Raises:
            Findings: the task tables cannot be read.
        """
        with self._lock:
            began = time.monotonic()
            if began >= self._until:
                self._pause = self._pause or page.pause(0.0)
                facts = gather(self.build)
                text = page.as_html(facts, document.report_on(facts), renewed=self._pause)
                self._content = text.encode()
                now = time.monotonic()
                self._pause = page.pause(now - began)
                # Where no run works, the page is made anew at once: that costs no run anything.
                self._until = now + (self._pause if facts.is_running else 0.0)
            return self._content


class _Answer(BaseHTTPRequestHandler):
    """Answers one request."""

    timeout = 10
    server_version, sys_version = "fasthep-smk", ""

    def __init__(self, path: str, found: _Page, *rest: object) -> None:
        self._token, self._page = path, found
        super().__init__(*rest)  # type: ignore[arg-type]

    def do_GET(self) -> None:
        """Answer with the page, a result or a log."""
        try:
            asked = urlsplit(self.path).path
        except ValueError:
            self._say(HTTPStatus.BAD_REQUEST, "this is no address")
            return
        host = self.headers.get("Host", "").rpartition(":")[0] or self.headers.get("Host", "")
        known = asked[: len(self._token)].encode("utf-8", "replace")
        if host not in _HERE or not secrets.compare_digest(known, self._token.encode()):
            self._say(HTTPStatus.FORBIDDEN, "not for you: use the address that was printed")
        elif asked == self._token:
            try:
                self._send(
                    self._page.content(), "text/html; charset=utf-8", "frame-ancestors 'none'"
                )
            except Exception as error:  # a file is just being written, or is damaged
                said = error if isinstance(error, Findings) else f"try again: {error}"
                self._say(HTTPStatus.SERVICE_UNAVAILABLE, str(said))
        else:
            self._send_file(unquote(asked[len(self._token) :]))

    def do_HEAD(self) -> None:
        """Answer without content."""
        self.do_GET()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Say nothing: the terminal is for people."""

    def _send_file(self, name: str) -> None:
        """Send a result, or a log without its secrets; nothing else of the folder."""
        build = self._page.build.resolve()
        with contextlib.suppress(OSError, ValueError):  # ValueError: a name that none can have
            path = (build / name).resolve(strict=True)
            if path.is_file() and path.is_relative_to(build / results.ARTIFACTS):
                kind = results.PICTURES.get(path.suffix.lower(), _BYTES)
                self._begin(HTTPStatus.OK, kind, path.stat().st_size, _SANDBOX)
                if self.command != "HEAD":
                    with path.open("rb") as stream:
                        while part := stream.read(_CHUNK):
                            self.wfile.write(part)
                return
            if path.is_file() and path.is_relative_to(build / layout.LOGS):
                text = masked(files.read_plain(path).decode(errors="replace"))
                self._send(text.encode(), _TEXT, _SANDBOX)
                return
        self._say(HTTPStatus.NOT_FOUND, "there is no such result or log")

    def _say(self, status: HTTPStatus, text: str) -> None:
        self._send(f"{masked(text)}\n".encode(), _TEXT, _SANDBOX, status)

    def _send(
        self, content: bytes, kind: str, policy: str, status: HTTPStatus = HTTPStatus.OK
    ) -> None:
        self._begin(status, kind, len(content), policy)
        if self.command != "HEAD":
            self.wfile.write(content)

    def _begin(self, status: HTTPStatus, kind: str, size: int, policy: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(size))
        self.send_header("Content-Security-Policy", policy)
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Referrer-Policy", "no-referrer")
        self.send_header("Cache-Control", "no-store")
        self.end_headers()

    def handle(self) -> None:
        """Answer; who has gone away meanwhile is not told."""
        with contextlib.suppress(ConnectionError, TimeoutError):
            super().handle()

"""A server that gives nothing without a valid token."""

from __future__ import annotations

import http.server
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import jwt

from tests.support import credentials

__all__ = ["token_server"]


@contextmanager
def token_server() -> Iterator[tuple[str, list[int]]]:
    """Yield the address of a server that wants a valid token, and what it has answered."""
    answers: list[int] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            token = self.headers.get("Authorization", "").removeprefix("Bearer ")
            try:
                jwt.decode(token, credentials.KEY, algorithms=["HS256"])
                answers.append(200)
            except jwt.PyJWTError:
                answers.append(401)
            self.send_response(answers[-1])
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as found:
        threading.Thread(target=found.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{found.server_port}/", answers
        found.shutdown()

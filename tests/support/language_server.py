"""The language server for YAML that editors use, asked what it says of a file.

It is started by `node` and spoken to as an editor does: messages in JSON with a header each, the
Language Server Protocol.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from tests.clusters.conftest import lock, not_had

__all__ = ["Editor", "editor"]

SCRIPT = Path(__file__).parent / "language_server.sh"
_SETTINGS = {"yaml": {"validate": True, "schemaStore": {"enable": False}}}


@dataclass
class Editor:
    """An editor without a window: it opens files, and hears what is wrong in them."""

    to: IO[bytes]
    of: IO[bytes]
    opened: set[str] = field(default_factory=set)

    def problems(self, path: Path) -> list[str]:
        """Open a file; return what the server says of it, each with its line.

        Of a file that is opened twice, something that was said of it before may come late.
        """
        uri = path.absolute().as_uri()
        assert uri not in self.opened, uri
        self.opened.add(uri)
        document = {"uri": uri, "languageId": "yaml", "version": 1, "text": path.read_text()}
        self.send("textDocument/didOpen", {"textDocument": document})
        said = self.hear("textDocument/publishDiagnostics", uri)
        self.send("textDocument/didClose", {"textDocument": {"uri": uri}})
        said.sort(key=lambda one: one["range"]["start"]["line"])
        return [f"line {one['range']['start']['line'] + 1}: {one['message']}" for one in said]

    def send(self, method: str, params: object, **more: object) -> None:
        self._write({"method": method, "params": params, **more})

    def _write(self, message: dict[str, object]) -> None:
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        self.to.write(b"Content-Length: %d\r\n\r\n" % len(body) + body)
        self.to.flush()

    def hear(self, method: str, uri: str) -> list[dict[str, Any]]:
        """Wait until the server says this of a file; answer what it asks meanwhile."""
        while True:
            message = self._read()
            if "id" in message and "method" in message:
                wanted = message["params"].get("items") if message.get("params") else None
                result = [_SETTINGS.get(one["section"]) for one in wanted] if wanted else None
                self._write({"id": message["id"], "result": result})
            elif message.get("method") == method and message["params"]["uri"] == uri:
                return list(message["params"]["diagnostics"])

    def start(self) -> None:
        self.send("initialize", {"processId": None, "rootUri": None, "capabilities": {}}, id=1)
        while self._read().get("id") != 1:
            pass
        self.send("initialized", {})
        self.send("workspace/didChangeConfiguration", {"settings": _SETTINGS})

    def _read(self) -> dict[str, Any]:
        length = 0
        while (line := self.of.readline().strip()) or not length:
            if not line:
                raise EOFError("the language server has ended")
            name, _, value = line.partition(b":")
            if name.lower() == b"content-length":
                length = int(value)
        return dict(json.loads(self.of.read(length)))


@contextmanager
def editor() -> Iterator[Editor]:
    """Start the server; it ends with the block."""
    with lock("yaml-language-server"):
        made = subprocess.run([SCRIPT], capture_output=True, text=True)
    if made.returncode:
        not_had("the language server for YAML", made.stderr)
    with subprocess.Popen(
        ["node", made.stdout.strip(), "--stdio"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdin and process.stdout
        started = Editor(process.stdin, process.stdout)
        started.start()
        try:
            yield started
        finally:
            process.kill()

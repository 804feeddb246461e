"""How a remote file is known: by what its server says."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from fasthep_smk.storage.inputs import Inputs


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server(tmp_path: Path) -> Iterator[str]:
    """A real HTTP server on a folder of its own."""
    (tmp_path / "served").mkdir()
    handler = partial(Quiet, directory=str(tmp_path / "served"))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as running:
        threading.Thread(target=running.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{running.server_port}"
        running.shutdown()


def identity(tmp_path: Path, url: str) -> tuple[str, list[str]]:
    inputs = Inputs(tmp_path, tmp_path / "cache.json")
    unknown = inputs.ask_servers([url, "a/local.root"])
    return inputs.identity(url), unknown


def test_a_replaced_file_is_another_one(server: str, tmp_path: Path) -> None:
    file = tmp_path / "served" / "dy.root"
    file.write_bytes(b"events")
    first, unknown = identity(tmp_path, f"{server}/dy.root")
    assert not unknown
    assert identity(tmp_path, f"{server}/dy.root")[0] == first
    file.write_bytes(b"more events")
    assert identity(tmp_path, f"{server}/dy.root")[0] != first


def test_a_server_that_is_down_makes_no_other_file(server: str, tmp_path: Path) -> None:
    file = tmp_path / "served" / "dy.root"
    file.write_bytes(b"events")
    first, _ = identity(tmp_path, f"{server}/dy.root")
    file.unlink()  # 404: it does not say anything of the file
    assert identity(tmp_path, f"{server}/dy.root") == (first, [])


def test_a_server_that_says_no_date_does_not_tell_that_a_file_is_the_same(
    server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = Quiet.send_header
    names = ("Last-Modified", "ETag")
    undated = lambda self, name, value: name in names or plain(self, name, value)  # noqa: E731
    monkeypatch.setattr(Quiet, "send_header", undated)
    (tmp_path / "served" / "dy.root").write_bytes(b"events")
    inputs = Inputs(tmp_path, tmp_path / "cache.json")
    assert inputs.entries([f"{server}/dy.root"], ["events"]) is None


def test_what_nobody_knows_is_known_by_its_name(tmp_path: Path) -> None:
    url = "nonsense://host/dy.root"
    assert identity(tmp_path, url) == (url, [url])

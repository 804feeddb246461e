"""How a remote file is known: by what its server says."""

from __future__ import annotations

import os
import shutil
import sys
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from fasthep_smk.storage import inputs as inputs_module
from fasthep_smk.storage.inputs import Inputs, identity_of
from fasthep_smk.storage.root_files import RootFile
from tests.support import events


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


@pytest.mark.parametrize("is_dated", [True, False])
def test_a_server_that_says_no_date_does_not_tell_that_a_file_is_the_same(
    server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_dated: bool
) -> None:
    def send_header(self: Quiet, name: str, value: str) -> None:
        if is_dated or name not in ("Last-Modified", "ETag"):
            SimpleHTTPRequestHandler.send_header(self, name, value)

    def look_into(paths: list[str], *_: object, **__: object) -> dict[str, RootFile]:
        return {path: RootFile({"events": 3}, {}) for path in paths}

    monkeypatch.setattr(Quiet, "send_header", send_header)
    monkeypatch.setattr("fasthep_smk.storage.inputs.look_into", look_into)
    (tmp_path / "served" / "dy.root").write_bytes(b"events")
    url = f"{server}/dy.root"
    found = Inputs(tmp_path, tmp_path / "cache.json").entries([url], ["events"])
    assert found == ({url: {"events": 3}} if is_dated else None)


def test_what_is_known_of_a_file_outlives_calls_that_do_not_get_to_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until a call has looked at all files, and has not asked for this one."""
    files = [tmp_path / f"{name}.root" for name in "ab"]
    for number, file in enumerate(files, start=1):
        events.zmumu_file(file, number, 0, is_data=False)
    first, second = (f"file://{file}" for file in files)

    def inputs() -> Inputs:
        return Inputs(tmp_path, tmp_path / "cache.json")

    inputs().entries([first, second], ["events"])
    opened: list[str] = []
    look_into = inputs_module.look_into

    def noted(paths: list[str], *given: Any, **named: Any) -> dict[str, RootFile]:
        opened.extend(paths)
        return look_into(paths, *given, **named)

    monkeypatch.setattr(inputs_module, "look_into", noted)
    refused = inputs()
    refused.ask_servers([first])
    refused.look([first], ["events"])
    written = (tmp_path / "cache.json").stat()
    whole = inputs()
    whole.ask_servers([first, second])
    for one in (first, second):
        whole.look([one], ["events"])
    whole.forget_unused()
    assert opened == []
    assert (tmp_path / "cache.json").stat().st_size == written.st_size
    last = inputs()
    last.look([first], ["events"])
    last.forget_unused()
    inputs().look([second], ["events"])
    assert opened == [second]


def test_a_file_that_was_made_again_with_its_size_and_time_is_another_one(tmp_path: Path) -> None:
    """And what is known is not opened again, but where the inode has changed."""
    file, cache = tmp_path / "dy.root", tmp_path / "cache.json"
    opened: list[str] = []

    def identity() -> str:
        inputs = Inputs(tmp_path, cache)
        found = inputs.identity("dy.root")
        inputs.forget_unused()
        return found

    def make(to: Path) -> None:
        events.zmumu_file(to, 10, 0)  # the same events: the UUID alone differs
        os.utime(to, (1_700_000_000, 1_700_000_000))

    sys.addaudithook(lambda event, given: opened.append(str(given[0])) if event == "open" else None)
    make(file)
    first = identity()
    assert opened.count(str(file)) > 0
    opened.clear()
    assert identity() == first
    assert str(file) not in opened
    shutil.copy2(file, tmp_path / "copy.root")
    (tmp_path / "copy.root").rename(file)
    assert identity() == first, "a copy is the same file"
    assert opened.count(str(file)) > 0
    size = file.stat().st_size
    make(file)
    assert file.stat().st_size == size
    assert identity() != first
    assert Inputs(tmp_path, cache).checksum("dy.root") != first


def test_a_checksum_is_taken_again_of_a_file_with_the_size_time_and_uuid_of_another(
    tmp_path: Path,
) -> None:
    """``--identity checksum`` is what helps then, as ``docs/reruns.md`` says."""
    file, cache = tmp_path / "dy.root", tmp_path / "cache.json"
    events.zmumu_file(file, 10, 0)
    stat, first = identity_of("dy.root", tmp_path), Inputs(tmp_path, cache).checksum("dy.root")
    content, status = bytearray(file.read_bytes()), file.stat()
    content[-1] ^= 1
    (tmp_path / "new.root").write_bytes(content)
    os.utime(tmp_path / "new.root", ns=(status.st_atime_ns, status.st_mtime_ns))
    (tmp_path / "new.root").rename(file)
    assert identity_of("dy.root", tmp_path) == stat
    assert Inputs(tmp_path, cache).checksum("dy.root") != first


def test_a_pipe_or_what_may_not_be_read_is_not_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert identity_of("pipe", tmp_path).startswith("pipe|0|")
    assert identity_of("none", tmp_path) == "none|missing"


def test_what_nobody_knows_is_known_by_its_name(tmp_path: Path) -> None:
    url = "nonsense://host/dy.root"
    assert identity(tmp_path, url) == (url, [url])

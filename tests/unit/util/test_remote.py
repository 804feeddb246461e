"""What is said of files that are named by a URL."""

from __future__ import annotations

import os
from pathlib import Path

from fasthep_smk.util.remote import ask, is_remote


def test_of_a_file_url_this_machine_is_asked(tmp_path: Path) -> None:
    path = tmp_path / "two words é.root"
    path.write_bytes(b"12345")
    url = f"file://{path}"  # uproot takes no "%20" for a space
    assert is_remote(url)
    before = ask([url])
    assert before[url].startswith("5|")
    os.utime(path, (1, 1))
    assert ask([url]) != before


def test_of_a_file_that_is_not_there_nothing_is_known(tmp_path: Path) -> None:
    assert ask([(tmp_path / "gone.root").as_uri(), "own://somewhere"]) == {}

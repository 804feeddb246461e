"""man/fasthep-smk.1 and docs/commands.md are what ``make man`` makes."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from fasthep_smk.cli.parser import make_parser
from tests.support.pages import options_of
from tests.support.programs import program

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "man/fasthep-smk.1"


def made(*words: str) -> str:
    command = [sys.executable, str(ROOT / ".ci/make-man"), *words]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout


def test_the_manual_page_is_current() -> None:
    assert made() == PAGE.read_text(), "run: make man"


def test_the_page_on_commands_is_current_and_has_every_option() -> None:
    page = (ROOT / "docs/commands.md").read_text()
    assert made("page") == page, "run: make man"
    named = {word for line in re.findall(r"`(-[^`]*)`", page) for word in re.split(r",? ", line)}
    assert set(options_of(make_parser())) - {"-h", "--help", "--version"} <= named


def test_every_option_is_in_it() -> None:
    page = PAGE.read_text().replace("\\-", "-")
    named = set(re.findall(r"^\.B (-.*)$", page, re.MULTILINE))
    words = {word.strip(",") for line in named for word in line.split()}
    assert set(options_of(make_parser())) - {"-h", "--help", "--version"} <= words


def test_it_is_right_troff() -> None:
    done = subprocess.run(
        [program("groff"), "-man", "-ww", "-Tutf8", "-z", str(PAGE)], capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")

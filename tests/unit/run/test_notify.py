"""A command that is told how a run has ended: whatever it does, the run ends as it would have."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from fasthep_smk.cli import main
from fasthep_smk.run import notify

WRITE = 'printf "%s|%s|%s" "$FASTHEP_SMK_STATUS" "$FASTHEP_SMK_SUMMARY" "$FASTHEP_SMK_BUILD" > told'


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_it_is_told_how_a_run_has_ended(folder: Path) -> None:
    with notify.at_end(WRITE, Path("build")) as notice:
        notice.status, notice.summary = "finished", "3 jobs done; results in build"
    assert Path("told").read_text() == f"finished|3 jobs done; results in build|{folder}/build"


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (ValueError("2 jobs failed\nthe first: a"), "failed|2 jobs failed|"),
        (ValueError("no answer of https://me:hunter2@host/x"), "failed|no answer of https://"),
        (KeyboardInterrupt(), "stopped|stopped; finished jobs are kept|"),
        (OSError(), "failed|OSError|"),
    ],
    ids=["failed", "secret", "stopped", "silent"],
)
def test_it_is_told_of_a_run_that_does_not_succeed(error: BaseException, told: str) -> None:
    with pytest.raises(type(error)), notify.at_end(WRITE, Path("build")):
        raise error
    assert Path("told").read_text().startswith(told)
    assert "hunter2" not in Path("told").read_text()


def test_a_summary_is_no_part_of_the_command() -> None:
    with notify.at_end(WRITE, Path("build")) as notice:
        notice.summary = '"; touch planted; $(touch planted) `touch planted`'
    assert not Path("planted").exists()
    assert "$(touch planted)" in Path("told").read_text()


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("echo one; echo 'no such host' >&2; exit 3", "ended with status 3: no such host"),
        ("exit 1", "ended with status 1"),
        ("sleep 60", "took more than 0.2 s, and was ended"),
        ("kill -9 $$", "ended with status -9"),
    ],
)
def test_what_goes_wrong_with_it_is_a_warning(
    command: str, said: str, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    if "sleep" in command:
        monkeypatch.setattr(notify, "_PATIENCE", 0.2)
    with notify.at_end(command, Path("build")) as notice:
        notice.status = "finished"
    assert capfd.readouterr() == ("", f"fasthep-smk: warning: the command of --notify {said}\n")


def test_what_it_leaves_in_the_background_is_not_awaited() -> None:
    began = time.monotonic()
    with notify.at_end("sleep 20 & echo $! > pid", Path("build")):
        pass
    assert time.monotonic() - began < 10
    os.kill(int(Path("pid").read_text()), 9)


def test_a_run_that_is_refused_ends_as_without_it(capsys: pytest.CaptureFixture[str]) -> None:
    for options in ([], ["--notify", WRITE], ["--notify", f"{WRITE}; exit 7"]):
        assert main.main(["run", "none.yaml", *options]) == main.main(["run", "none.yaml"]) != 0
    told = Path("told").read_text()
    assert told.startswith("failed|1 problem: none.yaml: the workflow file does not exist|")
    assert "ended with status 7" in capsys.readouterr().err

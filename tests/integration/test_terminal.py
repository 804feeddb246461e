"""A run in a terminal: bars while it goes on, and a clean screen afterwards."""

from __future__ import annotations

import os
import re
import signal
import sys
from pathlib import Path

import pytest

from tests.integration.conftest import Run
from tests.support.own_op import add_own_op
from tests.support.terminal import Terminal, run_in_terminal

pytestmark = pytest.mark.integration

COMMAND = [sys.executable, "-m", "fasthep_smk", "workflow.yaml", "-j", "2"]
BY_STAGE = ("--granularity", "stage")
OP = """\
import time
from pathlib import Path

SPEC = {"name": "own.op", "kind": "transform", "params": {},
        "input": {"name": "stream", "kind": "event_stream", "required": True},
        "result": {"kind": "event_stream"}}

def run(*, stream, ctx=None):
    if ctx["dataset_name"] == "dy":
        while Path("wait").exists():
            time.sleep(0.05)
        if Path("fail").exists():
            raise OSError("a " + "very " * 40 + "long story")
    return stream
"""


@pytest.fixture
def own(analysis: Path) -> Path:
    """The small analysis with an op that waits or fails for one dataset, if it is told to."""
    return add_own_op(analysis, OP)


def last_bars(lines: list[str]) -> list[str]:
    """Return the lines from the bars' header on."""
    headers = [number for number, line in enumerate(lines) if line.startswith("rule ")]
    assert len(headers) == 1, "the bars were drawn over, not again and again"
    return lines[headers[0] :]


def test_a_bar_for_each_rule_and_a_clean_end(analysis: Path) -> None:
    status, terminal, same = run_in_terminal([*COMMAND, *BY_STAGE], analysis, environment={})
    assert status == 0, terminal.lines
    assert terminal.lines[0] == "compiling workflow.yaml"
    header, *lines = last_bars(terminal.lines)
    assert header.split()[:6] == ["rule", "pool", "done", "running", "failed", "waiting"]
    bars = {line.split()[0]: line for line in lines if "━" in line}
    tables = {path.stem for path in (analysis / "build/smk/tasks").glob("*.json")}
    assert set(bars) == tables
    assert bars["stage_Vars"].split()[1] == "default"
    assert bars["stage_Vars"].split()[3:7] == ["3", "0", "0", "0"]
    total = sum(int(line.split()[3]) for line in bars.values())
    assert lines[len(bars)].startswith(f"[{total}/{total}] jobs done in 0:")
    assert lines[len(bars) + 1] == f"{total} jobs done; results in {analysis / 'build'}"
    assert terminal.lines[-1] == ""
    assert terminal.other == [], "nothing has to be restored"
    assert terminal.colours
    assert same


def test_what_went_wrong_stands_above_the_bars_in_one_piece(own: Path) -> None:
    (own / "fail").touch()
    status, terminal, _ = run_in_terminal(
        COMMAND, own, environment={"NO_COLOR": "1"}, size=(60, 24)
    )
    assert status == 1
    lines = terminal.lines
    bars = lines.index(last_bars(lines)[0])
    assert sum(line.startswith("failed: stages_Vars_to_Met") for line in lines[:bars]) == 1
    (story,) = [line for line in lines[bars:] if "long story" in line]
    assert story.startswith("stage 'Own' (own.op) failed: OSError: a very very")
    assert all(len(line) < 60 for line in lines[bars : bars + 4]), lines
    assert not {item for item in terminal.colours if item.startswith(("3", "4", "9"))}


def test_a_dumb_terminal_gets_lines(own: Path) -> None:
    status, terminal, same = run_in_terminal(
        COMMAND, own, environment={"TERM": "dumb"}, size=(40, 20)
    )
    assert status == 0, terminal.lines
    assert re.fullmatch(r"\d+ jobs to run: .*", terminal.lines[0])
    assert re.fullmatch(r"\[1/\d+\] jobs done, 0:\d\d so far: \w+ \w+/\S+", terminal.lines[1])
    assert (terminal.colours, terminal.other, same) == (set(), [], True)


def test_an_interrupted_run_leaves_the_terminal_as_it_was(own: Path) -> None:
    (own / "wait").touch()
    asked: list[int] = []

    def interrupt(terminal: Terminal, pid: int) -> None:
        if not asked and any(map(_runs, terminal.lines)):
            asked.append(pid)
            os.kill(pid, signal.SIGINT)
            (own / "wait").unlink()

    status, terminal, same = run_in_terminal(COMMAND, own, environment={}, look=interrupt)
    assert asked
    assert status == 130
    assert terminal.lines[-2] == "fasthep-smk: stopped; finished jobs are kept, run again to resume"
    assert terminal.lines[-1] == ""
    assert terminal.other == []
    assert same
    _, *rules, whole, _, _ = last_bars(terminal.lines)
    assert {line.split()[5] for line in rules} == {"0"}, "what was stopped has not failed"
    assert "jobs done, stopped after 0:" in whole


def _runs(line: str) -> bool:
    words = line.split()
    return len(words) > 5 and words[0].startswith("stage") and words[4] != "0"


def test_quiet_says_the_last_line_and_what_went_wrong(own: Path, smk: Run) -> None:
    (own / "fail").touch()
    failed = smk(*COMMAND[3:], "-q", cwd=own)
    assert failed.returncode == 1
    assert failed.stdout == ""
    first, second, *_ = failed.stderr.splitlines()
    assert re.fullmatch(
        r"failed: stages_Vars_to_Met (data|dy)/[01]_0: OSError: a very .* \.\.\.", first
    )
    assert second.startswith("fasthep-smk: 1 job failed")
    (own / "fail").unlink()
    done = smk(*COMMAND[3:], "-q", cwd=own)
    assert done.returncode == 0, done.stderr
    (said,) = done.stdout.splitlines()
    assert said.partition(" ")[2] == f"jobs done; results in {own / 'build'}"
    assert done.stderr == ""

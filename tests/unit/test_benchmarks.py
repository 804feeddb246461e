"""The benchmarks' own tools: what they measure is right, and their tables can be read."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.benchmarks.measure import Failed, Measured, measure
from tests.benchmarks.report import TABLES, Figure, Result, Row, document
from tests.benchmarks.size import slopes

MB = 2**20
#: Holds memory, computes for a while, and waits for a child that holds more.
PROGRAM = """\
import subprocess, sys, time
held = bytearray({own} << 20)
child = subprocess.Popen([sys.executable, "-S", "-c", {child!r}])
until = time.process_time() + 0.2
while time.process_time() < until:
    pass
child.wait()
print("done")
"""
CHILD = "import time; held = bytearray({size} << 20); time.sleep(0.4)"


def taken(wall: float, largest: int = 100 * 10**6) -> Measured:
    found = {"wall": wall, "cpu": 0.5, "largest": largest, "tree": 2 * largest, "processes": {}}
    return Measured(found, "")


def test_time_and_memory_of_a_command_and_its_children(tmp_path: Path) -> None:
    program = PROGRAM.format(own=40, child=CHILD.format(size=80))
    found = measure([sys.executable, "-S", "-c", program], tmp_path)
    assert found.output == "done\n"
    assert 0.4 < found.wall < 20
    assert 0.2 < found.cpu < 2
    assert 80 * MB < found.largest < 120 * MB
    assert 120 * MB < found.tree < 170 * MB
    assert 80 * MB < found.largest_of("time.sleep(0.4)") < 120 * MB
    assert found.largest_of("no such command") == 0


def test_our_own_memory_does_not_count(tmp_path: Path) -> None:
    held = b"x" * (100 * MB)
    assert measure([sys.executable, "-S", "-c", "pass"], tmp_path).largest < 50 * MB
    assert held


def test_a_command_that_fails_is_no_measurement(tmp_path: Path) -> None:
    with pytest.raises(Failed, match="status 3\nsorry"):
        measure(["sh", "-c", "echo sorry; exit 3"], tmp_path)


def test_the_cost_of_one_more_job() -> None:
    few, many = [taken(2.0), taken(9.0), taken(3.0)], [taken(13.0)]
    assert slopes(few, many) == (10.0 / 200, 0.0)
    with pytest.raises(Failed, match=r"less time: 13\.00 s, then 3\.00 s"):
        slopes(many, few)


def test_tables() -> None:
    reference, ours = [taken(1.0), taken(3.0), taken(2.0)], [taken(5.0, 300 * 10**6)]
    result = Result(
        "case",
        "A title.",
        [
            Row("theirs", reference),
            Row("ours", ours, reference, 1.4),
            Row("ours, to b", ours, ours, 1.0),
        ],
        [Figure("jobs", 3001, 3000), Figure("share", 0.25, 1.0, " s")],
        ["A note."],
    )
    page = document([result], repeats=3, page=f"# A page\n\nText.\n\n{TABLES}\n\nold\n")
    assert page.startswith(f"# A page\n\nText.\n\n{TABLES}\n\n")
    lines = page.splitlines()
    assert "old" not in lines
    assert "| command | wall time, s | CPU, s | one process, MB | all, MB | ratio |" in lines
    assert "| theirs | 2.00 (1.00–3.00) | 0.50 | 100 | 200 |  |" in lines
    assert "| ours | 5.00 (5.00–5.00) | 0.50 | 300 | 600 | 2.50 (goal: 1.40) |" in lines
    assert "| ours, to b |  |  |  |  | 1.00 |" in lines
    assert lines[-3:] == ["- jobs: 3,001 (goal: 3,000)", "- share: 0.25 s", "- A note."]


def test_the_page_has_a_place_for_the_tables() -> None:
    page = (Path(__file__).parents[2] / "docs/benchmarks.md").read_text()
    assert page.count(TABLES) == page.count(f"\n{TABLES}\n") == 1

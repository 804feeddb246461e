"""What each Snakemake of ours does before it begins: it looks at jobs and files seldom."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
import time
from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest

from fasthep_smk.executors import start


@pytest.fixture
def scheduler(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Snakemake's scheduler, which is as it was after the test."""
    import snakemake.cli  # noqa: F401  its modules import each other
    from snakemake.scheduling.job_scheduler import JobScheduler

    for name in ("update_input_sizes", "_schedule_reevalutation"):
        monkeypatch.setattr(JobScheduler, name, getattr(JobScheduler, name))
    return JobScheduler


class Input:
    """A file that a job reads, as Snakemake asks for it; ``asked`` counts."""

    def __init__(self, name: str, size: int | None, asked: Counter[str]) -> None:
        self.name, self._size, self._asked = name, size, asked

    async def exists(self) -> bool:
        self._asked[self.name] += 1
        return self._size is not None

    async def size(self) -> int | None:
        return self._size


def test_sizes_are_those_of_snakemake_and_asked_for_once(scheduler: Any) -> None:
    asked: Counter[str] = Counter()
    large, small = Input("large", 20, asked), Input("small", 10, asked)
    jobs = [SimpleNamespace(input=[large, small]), SimpleNamespace(input=[small])]
    theirs, ours = SimpleNamespace(_input_sizes={}), SimpleNamespace(_input_sizes={})
    asyncio.run(scheduler.update_input_sizes(theirs, jobs))
    asked.clear()

    start._ask_once_for_sizes()
    for _ in range(3):
        asyncio.run(scheduler.update_input_sizes(ours, jobs))
    assert ours._input_sizes == theirs._input_sizes == {large: 20, small: 10}
    assert asked == {"large": 1, "small": 1}


def test_a_file_that_comes_later_is_asked_for_again(scheduler: Any) -> None:
    asked: Counter[str] = Counter()
    late = Input("late", None, asked)
    jobs = [SimpleNamespace(input=[late])]
    ours = SimpleNamespace(_input_sizes={})
    start._ask_once_for_sizes()
    asyncio.run(scheduler.update_input_sizes(ours, jobs))
    assert ours._input_sizes == {late: None}
    late._size = 5
    asyncio.run(scheduler.update_input_sizes(ours, jobs))
    assert ours._input_sizes == {late: 5}


def test_many_plans_are_few_looks_and_none_comes_too_late(scheduler: Any) -> None:
    start._look_again_once()
    looks: list[float] = []
    ours = SimpleNamespace(_open_jobs=SimpleNamespace(release=lambda: looks.append(time.time())))
    begin = time.monotonic()
    scheduler._schedule_reevalutation(ours, 60)  # a limit of jobs in an hour
    for _ in range(50):
        scheduler._schedule_reevalutation(ours, 0.2)
        time.sleep(0.002)
    last = time.monotonic()
    while not looks and time.monotonic() < begin + 10:
        time.sleep(0.01)
    assert time.monotonic() - begin >= 0.2
    time.sleep(max(last + 1.3 - time.monotonic(), 0))
    assert 1 <= len(looks) <= 2
    scheduler._schedule_reevalutation(ours, 0.1)
    time.sleep(1.3)
    assert 2 <= len(looks) <= 3


def test_a_planned_look_keeps_no_process_alive(scheduler: Any) -> None:
    start._look_again_once()
    scheduler._schedule_reevalutation(SimpleNamespace(_open_jobs=threading.Semaphore(0)), 60)
    timers = [one for one in threading.enumerate() if isinstance(one, threading.Timer)]
    assert timers
    assert all(one.daemon for one in timers)
    for one in timers:
        one.cancel()


_IMPORTED = """
import importlib.util, os, sys
from fasthep_smk.executors import start

def look():
    argparse = start.importlib.import_module("snakemake.cli").get_argument_parser()
    for name in start._FOR_ONE_PLUGIN:
        assert f"{name}.linalg" not in sys.modules and f"{name}.core" not in sys.modules, name
    report = sys.modules["snakemake_executor_plugin_slurm.efficiency_report"]
    assert report.parse_maxrss("2G") == 2048  # it asks pandas
    assert importlib.util.find_spec("pandas").name == "pandas"
    import pandas
    from numpy import linalg
    assert report.pd.DataFrame is pandas.DataFrame and report.np.linalg is linalg
    assert pandas.core.frame.DataFrame is pandas.DataFrame
    os._exit(0)

start.run_command_line = look
"""
_TOLD = """
import os, sys
told_by, told = os.pipe()
os.write(told, b"[]\\n")
sys.argv = ["snakemake", "--told-by", str(told_by), "1"]
start.be_snakemake()
"""


def test_what_one_plugin_needs_is_loaded_when_it_is_used() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _IMPORTED + _TOLD], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_where_it_has_crashed_is_in_the_log() -> None:
    crash = "start.run_command_line = lambda: __import__('ctypes').string_at(0)"
    done = subprocess.run(
        [sys.executable, "-c", f"from fasthep_smk.executors import start\n{crash}\n{_TOLD}"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode < 0 and "most recent call first" in done.stderr
    assert "in be_snakemake" in done.stderr

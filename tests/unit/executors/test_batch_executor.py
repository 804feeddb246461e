"""What Snakemake's executors have in common whose jobs may be sent what they need."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from snakemake_interface_executor_plugins.executors.remote import RemoteExecutor

from fasthep_smk.executors import batch_executor
from fasthep_smk.executors.batch_executor import BatchExecutor, Forgotten


class Slow(RemoteExecutor):
    """A plugin's executor that takes its time to be set up."""

    def __post_init__(self) -> None:
        time.sleep(0.3)  # a machine with much to do
        self.looked = 0

    def run_job(self, job: Any) -> None: ...

    def cancel_jobs(self, active_jobs: list[Any]) -> None: ...

    async def check_active_jobs(self, active_jobs: list[Any]) -> AsyncIterator[Any]:
        raise AssertionError(active_jobs)  # ours asks
        yield


class Executor(BatchExecutor, Slow):  # type: ignore[misc]
    """One of ours; it notes how often it has looked."""

    _system = "slurm"
    _forgotten = Forgotten()

    def _states(self, jobs: list[Any]) -> dict[int, Any]:
        assert not jobs
        self.looked += 1
        return {}


def test_no_job_is_looked_for_before_all_is_set_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Snakemake starts the thread that looks first of all; an error would end it for good."""
    monkeypatch.chdir(tmp_path)
    settings = SimpleNamespace(
        max_status_checks_per_second=100,
        seconds_between_status_checks=0,
        jobname="{jobid}",
        jobscript=None,
        immediate_submit=False,
    )
    plugin = SimpleNamespace(common_settings=SimpleNamespace(init_seconds_before_status_checks=0))
    workflow = SimpleNamespace(
        remote_execution_settings=settings,
        storage_settings=SimpleNamespace(shared_fs_usage=()),
        main_snakefile="Snakefile",
        executor_plugin=plugin,
        scheduler=None,
        dag=None,
        executor_settings=None,
    )
    found = Executor(workflow, logging.getLogger())
    end = time.monotonic() + 10
    while found.looked < 2 and time.monotonic() < end:
        time.sleep(0.01)
    assert found.wait_thread.is_alive(), capsys.readouterr().out
    assert found.looked >= 2
    (tmp_path / ".snakemake").mkdir()
    found.shutdown()
    assert not found.wait_thread.is_alive()


def test_the_end_of_a_run_is_not_waited_for() -> None:
    """The next look at jobs may be many seconds away."""
    waiting = SimpleNamespace(wait=True, next_seconds_between_status_checks=60.0)

    async def end() -> None:
        await asyncio.sleep(0.2)
        waiting.wait = False

    async def both() -> None:
        await asyncio.gather(BatchExecutor.sleep(waiting), end())  # type: ignore[arg-type]

    asyncio.run(asyncio.wait_for(both(), 5))


def test_a_look_comes_when_it_is_time() -> None:
    waiting = SimpleNamespace(wait=True, next_seconds_between_status_checks=0.3)
    begin = time.monotonic()
    asyncio.run(BatchExecutor.sleep(waiting))  # type: ignore[arg-type]
    assert 0.3 <= time.monotonic() - begin < 2


def test_states_are_asked_less_often_where_nothing_moves() -> None:
    pauses = [batch_executor._pause(quiet, 10) for quiet in (0, 20, 120)]
    assert pauses == [2, 5, 10]
    assert batch_executor._pause(0, 1) == 1  # as the profile says

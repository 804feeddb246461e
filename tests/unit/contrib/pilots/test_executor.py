"""How many jobs of a pool Snakemake may have under way, with pilots and without."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fasthep_smk.config.requests import Attempt, ResourceRequest
from fasthep_smk.contrib.pilots.executor import Piloted
from fasthep_smk.storage.pilots import Crew, Crews, write


def crew(most: int, tasks: int = 1) -> Crew:
    return Crew("pool0", most, tasks, Attempt("gpu", ResourceRequest(), {}))


def test_more_jobs_wait_for_pilots_but_not_without_them() -> None:
    """A pool of two workers; five of its jobs are under way when its pilots are given up."""
    pools = ["gpu"]
    executor: Any = object.__new__(Piloted)
    executor._pilots = SimpleNamespace(whole_pools=lambda: pools)
    executor._crews = Crews("slurm", {"pool0": crew(2)}, tokens={"gpu": "pool_gpu"})
    executor._lifted = set()
    free = {"pool_gpu": 2, "pool_default": 3, "_nodes": 200}
    executor.set_limits(free)
    executor.set_limits(free)
    assert free["pool_gpu"] == 6  # four more than run: other pools have their share of the 200
    assert (free["pool_default"], free["_nodes"]) == (3, 200)
    free["pool_gpu"] -= 5
    pools.clear()
    executor.set_limits(free)
    assert free["pool_gpu"] == -3  # none is chosen before four of them have ended


class Base:
    """Stands for the layers below; what they are handed, and what Snakemake hears."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, str]] = []

    def run_job(self, job: Any) -> None:
        self.heard.append(("submitted", job.name))

    def report_job_error(self, job_info: Any, msg: str | None = None) -> None:
        self.heard.append((job_info.job.name, str(msg)))


class Executor(Piloted, Base):
    _submissions: Any = SimpleNamespace(is_left=lambda _: False)


def executor(crew_of: Any) -> Any:
    found: Any = Executor()
    found._pilots = SimpleNamespace(crew_of=crew_of)
    return found


def test_jobs_that_share_a_batch_job_are_none_for_pilots() -> None:
    """Snakemake's group of them has no rule."""
    found = executor(lambda *_: crew(2))
    found.run_job(SimpleNamespace(name="group", is_group=lambda: True))
    assert found.heard == [("submitted", "group")]


def test_an_error_is_the_failure_of_the_job() -> None:
    """In a thread of a plugin nobody would hear of it, and the run would wait for ever."""

    def crew_of(_rule: str, _attempt: int) -> Crew:
        raise OSError(28, "No space left on device")

    job = SimpleNamespace(
        name="a", is_group=lambda: False, rule=SimpleNamespace(name="r"), attempt=1, jobs=[]
    )
    job.jobs = [job]
    job.wildcards_dict = {}
    found = executor(crew_of)
    found.run_job(job)
    assert found.heard == [("a", "OSError: [Errno 28] No space left on device")]


@pytest.mark.parametrize("system", ["slurm", "htcondor"])
def test_an_executor_has_nothing_of_pilots_where_they_run_no_jobs(
    tmp_path: Path, system: str
) -> None:
    """In a process of its own: an executor is put in its place for good."""
    code = (
        "import sys\n"
        f"from fasthep_smk.executors import {system} as ours, start\n"
        "from snakemake_interface_executor_plugins.registry import ExecutorPluginRegistry\n"
        f"ours.Executor = ours.{'HTCondor' if system == 'htcondor' else 'Slurm'}Executor\n"
        "start.put_in_place_of(ours.plugin, ours.Executor)\n"
        "start._let_pilots_run(ours.plugin, ours.Executor)\n"
        f"executor = ExecutorPluginRegistry().get_plugin('{system}').executor\n"
        "assert issubclass(executor, ours.Executor)\n"
        "loaded = [name for name in sys.modules if name.startswith('fasthep_smk.contrib')]\n"
        "print(executor.__mro__[1].__name__, bool(loaded), 'parsl' in sys.modules)\n"
    )
    (tmp_path / "smk").mkdir()
    said = []
    for crews in (None, Crews(system, {"pool0": crew(2)})):
        write(crews, tmp_path)
        done = subprocess.run(
            [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True
        )
        said.append(done.stdout or done.stderr)
    assert said == ["BatchExecutor False False\n", "Piloted True False\n"]

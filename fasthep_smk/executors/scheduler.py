"""Which of the jobs that are ready start now: what Snakemake asks in place of its own schedulers.

It asks each time a job is ready or has ended, and now and then. All jobs start that fit beside
those under way: first those of the highest priority, and of these the ones with the largest input.
Snakemake's greedy scheduler chooses the same where no file is temporary, in the square of the time.
What a run needs beside that:

- no job starts while a credential that it needs has ended;
- jobs that an earlier run has left in a queue count first, whether there is room for them or not;
- a job counts against what it asks for at this attempt, in the pool that it is in now;
- what there is may change while the run goes on.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from snakemake_interface_scheduler_plugins.base import SchedulerBase
from snakemake_interface_scheduler_plugins.registry import SchedulerPluginRegistry

from fasthep_smk.executors.credential_gate import PAUSE, Gate, gate_of_run
from fasthep_smk.executors.fallback import sizes_of_run

if TYPE_CHECKING:
    from fasthep_smk.util.snakemake_types import SnakemakeJob, Workflow

#: Whether a job goes on already, in the queue of a batch system: by an executor of this process.
is_left: list[Callable[[SnakemakeJob], bool]] = []
#: Change before each choice what there is of each resource, for all jobs together.
set_limits: list[Callable[[dict[str, int]], object]] = []

#: How many jobs may start now, of which Snakemake keeps count itself.
_RATE = "_job_count"
#: What every job takes: where nothing of it is left, no other job fits.
_OF_ALL = ("_cores", "_nodes", _RATE)

#: What a job counts against, and how much of it.
Counts = tuple[tuple[str, int], ...]


class Scheduler(SchedulerBase):  # type: ignore[misc]
    """The scheduler of a run in the build folder that this process is in."""

    def __post_init__(self) -> None:
        self._workflow: Workflow = self.dag.workflow
        self._gate: Gate | None = None
        #: What there is of each resource, for all jobs together.
        self._limits: dict[str, int] = {}
        self._under_way: dict[SnakemakeJob, Counts] = {}
        self._sizes = sizes_of_run()

    def select_jobs(
        self,
        selectable_jobs: Collection[SnakemakeJob],
        remaining_jobs: object,  # noqa: ARG002 (Snakemake's)
        available_resources: Mapping[str, int],
        input_sizes: Mapping[object, int | None],
    ) -> list[SnakemakeJob]:
        """Return the jobs that start now; those that wait may ask for something else from now on.

        All of these have been evaluated, and ``input_sizes`` are those of their input in bytes.
        """
        if self._gate is None:  # none is under way
            self._limits = dict(available_resources)
            self._gate = gate_of_run()
            self._gate.keep_looking()
        if not self._gate.is_open():
            # A limit of jobs in an hour lets Snakemake look again in an hour only.
            if look_again := getattr(self._workflow.scheduler, "_schedule_reevalutation", None):
                look_again(PAUSE)
            return []
        self._refresh(selectable_jobs)
        for change in set_limits:
            change(self._limits)
        free = {**self._limits, _RATE: available_resources[_RATE]}
        for counts in self._under_way.values():
            _take(counts, free)
        chosen = {
            job: self._counts(job)
            for job in selectable_jobs
            if any(goes_on(job) for goes_on in is_left)
        }
        for counts in chosen.values():
            _take(counts, free)
            free[_RATE] -= 1

        def rank(job: SnakemakeJob) -> tuple[int, int]:
            return job.priority, sum(input_sizes.get(file) or 0 for file in job.input)

        others = set(selectable_jobs).difference(chosen)
        chosen |= fitting(sorted(others, key=rank, reverse=True), self._counts, free)
        self._under_way |= chosen
        self._sizes.chosen(chosen)
        self._gate.chosen(chosen)
        return [*chosen]

    def _refresh(self, jobs: Collection[SnakemakeJob]) -> None:
        """Take in what has ended, and let jobs that are measured ask for what others took."""
        running = self._workflow.scheduler.running
        self._under_way = {job: counts for job, counts in self._under_way.items() if job in running}
        if self._sizes:
            settings = self._workflow.deployment_settings
            if settings and settings.deployment_method:
                self._sizes.stop()  # a Snakemake on the node evaluates anew what jobs ask for
            self._sizes.refresh(jobs, running)

    def _counts(self, job: SnakemakeJob) -> Counts:
        """Return what a job counts against at its attempt: Snakemake keeps that of the first."""
        first, asked = job.scheduler_resources, job.resources
        names = (name for name in self._limits if name in first and name != _RATE)
        counts = ((name, asked.get(name, first[name])) for name in names)
        return tuple((name, count) for name, count in counts if isinstance(count, int) and count)


def fitting(
    jobs: Iterable[SnakemakeJob],
    counts_of: Callable[[SnakemakeJob], Counts],
    free: dict[str, int],
) -> dict[SnakemakeJob, Counts]:
    """Return the jobs that fit beside each other, the first ones first, and what each counts.

    ``free`` is what there is of each resource, and becomes what is left; each job is also one of
    those that Snakemake has a rate for.
    """
    chosen: dict[SnakemakeJob, Counts] = {}
    too_large = set[Counts]()
    for job in jobs:
        if any(free.get(name, 1) <= 0 for name in _OF_ALL):
            break
        counts = counts_of(job)
        if counts in too_large:
            continue
        if any(count > free[name] for name, count in counts):
            too_large.add(counts)
            continue
        _take(counts, free)
        free[_RATE] -= 1
        chosen[job] = counts
    return chosen


def _take(counts: Counts, free: dict[str, int]) -> None:
    for name, count in counts:
        free[name] -= count


def register() -> None:
    """Let Snakemake take this scheduler in the place of its own, whichever is asked for."""
    registry: Any = SchedulerPluginRegistry()
    for name in ("greedy", "ilp"):
        ours: Any = types.ModuleType(name)
        ours.Scheduler = Scheduler
        ours.SchedulerSettings = registry.get_plugin(name).settings_cls
        registry.register_plugin(f"{registry.module_prefix}{name}", ours)

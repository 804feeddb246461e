"""A pool that does not come: a job that waits too long in its queue goes to its fallback.

It is taken out of the batch system's queue and handed back to Snakemake's scheduler at the same
attempt. From then on the resources of the job are those of its last attempt, which are the
fallback's: Snakemake evaluates them for an attempt that is ``MOVED`` further on, and the
worker is told that number. No job runs twice: it is put on hold first, from where none starts, and
is handed back when it is known to be gone without having started.
"""

from __future__ import annotations

import importlib
import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from snakemake_interface_executor_plugins.executors.base import SubmittedJobInfo

from fasthep_smk import sites
from fasthep_smk.executors.job_events import Moved
from fasthep_smk.executors.sizes import Sizes
from fasthep_smk.flow import patches
from fasthep_smk.storage import layout
from fasthep_smk.storage.job_settings import MOVED, read_requests
from fasthep_smk.util.snakemake_types import SnakemakeJob, SnakemakeJobInfo, SnakemakeRule

if TYPE_CHECKING:
    from fasthep_smk.storage.record import Asked

#: The jobs that are in their fallback, by rule and wildcards: those of this process's run.
_moved: set[tuple[str, frozenset[tuple[str, object]]]] = set()
#: So many jobs are named in one command; the others have their turn at the next look.
_AT_ONCE = 500


def number(job: SnakemakeJob) -> int:
    """Return the number of a job's attempt as a worker is told it."""
    return job.attempt + (MOVED if _is_moved(job) else 0)


@contextmanager
def as_sent(job: SnakemakeJob) -> Iterator[None]:
    """Let a job be at the attempt that a worker is told, while the command of one is made."""
    attempt, sent = job.attempt, number(job)
    if sent != attempt:
        job.attempt = sent
    try:
        yield
    finally:
        if sent != attempt:
            job.attempt = attempt


@dataclass
class WaitingJobs:
    """The jobs of a run in the queue of a batch system that may go to a fallback.

    ``hand_back`` gives a job back to Snakemake's scheduler, at the same attempt.
    """

    hand_back: Callable[[SnakemakeJob], None]
    tell: Callable[[Moved], None]
    build: Path = Path()
    clock: Callable[[], float] = time.monotonic

    def __post_init__(self) -> None:
        try:
            self._requests = read_requests(self.build)
            self._rules: Mapping[str, Sequence[Asked]] = self._requests["rules"]
            self._after: Mapping[str, int] = self._requests["fallback_after"]
        except (OSError, ValueError, KeyError):
            self._rules, self._after = {}, {}  # an older translation
        #: When jobs were submitted that may go elsewhere, by their ids; those on hold.
        self._since: dict[str, float] = {}
        self._held: set[str] = set()

    def submitted(self, info: SnakemakeJobInfo) -> None:
        """Take in that a job was submitted."""
        if self.patience(info.job) is not None:
            self._since[str(info.external_jobid)] = self.clock()

    def patience(self, job: SnakemakeJob) -> int | None:
        """Return for how many seconds a job may wait; ``None`` where it has nowhere else to go."""
        rule, pools = self._route(job)
        return self._after.get(rule) if pools[0] != pools[1] else None

    def look(
        self, active: list[SnakemakeJobInfo]
    ) -> tuple[list[SnakemakeJobInfo], list[SnakemakeJobInfo]]:
        """Move jobs that have waited too long; return the others, and those that are on their way.

        Their status is not to be asked elsewhere: they are being taken out of the queue.
        """
        by_id = {str(info.external_jobid): info for info in active}
        late = [job for job in by_id if self._is_late(job, by_id[job])]
        late = sorted(late, key=lambda job: job not in self._held)[:_AT_ONCE]
        if not late:
            return active, []
        system = sites.system(self._requests["system"])
        held = system.hold([job for job in late if job not in self._held])
        self._held |= {job for job, is_held in held.items() if is_held}
        gone = system.withdraw([job for job in late if job in self._held])
        taken_out = {**held, **gone}
        apart = {job for job in late if taken_out.get(job) is not False}
        for job in [job for job in late if job not in apart]:  # it has started: its pool has come
            self._forget(job)
        out = [by_id[job] for job in late if gone.get(job)]
        for job in [job for job in late if gone.get(job)]:
            self._forget(job)
        if out:
            self.move(out)
        asked = [info for job, info in by_id.items() if job not in apart]
        return asked, [by_id[job] for job in apart if not gone.get(job)]

    def _is_late(self, job: str, info: SnakemakeJobInfo) -> bool:
        since = self._since.get(job)
        rule = _members(info.job)[0].rule.name
        return since is not None and self.clock() - since >= self._after.get(rule, 0)

    def _forget(self, job: str) -> None:
        self._since.pop(job, None)
        self._held.discard(job)

    def _route(self, job: SnakemakeJob) -> tuple[str, tuple[str, str]]:
        """Return the rule of a job, or of all in a group, the pool that it is in and its last."""
        rule = _members(job)[0].rule.name
        attempts = self._rules.get(rule)
        if not attempts:
            return rule, ("", "")
        here = attempts[min(number(job), len(attempts)) - 1]
        return rule, (str(here.get("pool")), str(attempts[-1].get("pool")))

    def hurry(self, info: SnakemakeJobInfo) -> None:
        """Let a job whose pool starts none go to its fallback at the next look.

        Where it is said for how long jobs wait, this one does, too.
        """
        rule, pools = self._route(info.job)
        if rule not in self._after and pools[0] != pools[1]:
            self._since[str(info.external_jobid)] = -math.inf

    def leave(self, job: SnakemakeJob) -> tuple[str, str] | None:
        """Hand a job back that its pool refuses: from now on it is in its fallback.

        Returns both pools; ``None`` where it has nowhere else to go.
        """
        _, (pool, to) = self._route(job)
        if pool == to:
            return None
        self.move([SubmittedJobInfo(job)], waited=0)
        return pool, to

    def move(self, infos: Iterable[SnakemakeJobInfo], waited: int | None = None) -> None:
        """Hand jobs back that are in no queue any more; from now on they are in their fallback.

        They have ``waited`` for so many seconds, or for as long as they may.
        """
        by_route: dict[tuple[str, tuple[str, str]], list[SnakemakeJob]] = {}
        for info in infos:
            by_route.setdefault(self._route(info.job), []).append(info.job)
        for (rule, (pool, to)), jobs in by_route.items():
            inner = [member for job in jobs for member in _members(job)]
            logs = [str(next(iter(member.log), "")) for member in inner]
            places = ["/".join(layout.place_of_log(log)[1:]) for log in logs]
            numbers = [str(member.jobid) for member in inner]
            time_of = self._after.get(rule, 0) if waited is None else waited
            self.tell(Moved(rule, places, numbers, time_of, pool, to))
            for member in inner:
                _moved.add(_name(member))
            for job in jobs:
                self.hand_back(job)


def prepare_routes() -> None:
    """Let Snakemake give jobs in their fallback what that asks for.

    Jobs whose amounts may change ask for what follows from what is known by now.
    """
    rule = importlib.import_module("snakemake.rules").Rule
    evaluate = rule.expand_resources

    def expand_resources(
        self: SnakemakeRule,
        wildcards: Mapping[str, object],
        files: object,
        attempt: int,
        **more: object,
    ) -> object:
        if _moved and (self.name, frozenset(wildcards.items())) in _moved and attempt < MOVED:
            attempt += MOVED
        resources = evaluate(self, wildcards, files, attempt, **more)
        sizes = sizes_of_run()
        if sizes.changes(self.name):
            asked = dict(resources.items())
            own = sizes.sized(self.name, sizes.key(self.name, wildcards), attempt, asked)
            return type(resources)(fromdict={**asked, **own}) if own else resources
        return resources

    patches.FALLBACK.make(rule, expand_resources=expand_resources)


@cache
def sizes_of_run() -> Sizes:
    """Return the sizes of the run of this process, in its build folder."""
    return Sizes(Path(), number)


def _members(job: SnakemakeJob) -> list[SnakemakeJob]:
    """Return the job, or those of a group."""
    return list(getattr(job, "jobs", [job]))


def _name(job: SnakemakeJob) -> tuple[str, frozenset[tuple[str, object]]]:
    return job.rule.name, frozenset(job.wildcards_dict.items())


def _is_moved(job: SnakemakeJob) -> bool:
    return bool(_moved) and _name(_members(job)[0]) in _moved

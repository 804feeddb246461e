"""What is known of the jobs of a build folder: how each of them ran, read from what it has left."""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeVar

import msgspec

from fasthep_smk.flow.records import MissingPartition, PartitionData, SampleFacts
from fasthep_smk.storage import failures, last_run, run_lock
from fasthep_smk.storage.failures import Failure
from fasthep_smk.storage.job_settings import read_requests
from fasthep_smk.storage.jobs import STATES, State, TaskJob, head_of, read_jobs, state_of
from fasthep_smk.storage.last_run import LastRun
from fasthep_smk.storage.measured import entries, events_of
from fasthep_smk.storage.observed import load as load_observed
from fasthep_smk.storage.queue import Waited, noted
from fasthep_smk.storage.record import Asked, EarlierAttempt, Head
from fasthep_smk.storage.run_lock import LockNote
from fasthep_smk.util.shapes import ready

_K = TypeVar("_K", bound=Hashable)
#: A dataset and a file, and the first and last of its entries, if not all are meant.
PartitionPlace = tuple[str, str, int | None, int | None]
#: Seconds by which clocks of machines may differ.
_CLOCKS = 2.0


@dataclass(frozen=True, kw_only=True)
class JobFacts:
    """One job, and how it ran if it has. Times are seconds since 1970 (UTC), amounts bytes.

    ``waited_from`` is when it could have begun: when it was submitted, if that is known
    (``submitted``), else when the last of what it reads was there. ``is_new``: it ran in the last
    run, ``in_part``: and has adopted the rest. ``retries`` are its attempts that failed before.
    ``ended`` is now if it still runs: what it takes is not known then.
    """

    rule: str
    key: str
    state: State
    pool: str
    dataset: str | None
    events: int | None
    reads: tuple[str, ...]
    folder: str
    host: str = ""
    submitted: float | None = None
    waited_from: float | None = None
    started: float = 0.0
    ended: float = 0.0
    threads: int = 1
    cpu: float = 0.0
    memory: int = 0
    asked_memory: int | None = None
    asked_time: int | None = None
    read: int | None = None
    written: int | None = None
    retries: int = 0
    batch_job: str = ""
    is_new: bool = False
    in_part: bool = False

    @property
    def seconds(self) -> float:
        """How long it ran."""
        return max(0.0, self.ended - self.started)


class Lacking(MissingPartition):
    """A partition that the results lack; ``events`` if it is known how many."""

    events: int | None


@dataclass(frozen=True)
class InputFile:
    """An input file: its size in bytes and when it changed (ns), as far as they are known."""

    file: str
    size: int | None
    time_ns: int | None


@dataclass(frozen=True)
class OwnRead:
    """A file, or a module, that a user's own code has read in jobs that count; ``by`` what of it.

    ``content`` is a digest of the content, for a large file its size, time and first bytes.
    """

    name: str
    by: str
    content: str


@dataclass(frozen=True)
class Facts:
    """A build folder at one moment.

    ``events`` are those of all partitions, also of those that the results lack; ``sample`` tells of
    how many they are, if only some were asked for. ``nodes`` are those of
    each rule's jobs; ``waited`` is why jobs have waited in the last run, as far as a batch system
    was asked. ``attempts`` are those of the last run that failed, as far as it is known when.
    ``ends`` is, by variation, whether the job that ends it is done.
    """

    build: Path
    jobs: list[JobFacts]
    failed: list[Failure]
    lacking: Mapping[PartitionPlace, Lacking]
    run: LastRun | None
    holder: LockNote | None
    inputs: list[InputFile]
    events: Mapping[PartitionPlace, int | None]
    own_reads: Sequence[OwnRead] = ()
    nodes: Mapping[str, Iterable[str]] = field(default_factory=dict)
    sample: SampleFacts | None = None
    waited: Sequence[Waited] = ()
    attempts: Sequence[JobFacts] = ()
    ends: Mapping[str, bool] = field(default_factory=dict)

    @property
    def is_running(self) -> bool:
        """Whether a run goes on."""
        if self.holder is None:
            return False
        return self.run["outcome"] == "running" if self.run else not self.jobs

    @property
    def done(self) -> list[JobFacts]:
        """The jobs that have their results."""
        return [job for job in self.jobs if job.state == "done"]

    @property
    def new(self) -> list[JobFacts]:
        """Those of them that ran in the last run."""
        return [job for job in self.done if job.is_new]

    @property
    def ran(self) -> list[JobFacts]:
        """All that ran in the last run, or runs now: jobs, and attempts that failed."""
        running = [job for job in self.jobs if job.state == "running"]
        return [*self.new, *self.attempts, *running]


def by_state(jobs: Iterable[JobFacts]) -> dict[State, int]:
    """Return how many of some jobs are in each state."""
    counts = Counter(job.state for job in jobs)
    return {state: counts[state] for state in STATES}


def grouped(jobs: Iterable[JobFacts], by: Callable[[JobFacts], _K]) -> dict[_K, list[JobFacts]]:
    """Return some jobs by what they have in common, in the order of the first of each."""
    groups: dict[_K, list[JobFacts]] = {}
    for job in jobs:
        groups.setdefault(by(job), []).append(job)
    return groups


def gather(build: Path) -> Facts:
    """Return the facts of a build folder; nothing is changed.

    Raises:
        Findings: its task tables cannot be read.
    """
    run, holder = last_run.read(build), run_lock.holder(build)
    since = run["started"] - _CLOCKS if run else 0.0
    notes = {(note.rule, note.key): note for note in failures.read_all(build)}
    counted, listed, asked = entries(build), read_jobs(build), _asked(build)
    jobs, attempts, failed = list[JobFacts](), list[JobFacts](), list[Failure]()
    ends, inputs = dict[str, float](), dict[str, str]()
    events: dict[PartitionPlace, int | None] = {}
    nodes: dict[str, dict[str, None]] = {}
    observed, ended = dict[str, None](), dict[str, bool]()
    for job in listed:
        nodes.setdefault(job.rule, {}).update(dict.fromkeys(job.entry.nodes))
        many = events_of(job, counted)
        if (part := job.entry.partition) is not None:
            events[_place(part)] = many
        inputs |= job.entry.files
        first = asked.get(job.rule, {})
        planned = JobFacts(
            rule=job.rule,
            key=job.key,
            state="to do",
            pool=str(first.get("pool") or ""),
            dataset=job.entry.dataset,
            events=many,
            reads=tuple(read.folder for read in job.entry.reads),
            folder=job.folder,
        )
        fact, note = planned, notes.get((job.rule, job.key))
        tried: Sequence[object] = ()
        if (head := head_of(build, job)) is not None:
            fact, tried = _finished(planned, head, since, ends), head.earlier
            ends[job.folder] = fact.ended
            observed |= dict.fromkeys(head.observed)
        elif note is not None:
            state = state_of(False, note, holder)
            if note.kind == "killed" and run and run["outcome"] == "stopped":
                state = "to do"  # it was stopped with the run: it has not failed
            fact = _tried(planned, state, note, first)
            tried = failures.attempts(note)
            if state == "failed":
                failed.append(note)
            else:  # the last one still runs, or was stopped
                tried = tried[:-1]
        jobs.append(fact)
        if job.scope == "finish":
            ended[job.entry.variation] = fact.state == "done"
        attempts += _failed(fact, tried, since)
    lacking = _lacking(listed, counted)
    return Facts(
        build=build,
        jobs=jobs,
        failed=failed,
        lacking=lacking,
        sample=next((job.entry.sample for job in listed if job.entry.sample), None),
        run=run,
        holder=holder,
        inputs=[_identity(path, identity) for path, identity in sorted(inputs.items())],
        events=events | {place: lost["events"] for place, lost in lacking.items()},
        own_reads=_own_reads(build, observed),
        nodes=nodes,
        waited=noted(build),
        attempts=attempts,
        ends=ended,
    )


def _own_reads(build: Path, digests: Iterable[str]) -> list[OwnRead]:
    reads = {
        OwnRead(item.path if item.kind == "module" else item.name, item.by, item.identity)
        for digest in digests
        for item in load_observed(build, digest) or ()
        if item.kind in ("file", "module") and item.identity is not None
    }
    return sorted(reads, key=lambda read: (read.name, read.by))


def _finished(planned: JobFacts, head: Head, since: float, ends: Mapping[str, float]) -> JobFacts:
    """Return what the head of a record says; ``ends`` are those of the jobs that came before."""
    ready = max((ends.get(folder, 0.0) for folder in planned.reads), default=0.0)
    ready = max(ready, since + _CLOCKS if since else 0.0)
    waited_from = head.submitted if head.submitted is not None else ready or None
    return replace(
        planned,
        state="done",
        pool=head.asked.get("pool") or planned.pool,
        events=head.events or planned.events,
        host=head.host,
        submitted=head.submitted,
        waited_from=None if waited_from is None else min(waited_from, head.started),
        started=head.started,
        ended=head.ended,
        threads=head.threads,
        cpu=head.used.get("cpu", 0.0),
        memory=head.used.get("memory", 0),
        asked_memory=head.asked.get("memory"),
        asked_time=head.asked.get("walltime"),
        read=head.used.get("read"),
        written=head.used.get("written"),
        retries=len(head.earlier),
        batch_job=head.batch_job or "",
        is_new=head.started >= since,
        in_part=bool(head.adopted),
    )


def _tried(planned: JobFacts, state: State, note: Failure, first: Asked) -> JobFacts:
    """Return what the note of a job without a record says; ``first`` is what it asks for first."""
    if state == "to do":
        return planned
    now = time.time()
    started = min(note.started or now, now) if state == "running" else 0.0
    return replace(
        planned,
        state=state,
        pool=note.pool or planned.pool,
        host=note.host or "",
        threads=first.get("cpus") or 1,
        retries=max(0, note.attempt - 1),
        batch_job=note.batch_job or "",
        started=started,
        ended=now if started else 0.0,
    )


def _failed(job: JobFacts, tried: Sequence[object], since: float) -> Iterator[JobFacts]:
    """Yield the attempts at a job that failed in the last run, where it is known when."""
    with contextlib.suppress(msgspec.ValidationError):  # a worker may have sent anything
        for attempt in msgspec.convert(tried, ready(list[EarlierAttempt])):
            started, ended = attempt.get("started"), attempt.get("ended")
            if started is not None and ended is not None and started >= since:
                yield replace(
                    job,
                    state="failed",
                    pool=attempt["pool"] or job.pool,
                    host=attempt["host"] or "",
                    batch_job=attempt.get("batch_job") or "",
                    started=started,
                    ended=max(started, ended),
                    waited_from=None,
                    retries=0,
                )


def _lacking(jobs: Iterable[TaskJob], counted: Mapping[str, int]) -> dict[PartitionPlace, Lacking]:
    """Return the partitions that the end of the run goes without."""
    by_path = {name.split("|")[0]: entries for name, entries in counted.items()}
    lacking: dict[PartitionPlace, Lacking] = {}
    for part in (part for job in jobs for part in job.entry.missing):
        end = by_path.get(part["file"]) if part["stop"] is None else part["stop"]
        events = None if end is None else end - (part["start"] or 0)
        lacking[_place(part)] = {**part, "events": events}
    return lacking


def _place(part: PartitionData | MissingPartition) -> PartitionPlace:
    return part["dataset"], part["file"], part["start"], part["stop"]


def _asked(build: Path) -> dict[str, Asked]:
    """Return what the jobs of each rule ask for first: their pool, and amounts."""
    try:
        rules = msgspec.convert(read_requests(build)["rules"], ready(dict[str, list[Asked]]))
        return {rule: asked[0] for rule, asked in rules.items()}
    except (OSError, ValueError, KeyError, IndexError):  # not written yet, or by another version
        return {}


def _identity(path: str, identity: str) -> InputFile:
    size, time, *_ = [*identity.removeprefix(f"{path}|").split("|"), ""]
    is_known = size.isdigit() and time.isdigit()
    return InputFile(path, int(size), int(time)) if is_known else InputFile(path, None, None)

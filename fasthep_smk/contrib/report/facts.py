"""What is known of the jobs of a build folder: how each of them ran, read from what it has left."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fasthep_smk.storage import failures, last_run, run_lock
from fasthep_smk.storage.failures import Failure
from fasthep_smk.storage.job_settings import read_requests
from fasthep_smk.storage.jobs import STATES, State, TaskJob, head_of, read_jobs, state_of
from fasthep_smk.storage.last_run import LastRun
from fasthep_smk.storage.measured import entries, events_of
from fasthep_smk.storage.queue import Waited, noted
from fasthep_smk.storage.run_lock import Holder
from fasthep_smk.util.documents import JsonObject

if TYPE_CHECKING:
    from fasthep_smk.flow.records import SampleFacts

__all__ = ["Facts", "InputFile", "JobFacts", "Lacking", "by_state", "gather"]

#: A dataset and a file, and the first and last of its entries, if not all are meant.
Partition = tuple[str, str, int | None, int | None]
#: Seconds by which clocks of machines may differ.
_CLOCKS = 2.0


@dataclass(frozen=True, kw_only=True)
class JobFacts:
    """One job, and how it ran if it has. Times are seconds since 1970 (UTC), amounts bytes.

    ``waited_from`` is when it could have begun: when it was submitted, if that is known
    (``submitted``), else when the last of what it reads was there. ``is_new``: it ran in the last
    run, ``in_part``: and has adopted the rest. ``retries`` are its attempts that failed before,
    ``for_memory``: one of those died for want of it. Of one that runs it is known where, and since
    when; ``ended`` is now.
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
    system: str = "local"
    submitted: float | None = None
    waited_from: float | None = None
    started: float = 0.0
    ended: float = 0.0
    threads: int = 1
    cpu: float = 0.0
    memory: int = 0
    asked_memory: int | None = None
    asked_time: int | None = None
    asked_cpus: int | None = None
    read: int | None = None
    written: int | None = None
    retries: int = 0
    for_memory: bool = False
    waited_for: str | None = None
    batch_job: str = ""
    is_new: bool = False
    in_part: bool = False

    @property
    def seconds(self) -> float:
        """How long it ran."""
        return max(0.0, self.ended - self.started)


@dataclass(frozen=True)
class Lacking:
    """A partition that the results lack; ``events`` if it is known how many."""

    dataset: str
    file: str
    start: int | None
    stop: int | None
    reason: str
    events: int | None

    @property
    def place(self) -> Partition:
        return self.dataset, self.file, self.start, self.stop


@dataclass(frozen=True)
class InputFile:
    """An input file: its size in bytes and when it changed (ns), as far as they are known."""

    file: str
    size: int | None
    time_ns: int | None


@dataclass(frozen=True)
class Facts:
    """A build folder at one moment.

    ``events`` are those of all partitions, also of those that the results lack; ``sample`` tells of
    how many they are, if only some were asked for. ``nodes`` are those
    of each rule's jobs, each with the file of the plan that it is of; ``waited`` is why jobs have
    waited in the last run, as far as a batch system was asked. ``attempts`` are those of the last
    run that failed, as far as it is known when.
    """

    build: Path
    jobs: list[JobFacts]
    failed: list[Failure]
    lacking: list[Lacking]
    run: LastRun | None
    holder: Holder | None
    inputs: list[InputFile]
    events: Mapping[Partition, int | None]
    nodes: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    sample: SampleFacts | None = None
    waited: Sequence[Waited] = ()
    attempts: Sequence[JobFacts] = ()

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


def gather(build: Path) -> Facts:
    """Return the facts of a build folder; nothing is changed.

    Raises:
        Findings: its task tables cannot be read.
    """
    run, holder = last_run.read(build), run_lock.holder(build)
    since = run["started"] - _CLOCKS if run else 0.0
    notes = {(note.rule, note.key): note for note in failures.read_all(build)}
    counted = entries(build)
    listed = read_jobs(build)
    asked = _asked(build)
    jobs, ends, inputs = [], dict[str, float](), dict[str, str]()
    attempts: list[JobFacts] = []
    events: dict[Partition, int | None] = {}
    nodes: dict[str, dict[str, str]] = {}
    failed: Sequence[Mapping[str, object]]
    for job in listed:
        plans = nodes.setdefault(job.rule, {})
        for node in job.entry.nodes:
            plans.setdefault(node, job.entry.plan)
        many = events_of(job, counted)
        if (one := job.entry.partition) is not None:
            events[one["dataset"], one["file"], one["start"], one["stop"]] = many
        inputs |= job.entry.files
        head = head_of(build, job)
        if head is None:
            state = state_of(False, note := notes.get((job.rule, job.key)), holder)
            if note and note.kind == "killed" and run and run["outcome"] == "stopped":
                state = "to do"  # it was stopped with the run: it has not failed
            found = _unfinished(build, job, state, note, asked.get(job.rule, {}), many)
            failed = failures.attempts(note) if note else []
            failed = failed if state == "failed" else failed[:-1]
        else:
            found = _finished(job, head, asked.get(job.rule, {}), many, since, ends)
            failed = [one for one in head.get("earlier") or () if isinstance(one, dict)]
            ends[job.folder] = found.ended
        jobs.append(found)
        attempts += _failed(found, failed, since)
    lacking = _lacking(listed, counted)
    return Facts(
        build=build,
        jobs=jobs,
        failed=[
            notes[job.rule, job.key]
            for job in jobs
            if job.state == "failed" and (job.rule, job.key) in notes
        ],
        lacking=lacking,
        sample=next((job.entry.sample for job in listed if job.entry.sample), None),
        run=run,
        holder=holder,
        inputs=[_identity(path, known) for path, known in sorted(inputs.items())],
        events=events | {one.place: one.events for one in lacking},
        nodes=nodes,
        waited=noted(build),
        attempts=attempts,
    )


def _unfinished(
    build: Path,
    job: TaskJob,
    state: State,
    note: Failure | None,
    asked: JsonObject,
    events: int | None,
) -> JobFacts:
    """Return what is known of a job without a record; ``asked`` is what its rule asks for first."""
    pool = str(asked.get("pool") or "")
    if note is None or state == "to do":
        return _job(job, state, pool, events)
    found = _job(
        job,
        state,
        note.pool or pool,
        events,
        host=note.host or "",
        system=note.system,
        threads=_whole(asked.get("cpus")) or 1,
        retries=max(0, note.attempt - 1),
        batch_job=note.batch_job or "",
    )
    if state != "running":
        return found
    now = time.time()
    # A note of an earlier version does not say when, but is written when its job starts.
    return replace(found, started=min(note.started or _noted(build, job) or now, now), ended=now)


def _noted(build: Path, job: TaskJob) -> float | None:
    try:
        return failures.path_of(build, job.rule, job.key).stat().st_mtime
    except OSError:  # it has just ended
        return None


def _failed(
    job: JobFacts, earlier: Iterable[Mapping[str, object]], since: float
) -> Iterator[JobFacts]:
    """Yield the attempts at a job that failed in the last run, where it is known when."""
    for one in earlier:
        started, ended = _number(one.get("started")), _number(one.get("ended"))
        if started is not None and ended is not None and started >= since:
            yield replace(
                job,
                state="failed",
                pool=str(one.get("pool") or job.pool),
                host=str(one.get("host") or ""),
                batch_job=str(one.get("batch_job") or ""),
                started=started,
                ended=max(started, ended),
                waited_from=None,
                retries=0,
            )


def _job(job: TaskJob, state: State, pool: str, events: int | None, **more: Any) -> JobFacts:
    return JobFacts(
        rule=job.rule,
        key=job.key,
        state=state,
        dataset=job.entry.dataset,
        reads=tuple(read.folder for read in job.entry.reads),
        folder=job.folder,
        **{"pool": pool, "events": events, **more},
    )


def _finished(
    job: TaskJob,
    head: JsonObject,
    first: JsonObject,
    events: int | None,
    since: float,
    ends: Mapping[str, float],
) -> JobFacts:
    """Return what the head of a record says; ``ends`` are those of the jobs that came before.

    ``first`` is what its rule asks for first.
    """
    asked, used = _mapping(head.get("asked")), _mapping(head.get("used"))
    earlier = [one for one in head.get("earlier") or () if isinstance(one, dict)]
    started, submitted = _number(head.get("started")) or 0.0, _number(head.get("submitted"))
    ready = max((ends.get(read.folder, 0.0) for read in job.entry.reads), default=0.0)
    ready = max(ready, since + _CLOCKS if since else 0.0)
    waited_from = submitted if submitted is not None else ready or None
    return _job(
        job,
        "done",
        str(asked.get("pool") or first.get("pool") or ""),
        _whole(head.get("events")) or events,
        host=str(head.get("host") or ""),
        system=str(head.get("system") or "local"),
        submitted=submitted,
        waited_from=None if waited_from is None else min(waited_from, started),
        started=started,
        ended=_number(head.get("ended")) or started,
        threads=_whole(head.get("threads")) or 1,
        cpu=_number(used.get("cpu")) or 0.0,
        memory=_whole(used.get("memory")) or 0,
        asked_memory=_whole(asked.get("memory")),
        asked_time=_whole(asked.get("walltime")),
        asked_cpus=_whole(asked.get("cpus")),
        read=_whole(used.get("read")),
        written=_whole(used.get("written")),
        retries=len(earlier),
        for_memory=any(one.get("kind") == "memory" for one in earlier),
        waited_for=head.get("waited_for"),
        batch_job=str(head.get("batch_job") or ""),
        is_new=started >= since,
        in_part=head.get("adopted") is True,
    )


def _lacking(jobs: Iterable[TaskJob], counted: Mapping[str, int]) -> list[Lacking]:
    """Return the partitions that the end of the run goes without."""
    by_path = {name.split("|")[0]: entries for name, entries in counted.items()}
    found = {}
    for job in jobs:
        for one in job.entry.missing:
            start, stop = one["start"], one["stop"]
            end = stop if stop is not None else by_path.get(one["file"])
            events = None if end is None else end - (start or 0)
            lost = Lacking(one["dataset"], one["file"], start, stop, one["reason"], events)
            found[lost.place] = lost
    return list(found.values())


def _asked(build: Path) -> dict[str, JsonObject]:
    """Return what the jobs of each rule ask for first: their pool, and amounts."""
    try:
        rules = read_requests(build)["rules"]
        return {str(rule): _mapping(asked[0]) for rule, asked in rules.items()}
    except (OSError, ValueError, KeyError, TypeError, IndexError, AttributeError):
        return {}


def _identity(path: str, known: str) -> InputFile:
    size, time, *_ = [*known.removeprefix(f"{path}|").split("|"), ""]
    is_known = size.isdigit() and time.isdigit()
    return InputFile(path, int(size), int(time)) if is_known else InputFile(path, None, None)


def _mapping(value: object) -> JsonObject:
    return value if isinstance(value, dict) else {}


def _number(value: object) -> float | None:
    right = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if right else None  # type: ignore[arg-type]


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None

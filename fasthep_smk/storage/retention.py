"""What of a build folder may be deleted. Pure functions: no file is read or changed here.

Whatever goes is made again by itself when something needs it: each event stream and archive is an
output of its job and an input of the jobs that read it, so that Snakemake misses it; no job waits
for a cached stream. A job counts as done by its record, which stays.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from fasthep_smk.config.run_settings import Keep
from fasthep_smk.storage import layout
from fasthep_smk.storage.disk_usage import File, Survey, amount
from fasthep_smk.storage.jobs import TaskJob

#: Bytes of superseded results that are always kept: less is not worth computing again.
LITTLE = 100 * 1000**2

#: Snakemake's logs of its runs, and its notes on files, which decide nothing here.
_UNUSED = (".snakemake/log/", ".snakemake/metadata/")
_NUMBERED = re.compile(r"\.\d+\.arrow$")
_ATTEMPT = re.compile(r"\.attempt\d+\.log$")


@dataclass(frozen=True)
class Freeable:
    """Files that may go: why they were there, for a person, and which."""

    what: str
    files: tuple[File, ...]


@dataclass(frozen=True)
class Archived:
    """The folder of a superseded job: its files, and when it was put there (POSIX time)."""

    folder: str
    when: float
    files: tuple[File, ...]


def cleanable(survey: Survey, *, everything: bool = False) -> list[Freeable]:
    """Return what ``fasthep-smk clean`` deletes: nothing that a finished run still needs.

    With ``everything`` only results are left, and the next run starts from nothing.
    """
    streams = survey.of("event streams") if everything else _idle_streams(survey)
    parts = [
        Freeable("superseded results", tuple(survey.of("superseded results"))),
        Freeable("event streams", tuple(streams)),
    ]
    if everything:
        parts.append(Freeable("other products", tuple(survey.of("other products"))))
    parts += [
        Freeable("leftovers of killed jobs", tuple(survey.of("unfinished jobs"))),
        Freeable("logs of succeeded jobs", tuple(_old_logs(survey))),
        Freeable("unused old metadata", tuple(_unused_translation(survey))),
        Freeable("environments", tuple(_environments(survey, everything=everything))),
    ]
    own = survey.of("Snakemake's own")
    if everything:
        parts.append(Freeable("Snakemake's own", tuple(own)))
    else:
        unused = (file for file in own if file.path.startswith(_UNUSED))
        parts.append(Freeable("Snakemake's logs and notes", tuple(unused)))
    return [part for part in parts if part.files]


def after_success(
    survey: Survey, keep: Keep, superseded: Iterable[Archived], *, little: int = LITTLE
) -> list[Freeable]:
    """Return what goes after a run that succeeded. ``superseded`` are all archived folders.

    ``auto`` lets superseded results take as much as the current results and intermediates, or
    ``little`` bytes if that is more.
    """
    if keep == "all" or not survey.complete:
        return []
    superseded = list(superseded)
    if keep == "none":
        streams = [file for file in survey.of("event streams") if _may_go(file, survey)]
        partitions = {job.folder for job in survey.jobs.values() if job.scope == "partition"}
        archives = [
            file
            for file in survey.of("other products")
            if file.name == layout.ARCHIVE and file.folder in partitions
        ]
        gone = [file for job in superseded for file in job.files]
        parts = [
            Freeable("superseded results", tuple(gone)),
            Freeable("event streams", tuple(streams)),
            Freeable("products of partitions", tuple(archives)),
        ]
        return [part for part in parts if part.files]
    current = survey.of("results", "event streams", "other products")
    room = max(amount(current).size, little)
    beyond = oldest_beyond(room, superseded, beside=current)
    files = tuple(file for job in beyond for file in job.files)
    return [Freeable("superseded results", files)] if files else []


def _environments(survey: Survey, *, everything: bool) -> Iterator[File]:
    """Yield packed environments but for the one that jobs are sent: packing takes a while."""
    used = survey.environment
    for file in survey.of("environments"):
        if everything or (used is not None and file.path.removesuffix(".sha256") != used):
            yield file


def oldest_beyond(
    room: int, superseded: Iterable[Archived], *, beside: Iterable[File] = ()
) -> list[Archived]:
    """Return the superseded jobs that have to go for the others to take at most ``room`` bytes.

    The oldest go first. What is ``beside`` them costs nothing more when they share it.
    """
    seen = {file.inode for file in beside}
    newest_first = sorted(superseded, key=lambda job: (job.when, job.folder), reverse=True)
    taken = 0
    for number, job in enumerate(newest_first):
        taken += amount(job.files, seen).size
        if taken > room:
            return newest_first[number:][::-1]
    return []


def archived(survey: Survey) -> list[Archived]:
    """Return the folders of superseded jobs; putting one away has set its modification time."""
    folders: dict[str, list[File]] = {}
    for file in survey.of("superseded results"):
        folders.setdefault(_job_folder(file), []).append(file)
    dated: list[Archived] = []
    for folder, files in folders.items():
        try:
            when = (survey.build / folder).stat().st_mtime
        except OSError:
            when = 0.0
        dated.append(Archived(folder, when, tuple(files)))
    return dated


def _job_folder(file: File) -> str:
    parts = file.path.split("/")
    return "/".join(parts[:3]) if file.path.startswith(f"{layout.OLD}/") else file.folder


def _idle_streams(survey: Survey) -> list[File]:
    """Return the event streams of finished jobs that no unfinished job will read."""
    awaited = {
        path
        for job in survey.jobs.values()
        if job.folder not in survey.done
        for path in job.entry.inputs
    }
    return [
        file
        for file in survey.of("event streams")
        if _may_go(file, survey) and f"{file.folder}/{_declared(file)}" not in awaited
    ]


def _may_go(file: File, survey: Survey) -> bool:
    """Whether Snakemake notices that a stream is gone when something needs it, or never has to."""
    job = survey.jobs.get(file.folder)
    if job is None:
        return False
    return _declared(file) in job.outputs or file.name.endswith(layout.CACHED)


def _declared(file: File) -> str:
    """Return the declared file that a stream goes with: a value may hold several arrays."""
    return _NUMBERED.sub(".arrow", file.name)


def _old_logs(survey: Survey) -> list[File]:
    """Return the logs of jobs that succeeded or are no more; the run's own log stays.

    What a batch system captured is named after its own jobs: it goes when all jobs are done.
    """
    unfinished = {
        layout.log(*_place(job)) for job in survey.jobs.values() if job.folder not in survey.done
    }
    captured = tuple(f"{folder}/" for folder in layout.CAPTURED)
    old: list[File] = []
    for file in survey.of("logs"):
        if file.path.startswith(f"{layout.LOGS}/"):
            if _ATTEMPT.sub(".log", file.path) not in unfinished:
                old.append(file)
        elif file.path.startswith(captured) and not unfinished:
            old.append(file)
    return old


def _unused_translation(survey: Survey) -> list[File]:
    """Return slim plans of what the last translation has no more."""
    used = {job.entry.plan for job in survey.jobs.values()}
    return [
        file
        for file in survey.of("translation")
        if file.path.startswith(f"{layout.PLANS}/") and file.path not in used
    ]


def _place(job: TaskJob) -> tuple[str, list[str]]:
    return job.rule, job.key.split("/") if job.key else []

"""What of a build folder may be deleted; here, no file is changed.

Whatever goes is made again by itself when something needs it: each event stream and archive is an
output of its job and an input of the jobs that read it, so that Snakemake misses it; no job waits
for a cached stream. A job counts as done by its record, which stays.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from fasthep_smk.config.run_settings import Keep
from fasthep_smk.storage import layout
from fasthep_smk.storage.disk_usage import File, Survey, amount

#: Bytes of superseded results that are always kept: less is not worth computing again.
LITTLE = 100 * 1000**2

#: Snakemake's logs of its runs, and its notes on files, which decide nothing here.
_UNUSED = (".snakemake/log/", ".snakemake/metadata/")
_NUMBERED = re.compile(r"\.\d+\.arrow$")
_ATTEMPT = re.compile(r"\.attempt\d+\.log$")


#: Files that may go, by why they were there, for a person.
Freeable = dict[str, list[File]]


def cleanable(survey: Survey, *, everything: bool = False) -> Freeable:
    """Return what ``fasthep-smk clean`` deletes: nothing that a finished run still needs.

    With ``everything`` only results are left, and the next run starts from nothing.
    """
    own = survey.of("Snakemake's own")
    parts = {
        "superseded results": survey.of("superseded results"),
        "event streams": survey.of("event streams") if everything else _idle_streams(survey),
        "other products": survey.of("other products") if everything else [],
        "leftovers of killed jobs": survey.of("unfinished jobs"),
        "logs of succeeded jobs": _old_logs(survey),
        "environments": [  # but for the one that jobs are sent: packing takes a while
            file
            for file in survey.of("environments")
            if everything or survey.environment not in (None, file.path.removesuffix(".sha256"))
        ],
        "Snakemake's own": own if everything else [],
        "Snakemake's logs and notes": [
            file for file in own if not everything and file.path.startswith(_UNUSED)
        ],
    }
    return {what: files for what, files in parts.items() if files}


def after_success(survey: Survey, keep: Keep, *, little: int = LITTLE) -> Freeable:
    """Return what goes after a run that succeeded.

    ``auto`` lets superseded results take as much as the current results and intermediates, or
    ``little`` bytes if that is more.
    """
    if keep == "all" or not survey.complete:
        return {}
    if keep == "auto":
        current = survey.of("results", "event streams", "other products")
        room = max(amount(current).size, little)
        parts = {"superseded results": beyond(room, archived(survey), beside=current)}
    else:
        partitions = {job.folder for job in survey.jobs.values() if job.scope == "partition"}
        parts = {
            "superseded results": survey.of("superseded results"),
            "event streams": [one for one in survey.of("event streams") if _may_go(one, survey)],
            "products of partitions": [
                file
                for file in survey.of("other products")
                if file.name == layout.ARCHIVE and file.folder in partitions
            ],
        }
    return {what: files for what, files in parts.items() if files}


def beyond(
    room: int, newest_first: Iterable[list[File]], *, beside: Iterable[File] = ()
) -> list[File]:
    """Return the files of the oldest jobs, which go for the others to take at most ``room`` bytes.

    What is ``beside`` them costs nothing more when they share it.
    """
    seen = {file.inode for file in beside}
    gone: list[File] = []
    for files in newest_first:
        room -= amount(files, seen).size
        gone += files if room < 0 else ()
    return gone


def archived(survey: Survey) -> list[list[File]]:
    """Return the files of each superseded job, of the last one first.

    Putting a folder away has set its modification time.
    """
    folders: dict[str, list[File]] = {}
    for file in survey.of("superseded results"):
        is_old = file.path.startswith(f"{layout.OLD}/")
        folder = "/".join(file.path.split("/")[:3]) if is_old else file.folder
        folders.setdefault(folder, []).append(file)

    def when(folder: str) -> tuple[float, str]:
        try:
            return (survey.build / folder).stat().st_mtime, folder
        except OSError:
            return 0.0, folder

    return [folders[folder] for folder in sorted(folders, key=when, reverse=True)]


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
        layout.log(job.rule, job.key.split("/") if job.key else [])
        for job in survey.jobs.values()
        if job.folder not in survey.done
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

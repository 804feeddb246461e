"""What a run that was killed has left: its processes, and what it has written by half."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path

from fasthep_smk.storage import batch_jobs, failures
from fasthep_smk.storage.run_lock import locks_of_snakemake, mark
from fasthep_smk.util import files

#: Seconds that processes of a killed run get to end by themselves.
GRACE = 5.0


def clear_after_crash(build: Path, descriptor: int) -> None:
    """End what is left of the run that was killed, and take away what it left half-written.

    Its jobs would write beside their next attempt. What they had finished has its record and
    counts.
    """
    noted = batch_jobs.read(build)
    ids = [job.batch_id for job in noted]
    if noted:
        from fasthep_smk.storage.queue import find

        if (left := find(build)) is not None:
            ids = [job.queued.batch_id for job in left]
    notes = [note for note in failures.read_all(build) if note.batch_job not in ids]
    _end(
        lambda: _marked(descriptor) | {note.pid or 0 for note in notes if _is_job(note)},
        signal.SIGTERM,
        signal.SIGKILL,
    )
    for lock in locks_of_snakemake(build):
        lock.unlink(missing_ok=True)
    if ids:
        return  # they may go on, and are half-way in what they write
    files.discard(build / "smk" / "stage")
    for gone in (build / "smk").glob(".*.gone-*"):
        shutil.rmtree(gone, ignore_errors=True)
    for name in ("smk", "artifacts/provenance", "compile", "graph", "render"):
        for half_written in (build / name).rglob(".*.tmp-*"):
            if files.TEMPORARY.fullmatch(half_written.name):
                half_written.unlink(missing_ok=True)


def end_marked(
    descriptor: int, *, noted: str | None = None, first: signal.Signals = signal.SIGTERM
) -> None:
    """End the processes of this machine that the run which holds this lock has started.

    They get the ``first`` signal, and time to end. ``noted`` is the mark that the lock tells of.
    """
    _end(lambda: _marked(descriptor, noted), first, signal.SIGKILL)


def _end(find: Callable[[], set[int]], *numbers: signal.Signals) -> None:
    """Send the processes that ``find`` finds one signal after the other until none is left."""
    for number in numbers:
        signalled: set[int] = set()
        end = time.monotonic() + GRACE
        while (left := find()) and time.monotonic() < end:
            for pid in left - signalled:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, number)
            signalled |= left
            time.sleep(0.1)


def _marked(descriptor: int, noted: str | None = None) -> set[int]:
    """Return the processes of this machine that a run on this folder has started.

    The mark that was ``noted`` is believed if it is that of the same file by another mount.
    """
    ((name, value),) = mark(descriptor).items()
    values = {value}
    if noted and noted.rpartition(":")[2] == value.rpartition(":")[2]:
        values.add(noted)
    if os.environ.get(name) in values:
        return set()  # we are one of them
    wanted = {f"{name}={content}".encode() for content in values}
    pids: set[int] = set()
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has ended, or is another user's
            if not wanted.isdisjoint((folder / "environ").read_bytes().split(b"\0")):
                pids.add(int(folder.name))
    return pids


def _is_job(note: failures.Failure) -> bool:
    """Whether the process that a note names is the job: a note may say anything.

    A batch system that runs jobs on this machine may have left out the mark.
    """
    if not failures.lives(note):
        return False
    with contextlib.suppress(OSError):
        words = Path(f"/proc/{note.pid}/cmdline").read_bytes().decode(errors="replace").split("\0")
        places = [note.bundle or note.key, note.key]
        mine = [[note.rule, *(place.split("/") if place else [])] for place in places]
        ends = [words[-1 - len(arguments) : -1] for arguments in mine]
        return any("fasthep_smk.worker" in word for word in words) and any(
            end == arguments for end, arguments in zip(ends, mine, strict=True)
        )
    return False

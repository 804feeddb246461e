"""One run at a time on a build folder; what a run that was killed left behind is cleared away.

The holder is a lock on ``smk/lock`` (flock), shared with Snakemake's process: it ends when both are
gone, however they ended. What stands in the file is for people and for the next holder: where flock
is not shared between two mounts, or there is none, that looks for the process that is named there,
or for signs of life of another machine's. Snakemake and all that it starts carry a mark in their
environment, by which the next holder finds them.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import shutil
import signal
import socket
import stat
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

from fasthep_smk.storage import failures, layout
from fasthep_smk.storage.job_settings import read_requests
from fasthep_smk.storage.outdir import make_folder
from fasthep_smk.storage.run_lock import (
    MARK,
    SILENT,
    LockNote,
    beat,
    holder,
    last_beat,
    locks_of_snakemake,
    machine,
    mark,
    note_of,
    read_lock,
)
from fasthep_smk.util import disk_full
from fasthep_smk.util.errors import SmkError, refused_by_system
from fasthep_smk.util.names import shell
from fasthep_smk.util.ownership import make_own
from fasthep_smk.util.threads import meanwhile
from fasthep_smk.util.waiting import until

#: Seconds that a lock may take to be let go.
_GRACE = 5.0
#: Bytes of the lock's content: on a disk that gets full, it is written where it stands.
_LENGTH = 600


class Held(SmkError):
    """Another run works on the build folder."""

    @classmethod
    def by(cls, who: LockNote, build: Path, *, by_flock: bool = True) -> Held:
        """Return the error that names a process, its host and since when."""
        path, cancel = shell([build / layout.LOCK]), shell(["fasthep-smk", "cancel", build])
        return cls(
            f"another run is in progress in {build}\n"
            f"    by       process {who.pid or '?'} on {who.host or '?'}, "
            f"since {who.since or '?'}\n"
            f"    hint     wait for it, stop it ({cancel}), or choose another --outdir"
            + ("" if by_flock else f"; if that process does not run in this folder: rm {path}")
        )


@contextlib.contextmanager
def hold(build: Path, shown: Path | None = None) -> Iterator[int]:
    """Hold a build folder for a run; yield the file descriptor to share with Snakemake.

    It is made if it is not there; ``shown`` is how the user calls it. If the block raises before
    anything else was put there, it is as it was before.

    Raises:
        Held: another run holds it, or Snakemake alone; the message says which.
        DiskFull: in the meantime, there was no space left to write into it.
        Findings: it cannot be written to, or something else is where files of ours belong.
    """
    path = build / layout.LOCK
    wanted = (*reversed(build.parents), build, path.parent, build / ".snakemake")
    new = [folder for folder in wanted if not folder.exists()]
    with _none_of(new, path), disk_full.saying(build):
        make_folder(build, shown or build)
        descriptor = _open(path, build)
        try:
            dated = os.fstat(descriptor).st_mtime
            with _starting(path):
                before = _lock(descriptor, build)
                was_new = os.fstat(descriptor).st_size == 0
                _write(descriptor, state="running")
            if dated > time.time():
                _date_back(build)
            if before.state != "ended" and not was_new:
                from fasthep_smk.run.left_over import clear_after_crash

                clear_after_crash(build, descriptor)
            try:
                with meanwhile(partial(beat, path)):
                    if locks_of_snakemake(build):
                        _take_over_from_snakemake(build, descriptor)
                    yield descriptor
            finally:
                # A Snakemake that was killed has left its lock, and perhaps jobs.
                if read_lock(descriptor).snakemake is None:
                    _write(descriptor, state="ended")
        finally:
            os.close(descriptor)


@contextlib.contextmanager
def _none_of(new: list[Path], lock: Path) -> Iterator[None]:
    """Remove ``new`` folders if the block raises, but for what else has been put there."""
    try:
        yield
    except Held:
        raise  # the other run has begun to use them
    except BaseException:
        ours = {lock.name, (lock.parents[1] / layout.INPUTS).parent.name}
        if lock.parent in new and lock.exists() and ours >= set(os.listdir(lock.parent)):  # noqa: PTH208
            shutil.rmtree(lock.parent, ignore_errors=True)
        for folder in reversed(new):
            with contextlib.suppress(OSError):
                folder.rmdir()
        raise


def look(build: Path) -> None:
    """Refuse a build folder that somebody works on; change nothing.

    Raises:
        Held: who does.
        Findings: Snakemake has locked the folder.
    """
    if who := holder(build):
        raise Held.by(who, build)
    if locks_of_snakemake(build):
        _refuse_snakemake(build)


def _open(path: Path, build: Path) -> int:
    """Return a descriptor of the lock."""
    try:
        make_own(path.parent)
        make_own(build / ".snakemake")
        # A link would have another file written to, a FIFO would wait for somebody.
        if path.is_symlink():
            raise OSError(errno.ELOOP, "is a symbolic link, not a file", str(path))
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK, 0o644)
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise OSError(errno.ENOTSUP, "is not a file", str(path))
        return descriptor
    except OSError as error:
        if disk_full.shown(error):
            raise
        raise refused_by_system(error) from error


def _date_back(build: Path) -> None:
    """Give what lies in the future the time it is now: the clock was wrong when it was made.

    Snakemake fails a job that makes something older than what it reads.
    """
    now = time.time()
    for folder in (build / layout.WORK, build / layout.BUNDLES):
        for path in folder.rglob("*"):
            if path.lstat().st_mtime > now:
                os.utime(path, follow_symlinks=False)


def _take_over_from_snakemake(build: Path, descriptor: int) -> None:
    """Clear away what a plain Snakemake left when it was killed.

    Its lock says nothing of who made it: where no Snakemake of this machine works in the folder, it
    is taken for a left one.

    Raises:
        Held: one does.
    """
    _refuse_snakemake(build)
    print(
        "fasthep-smk: warning: removed the lock of a Snakemake process that no longer runs on this "
        "machine",
        file=sys.stderr,
    )
    from fasthep_smk.run.left_over import clear_after_crash

    clear_after_crash(build, descriptor)


def _refuse_snakemake(build: Path) -> None:
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has ended, or is another user's
            if (process / "cwd").samefile(build) and b"snakemake" in (
                process / "cmdline"
            ).read_bytes():
                raise Held(
                    f"another run is in progress in {build}\n"
                    f"    by       process {process.name}, Snakemake without fasthep-smk\n"
                    "    hint     wait for it, stop it, or choose another --outdir"
                )


def share(descriptor: int, snakemake: int) -> None:
    """Note which process shares the lock: it goes on if ours is killed."""
    _write(
        descriptor, state="running", snakemake=snakemake, snakemake_born=failures.born(snakemake)
    )


def unshare(descriptor: int) -> None:
    """Note that Snakemake has ended by itself, and left nothing behind."""
    _write(descriptor, state="running")


@contextlib.contextmanager
def _starting(lock: Path) -> Iterator[None]:
    """Let one run at a time read the lock and note itself there, whatever flock is worth.

    To make a file that is not there is one step on every file system.
    """
    claim, before = lock.with_name(f"{lock.name}.start"), lock.parent.stat()
    end = time.monotonic() + 2 * SILENT
    descriptor = None
    while descriptor is None:
        try:
            descriptor = os.open(claim, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        except FileExistsError:
            if note_of(claim).is_orphan or time.monotonic() > end:
                claim.unlink(missing_ok=True)
            time.sleep(0.05)
        except OSError:
            break  # the disk is full
    try:
        if descriptor is not None:
            with contextlib.suppress(OSError):
                _write(descriptor, state="running")
            os.close(descriptor)
        yield
    finally:
        if descriptor is not None:
            claim.unlink(missing_ok=True)
            with contextlib.suppress(OSError):  # whoever is refused leaves no trace
                os.utime(lock.parent, ns=(before.st_atime_ns, before.st_mtime_ns))


def _lock(descriptor: int, build: Path) -> LockNote:
    """Lock, or refuse; if flock does not refuse, by what the lock says. Return what it said."""
    free = _flock(descriptor)
    with contextlib.suppress(OSError):
        os.utime(descriptor)  # or else a file system may believe for a second that it is empty
    who = note_of(build / layout.LOCK)
    was_moved = who.state == "running" and who.mark != mark(descriptor)[MARK]
    if who.is_orphan and (not free or was_moved or who.owner(descriptor)):
        free = _end_and_lock(descriptor, build, who)
    if not free and who.state == "ended":  # it is about to let go
        free = until(lambda: _flock(descriptor), seconds=_GRACE, pause=0.05)
    if not free:
        raise Held.by(note_of(build / layout.LOCK), build)
    if pid := who.owner(descriptor):
        raise Held.by(replace(who, pid=pid), build, by_flock=False)
    if who.state == "running" and who.machine and not who.is_here and _beats(build, who):
        raise Held.by(who, build, by_flock=False)
    return who


def _flock(descriptor: int) -> bool:
    """Lock unless somebody else has; return whether nobody is known to."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        pass  # a file system without locks
    return True


def _beats(build: Path, who: LockNote) -> bool:
    """Whether a run of another machine gives a sign of life, by no clock of ours."""
    print(
        f"fasthep-smk: process {who.pid} on {who.host} has not ended its run in {build}: "
        f"checking for {SILENT:.0f} s whether it is alive",
        file=sys.stderr,
    )
    before = last_beat(build / layout.LOCK)
    return until(lambda: last_beat(build / layout.LOCK) != before, seconds=SILENT, pause=1)


def _end_and_lock(descriptor: int, build: Path, who: LockNote) -> bool:
    """End what is left of a run that was killed, and lock; return whether that worked.

    Batch jobs stay where they are: what this Snakemake knows of them is noted.
    """
    from fasthep_smk.run.left_over import end_marked

    first = signal.SIGINT if _system(build) == "local" else signal.SIGHUP
    end_marked(descriptor, noted=who.mark, first=first)
    return until(lambda: _flock(descriptor), seconds=_GRACE, pause=0.1)


def _write(descriptor: int, **state: object) -> None:
    content = {
        **state,
        "host": socket.gethostname(),
        "machine": machine(),
        "mark": mark(descriptor)[MARK],
        "pid": os.getpid(),
        "born": failures.born(os.getpid()),
        "since": time.strftime("%Y-%m-%d %H:%M:%S"),
    }
    length = max(_LENGTH, os.fstat(descriptor).st_size - 1)
    os.pwrite(descriptor, (json.dumps(content).ljust(length) + "\n").encode(), 0)
    os.fsync(descriptor)


def _system(build: Path) -> str:
    """Return the batch system of the last run."""
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        return str(read_requests(build)["system"])
    return "local"

"""``start.py KEY CACHE ARCHIVE OFFSET DIGEST SIZE BOOT MAKING ARGUMENTS...``: unpack, start Python.

Run by ``header.sh`` with the packed interpreter, isolated and without ``site``. With ``BOOT``, a
folder that holds the first part of the archive, the rest is unpacked into it and it becomes
``CACHE/KEY``; ``-`` where the environment is there already. Only the standard library can be
imported here.

Beside each environment lie two files: ``KEY.making`` is locked by who unpacks it, ``KEY.use`` is
locked, shared, by each process that works in it, and its time stamp says when the last one began.
The kernel lets go of both when a process ends, however it ends.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

NO_ROOM, DAMAGED, NOT_OURS, NOT_HERE = 75, 76, 77, 78
#: Seconds after its last start for which an environment that nobody uses stays when another comes,
#: and when there is no room for that; and after which a first part was left behind.
STAYS, STAYS_ON_A_FULL_DISK, STALE = 3600, 60, 600
#: What unpacking leaves free on a disk, in bytes.
LEFT_FREE = 50_000_000


class Stop(Exception):
    """The environment cannot be had; with what is said and the exit status."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


@dataclass(frozen=True)
class Cache:
    """The folder of a machine's environments."""

    folder: Path

    def complete(self, key: str) -> bool:
        """Whether an environment is there, and was there before no crash of the machine."""
        try:
            status = (self.folder / key).lstat()
            words = (self.folder / key / "complete").read_text().split()
        except OSError:
            return False
        # Somebody else may have put it there while the cache was not closed.
        if status.st_uid != os.geteuid() or status.st_mode & 0o022:
            return False
        return words[:1] != [os.uname().nodename] or words == _mark().split()

    def log(self, text: str) -> None:
        """Add a line to the folder's log, which does not grow without end."""
        path = self.folder / "log"
        with contextlib.suppress(OSError):
            if path.exists() and path.stat().st_size > 1_000_000:
                path.replace(self.folder / "log.old")
            stamp = time.strftime("%Y-%m-%dT%H:%M:%S")
            how = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW
            with os.fdopen(os.open(path, how, 0o600), "a") as log:
                log.write(f"{stamp} {os.uname().nodename} {os.getpid()} {text}\n")


def main(argv: list[str]) -> NoReturn:
    """Do what the module says; end as Python with the arguments, or with a message."""
    key, folder, archive, offset, digest, size, boot, making, *arguments = argv
    cache = Cache(Path(folder))
    try:
        extracted = boot != "-" and make_way(cache, key, Path(boot), int(size), making)
        if extracted:
            make(cache, key, Path(boot), Path(archive), int(offset), digest)
        if not hold(cache, key):  # removed a moment ago, to make room
            os.execv("/bin/sh", ["/bin/sh", archive, "--cache", folder, "--", *arguments])
    except (Stop, OSError) as error:
        if boot != "-":
            _discard(Path(boot))
        print(f"packed environment {key}: {error}", file=sys.stderr)
        full = getattr(error, "errno", None) in (errno.ENOSPC, errno.EDQUOT)
        sys.exit(error.status if isinstance(error, Stop) else NO_ROOM if full else NOT_HERE)
    cache.log(f"{'extracted' if extracted else 'found'} {key}")
    root = cache.folder / key
    os.environ["PATH"] = f"{root / 'bin'}:{os.environ['PATH']}"
    os.environ["FASTHEP_SMK_ENVIRONMENT"] = key
    if (root / "conda-meta").is_dir():
        activate(root)
    python = str(root / "bin" / "python")
    os.execv(python, [python, *arguments])


def activate(root: Path) -> None:
    """Set what ``conda activate`` sets: the environment's variables, and those of its packages."""
    os.environ["CONDA_PREFIX"] = str(root)
    # Those of packages, and those of "conda env config vars set".
    for path in (*sorted(root.glob("etc/conda/env_vars.d/*.json")), root / "conda-meta/state"):
        variables = json.loads(path.read_text()) if path.is_file() else {}
        variables = variables.get("env_vars", {}) if path.name == "state" else variables
        os.environ.update({k: str(v) for k, v in variables.items() if v != "***unset***"})
    shell = shutil.which("bash") or "/bin/sh"
    for script in sorted(root.glob("etc/conda/activate.d/*.sh")):
        command = [shell, "-c", '. "$0" >&2; exec cat /proc/self/environ', str(script)]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
        pairs = [item.partition(b"=")[::2] for item in done.stdout.split(b"\0") if b"=" in item]
        if pairs:
            os.environb.clear()
            os.environb.update(pairs)
        else:
            print(f"packed environment {root.name}: {script} has failed", file=sys.stderr)


def hold(cache: Cache, key: str) -> bool:
    """Take part in the use of an environment until this process ends; return whether it is."""
    use = _open(cache.folder / f"{key}.use")
    fcntl.flock(use, fcntl.LOCK_SH)
    os.utime(use)
    os.set_inheritable(use, True)
    return cache.complete(key)


def make_way(cache: Cache, key: str, boot: Path, size: int, making: str) -> bool:
    """Lock an environment, and make room for it; return whether no other process was faster.

    Raises:
        Stop: there is no room.
    """
    lock = int(making) if making != "-" else _open(cache.folder / f"{key}.making")
    os.set_inheritable(lock, False)
    fcntl.flock(lock, fcntl.LOCK_EX)
    if cache.complete(key):
        _discard(boot)
        return False
    _tidy(cache, key, boot, alone=making != "-")
    files = (path for path in boot.rglob("*") if path.is_file() and not path.is_symlink())
    there = sum(path.stat().st_size for path in files)
    needed = size - there + LEFT_FREE
    others = [use for use in cache.folder.glob("*.use") if use.stem != key]
    for age in (STAYS, STAYS_ON_A_FULL_DISK):
        if age == STAYS or needed > shutil.disk_usage(cache.folder).free:
            for use in others:
                if (cache.folder / use.stem).is_dir() and evict(cache, use, age):
                    cache.log(f"removed {use.stem}")
    free = shutil.disk_usage(cache.folder).free
    if needed > free:
        amounts = f"{free / 1e6:.1f} MB are free, {needed / 1e6:.1f} MB are needed"
        raise Stop(NO_ROOM, f"no room in {cache.folder}: {amounts}")
    return True


def evict(cache: Cache, use: Path, age: int) -> bool:
    """Remove an environment unless somebody uses it, or has started it within ``age`` seconds."""
    with _locked(use) as free, _locked(use.with_suffix(".making")) as unmade:
        if not free or not unmade or use.stat().st_mtime > time.time() - age:
            return False
        _discard(cache.folder / use.stem)
        return True


def make(cache: Cache, key: str, boot: Path, archive: Path, offset: int, digest: str) -> None:
    """Let ``boot`` become the environment.

    Raises:
        Stop: there is no room, or the archive is damaged.
    """
    began = time.monotonic()
    _unpack(archive, offset, digest, boot)
    root = cache.folder / key
    _discard(root)
    try:
        boot.rename(root)
        if (root / "bin/conda-unpack").is_file():
            command = [str(root / "bin/python"), "bin/conda-unpack"]
            done = subprocess.run(command, cwd=root, capture_output=True)
            if done.returncode:
                output = (done.stdout + done.stderr).decode(errors="replace").strip()[-500:]
                raise Stop(DAMAGED, f"conda-unpack failed: {output}")
        temporary = root / ".complete"
        temporary.write_text(_mark())
        temporary.replace(root / "complete")
    except OSError as error:
        raise Stop(NO_ROOM, f"{root}: {error.strerror}") from None
    cache.log(f"unpacked {key} in {time.monotonic() - began:.1f} s")


def _unpack(archive: Path, offset: int, digest: str, target: Path) -> None:
    """Unpack the second part of an archive."""
    tar = subprocess.Popen(
        ["tar", "-xzf", "-", "-C", str(target)],
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "LC_ALL": "C"},
    )
    assert tar.stdin is not None
    assert tar.stderr is not None
    read, unread = hashlib.sha256(), ""
    with ThreadPoolExecutor(1) as pool:
        # It has a line for each file that finds no room: nobody else would read them meanwhile.
        stderr = pool.submit(tar.stderr.read)
        with contextlib.suppress(BrokenPipeError), tar.stdin:
            try:
                with archive.open("rb") as stream:
                    stream.seek(offset)
                    while piece := stream.read(1 << 20):
                        read.update(piece)
                        tar.stdin.write(piece)
            except BrokenPipeError:  # tar has ended, and says why
                raise
            except OSError as error:
                unread = f"it cannot be read: {error.strerror}"
    message, status = stderr.result().decode(errors="replace").strip(), tar.wait()
    if "No space left" in message or "quota" in message:
        raise Stop(NO_ROOM, f"no room in {target.parent}: {message.splitlines()[0]}")
    if status or read.hexdigest() != digest:
        why = unread or message or "its checksum differs"
        raise Stop(DAMAGED, f"{archive} is damaged: {why}")


def _tidy(cache: Cache, key: str, boot: Path, *, alone: bool) -> None:
    """Remove what killed ones have left: other first parts of this key, and old ones of others.

    ``alone``: nobody else can be unpacking a first part of this key.
    """
    for path in cache.folder.glob(".boot-*"):
        other = path.name.removeprefix(".boot-").rsplit("-", 2)[0]
        mine = other == key
        with contextlib.suppress(OSError), _locked(cache.folder / f"{other}.making") as unmade:
            old = path.stat().st_mtime < time.time() - STALE
            if path != boot and (old or (mine and alone)) and (mine or unmade):
                shutil.rmtree(path, ignore_errors=True)
    for path in cache.folder.glob(".gone-*"):
        shutil.rmtree(path, ignore_errors=True)


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[bool]:
    """Lock a file if nobody else has; yield whether nobody had."""
    descriptor = _open(path)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield True
    except BlockingIOError:
        yield False
    finally:
        os.close(descriptor)


def _discard(folder: Path) -> None:
    """Remove a folder if there is one; for whoever looks at it, all of it goes at once."""
    gone = folder.with_name(f".gone-{folder.name}-{os.getpid()}-{time.monotonic_ns()}")
    with contextlib.suppress(FileNotFoundError):
        folder.rename(gone)
    shutil.rmtree(gone, ignore_errors=True)


def _open(path: Path) -> int:
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise Stop(NOT_OURS, f"{path}: {error.strerror}") from None


def _mark() -> str:
    try:
        started = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        started = "unknown"
    return f"{os.uname().nodename} {started}\n"


if __name__ == "__main__":
    main(sys.argv[1:])

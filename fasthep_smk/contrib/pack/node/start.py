"""``start.py KEY CACHE LIMIT ARCHIVE OFFSET BOOT MAKING ARGUMENTS...``: unpack once, start Python.

Run by ``header.sh`` with the packed interpreter, isolated and without ``site``. With ``BOOT``, a
folder that holds the first part of the archive, the rest is unpacked into it and it becomes
``CACHE/KEY``; ``-`` where the environment is there already. Only the standard library and the
decompressor that lies beside it can be imported here.

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
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn, TypedDict

USAGE, NO_ROOM, DAMAGED, NOT_OURS, NOT_HERE = 64, 75, 76, 77, 78
#: Seconds for which a folder that nobody has locked may belong to somebody who is about to.
GRACE = 60
STALE = 600
#: What unpacking leaves free on a disk, in bytes.
LEFT_FREE = 50_000_000
_UNITS = {"": 1, "k": 1000, "m": 1000**2, "g": 1000**3, "t": 1000**4}
_FRAME = 0x184D2A50.to_bytes(4, "little") + (4).to_bytes(4, "little")


class Stop(Exception):
    """The environment cannot be had; with what is said and the exit status."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


@dataclass(frozen=True)
class Cache:
    """The folder of a machine's environments. ``limit``: in bytes, of all of them together."""

    folder: Path
    limit: int | None = None

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

    def size(self, key: str) -> int:
        """Return the bytes that an environment took when it was unpacked."""
        try:
            manifest = (self.folder / key / "lib/fasthep-smk/manifest.json").read_text()
            return int(json.loads(manifest)["installed"])
        except (OSError, ValueError, KeyError):
            return 0

    def others(self, key: str) -> list[str]:
        """Return the other environments, the one that was used longest ago first."""
        uses = [
            (path.stat().st_mtime, path.stem)
            for path in self.folder.glob("*.use")
            if path.stem != key and (self.folder / path.stem).is_dir()
        ]
        return [name for _, name in sorted(uses)]

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
    key, folder, limit, archive, offset, boot, making, *arguments = argv
    try:
        cache = Cache(Path(folder), parse_size(limit))
        extracted = boot != "-" and make(cache, key, Path(archive), int(offset), Path(boot), making)
        if not hold(cache, key):  # removed a moment ago, to make room
            command = ["/bin/sh", archive, "--cache", folder]
            command += [] if limit == "-" else ["--limit", limit]
            os.execv("/bin/sh", [*command, "--", *arguments])
    except (Stop, OSError, ImportError, ValueError) as error:
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


def parse_size(text: str) -> int | None:
    """Return a size such as ``20GB`` or ``500M`` in bytes; ``None`` for ``-``."""
    if text == "-":
        return None
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([kmgt]?)b?", text.strip().lower())
    if match is None:
        raise Stop(USAGE, f"--limit {text!r}: expected a size such as 20GB")
    return int(float(match[1]) * _UNITS[match[2]])


def hold(cache: Cache, key: str) -> bool:
    """Take part in the use of an environment until this process ends; return whether it is."""
    use = _open(cache.folder / f"{key}.use")
    fcntl.flock(use, fcntl.LOCK_SH)
    os.utime(use)
    os.set_inheritable(use, True)
    return cache.complete(key)


def make(cache: Cache, key: str, archive: Path, offset: int, boot: Path, making: str) -> bool:
    """Let ``boot`` become the environment; return whether no other process was faster.

    Raises:
        Stop: there is no room, or the archive is damaged.
    """
    lock = int(making) if making != "-" else _open(cache.folder / f"{key}.making")
    os.set_inheritable(lock, False)
    fcntl.flock(lock, fcntl.LOCK_EX)
    if cache.complete(key):
        _discard(boot)
        return False
    _tidy(cache, key, boot, alone=making != "-")
    manifest = json.loads((boot / "lib/fasthep-smk/manifest.json").read_text())
    make_room(cache, key, int(manifest["installed"]), _size_of(boot))
    began = time.monotonic()
    if manifest["payload"]:
        _unpack(archive, offset, manifest["payload"], boot)
    root = cache.folder / key
    _discard(root)
    try:
        boot.rename(root)
        for command in manifest["after"]:
            _finish(root, command)
        temporary = root / ".complete"
        temporary.write_text(_mark())
        temporary.replace(root / "complete")
    except OSError as error:
        raise Stop(NO_ROOM, f"{root}: {error.strerror}") from None
    cache.log(f"unpacked {key} in {time.monotonic() - began:.1f} s: {manifest['installed']} bytes")
    return True


def make_room(cache: Cache, key: str, size: int, there: int) -> None:
    """Remove other environments that nobody uses as far as this is needed for ``size`` bytes.

    ``there`` of them are on the disk already.

    Raises:
        Stop: that does not suffice.
    """
    others = cache.others(key)
    taken = sum(cache.size(name) for name in others)
    busy = []

    def lacking() -> str:
        free = shutil.disk_usage(cache.folder).free
        if size - there + LEFT_FREE > free:
            return f"{_shown(free)} are free, {_shown(size - there + LEFT_FREE)} are needed"
        if cache.limit is not None and taken + size > cache.limit:
            return f"its limit of {_shown(cache.limit)} leaves less than {_shown(size)} free"
        return ""

    for name in others:
        if not lacking():
            return
        size_of_it = cache.size(name)
        if evict(cache, name):
            taken -= size_of_it
            cache.log(f"removed {name}")
        else:
            busy.append(name)
    if problem := lacking():
        used = f"; in use: {', '.join(busy)}" if busy else ""
        raise Stop(NO_ROOM, f"no room in {cache.folder}: {problem}{used}")


def evict(cache: Cache, name: str) -> bool:
    """Remove an environment unless somebody uses it, or may be about to."""
    path = cache.folder / f"{name}.use"
    with _locked(path) as free, _locked(cache.folder / f"{name}.making") as unmade:
        if not free or not unmade or path.stat().st_mtime > time.time() - GRACE:
            return False
        _discard(cache.folder / name)
        return True


def frames(archive: Path, offset: int, size: int, digest: hashlib._Hash) -> Iterator[bytes]:
    """Yield the compressed frames of the payload: each stands behind one that has its length.

    Raises:
        Stop: the archive is damaged.
    """
    with archive.open("rb") as stream:
        stream.seek(offset)
        while size > 0:
            head = stream.read(12)
            body = stream.read(int.from_bytes(head[8:], "little"))
            digest.update(head + body)
            size -= len(head) + len(body)
            if head[:8] != _FRAME or not body or size < 0:
                raise Stop(DAMAGED, f"{archive} is damaged: it is incomplete or was changed")
            yield body


class _Payload(TypedDict):
    """What the manifest says of the second part of an archive: its bytes, and their checksum."""

    size: int
    sha256: str


def _unpack(archive: Path, offset: int, payload: _Payload, target: Path) -> None:
    import cramjam

    digest = hashlib.sha256()
    tar = subprocess.Popen(
        ["tar", "-xf", "-", "-C", str(target)],
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "LC_ALL": "C"},
    )
    assert tar.stdin is not None
    assert tar.stderr is not None
    threads = min(4, len(os.sched_getaffinity(0)))
    try:
        # It has a line for each file that finds no room: nobody else would read them meanwhile.
        with ThreadPoolExecutor(threads + 1) as pool, tar.stdin:
            stderr = pool.submit(tar.stderr.read)
            waiting: list[Future[cramjam.Buffer]] = []
            for frame in frames(archive, offset, int(payload["size"]), digest):
                waiting.append(pool.submit(cramjam.zstd.decompress, frame))
                if len(waiting) > threads:
                    tar.stdin.write(waiting.pop(0).result())
            for future in waiting:
                tar.stdin.write(future.result())
    except BrokenPipeError:
        pass  # tar says why
    except (OSError, cramjam.DecompressionError) as error:
        raise Stop(DAMAGED, f"{archive} is damaged, or cannot be read: {error}") from None
    finally:
        message = stderr.result().decode(errors="replace").strip()
        status = tar.wait()
    if "No space left" in message or "quota" in message:
        raise Stop(NO_ROOM, f"no room in {target.parent}: {message.splitlines()[0]}")
    if status or digest.hexdigest() != payload["sha256"]:
        raise Stop(DAMAGED, f"{archive} is damaged: {message or 'its checksum differs'}")


def _finish(root: Path, command: list[str]) -> None:
    done = subprocess.run([root / command[0], *command[1:]], cwd=root, capture_output=True)
    if done.returncode:
        output = (done.stdout + done.stderr).decode(errors="replace").strip()[-500:]
        raise Stop(DAMAGED, f"{command} failed: {output}")


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


def _size_of(folder: Path) -> int:
    return sum(
        path.lstat().st_size
        for path in folder.rglob("*")
        if path.is_file() and not path.is_symlink()
    )


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


def _shown(size: float) -> str:
    return f"{size / 1e9:.2f} GB" if size >= 1e8 else f"{size / 1e6:.1f} MB"


if __name__ == "__main__":
    sys.path.append(str(Path(__file__).parent))
    main(sys.argv[1:])

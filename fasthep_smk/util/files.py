"""Writing files so that they are either absent, the old one or complete; checksums."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import re
import secrets
import shutil
import stat
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypedDict

from fasthep_smk.util.documents import JsonObject

#: The name of a file that is not complete.
TEMPORARY = re.compile(r"\.[0-9a-f]{16}\.tmp-[0-9]+")
_SEAL = re.compile(rb'^\{\n "checksum": "([0-9a-f]{64})",')
#: How many bytes of a file are its head: ROOT's own end with a UUID, and hold no more than 75.
_HEAD = 75
#: What file systems answer that cannot put a folder's list of names on disk by itself.
_NO_FOLDER_SYNC = (errno.EINVAL, errno.ENOTSUP, errno.EBADF, errno.EACCES, errno.EPERM)


class Altered(ValueError):
    """A sealed text is not what was written."""


@contextlib.contextmanager
def atomic_path(path: Path, *, durable: bool = True, private: bool = False) -> Iterator[Path]:
    """Yield a temporary path beside ``path``; rename it to ``path`` when the block succeeds.

    With ``durable`` the content reaches the disk before the rename, and the rename before this
    returns: a power loss leaves the old file or the new one, never an empty one with the new name,
    and afterwards always the new one. A ``private`` file can be read by its owner only.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{secrets.token_hex(8)}.tmp-{os.getpid()}")
    # Results are shared as any file of the user's. The mode is the system's own word: to ask for
    # the umask is to change it, and other threads write files meanwhile.
    asked = 0o600 if private else 0o666
    try:
        handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, asked)
    except OSError as error:
        error.filename = str(path)  # the user knows this one
        raise
    mode = stat.S_IMODE(os.fstat(handle).st_mode)
    os.close(handle)
    try:
        yield temporary
        temporary.chmod(mode)
        if durable:
            sync(temporary)
        replace(temporary, path)
        if durable:
            sync(path.parent)
    finally:
        temporary.unlink(missing_ok=True)


def replace(source: Path, goal: Path) -> None:
    """Rename a file; an empty folder that is where it belongs is removed."""
    try:
        source.replace(goal)
    except IsADirectoryError:
        try:
            goal.rmdir()
        except OSError:
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(goal)) from None
        source.replace(goal)


def discard(folder: Path) -> None:
    """Remove a folder if there is one; for a process that works in it, all of it goes at once."""
    gone = folder.with_name(f".{folder.name}.gone-{os.getpid()}")
    with contextlib.suppress(FileNotFoundError):
        folder.rename(gone)
    shutil.rmtree(gone, ignore_errors=True)


def remove(path: Path) -> None:
    """Remove a file, or a folder with all that it holds, if it is there and may be removed."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
        return
    with contextlib.suppress(OSError):
        path.unlink()


def sync(path: Path) -> None:
    """Return when a file's content, or the names in a folder, would survive a power loss."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        if not path.is_dir() or error.errno not in _NO_FOLDER_SYNC:
            raise


def sync_all(paths: Iterable[Path]) -> None:
    """Sync files or folders, but for those that are gone meanwhile; a disk takes many at a time."""

    def sync_if_there(path: Path) -> None:
        with contextlib.suppress(FileNotFoundError):
            sync(path)

    paths = list(paths)
    if len(paths) <= 2:  # threads would take longer to start
        for path in paths:
            sync_if_there(path)
        return
    with ThreadPoolExecutor(max_workers=8) as pool:
        list(pool.map(sync_if_there, paths))


def close_to_others(*descriptors: int) -> None:
    """Let no other user read the files behind descriptors: errors in a log may quote anything."""
    for descriptor in descriptors:
        with contextlib.suppress(OSError):
            if stat.S_ISREG(os.fstat(descriptor).st_mode):
                os.fchmod(descriptor, 0o600)


def read_plain(path: Path, most: int = -1) -> bytes:
    """Return the first ``most`` bytes of a file, or all; a pipe or device is not waited for.

    Raises:
        OSError: it cannot be read, or is not a regular file.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    with open(descriptor, "rb") as stream:  # noqa: PTH123 (it is open)
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.ENOTSUP, "is a pipe, a device or a folder, not a file", str(path))
        return stream.read(most)


def write_text(path: Path, text: str, *, executable: bool = False) -> bool:
    """Write ``text`` atomically; return whether the file changed.

    A file that holds this text already is left alone, time stamp included: regenerating a
    workflow must not look like an edit.
    """
    changed = not path.is_file() or read_plain(path) != text.encode("utf-8")
    if changed:
        with atomic_path(path, durable=False) as temporary:
            temporary.write_bytes(text.encode("utf-8"))
    if executable and not os.access(path, os.X_OK):
        path.chmod(path.stat().st_mode | 0o111)
    return changed


def seal(content: Mapping[str, object], *, indent: int | None = 1) -> str:
    """Return ``content``, which is not empty, as JSON text that begins with its checksum."""
    text = json.dumps(content)
    if indent is not None:
        import msgspec  # not for who seals nothing

        try:
            text = msgspec.json.format(text, indent=indent)  # in a fifth of the time
        except msgspec.DecodeError:  # it has a NaN
            text = json.dumps(content, indent=indent)
    text += "\n"
    digest = hashlib.sha256(text.encode("utf-8")).hexdigest()
    return f'{{\n "checksum": "{digest}",{text[1:]}'


def unseal(text: bytes) -> JsonObject:
    """Return what was given to :func:`seal`.

    Raises:
        Altered: a single bit is not as it was written, or it was not sealed.
    """
    match = _SEAL.match(text)
    if match is None:
        raise Altered("it does not begin with a checksum")
    rest = b"{" + text[match.end() :]
    if hashlib.sha256(rest).hexdigest() != match[1].decode("ascii"):
        raise Altered("its checksum differs")
    try:
        content: JsonObject = json.loads(rest)
    except (ValueError, RecursionError):  # it was sealed by another program
        raise Altered("it is not JSON") from None
    return content


def sha256_file(path: Path) -> str:
    """Return the SHA-256 of a file's content as hexadecimal digits."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def head_of(path: Path) -> str:
    """Return a digest of a file's first bytes; ``""`` if it cannot be read.

    In those of a ROOT file stands a UUID that it was given when it was made.
    """
    try:
        with path.open("rb", buffering=0) as stream:
            return sha256_bytes(stream.read(_HEAD))[:16]
    except OSError:
        return ""


def sha256_bytes(content: bytes) -> str:
    """Return the SHA-256 of some bytes as hexadecimal digits."""
    return hashlib.sha256(content).hexdigest()


def stamp(path: str) -> str:
    """Return a file's size and time, in seconds as some keep no fractions; empty: it is gone."""
    try:
        status = os.stat(path)  # noqa: PTH116 (of many thousands)
    except OSError:
        return ""
    return f"{status.st_size}|{int(status.st_mtime)}"


class FileFacts(TypedDict):
    """What tells a file from another one: its size (bytes) and its SHA-256 (hexadecimal)."""

    size: int
    sha256: str


def described(path: Path) -> FileFacts:
    """Return what tells a file from another one."""
    return {"size": path.stat().st_size, "sha256": sha256_file(path)}


def exact_json(value: object) -> str:
    """Return ``value`` as JSON whose text depends on all of its content.

    The order of keys counts: an operation may go through a mapping in the order that is written.
    """
    from fasthep_smk.util.plain_values import to_plain  # needs NumPy, which takes a while to import

    plain = to_plain(value, leaf=lambda item: {"$": "repr", "v": repr(item)})
    return json.dumps(plain, separators=(",", ":"))


def digest_of(value: object) -> str:
    """Return a 32-digit hexadecimal digest of a JSON-like value, the order of keys included."""
    return hashlib.sha256(exact_json(value).encode("utf-8", "surrogatepass")).hexdigest()[:32]

"""A parcel: files that travel together, in one file that arrives complete or not at all.

It is a tar archive whose first member lists all others with size, SHA-256 and mode, and is sealed
with a checksum of itself. Names are relative, and stay below the folder that a parcel is opened in.
Its author is not trusted: all that it says is checked before it is believed.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import io
import re
import stat
import tarfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import IO

from fasthep_smk.util import files
from fasthep_smk.util.documents import JsonObject

_MANIFEST = "parcel.json"
#: Changes when a parcel written before cannot be read any more.
_FORMAT = 1
#: Larger than the list of any parcel: what says that it is longer was not written by us.
_LONGEST = 100_000_000
#: What the system says of names that cannot be those of files here, or of two that are in each
#: other's way.
_OF_NAMES = (errno.ENAMETOOLONG, errno.EEXIST, errno.ENOTDIR, errno.EISDIR, errno.EINVAL,
             errno.EILSEQ)  # fmt: skip
_SHA256 = re.compile(r"[0-9a-f]{64}")
_BLOCK = 1 << 20


class Member(files.FileFacts):
    """What the list of a parcel says of a file in it: also the permissions that it gets."""

    mode: int


class DamagedParcel(Exception):
    """A parcel is not what was written: it was cut short, changed, or never one."""


def write_parcel(
    path: Path, content: Mapping[str, Path | bytes], about: Mapping[str, object] | None = None
) -> None:
    """Write files, by their names in the parcel, and plain data ``about`` them.

    Symbolic links are followed. The parcel is there when it is complete.

    Raises:
        OSError: a file cannot be read, or there is no room.
        ValueError: a name is absolute or leads out of the parcel, or a file was written meanwhile.
    """
    for name in content:
        _check_name(name)
    listed = {name: _described(source) for name, source in content.items()}
    manifest = {"format": _FORMAT, "about": dict(about or {}), "files": listed}
    with (
        files.atomic_path(path, durable=False) as temporary,
        tarfile.open(temporary, "w", format=tarfile.PAX_FORMAT) as tar,
    ):
        _add(tar, _MANIFEST, io.BytesIO(files.seal(manifest, indent=None).encode()), 0o644)
        for name, source in content.items():
            if isinstance(source, bytes):
                _add(tar, name, io.BytesIO(source), listed[name]["mode"])
                continue
            with source.open("rb") as stream:
                _add(tar, name, stream, listed[name]["mode"], listed[name]["size"])


def read_about(path: Path) -> JsonObject:
    """Return what was said about a parcel.

    Raises:
        Damaged: it is not what was written, as far as its list shows.
    """
    with _reading(path) as tar:
        about: JsonObject = _manifest(tar, path)["about"]
        return about


def open_parcel(
    path: Path, folder: Path, *, may_hold: Callable[[str], bool] = lambda _name: True
) -> dict[str, Member]:
    """Put all files of a parcel below ``folder``; return its list: size, SHA-256 and mode by name.

    ``may_hold`` is asked about each name before anything is written.

    Raises:
        Damaged: it is not what was written; what is in ``folder`` then is to be thrown away.
        OSError: there is no room.
    """
    with _reading(path) as tar:
        listed: dict[str, Member] = _manifest(tar, path)["files"]
        for name in listed:
            if not may_hold(name):
                raise DamagedParcel(f"{path.name}: {name!r} is not a file that this job sends")
        left = dict(listed)
        while (member := tar.next()) is not None:
            entry = left.pop(member.name, None)
            if entry is None or not _is_plain(member) or member.size != entry["size"]:
                raise DamagedParcel(
                    f"{path.name}: {member.name!r} differs from its entry in the list of files"
                )
            goal = folder / member.name
            goal.parent.mkdir(parents=True, exist_ok=True)
            _copy(_stream(tar, member), goal, entry, f"{path.name}: {member.name!r}")
            goal.chmod(entry["mode"])
    if left:
        raise DamagedParcel(f"{path.name}: {next(iter(left))!r} is missing")
    return listed


def _described(source: Path | bytes) -> Member:
    if isinstance(source, bytes):
        digest = hashlib.sha256(source).hexdigest()
        return {"size": len(source), "sha256": digest, "mode": 0o644}
    mode = stat.S_IMODE(source.stat().st_mode) & 0o755
    return {**files.described(source), "mode": mode}


def _check_name(name: str) -> None:
    path = PurePosixPath(name)
    leads_away = path.is_absolute() or ".." in path.parts or "\0" in name
    if leads_away or str(path) != name or name in (".", _MANIFEST):
        raise ValueError(f"{name!r} is not a valid name of a file to be sent")


def _add(
    tar: tarfile.TarFile, name: str, stream: IO[bytes], mode: int, size: int | None = None
) -> None:
    member = tarfile.TarInfo(name)
    member.mode = mode
    member.size = stream.seek(0, io.SEEK_END) if size is None else size
    stream.seek(0)
    try:
        tar.addfile(member, stream)
    except OSError as error:
        if "unexpected end of data" in str(error):
            raise ValueError(f"{name!r} changed while it was packed") from error
        raise


@contextlib.contextmanager
def _reading(path: Path) -> Iterator[tarfile.TarFile]:
    """Open a parcel; whatever is odd about it, in the block too, is :class:`Damaged`."""
    try:
        with tarfile.open(path, "r:") as tar:
            yield tar
    except DamagedParcel:
        raise
    except OSError as error:
        if error.errno in _OF_NAMES:
            raise DamagedParcel(f"{path.name}: {error}") from error
        raise
    except Exception as error:  # the ways in which a tar archive can be odd are many
        raise DamagedParcel(f"{path.name}: {error or type(error).__name__}") from error


def _manifest(tar: tarfile.TarFile, path: Path) -> JsonObject:
    member = tar.next()
    if member is None or member.name != _MANIFEST or not _is_plain(member):
        raise DamagedParcel(f"{path.name}: it does not begin with its list of files")
    if member.size > _LONGEST:
        raise DamagedParcel(f"{path.name}: its list of files is too long")
    manifest = files.unseal(_stream(tar, member).read())
    if manifest.get("format") != _FORMAT:
        raise DamagedParcel(f"{path.name}: another version of fasthep-smk has written it")
    if not isinstance(manifest.get("about"), dict) or not isinstance(manifest.get("files"), dict):
        raise DamagedParcel(f"{path.name}: its list of files is malformed")
    for name, entry in manifest["files"].items():
        _check_name(name)
        if not _is_description(entry):
            problem = f"its list of files has an impossible entry for {name!r}"
            raise DamagedParcel(f"{path.name}: {problem}")
    return manifest


def _is_plain(member: tarfile.TarInfo) -> bool:
    """Whether it is a file whose whole content is in the archive: no link, no folder, no holes."""
    return member.isreg() and not member.issparse()


def _is_description(entry: object) -> bool:
    """Whether this is size, SHA-256 and mode of a file: nobody else may write it, nor run as us."""
    if not isinstance(entry, dict) or entry.keys() != {"size", "sha256", "mode"}:
        return False
    size, digest, mode = entry["size"], entry["sha256"], entry["mode"]
    if type(size) is not int or type(mode) is not int or not isinstance(digest, str):
        return False
    return size >= 0 and mode & 0o755 == mode and _SHA256.fullmatch(digest) is not None


def _stream(tar: tarfile.TarFile, member: tarfile.TarInfo) -> IO[bytes]:
    stream = tar.extractfile(member)
    assert stream is not None, "it contains more than plain data"
    return stream


def _copy(stream: IO[bytes], goal: Path, entry: Member, label: str) -> None:
    digest, size = hashlib.sha256(), 0
    with goal.open("xb") as target:
        while block := stream.read(_BLOCK):
            digest.update(block)
            size += len(block)
            target.write(block)
    if size != entry["size"] or digest.hexdigest() != entry["sha256"]:
        goal.unlink()
        raise DamagedParcel(f"{label} was changed in transit")

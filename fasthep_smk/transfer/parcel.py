"""A parcel: files that travel together, in one file that arrives complete or not at all.

It is a tar archive whose first member lists all others with size and SHA-256, and is sealed with a
checksum of itself. Names are relative, and stay below the folder that a parcel is opened in.
"""

from __future__ import annotations

import hashlib
import io
import json
import stat
import tarfile
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import IO, Any

from fasthep_smk import files

__all__ = ["Damaged", "open_parcel", "read_about", "write_parcel"]

_MANIFEST = "parcel.json"
#: Changes when a parcel written before cannot be read any more.
_FORMAT = 1
#: Larger than the list of any parcel: what says that it is longer was not written by us.
_LONGEST = 1_000_000_000
_BLOCK = 1 << 20


class Damaged(Exception):
    """A parcel is not what was written: it was cut short, changed, or never one."""


def write_parcel(
    path: Path, content: Mapping[str, Path | bytes], about: Mapping[str, Any] | None = None
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


def read_about(path: Path) -> dict[str, Any]:
    """Return what was said about a parcel.

    Raises:
        Damaged: it is not what was written, as far as its list shows.
    """
    with _opened(path) as tar:
        about: dict[str, Any] = _manifest(tar)["about"]
        return about


def open_parcel(path: Path, folder: Path) -> dict[str, Any]:
    """Put all files of a parcel below ``folder``; return its list: size, SHA-256 and mode by name.

    Raises:
        Damaged: it is not what was written; what is in ``folder`` then is to be thrown away.
        OSError: there is no room.
    """
    with _opened(path) as tar:
        listed: dict[str, Any] = _manifest(tar)["files"]
        left = dict(listed)
        for member in _members(tar, path):
            known = left.pop(member.name, None)
            stream = tar.extractfile(member) if member.isreg() else None
            if known is None or stream is None:
                raise Damaged(f"{path.name}: {member.name!r} is not what its list says")
            _check_name(member.name)
            goal = folder / member.name
            goal.parent.mkdir(parents=True, exist_ok=True)
            _copy(stream, goal, known, f"{path.name}: {member.name!r}")
            goal.chmod(known["mode"])
    if left:
        raise Damaged(f"{path.name}: {next(iter(left))!r} is missing")
    return listed


def _described(source: Path | bytes) -> dict[str, Any]:
    if isinstance(source, bytes):
        digest = hashlib.sha256(source).hexdigest()
        return {"size": len(source), "sha256": digest, "mode": 0o644}
    mode = stat.S_IMODE(source.stat().st_mode) & 0o755
    return {**files.described(source), "mode": mode}


def _check_name(name: str) -> None:
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or str(path) != name or name in (".", _MANIFEST):
        raise ValueError(f"{name!r} cannot be the name of a file in a parcel")


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
            raise ValueError(f"{name!r} was written while it was packed") from error
        raise


def _opened(path: Path) -> tarfile.TarFile:
    try:
        return tarfile.open(path, "r:")
    except tarfile.TarError as error:
        raise Damaged(f"{path.name}: {error}") from error


def _manifest(tar: tarfile.TarFile) -> dict[str, Any]:
    try:
        member = tar.next()
        stream = None if member is None or member.name != _MANIFEST else tar.extractfile(member)
        if stream is None or member is None or member.size > _LONGEST:
            raise Damaged(f"{Path(str(tar.name)).name}: it does not begin with its list")
        manifest = files.unseal(stream.read())
    except (tarfile.TarError, files.Altered, json.JSONDecodeError) as error:
        raise Damaged(f"{Path(str(tar.name)).name}: {error}") from error
    if manifest.get("format") != _FORMAT:
        raise Damaged(f"{Path(str(tar.name)).name}: another version of fasthep-smk has written it")
    return manifest


def _members(tar: tarfile.TarFile, path: Path) -> Any:
    """Yield the members after the list."""
    while True:
        try:
            member = tar.next()
        except tarfile.TarError as error:
            raise Damaged(f"{path.name}: {error}") from error
        if member is None:
            return
        yield member


def _copy(stream: IO[bytes], goal: Path, known: Mapping[str, Any], what: str) -> None:
    digest, size = hashlib.sha256(), 0
    with goal.open("xb") as target:
        try:
            while block := stream.read(_BLOCK):
                digest.update(block)
                size += len(block)
                target.write(block)
        except tarfile.TarError as error:
            raise Damaged(f"{what}: {error}") from error
    if size != known["size"] or digest.hexdigest() != known["sha256"]:
        goal.unlink()
        raise Damaged(f"{what} was changed on its way")

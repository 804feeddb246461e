"""Building an archive: once, tested, and there only when it is complete."""

from __future__ import annotations

import fcntl
import os
import shutil
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from fasthep_smk.contrib.pack.archive import write_archive
from fasthep_smk.contrib.pack.check import check_archive
from fasthep_smk.contrib.pack.conda import CondaContents, is_conda
from fasthep_smk.contrib.pack.contents import Packable, VenvContents
from fasthep_smk.storage.outdir import make_folder
from fasthep_smk.util import disk_full, files
from fasthep_smk.util.errors import Findings
from fasthep_smk.util.files import read_plain
from fasthep_smk.util.ownership import is_open
from fasthep_smk.worker.processes import MODULES

#: What every job imports; on batch systems it is started by Snakemake.
NEEDED = (*MODULES, "snakemake")


@dataclass(frozen=True)
class Packed:
    """An archive. ``seconds`` says how long it took to build; ``None`` if it was there."""

    path: Path
    key: str
    size: int
    seconds: float | None


def contents_of(kind: str, modules: Iterable[str] = ()) -> Packable:
    """Return the environment that runs this, to be packed as ``kind``.

    Raises:
        Findings: it is of another kind.
    """
    wanted = tuple(sorted({*NEEDED, *modules}))
    prefix = Path(sys.prefix)
    if kind != "packed-venv":
        return CondaContents(kind, wanted, prefix)
    if is_conda(prefix):
        raise Findings.one(
            "this is a conda or pixi environment: it holds more than Python packages",
            key="--environment packed-venv",
            value=str(prefix),
            expected="packed-conda or packed-pixi",
        )
    return VenvContents(kind, wanted)


def archive_path(contents: Packable, folder: Path) -> Path:
    """Return where the archive of an environment lies, or would."""
    return folder / f"{contents.kind}-{contents.key}.run"


def pack(contents: Packable, folder: Path, *, tell: TextIO | None = None) -> Packed:
    """Return the archive of an environment; it is built and tested unless it is there.

    ``tell`` hears that it is built, which may take a minute.

    Raises:
        Findings: the environment cannot be packed, or what was packed does not work.
        DiskFull: there is no room.
    """
    path = archive_path(contents, folder)
    make_folder(folder, folder, "--output")
    seconds = None
    with disk_full.saying(folder), _alone(path):
        if not _is_believed(path):
            if tell is not None:
                text = f"packing the environment ({contents.kind}); later runs use the same archive"
                print(text, file=tell, flush=True)
            began = time.monotonic()
            _build(contents, path)
            seconds = time.monotonic() - began
    return Packed(path, contents.key, path.stat().st_size, seconds)


def describe_environment(kind: str, modules: Iterable[str], folder: Path) -> tuple[bool, str]:
    """Return whether a packed environment is built, and a line on it.

    Raises:
        Findings: it cannot be packed.
    """
    contents = contents_of(kind, modules)
    path = archive_path(contents, folder)
    if not path.is_file():
        return False, f"{kind} {contents.key}: not packed yet"
    return True, f"{kind} {contents.key}: {path.stat().st_size / 1e6:.0f} MB"


def _is_believed(path: Path) -> bool:
    """Whether an archive is there, the user's own, and as it was when it was tested."""
    with suppress(OSError, ValueError):
        noted = read_plain(_note(path))
        own = {os.lstat(file).st_uid for file in (path, _note(path))} <= {os.geteuid(), 0}
        closed = not (is_open(path) or is_open(_note(path)))
        return own and closed and noted.split()[:1] == [files.sha256_file(path).encode()]
    return False


def _note(path: Path) -> Path:
    """Return the file that says what is in an archive, as sha256sum(1) writes it."""
    return path.with_name(f"{path.name}.sha256")


def _build(contents: Packable, path: Path) -> None:
    for stale in path.parent.glob(f".{path.stem}.*.new*"):  # of one that was killed
        shutil.rmtree(stale) if stale.is_dir() else stale.unlink()
    temporary = path.with_name(f".{path.stem}.{os.getpid()}.new")
    try:
        write_archive(contents.parts(), temporary)
        temporary.chmod(0o755)
        check_archive(temporary, contents.modules)
        files.sync(temporary)
        digest = files.sha256_file(temporary)
        temporary.replace(path)
        files.write_text(_note(path), f"{digest}  {path.name}\n")
        files.sync(path.parent)
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Let one process at a time build an archive."""
    place, how = path.with_name(f".{path.stem}.lock"), os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW
    with os.fdopen(os.open(place, how, 0o600), "w") as lock:
        with suppress(OSError):  # a file system without locks
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield

"""What jobs that travel run with: the environment is packed before the first of them leaves."""

from __future__ import annotations

import errno
import json
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from fasthep_smk import files, layout
from fasthep_smk.errors import Findings
from fasthep_smk.flow.modules import modules_of

if TYPE_CHECKING:
    from fasthep_smk.describe.environment import Environment
    from fasthep_smk.describe.staging import Staging
    from fasthep_smk.translation import Translation

__all__ = ["equipped"]


@contextmanager
def equipped(translation: Translation, *, tell: TextIO | None = None) -> Iterator[list[str]]:
    """Have what jobs travel with for a run; yield arguments for Snakemake, none if they do not.

    Their environment is packed, unless workers have it. ``tell`` is told what takes a while.

    Raises:
        Findings: the environment cannot be packed, or what was packed does not work.
    """
    if not translation.placement.transfers:
        yield []
        return
    # Imported when needed: most runs send nothing.
    from fasthep_smk.transfer.depot import Depot

    try:
        yield _equip(translation, tell)
    finally:
        Depot(translation.written.build).close()


def _equip(translation: Translation, tell: TextIO | None) -> list[str]:
    placement, build = translation.placement, translation.written.build
    environment = placement.environment
    assert environment is not None, "a site was refused whose jobs would have none"
    modules = {name for one in translation.variations for name in modules_of(one.graph.plan)}
    python = _python(environment, sorted(modules), build, tell)
    spool = _spool(placement.staging, build)
    if spool is not None:
        _fill(spool, build / python if environment.is_packed else None)
    content = {
        "spool": None if spool is None else str(spool),
        "python": python,
        "brings_python": environment.is_packed,
        "shared": list(placement.staging.shared),
        "wildcards": {rule.name: list(rule.named_by) for rule in translation.rules},
    }
    files.write_text(build / layout.TRANSFER, json.dumps(content, indent=1) + "\n")
    return [] if spool is None else ["--slurm-logdir", str(spool / "out")]


def _spool(staging: Staging, build: Path) -> Path | None:
    """Return the folder for a build's jobs where the batch system sends nothing; make it.

    Raises:
        Findings: it cannot be made, or is somebody else's.
    """
    if staging.folder is None:
        return None
    spool = Path(staging.folder) / f"fasthep-smk-{os.getuid()}" / files.digest_of(str(build))
    try:
        for folder in (spool.parent, spool):
            folder.mkdir(mode=0o700, parents=folder == spool.parent, exist_ok=True)
            if folder.stat().st_uid != os.getuid():
                raise PermissionError(errno.EPERM, "it is somebody else's")
    except OSError as error:
        raise Findings.one(
            f"cannot be used: {error.strerror or error}",
            file=staging.file,
            key="staging.folder",
            value=str(spool),
        ) from error
    return spool


def _fill(spool: Path, archive: Path | None) -> None:
    """Put into the spool what all jobs start with, and nothing of earlier environments."""
    from fasthep_smk.transfer.depot import NODE

    wanted = [NODE] if archive is None else [NODE, archive]
    for old in spool.glob("*.run"):
        if old.name not in [path.name for path in wanted]:
            old.unlink()
    for path in wanted:
        goal = spool / path.name
        if path is NODE or not goal.is_file() or goal.stat().st_size != path.stat().st_size:
            with files.atomic_path(goal) as temporary:
                shutil.copyfile(path, temporary)


def _python(environment: Environment, modules: list[str], build: Path, tell: TextIO | None) -> str:
    if not environment.is_packed:
        return str(Path(environment.prefix) / "bin" / "python")
    from fasthep_smk.environment.pack import archive_path, contents_of, pack

    contents = contents_of(environment.type, modules)
    folder = build / layout.ARCHIVES
    if tell is not None and not archive_path(contents, folder).is_file():
        print(f"packing the environment ({environment.type}), once", file=tell, flush=True)
    began = time.monotonic()
    packed = pack(contents, folder)
    if tell is not None and packed.seconds is not None:
        size = f"{packed.size / 1e6:.0f} MB"
        print(f"packed and tested in {time.monotonic() - began:.0f} s: {size}", file=tell)
    return str(packed.path.relative_to(build))

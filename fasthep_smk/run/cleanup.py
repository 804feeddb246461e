"""Make room in a build folder after a run, as ``--keep`` says; delete what is not needed."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from fasthep_smk.config.run_settings import Keep
from fasthep_smk.storage import layout
from fasthep_smk.storage.disk_usage import Amount, freed_by, is_reached, survey
from fasthep_smk.storage.jobs import read_jobs
from fasthep_smk.storage.retention import Freeable, after_success, cleanable
from fasthep_smk.util.errors import Finding
from fasthep_smk.util.names import shell
from fasthep_smk.util.units import about_bytes

#: Where folders that have become empty are removed.
_ROOTS = (
    layout.WORK, layout.OLD, layout.STAGE, layout.DEPOT, layout.LOGS,
    ".snakemake",
)  # fmt: skip
#: How many files that cannot be deleted are named.
_SHOWN = 10


def after_run(build: Path, keep: Keep, *, shown: Path) -> str:
    """Delete what ``keep`` does not keep after a run that succeeded; return the line that says so.

    What cannot be deleted is left: the run has succeeded. ``shown`` is the build folder as the
    user calls it.
    """
    jobs = read_jobs(build)
    disk = survey(build, jobs)
    parts = after_success(disk, keep)
    freed = sum(freed_by(parts).values(), Amount())
    if parts:
        delete(build, parts)
        disk = survey(build, jobs)
    usage = {kind: amount.size for kind, amount in disk.usage.items() if amount.size}
    kinds = ("results", "event streams", "other products", "superseded results", "environments")
    most = ", ".join(f"{kind} {about_bytes(usage[kind])}" for kind in kinds if kind in usage)
    text = f"disk: {about_bytes(disk.total.size)} in {shown}"
    text += f" ({most})" if most else ""
    text += f"; freed {about_bytes(freed.size)}" if freed.files else ""
    left = sum(freed_by(cleanable(disk)).values(), Amount()).size
    if left:
        where = [] if shown == Path("build") else [shown]
        text += f"; {shell(['fasthep-smk', 'clean', *where])} frees {about_bytes(left)}"
    return text


def delete(build: Path, parts: Freeable) -> list[Finding]:
    """Delete files, and the folders that are empty then; return what could not be deleted."""
    problems: list[Finding] = []
    touched = {layout.STAGE}
    for file in (file for files in parts.values() for file in files):
        touched.update(root for root in _ROOTS if file.path.startswith(f"{root}/"))
        try:
            (build / file.path).unlink(missing_ok=True)
        except OSError as error:
            problem = f"cannot be deleted: {error.strerror or error}"
            problems.append(Finding(problem=problem, file=str(build / file.path)))
    for root in (top for top in touched if is_reached(build, top)):
        for folder, _, _ in os.walk(build / root, topdown=False):
            with contextlib.suppress(OSError):  # it is not empty, or a link to another disk
                Path(folder).rmdir()
    if len(problems) > _SHOWN:
        more = f"and {len(problems) - _SHOWN} more files cannot be deleted"
        problems = [*problems[:_SHOWN], Finding(problem=more)]
    return problems

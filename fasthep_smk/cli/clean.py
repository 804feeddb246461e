"""Make room in a build folder: by ``fasthep-smk clean``, and after a run as ``--keep`` says."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from pathlib import Path

from fasthep_smk.run import lock
from fasthep_smk.storage import layout, run_lock
from fasthep_smk.storage.disk_usage import Amount, freed_by, is_reached, survey
from fasthep_smk.storage.jobs import find_build, is_done, read_jobs
from fasthep_smk.storage.retention import Freeable, Keep, after_success, cleanable, put_away
from fasthep_smk.util.errors import Finding, Findings
from fasthep_smk.util.names import shell
from fasthep_smk.util.units import about_bytes

__all__ = ["Freed", "after_run", "as_text", "clean", "delete"]

Freed = list[tuple[str, Amount]]

#: Where folders that have become empty are removed.
_ROOTS = (
    layout.WORK, layout.OLD, layout.STAGE, layout.DEPOT, layout.BENCHMARKS, layout.LOGS,
    ".snakemake",
)  # fmt: skip
#: How many files that cannot be deleted are named.
_SHOWN = 10


def clean(folder: Path, *, everything: bool = False, dry_run: bool = False) -> Freed:
    """Delete what a finished run does not need; return what that freed, by kind.

    ``everything`` leaves nothing but results. A ``dry_run`` deletes nothing.

    Raises:
        Held: a run works on the folder.
        Findings: it is no build folder, or something in it cannot be read or deleted.
    """
    build = find_build(folder)
    if dry_run:
        if who := run_lock.holder(build):
            raise lock.Held.by(who, build)
        return _freed(_to_clean(build, everything=everything))
    with lock.hold(build) as held:
        if held is None:
            raise Findings.one("cannot be written to", key="BUILD", value=str(folder))
        parts = _to_clean(build, everything=everything)
        freed = _freed(parts)
        problems = delete(build, parts)
    if problems:
        raise Findings(problems)
    return freed


def as_text(freed: Freed, *, everything: bool = False, dry_run: bool = False) -> str:
    """Return what was freed, or would be, as lines for a person."""
    if not freed:
        return "nothing to free\n"
    total = sum((amount for _, amount in freed), Amount())
    rows = [[what, about_bytes(one.size), one.files] for what, one in (*freed, ("together", total))]
    headers = ["would be freed" if dry_run else "freed", "size", "files"]
    from tabulate import tabulate  # not for every run

    table = tabulate(rows, headers=headers, colalign=("left", "right", "right"))
    verb = "would start" if dry_run else "starts"
    more = f"results are kept; the next run {verb} from nothing\n" if everything else ""
    return f"{table}\n{more}"


def after_run(build: Path, keep: Keep, *, shown: Path) -> str:
    """Delete what ``keep`` does not keep after a run that succeeded; return the line that says so.

    What cannot be deleted is left: the run has succeeded. ``shown`` is the build folder as the
    user calls it.
    """
    jobs = read_jobs(build)
    found = survey(build, jobs)
    parts = after_success(found, keep, put_away(found))
    freed = sum((amount for _, amount in _freed(parts)), Amount())
    if parts:
        delete(build, parts)
        found = survey(build, jobs)
    usage = {kind: amount.size for kind, amount in found.usage.items() if amount.size}
    kinds = ("results", "event streams", "other products", "superseded results", "environments")
    most = ", ".join(f"{kind} {about_bytes(usage[kind])}" for kind in kinds if kind in usage)
    text = f"disk: {about_bytes(found.total.size)} in {shown}"
    text += f" ({most})" if most else ""
    text += f"; freed {about_bytes(freed.size)}" if freed.files else ""
    left = sum((amount.size for _, amount in _freed(cleanable(found))), 0)
    if left:
        where = [] if shown == Path("build") else [shown]
        text += f"; {shell(['fasthep-smk', 'clean', *where])} frees {about_bytes(left)}"
    return text


def delete(build: Path, parts: Iterable[Freeable]) -> list[Finding]:
    """Delete files, and the folders that are empty then; return what could not be deleted."""
    problems: list[Finding] = []
    touched = {layout.STAGE}
    for file in (file for part in parts for file in part.files):
        touched.update(root for root in _ROOTS if file.path.startswith(f"{root}/"))
        try:
            (build / file.path).unlink(missing_ok=True)
        except OSError as error:
            problem = f"cannot be deleted: {error.strerror or error}"
            problems.append(Finding(problem=problem, file=str(build / file.path)))
    for root in (one for one in touched if is_reached(build, one)):
        for folder, _, _ in os.walk(build / root, topdown=False):
            with contextlib.suppress(OSError):  # it is not empty, or a link to another disk
                Path(folder).rmdir()
    if len(problems) > _SHOWN:
        more = f"and {len(problems) - _SHOWN} more files cannot be deleted"
        problems = [*problems[:_SHOWN], Finding(problem=more)]
    return problems


def _to_clean(build: Path, *, everything: bool) -> list[Freeable]:
    jobs = read_jobs(build)
    if not jobs and not everything:
        raise Findings.one(
            "has no task tables: what is still needed is not known",
            key="BUILD",
            value=str(build),
            hint="'fasthep-smk translate workflow.yaml' writes them; 'clean --all' needs none",
        )
    done = [job.folder for job in jobs if is_done(build, job)]
    return cleanable(survey(build, jobs, done=done), everything=everything)


def _freed(parts: Iterable[Freeable]) -> Freed:
    parts = list(parts)
    amounts = freed_by(part.files for part in parts)
    return [(part.what, amount) for part, amount in zip(parts, amounts, strict=True)]

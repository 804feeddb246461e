"""``fasthep-smk clean``: make room in a build folder."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path

from fasthep_smk.run import lock
from fasthep_smk.run.cleanup import delete
from fasthep_smk.storage import run_lock
from fasthep_smk.storage.disk_usage import Amount, freed_by, survey
from fasthep_smk.storage.jobs import find_build, is_done, read_jobs
from fasthep_smk.storage.queue import find
from fasthep_smk.storage.retention import Freeable, cleanable
from fasthep_smk.util.errors import Findings
from fasthep_smk.util.units import about_bytes


def do_clean(options: argparse.Namespace) -> int:
    """Delete what a finished run does not need, and print what that freed."""
    freed = clean(options.build, everything=options.all, dry_run=options.dry_run)
    print(as_text(freed, everything=options.all, dry_run=options.dry_run), end="")
    return 0


def clean(folder: Path, *, everything: bool = False, dry_run: bool = False) -> dict[str, Amount]:
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
        return freed_by(_to_clean(build, everything=everything))
    with lock.hold(build):
        if find(build) != []:
            raise Findings.one(
                "jobs of an earlier run may still be in the queue, and may write to this folder",
                key="BUILD",
                value=str(folder),
                hint="to take over these jobs, start the run again; to cancel them, type "
                "'fasthep-smk cancel'",
            )
        parts = _to_clean(build, everything=everything)
        freed = freed_by(parts)
        problems = delete(build, parts)
    if problems:
        raise Findings(problems)
    return freed


def as_text(freed: Mapping[str, Amount], *, everything: bool = False, dry_run: bool = False) -> str:
    """Return what was freed, or would be, as lines for a person."""
    if not freed:
        return "nothing to free\n"
    total = sum(freed.values(), Amount())
    rows = [
        [name, about_bytes(amount.size), amount.files]
        for name, amount in {**freed, "together": total}.items()
    ]
    headers = ["would be freed" if dry_run else "freed", "size", "files"]
    from tabulate import tabulate  # not for every run

    table = tabulate(rows, headers=headers, colalign=("left", "right", "right"))
    verb = "would start" if dry_run else "starts"
    more = f"the results are kept; the next run {verb} from the beginning\n" if everything else ""
    return f"{table}\n{more}"


def _to_clean(build: Path, *, everything: bool) -> Freeable:
    jobs = read_jobs(build)
    if not jobs and not everything:
        raise Findings.one(
            "has no task tables: without these, nobody can tell which files are still needed",
            key="BUILD",
            value=str(build),
            hint="'fasthep-smk translate workflow.yaml' writes these tables; "
            "'fasthep-smk clean --all' does not need them",
        )
    done = [job.folder for job in jobs if is_done(build, job)]
    return cleanable(survey(build, jobs, done=done), everything=everything)

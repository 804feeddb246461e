"""The job before results are handed over to another workflow: they are there, as they should be.

Snakemake looks at the times of files, this project at signatures. So results that are right get a
new time when they are handed over for the first time, whenever they were made; and one that was
deleted or damaged is made again.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from fasthep_smk.storage import damage, products
from fasthep_smk.storage.handed_over import HandedOver, marker
from fasthep_smk.storage.task_table import TaskTable
from fasthep_smk.util import files

__all__ = ["hand_over"]


def hand_over(build: Path, group: str, command: Callable[[str, str], list[str]]) -> int:
    """Make the files of a group again that do not stand; mark all of them as handed over.

    ``command`` starts a job by its rule and key. Returns the exit status.
    """
    wanted = HandedOver.read(build, group)
    for rule, key in wanted.jobs:
        if _is_done(build, rule, key):
            continue
        print(f"made again, for results of it are gone: {rule} {key}", file=sys.stderr)
        done = subprocess.run(command(rule, key), cwd=build, check=False)
        if done.returncode:
            return done.returncode
    if absent := [path for path in wanted.files if not (build / path).is_file()]:
        more = f" and {len(absent) - 1} more" if len(absent) > 1 else ""
        print(
            f"the run has not made {absent[0]}{more}, perhaps for there was nothing to draw: "
            "'fasthep-smk translate' now leaves that out, then run this again",
            file=sys.stderr,
        )
        return 1
    with files.atomic_path(build / marker(group)) as temporary:
        temporary.write_text(f"{wanted.signature}\n", encoding="utf-8")
    for path in wanted.files:  # after the marker, which they must not be older than
        os.utime(build / path)
    return 0


def _is_done(build: Path, rule: str, key: str) -> bool:
    """Tell whether a job's results stand; if not, it does not count as done any more."""
    entry = TaskTable.read(build, rule, key).jobs[key]
    try:
        record = products.read_record(build / entry.folder)
    except products.Damaged:
        return False
    known = record["results"].items()
    if record["signature"] == entry.signature and not any(
        damage.difference(build / name, one) for name, one in known
    ):
        return True
    (build / entry.record).unlink()
    return False

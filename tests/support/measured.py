"""Build folders of jobs that are done, with what they took: for tests of what sizes jobs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from fasthep_smk.storage import layout
from tests.support import tables


def build_of(
    folder: Path,
    jobs: Iterable[Mapping[str, Any]],
    *,
    rule: str = "stage_A",
    stages: tuple[str, ...] = ("A",),
    scope: str = "partition",
) -> Path:
    """Write a rule's table and a record for each job; a job says what its record does."""
    entries = {}
    for number, said in enumerate(jobs):
        place, signature = f"smk/work/{rule}/{number}", tables.signed(str(number))
        entries[str(number)] = tables.entry(
            folder=place, record=f"{place}/record.json", signature=signature, dataset="dy"
        )
        head = {"signature": signature, "started": 100.0, "asked": {"pool": "default"}, **said}
        head["ended"] = head["started"] + head.pop("seconds", 10.0)
        head["used"] = {"memory": head.pop("memory", 10**9)}
        path = folder / place / layout.RECORD
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({**head, "results": {}}, indent=1))
    table = tables.table(rule=rule, scope=scope, stages=stages, jobs=entries)
    path = folder / layout.table(rule)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(table.to_text())
    return folder

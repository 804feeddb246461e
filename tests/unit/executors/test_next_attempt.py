"""Which attempt a job is tried at next that has died for want of memory."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fasthep_smk.executors.next_attempt import pass_over_hopeless
from fasthep_smk.storage import failures, layout
from fasthep_smk.storage.task_table import BundleEntry
from tests.support import tables

GB = 10**9


def job(attempt: int = 1, retries: int = 2, part: str = "0_0") -> Any:
    """A job that has failed at an attempt, of three."""
    log = layout.log("r", ["dy", part])
    told = {"attempt": attempt, "restart_times": retries, "log": [log], "is_group": lambda: False}
    rule, place = SimpleNamespace(name="r"), {"part": part}
    return SimpleNamespace(rule=rule, wildcards_dict=place, **told)


def build(folder: Path, *memory: int | None, jobs: tuple[str, ...] = (), **note: Any) -> Path:
    """A build folder whose attempts ask for so much memory, and the note of one that died.

    With ``jobs`` it is a bundle of these.
    """
    (folder / "smk/tasks").mkdir(parents=True)
    bundle = (
        {"dy/bundle_0": BundleEntry(jobs, "smk/bundles/r.json", tables.signed())} if jobs else {}
    )
    keys = jobs or ("dy/0_0",)
    entries = {key: tables.entry(record=f"smk/work/r/{key}/record.json") for key in keys}
    table = tables.table(jobs=entries, bundles=bundle)
    (folder / layout.table("r")).write_text(table.to_text())
    attempts = [{"pool": "p", "memory": one and one * GB} for one in memory]
    asked = {"system": "local", "rules": {"r": attempts}}
    (folder / layout.REQUESTS).write_text(json.dumps(asked))
    said = {"rule": "r", "key": "dy/0_0", "record": "smk/work/r/dy/0_0/record.json"}
    said |= {"problem": "too much", "kind": "memory", "memory": 4 * GB, "attempt": 1, **note}
    failures.note(folder, failures.Failure(**said))
    return folder


@pytest.mark.parametrize(
    ("memory", "tried"),
    [
        ((4, 8, 16), 2),
        ((4, 4, 16), 3),
        ((4, 4, 4), None),
        ((4,), None),
        ((4, 2, 3), None),
        ((4, None), 2),
    ],
)
def test_the_next_attempt_has_more_memory(
    memory: tuple[int | None, ...], tried: int | None, tmp_path: Path
) -> None:
    """Where none has, the job is at its last; Snakemake adds one to the number for the next."""
    failed = job()
    folder = build(tmp_path, *memory)
    pass_over_hopeless(failed, folder)
    assert failed.attempt == (3 if tried is None else tried - 1)
    [note] = failures.read_all(folder)
    suffix = "" if tried else "; not tried again: no other attempt would have more"
    assert (note.attempt, note.problem) == (1, f"too much{suffix}")


@pytest.mark.parametrize(
    "note", [{"kind": "error"}, {"kind": "killed"}, {"memory": None}, {"attempt": 2}]
)
def test_other_failures_are_tried_again(note: dict[str, Any], tmp_path: Path) -> None:
    failed = job()
    pass_over_hopeless(failed, build(tmp_path, 4, 4, 4, **note))
    assert failed.attempt == 1


def test_a_last_attempt_is_the_last_anyway(tmp_path: Path) -> None:
    failed = job(retries=0)
    folder = build(tmp_path, 4)
    pass_over_hopeless(failed, folder)
    assert failed.attempt == 1
    assert [note.problem for note in failures.read_all(folder)] == ["too much"]


@pytest.mark.parametrize(
    ("other", "attempt"), [("memory", 3), ("done", 3), ("error", 1), ("killed with it", 1)]
)
def test_a_bundle_goes_on_if_one_of_its_jobs_may(other: str, attempt: int, tmp_path: Path) -> None:
    """The other one may have died of the same, be done, have failed, or never have begun."""
    failed = job(part="bundle_0")
    jobs = ("dy/7_7", "dy/8_8")
    folder = build(tmp_path, 4, 4, 4, jobs=jobs, key="dy/7_7", bundle="dy/bundle_0")
    if other in ("memory", "error"):
        first = failures.read_all(folder)[0]
        failures.note(folder, replace(first, key="dy/8_8", kind=other))
    elif other == "done":
        (folder / "smk/work/r/dy/8_8").mkdir(parents=True)
        (folder / "smk/work/r/dy/8_8/record.json").write_text("{}")
    pass_over_hopeless(failed, folder)
    assert failed.attempt == attempt


@pytest.mark.parametrize(
    ("limit", "largest", "tried"),
    [(4 * GB, None, None), (None, None, 2), (None, 8 * GB, 2), (None, 4 * GB, None)],
)
def test_one_that_is_measured_in_a_pool_without_amounts_asks_for_more_while_a_node_has_it(
    tmp_path: Path, limit: int | None, largest: int | None, tried: int | None
) -> None:
    build(tmp_path, 1, 2, 4)
    said = {"most": [{"pool": "p", "memory": limit}] * 3, "names": [["memory"]] * 3}
    (tmp_path / layout.SIZES).write_text(json.dumps({"r": {**said, "largest": [largest] * 3}}))
    one = job()
    pass_over_hopeless(one, tmp_path)
    assert one.attempt == (4 if tried is None else tried) - 1

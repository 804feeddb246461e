"""The task table: read as written, by its published schema, and refused if it is another one's."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from fasthep_smk.storage.task_table import (
    Adopted,
    BundleEntry,
    Kept,
    Part,
    Read,
    TaskTable,
    UnreadableTable,
)
from tests.support import tables

SCHEMA = Path(__file__).parents[3] / "fasthep_smk" / "storage" / "task-table.schema.json"
SIGNATURE = "0" * 32
KEY = ("h", "hist")
READ = Read("smk/work/a/1", (KEY, ("b", "stream")), marker="smk/bundles/a/bundle_0.json")
GIVEN = Adopted("smk/old/1", SIGNATURE, ("h",), (KEY,), (), (("s", "out"),), ("artifacts/x.root",))
PARTITION = {"id": "p", "dataset": "dy", "file": "a.root", "source": "s", "part": "0_0"}
FULL = tables.table(
    stages=("A", "B"),
    wildcards=("dataset", "part"),
    outputs=("record.json", "A.arrow"),
    keeps=(Kept("A", "out", "A.arrow", ("x", "y")), Kept("h", "hist", None, None)),
    cached={"nominal": (Kept("s", "out", "s.spare.arrow", ()),)},
    nodes={"nominal": {"A": [SIGNATURE, ["dataset"]]}},
    sources={"/mine/sf.json": ("12ab", 10, 99), "/gone": (None, 0, 0)},
    jobs={
        key: tables.entry(
            folder=f"smk/work/r/{key}",
            signature=SIGNATURE,
            dataset="dy",
            partition={**PARTITION, "start": 0, "stop": None},
            nodes=("A", "h"),
            reads=(READ, Read("smk/work/c", ())),
            files={"a.root": "a.root|10|99"},
            values={"h": SIGNATURE},
            missing=(
                {"dataset": "d", "file": "f", "start": 0, "stop": 1, "id": "i", "reason": "x"},
            ),
            part=Part(("h",), (READ,), (GIVEN,)),
        )
        for key in ("dy/0_0", "dy/0_1", "dy/1_0")
    },
    bundles={"dy/bundle_0": BundleEntry(("dy/0_0", "dy/0_1"), "smk/bundles/r.json", SIGNATURE)},
)


def read_back(table: TaskTable, key: str | None = None) -> TaskTable:
    return TaskTable.from_json(json.loads(table.to_text()), Path("r.json"), key)


@pytest.mark.parametrize("table", [FULL, tables.table(jobs={"": tables.entry()})])
def test_a_table_is_read_as_it_was_written(table: TaskTable) -> None:
    again = read_back(table)
    assert again.to_text() == table.to_text()
    assert again.jobs == table.jobs
    assert (again.keeps, again.bundles, again.sources) == (
        table.keeps,
        table.bundles,
        table.sources,
    )


def test_a_table_is_what_its_schema_says() -> None:
    schema = json.loads(SCHEMA.read_text())
    Draft202012Validator(schema).validate(json.loads(FULL.to_text()))
    Draft202012Validator(schema).validate(json.loads(read_back(FULL, "dy/1_0").to_text()))


@pytest.mark.parametrize(
    ("key", "jobs"), [("dy/1_0", ["dy/1_0"]), ("dy/bundle_0", ["dy/0_0", "dy/0_1"])]
)
def test_a_worker_reads_its_own_jobs_only(key: str, jobs: list[str]) -> None:
    table = read_back(FULL, key)
    assert [*table.jobs] == jobs
    assert [*table.bundles] == [key] * (len(jobs) - 1)
    assert (table.number_of_jobs, read_back(table, key)) == (3, table)


def test_a_job_that_is_not_there_is_said() -> None:
    with pytest.raises(KeyError, match="dy/9_9"):
        read_back(FULL, "dy/9_9")


@pytest.mark.parametrize(
    "change",
    [
        lambda table: table.pop("keeps"),
        lambda table: table["jobs"]["dy/0_0"].pop("signed_as"),
        lambda table: table["jobs"]["dy/0_0"].update(folder=7),
        lambda table: table["jobs"].update({"dy/0_0": []}),
        lambda table: table.update(jobs=[]),
        lambda table: table.update(sources={"a": 1}),
    ],
)
def test_a_table_of_another_version_is_refused_in_a_sentence(
    change: Callable[[dict[str, Any]], object],
) -> None:
    found = json.loads(FULL.to_text())
    change(found)
    with pytest.raises(UnreadableTable, match=r"r\.json is not a task table of this version"):
        TaskTable.from_json(found, Path("r.json"))


@pytest.mark.parametrize("content", [b"", b"{", b"\xff", b"[" * 100_000])
def test_a_damaged_table_is_refused_in_a_sentence(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "smk/tasks").mkdir(parents=True)
    (tmp_path / "smk/tasks/r.json").write_bytes(content)
    with pytest.raises(UnreadableTable, match=r"r\.json is damaged"):
        TaskTable.read(tmp_path, "r")

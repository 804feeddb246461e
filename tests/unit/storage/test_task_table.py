"""The task table: read as written, and refused if it is another one's, as by its schema."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
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

SCHEMA = msgspec.json.schema(TaskTable)
SIGNATURE = "0" * 32
KEY = ("h", "hist")
READ = Read("smk/work/a/1", (KEY, ("b", "stream")), marker="smk/bundles/a/bundle_0.json")
GIVEN = Adopted("smk/old/1", SIGNATURE, ("h",), (KEY,), (), (("s", "out"),), ("artifacts/x.root",))
PARTITION = {"id": "p", "dataset": "dy", "file": "a.root", "source": "s", "part": "0_0"}
ORIGIN = {
    "dataset": "dy", "context": SIGNATURE, "files": ["a.root|10|99"], "entries": [0, None],
    "branches": {"events": ["px"]}, "run": SIGNATURE, "before": [], "own": SIGNATURE,
    "seen": {"names": SIGNATURE},
}  # fmt: skip
FULL = tables.table(
    stages=("A", "B"),
    wildcards=("dataset", "part"),
    outputs=("record.json", "A.arrow"),
    keeps=(Kept("A", "out", "A.arrow", ("x", "y")), Kept("h", "hist", None, None)),
    cached={"nominal": (Kept("s", "out", "s.spare.arrow", ()),)},
    nodes={"nominal": {"A": (SIGNATURE, ["dataset"])}},
    sources={"/mine/sf.json": ("12ab", 10, 99), "/gone": (None, 0, 0)},
    jobs={
        key: tables.entry(
            folder=f"smk/work/r/{key}",
            signature=SIGNATURE,
            dataset="dy",
            origin=ORIGIN,
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


def job(table: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = table["jobs"]["dy/0_0"]
    return found


def written(build: Path, content: bytes) -> Path:
    """Write a table to the build folder."""
    (build / "smk/tasks").mkdir(parents=True, exist_ok=True)
    (build / "smk/tasks/r.json").write_bytes(content)
    return build


def read_back(build: Path, table: TaskTable, key: str | None = None) -> TaskTable:
    return TaskTable.read(written(build, table.to_text().encode()), "r", key)


@pytest.mark.parametrize("table", [FULL, tables.table(jobs={"": tables.entry()})])
def test_a_table_is_read_as_it_was_written(tmp_path: Path, table: TaskTable) -> None:
    assert read_back(tmp_path, table) == table


@pytest.mark.parametrize("indent", [0, 1])
@pytest.mark.parametrize("name", ["plain", 'a "b" \\ \n\t\x1f', "Zµµ 日本 🎉", "\udce9.root"])
def test_a_text_is_ascii_as_python_writes_it(tmp_path: Path, name: str, indent: int) -> None:
    """So are bytes in the name of a file that are no text."""
    table = tables.table(stages=(name,), jobs={"": tables.entry(files={name: f"{name}|10|99"})})
    text = table.to_text(indent=indent)
    assert text == json.dumps(json.loads(text), indent=indent or None) + "\n"
    assert text.isascii()
    assert read_back(tmp_path, table) == table


@pytest.mark.parametrize(
    ("key", "jobs"), [("dy/1_0", ["dy/1_0"]), ("dy/bundle_0", ["dy/0_0", "dy/0_1"])]
)
def test_a_worker_reads_its_own_jobs_only(tmp_path: Path, key: str, jobs: list[str]) -> None:
    table = read_back(tmp_path, FULL, key)
    assert [*table.jobs] == jobs
    assert [*table.bundles] == [key] * (len(jobs) - 1)
    assert (table.number_of_jobs, read_back(tmp_path, table, key)) == (3, table)
    Draft202012Validator(SCHEMA).validate(json.loads(table.to_text()))


def test_a_job_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(KeyError, match="dy/9_9"):
        read_back(tmp_path, FULL, "dy/9_9")


@pytest.mark.parametrize(
    "change",
    [
        lambda table: table.pop("keeps"),
        lambda table: table.pop("sources"),
        lambda table: table.pop("cached"),
        lambda table: table.update(stages="AB"),
        lambda table: table.update(siblings="x"),
        lambda table: table.update(siblings=0),
        lambda table: table.update(scope="all"),
        lambda table: table.update(rule="../r"),
        lambda table: table.update(format=2),
        lambda table: table.update(jobs=[]),
        lambda table: table.update(sources={"a": 1}),
        lambda table: table.update(wildcards=["file"]),
        lambda table: table["nodes"]["nominal"].update(A=[SIGNATURE, ["everything"]]),
        lambda table: table["jobs"].update({"dy/0_0": []}),
        lambda table: table["jobs"].update({"../0_0": table["jobs"]["dy/0_0"]}),
        lambda table: table["bundles"].update({"dy/0_0": table["bundles"]["dy/bundle_0"]}),
        lambda table: table["bundles"]["dy/bundle_0"].update(jobs=[]),
        lambda table: job(table).pop("signed_as"),
        lambda table: job(table).update(folder=7),
        lambda table: job(table).update(nodes="Ah"),
        lambda table: job(table).update(inputs="abc"),
        lambda table: job(table).update(target="no"),
        lambda table: job(table).update(dataset=7),
        lambda table: job(table).update(signature="abc"),
        lambda table: job(table).update(more=1),
        lambda table: job(table)["partition"].update(start=-1),
        lambda table: job(table)["partition"].update(stop=1.5),
        lambda table: job(table)["partition"].pop("file"),
        lambda table: job(table)["origin"].update(entries="some"),
        lambda table: job(table)["reads"][0].update(keys=[["h", "hist", "more"]]),
        lambda table: job(table)["part"].update(adopted=[]),
    ],
)
def test_a_table_of_another_version_is_refused_in_a_sentence_and_by_the_schema(
    tmp_path: Path, change: Callable[[dict[str, Any]], object]
) -> None:
    found = json.loads(FULL.to_text())
    Draft202012Validator(SCHEMA).validate(found)
    change(found)
    assert not Draft202012Validator(SCHEMA).is_valid(found)
    with pytest.raises(UnreadableTable, match=r"r\.json is not a task table of this version"):
        TaskTable.read(written(tmp_path, json.dumps(found).encode()), "r")


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"\xff",
        b'{"rule": "\\udce9", "scope": ',
        b"[" * 100_000,
        b"[" * 100_000 + b'"\\udce9"',
        b'{"siblings": ' + b"9" * 5000 + b"}",
        b'{"siblings": 1e999}',
    ],
)
def test_a_damaged_table_is_refused_in_a_sentence(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(UnreadableTable, match=r"r\.json is not a task table"):
        TaskTable.read(written(tmp_path, content), "r")

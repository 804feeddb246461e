"""What Snakemake's report is given: plots with captions and categories, and times of jobs."""

from __future__ import annotations

import asyncio
import importlib
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fasthep_smk.executors import snakemake_report
from fasthep_smk.storage import layout
from tests.support import tables

HOSTILE = '{{ 1/0 }} {wildcards.x} {% raw %} .. image:: /etc/passwd\n\n.. raw:: html\n\n "<b>"'


@pytest.fixture
def build(tmp_path: Path) -> Path:
    """A build folder with a plot, a table, and a job in a bundle of two that is done."""
    listed = [
        {"artifact": "artifacts/plots/met.png", "node_id": "render.Met.0"},
        {"artifact": "artifacts/plots/odd.png", "node_id": HOSTILE},
        {"artifact": "artifacts/plots/gone.png", "node_id": "render.Met.0"},
        {"artifact": "artifacts/tables/cuts.csv", "node_id": "render.Met.0"},
    ]
    node = {"id": "render.Met.0", "impl": "hep.render.hist1d", "meta": {"stage_id": "Met"}}
    for path, content in (
        ("artifacts/provenance/manifest.json", json.dumps({"records": listed})),
        (f"{layout.PLANS}/nominal.json", json.dumps({"nodes": [node]})),
        ("artifacts/plots/met.png", "a picture"),
        ("artifacts/plots/odd.png", "a picture"),
        ("artifacts/tables/cuts.csv", "a table"),
    ):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(content)
    jobs = {key: tables.entry(folder=f"smk/work/r/{key}") for key in "ab"}
    (tmp_path / layout.TASKS).mkdir()
    (tmp_path / layout.table("r")).write_text(tables.table(jobs=jobs).to_text())
    for key, started, ended in (("a", 10.0, 14.0), ("b", 12.0, 19.0)):
        (tmp_path / f"smk/work/r/{key}").mkdir(parents=True)
        record = {"rule": "r", "started": started, "ended": ended}
        (tmp_path / f"smk/work/r/{key}/record.json").write_text(json.dumps(record))
    return tmp_path


def test_plots_have_a_caption_and_a_category(build: Path) -> None:
    found = dict(snakemake_report.plots(build))
    assert set(found) == {"artifacts/plots/met.png", "artifacts/plots/odd.png"}
    met = found["artifacts/plots/met.png"]
    assert (met["category"], met["labels"]) == ("Met", {"plot": "met"})
    assert Path(met["caption"]).read_text() == "::\n\n    Met, drawn by hep.render.hist1d\n"


def test_nothing_is_filled_in_into_names(build: Path) -> None:
    odd = dict(snakemake_report.plots(build))["artifacts/plots/odd.png"]
    caption = Path(odd["caption"]).read_text()
    assert not {"{", "}", "%"} & {*odd["category"], *caption}
    lines = caption.splitlines()
    assert lines[:2] == ["::", ""]
    assert len(lines) == 3 and lines[2].startswith("    ")  # all of it is quoted


def test_what_cannot_be_read_has_no_plots(build: Path) -> None:
    (build / "artifacts/provenance/manifest.json").write_text("nonsense")
    assert list(snakemake_report.plots(build)) == []


def test_times_are_those_of_the_records(build: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    importlib.import_module("snakemake.cli")
    module: Any = importlib.import_module("snakemake.report")
    table = json.loads((build / layout.table("r")).read_text())
    table["bundles"] = {"x": {"jobs": ["a", "b"], "marker": "smk/bundles/r/x.json"}}
    (build / layout.table("r")).write_text(json.dumps(table))
    seen: dict[str, Any] = {}

    async def look(dag: Any) -> None:
        for path in (
            "smk/work/r/a/record.json",
            "smk/bundles/r/x.json",
            "smk/work/r/c/record.json",
        ):
            seen[path] = dag.workflow.persistence.metadata(path)

    monkeypatch.setattr(module, "auto_report", look)
    snakemake_report.take_times(build)
    notes = SimpleNamespace(metadata=None)
    asyncio.run(module.auto_report(SimpleNamespace(workflow=SimpleNamespace(persistence=notes))))
    alone, bundle, missing = seen.values()
    assert (alone["rule"], alone["starttime"], alone["endtime"]) == ("r", 10.0, 14.0)
    assert (bundle["starttime"], bundle["endtime"]) == (10.0, 19.0)
    assert missing is None
    assert notes.metadata is None  # it is as it was

"""Modifiers that measure a stage: a flame graph for each partition, and no other result."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml

from fasthep_smk.storage.measured import taken
from tests.integration.conftest import Run
from tests.support import warm
from tests.support.compare import compare_builds

pytestmark = pytest.mark.integration

#: Of the stage Vars, which applies to each partition.
PARTS = ["data_0_0", "data_1_0", "dy_0_0"]


def measured(folder: Path, *modifiers: object, stage: str = "Vars") -> str:
    """A workflow like that of the analysis, with modifiers at one of its stages."""
    document = yaml.safe_load((folder / "workflow.yaml").read_text())
    document["use"]["profiles"].append("fasthep_smk:registry")
    (one,) = (one for one in document["analysis"]["stages"] if one["id"] == stage)
    one["execution"] = {"modifiers": list(modifiers)}
    (folder / "measured.yaml").write_text(yaml.safe_dump(document, sort_keys=False))
    return "measured.yaml"


def graphs(build: Path, stage: str = "Vars") -> dict[str, str]:
    """The flame graphs of a stage: what the file of each is called, and its page."""
    return {path.name: path.read_text() for path in build.glob(f"artifacts/profiles/{stage}/*")}


def ran(build: Path) -> list[str]:
    """The rules of the jobs that the last run has started; ``all`` of Snakemake's comes last."""
    events = (build / "debug/distributed/events.jsonl").read_text().splitlines()
    return [one["rule"] for one in map(json.loads, events) if one["kind"] == "JobStarted"]


def without_graphs(differences: list[str]) -> list[str]:
    return [one for one in differences if "artifacts/profiles" not in one]


@pytest.mark.parametrize("how", [(), ("--granularity", "stage"), ("--bundle", "3")])
def test_each_partition_has_a_flame_graph(how: tuple[str, ...], analysis: Path, smk: Run) -> None:
    done = smk("workflow.yaml", "-o", "plain", *how, cwd=analysis)
    assert done.returncode == 0, done.stderr
    name = measured(analysis, "smk.profile", {"name": "smk.memory"})
    done = smk(name, *how, cwd=analysis)
    assert done.returncode == 0, done.stderr
    found = graphs(analysis / "build")
    assert sorted(found) == sorted(
        f"{part}.{what}.html" for part in PARTS for what in ("memory", "profile")
    )
    assert "run_define_transform" in found["dy_0_0.profile.html"]
    assert re.search(r"held [\d.]+ [kM]?B more than at its start", found["dy_0_0.memory.html"])
    assert not without_graphs(compare_builds(analysis / "plain", analysis / "build"))
    page = (analysis / "build/report.html").read_text()
    assert 'href="./artifacts/profiles/Vars/dy_0_0.profile.html"' in page


def test_a_modifier_that_comes_and_goes_runs_the_jobs_of_its_stage_once(
    analysis: Path, smk: Run
) -> None:
    def run(name: str) -> str:
        done = smk(name, "--granularity", "stage", cwd=analysis)
        assert done.returncode == 0, done.stderr
        return done.stdout

    run("workflow.yaml")
    name = measured(analysis, "smk.profile")
    why = smk("why", name, "--granularity", "stage", cwd=analysis)
    assert "it is measured now: Vars (smk.profile)" in why.stdout, why.stderr
    run(name)
    assert len(graphs(analysis / "build")) == len(PARTS)
    assert ran(analysis / "build") == ["stage_Vars"] * len(PARTS) + ["all"]
    # What they take is no measure of what such a job needs.
    assert "Vars" not in {stage for one in taken(analysis / "build") for stage in one.stages}
    assert run(name).startswith("everything was up to date")
    assert run("workflow.yaml").startswith("everything was up to date")
    assert not graphs(analysis / "build")


def test_plain_fasthep_run_writes_them_too(analysis: Path) -> None:
    name = measured(analysis, {"name": "smk.profile"})
    done = warm.run("run", name, "--outdir", "build", program=warm.FASTHEP, cwd=analysis)
    assert done.returncode == 0, done.stderr
    found = graphs(analysis / "build")
    assert len(found) == len(PARTS)
    assert all("run_define_transform" in page for page in found.values())

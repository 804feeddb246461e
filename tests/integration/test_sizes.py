"""Sizes that are measured: kept in a file, and asked for by the next run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.integration.conftest import Run

pytestmark = pytest.mark.integration


def records(build: Path) -> list[dict[str, Any]]:
    return [json.loads(path.read_text()) for path in build.glob("smk/work/**/record.json")]


def test_what_jobs_took_is_asked_for_by_the_next_run(analysis: Path, smk: Run) -> None:
    done = smk("workflow.yaml", cwd=analysis)
    assert done.returncode == 0, done.stderr
    printed = smk("sizes", cwd=analysis)
    assert printed.returncode == 0, printed.stderr
    (analysis / "sizes.yaml").write_text(printed.stdout)
    said = json.loads(smk("sizes", "--json", cwd=analysis).stdout)["sizes"]
    ask = {one["rule"]: one["memory"]["ask"] for one in said}
    most = {one["rule"]: one["memory"]["most"] for one in said}
    assert all(ask[rule] > most[rule] > 50e6 for rule in ask)

    # The amounts are new, and no result follows from them.
    done = smk("workflow.yaml", "--sizes", "sizes.yaml", cwd=analysis)
    assert "everything was up to date" in done.stdout, done.stderr
    requests = json.loads((analysis / "build/smk/requests.json").read_text())["rules"]
    assert {rule: [one["memory"] for one in tries] for rule, tries in requests.items()} == {
        rule: [memory] for rule, memory in ask.items()
    }


def test_jobs_that_wait_ask_for_what_those_before_them_took(analysis: Path, smk: Run) -> None:
    pools = "{default: {resources: {memory: 2GB}}}"
    text = f"include: workflow.yaml\nexecution: {{config: {{sizes: auto}}, pools: {pools}}}\n"
    (analysis / "auto.yaml").write_text(text)
    cut = ("--chunk-size", "20", "--bundle", "1", "-j", "1")
    done = smk("auto.yaml", *cut, cwd=analysis)
    assert done.returncode == 0, done.stderr
    found = [one for one in records(analysis / "build") if len(one["key"].split("/")) == 2]
    asked = [one["asked"]["memory"] for one in sorted(found, key=lambda one: one["started"])]
    assert len(asked) == 9
    assert asked[:3] == [2 * 10**9] * 3
    most = max(one["used"]["memory"] for one in found)
    assert all(most * 0.9 < one < 2 * most for one in asked[3:])

    # That a job would ask for something else now is no reason to run it.
    done = smk("auto.yaml", *cut, cwd=analysis)
    assert "everything was up to date" in done.stdout, done.stderr


def test_bundles_ask_for_what_those_before_them_took(analysis: Path, smk: Run) -> None:
    """The largest of their jobs counts: each is a process of its own."""
    pools = "{default: {resources: {memory: 2GB}}}"
    text = f"include: workflow.yaml\nexecution: {{config: {{sizes: auto}}, pools: {pools}}}\n"
    (analysis / "auto.yaml").write_text(text)
    done = smk("auto.yaml", "--chunk-size", "20", "--bundle", "2", "-j", "1", cwd=analysis)
    assert done.returncode == 0, done.stderr
    found = [one for one in records(analysis / "build") if len(one["key"].split("/")) == 2]
    asked = [one["asked"]["memory"] for one in sorted(found, key=lambda one: one["started"])]
    assert len(asked) == 9
    assert asked[0] == 2 * 10**9
    assert asked[-1] < 2 * max(one["used"]["memory"] for one in found)


def test_the_jobs_of_a_dataset_ask_for_its_own_amounts(analysis: Path, smk: Run) -> None:
    pools = "{default: {resources: {memory: 2GB}}}"
    text = "include: workflow.yaml\nexecution: {{pools: {}, sizes: {{by_dataset: {}}}}}\n"
    own = "{dy: {memory: 700MB}, data/data_1*: {memory: 900MB}}"
    (analysis / "own.yaml").write_text(text.format(pools, own))
    done = smk("own.yaml", cwd=analysis)
    assert done.returncode == 0, done.stderr
    asked = {one["key"]: one["asked"]["memory"] for one in records(analysis / "build")}
    default = 2 * 10**9
    assert asked.pop("") == default  # the end of the run
    assert asked == {"data/0_0": default, "data/1_0": 900 * 10**6, "dy/0_0": 700 * 10**6}

    (analysis / "own.yaml").write_text(text.format(pools, "{dy: {memory: 800MB}}"))
    done = smk("own.yaml", cwd=analysis)
    assert "everything was up to date" in done.stdout, done.stderr
    shown = json.loads(smk("explain", "own.yaml", "--json", cwd=analysis).stdout)
    (rule,) = (one for one in shown["rules"] if one["scope"] == "partition")
    assert [one["memory"] for one in rule["by_dataset"]["dy"]] == [800 * 10**6]


@pytest.mark.parametrize("how", ["option", "profile"])
def test_what_a_person_sets_is_what_jobs_ask_for_and_all_else_stays(
    analysis: Path, smk: Run, how: str
) -> None:
    pools = "{default: {workers: 1, resources: {memory: 2GB}, config: {walltime: 10m}}}"
    text = f"include: workflow.yaml\nexecution: {{config: {{sizes: auto}}, pools: {pools}}}\n"
    (analysis / "pools.yaml").write_text(text)
    written = ["stages_Vars_to_Met:mem=900MB", "stages_Vars_to_Met:runtime=5"]
    site = analysis / "site"
    site.mkdir()
    profile = {"set-resources": ["finish:mem_mb=800"]}
    profile["set-resources"] += written if how == "profile" else []
    (site / "config.yaml").write_text(json.dumps(profile))
    typed = ["--", "--set-resources", *written] if how == "option" else []
    done = smk("pools.yaml", "--profile", "site", *typed, cwd=analysis)
    assert done.returncode == 0, done.stderr
    asked = {one["key"]: one["asked"] for one in records(analysis / "build")}
    assert {(one["memory"], one["walltime"]) for key, one in asked.items() if key} == {
        (900 * 10**6, 300)
    }
    assert asked[""]["memory"] == 800 * 10**6  # the end of the run
    settings = yaml.safe_load((analysis / "build/smk/profile/config.yaml").read_text())
    assert settings["resources"]["pool_default"] == 1
    assert settings["set-resources"]["stages_Vars_to_Met"]["pool_default"] == 1


def test_options_for_rules_that_there_are_not_are_refused(analysis: Path, smk: Run) -> None:
    done = smk("workflow.yaml", "--", "--set-resources", "stages_Vars:mem_mb=9", cwd=analysis)
    assert done.returncode == 1
    assert "--set-resources: no such rule" in done.stderr
    assert "did you mean 'stages_Vars_to_Met'?" in done.stderr
    assert not (analysis / "build").exists()

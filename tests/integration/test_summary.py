"""``run_summary.yaml`` is FAST-HEP's, key by key, and says where jobs ran; results are recorded.

Each workflow runs once, by FAST-HEP and by us.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from fasthep_smk.util import files
from tests.integration.conftest import Run
from tests.support import cases, warm
from tests.support.compare import _clean, _differences
from tests.support.forms import chosen

pytestmark = pytest.mark.integration

#: Without datasets; with global side products; with reports; with variations; with several pools.
CASES = ("toy", "schemas", "skims", "plan_systematics", "pools", "oddities")
#: What differs between two runs of FAST-HEP's, or is said in docs/differences.md to differ here.
ELSEWHERE = {"backend", "strategy", "ran_on", "hooks", "run_id"}


class Both(NamedTuple):
    """A workflow's folder, with the build folders ``reference`` (FAST-HEP's) and ``ours``."""

    folder: Path
    case: cases.Case

    def smk(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        options = ["--outdir", "ours", *self.case.options]
        env = self.case.env(self.folder)
        return warm.run(*arguments, *options, cwd=self.folder, env=env)


@pytest.fixture(scope="module", params=chosen(CASES, lambda name: name in ("toy", "skims")))
def both(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Both:
    case = cases.case(request.param)
    folder = tmp_path_factory.mktemp(case.name)
    workflow = case.prepare(folder)
    found = Both(folder, case)
    reference = str(folder / "reference")
    commands = [["run", workflow.name, "--outdir", reference]]
    for name in case.variations[1:]:  # the nominal plan has just been run
        plan = f"{reference}/compile/{name}/plan.yaml"
        commands.append(["run-plan", plan, "--outdir", reference])
    for command in commands:
        warm.fasthep(*command, cwd=folder, env=case.env(folder))
    done = found.smk(workflow.name, "-j", "2")
    assert done.returncode == 0, done.stderr
    return found


def summaries(build: Path) -> dict[str, dict[str, Any]]:
    """The summaries in a build folder by their paths."""
    return {
        str(path.relative_to(build)): yaml.safe_load(path.read_text())
        for path in [*build.glob("run_summary.yaml"), *build.glob("reports/*/run_summary.yaml")]
    }


def results(build: Path) -> dict[str, dict[str, Any]]:
    """What the records of finished jobs say of files for the user."""
    return {
        name: known
        for path in (build / "smk/work").rglob("record.json")
        for name, known in json.loads(path.read_text())["results"].items()
    }


def without(value: Any, keys: set[str]) -> Any:
    if isinstance(value, dict):
        return {key: without(one, keys) for key, one in value.items() if key not in keys}
    return [without(one, keys) for one in value] if isinstance(value, list) else value


def test_it_has_what_fasthep_run_writes(both: Both) -> None:
    reference, ours = both.folder / "reference", both.folder / "ours"
    theirs, mine = summaries(reference), summaries(ours)
    assert mine.keys() == theirs.keys()
    for name in theirs:
        assert set(mine[name]) - set(theirs[name]) == {"ran_on"}
        assert set(theirs[name]) <= set(mine[name])
        assert mine[name]["progress"].keys() == theirs[name]["progress"].keys()
        left = without(_clean(theirs[name], reference), ELSEWHERE)
        right = without(_clean(mine[name], ours), ELSEWHERE)
        assert list(_differences(left, right)) == []


def test_it_says_where_jobs_ran(both: Both) -> None:
    for summary in summaries(both.folder / "ours").values():
        assert (summary["backend"], summary["strategy"]) == ("snakemake", "default")
        assert summary["execution"]["backend"] == "snakemake"
        assert {one["system"] for one in summary["ran_on"]} == {"local"}
        pools = {one["pool"] for one in summary["ran_on"]}
        assert pools == (
            {"default", "big", "accelerated"} if "pools" in both.case.name else {"default"}
        )
    if not both.case.variations:
        records = list((both.folder / "ours/smk/work").rglob("record.json"))
        assert sum(one["jobs"] for one in summary["ran_on"]) == len(records)


def test_every_file_for_the_user_is_in_a_record(both: Both) -> None:
    build = both.folder / "ours"
    there = {
        str(path.relative_to(build))
        for folder in ("artifacts", "reports")
        for path in (build / folder).rglob("*")
        if path.is_file()
    }
    there |= {path.name for path in build.glob("run_summary.yaml")}
    assert there - results(build).keys() == set()


def test_all_is_right_after_a_run(both: Both) -> None:
    done = both.smk("why", both.case.workflow, "--verify")
    assert "Nothing to do" in done.stdout, done.stdout
    done = warm.run("status", "ours", "--verify", cwd=both.folder)
    assert "all files of finished jobs are unchanged" in done.stdout
    assert done.returncode == 0


def bundles(build: Path) -> dict[str, tuple[str, str]]:
    """What each summary is made of, and what is compiled, by the summary's path."""
    found = {}
    for name, summary in summaries(build).items():
        compiled = build / "compile" / Path(name).parent.name
        if Path(name).parent == Path():
            compiled = build / "compile"
        manifest = yaml.safe_load((compiled / "inputs.manifest.yaml").read_text())
        found[name] = (summary["bundle_id"], manifest["bundle_id"])
    return found


def test_it_names_what_is_compiled_also_after_an_edit_that_changes_nothing(both: Both) -> None:
    build, workflow = both.folder / "ours", both.folder / both.case.workflow
    before = bundles(build)
    workflow.write_text(workflow.read_text() + "# a comment\n")
    for command in (["why", workflow.name], [workflow.name]):
        done = both.smk(*command)
        assert "Nothing to do" in done.stdout or "everything was up to date" in done.stdout
        after = bundles(build)
        assert all(ours == compiled for ours, compiled in after.values())
    assert all(after[name] != before[name] for name in before)
    test_all_is_right_after_a_run(both)


def test_a_summary_that_was_changed_is_not_taken_for_right(analysis: Path, smk: Run) -> None:
    assert smk("workflow.yaml", cwd=analysis).returncode == 0
    summary = analysis / "build/run_summary.yaml"
    summary.write_text(summary.read_text().replace("success: true", "success: trUe"))
    workflow = analysis / "workflow.yaml"
    workflow.write_text(workflow.read_text() + "# a comment\n")
    said = smk("why", "workflow.yaml", cwd=analysis).stdout
    assert "its result run_summary.yaml has changed" in said
    assert "1 job to run: 1 x finish" in smk("workflow.yaml", cwd=analysis).stderr
    ((ours, compiled),) = bundles(analysis / "build").values()
    assert ours == compiled


def test_a_call_that_was_killed_between_record_and_summary_is_completed(
    analysis: Path, smk: Run
) -> None:
    assert smk("workflow.yaml", cwd=analysis).returncode == 0
    summary, workflow = analysis / "build/run_summary.yaml", analysis / "workflow.yaml"
    old = summary.read_bytes()
    workflow.write_text(workflow.read_text() + "# a comment\n")
    assert "Nothing to do" in smk("workflow.yaml", "-n", cwd=analysis).stdout
    summary.write_bytes(old)  # the record tells of the new one already
    assert "Nothing to do" in smk("workflow.yaml", "-n", "--verify", cwd=analysis).stdout
    ((ours, compiled),) = bundles(analysis / "build").values()
    assert ours == compiled


def test_it_says_that_jobs_ran_on_a_batch_system(
    analysis: Path, smk: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert smk("workflow.yaml", cwd=analysis).returncode == 0
    build = analysis / "build"
    # As HTCondor starts the jobs: in the build folder, with its description of the job.
    requests = json.loads((build / "smk/requests.json").read_text())
    (build / "smk/requests.json").write_text(json.dumps({**requests, "system": "htcondor"}))
    (analysis / "job.ad").write_text("ClusterId = 17\nProcId = 0\n")
    for rule, key, batch in (
        ("stages_Vars_to_Met", "data/0_0", True),
        ("stages_Vars_to_Met", "dy/0_0", True),
        ("finish", "", False),  # which stays where the run was started
    ):
        (build / "smk/work" / rule / key / "record.json").unlink()
        monkeypatch.setenv("_CONDOR_JOB_AD", str(analysis / "job.ad"))
        if not batch:
            monkeypatch.delenv("_CONDOR_JOB_AD")
        command = [sys.executable, "-P", "-m", "fasthep_smk.worker", rule, *key.split("/")]
        subprocess.run([word for word in command if word], cwd=build, check=True)
    (summary,) = summaries(build).values()
    assert (summary["backend"], summary["strategy"]) == ("snakemake", "htcondor")
    assert summary["execution"]["strategy"] == "htcondor"
    assert summary["ran_on"] == [
        {"system": "htcondor", "pool": "default", "jobs": 2},
        {"system": "local", "pool": "default", "jobs": 2},
    ]
    record = files.unseal((build / "smk/work/stages_Vars_to_Met/dy/0_0/record.json").read_bytes())
    assert (record["system"], record["batch_job"]) == ("htcondor", "17")

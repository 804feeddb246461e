"""What a translation writes: readable, clean for Snakemake's linter, the same every time."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import jsonschema
import msgspec
import pytest
import yaml

from fasthep_smk.storage.task_table import TaskTable
from tests.integration.conftest import Run
from tests.support.forms import some

pytestmark = pytest.mark.integration

SCHEMAS = Path(__file__).parents[2] / "fasthep_smk" / "storage"


def tree(folder: Path) -> dict[str, bytes]:
    """The files of a translation; the lock says who made it, and is not among them."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != "lock"
    }


@pytest.mark.parametrize(
    "options", some(["--granularity stage", "", "--chunk-size 20 --bundle 2"], 1)
)
def test_the_linters_have_nothing_to_say(
    analysis: Path, smk: Run, snakemake: Run, options: str
) -> None:
    done = smk("translate", "workflow.yaml", *options.split(), cwd=analysis)
    assert done.returncode == 0, done.stderr
    lint = snakemake("--profile", "build/smk/profile", "--lint", cwd=analysis)
    assert "your workflow is in a good condition" in lint.stderr + lint.stdout
    texts = [str(analysis / "build/smk" / name) for name in ("Snakefile", "common.smk")]
    command = [sys.executable, "-m", "snakefmt", "--check", *texts]
    formatted = subprocess.run(command, capture_output=True, text=True, cwd=analysis)
    assert formatted.returncode == 0, formatted.stderr


def test_translating_twice_gives_the_same_bytes(analysis: Path, smk: Run) -> None:
    smk("translate", "workflow.yaml", cwd=analysis)
    first = tree(analysis / "build/smk")
    times = {name: (analysis / "build/smk" / name).stat().st_mtime_ns for name in first}
    smk("translate", "workflow.yaml", cwd=analysis)
    assert tree(analysis / "build/smk") == first
    assert {n: (analysis / "build/smk" / n).stat().st_mtime_ns for n in first} == times


def test_each_stage_is_a_rule_with_all_that_snakemake_offers(analysis: Path, smk: Run) -> None:
    done = smk("translate", "workflow.yaml", "--granularity", "stage", cwd=analysis)
    text = (analysis / "build/smk/Snakefile").read_text()
    assert re.findall(r"^rule (\w+):", text, re.M) == [
        "all", "read_events", "stage_Vars", "stage_Scale", "stage_Cuts", "stage_Met", "merge",
        "finish",
    ]  # fmt: skip
    for directive in ("input", "output", "threads", "resources", "log"):
        assert text.count(f"    {directive}:") >= 7, directive
    assert text.count("shell:") == 7
    assert "run:" not in text
    assert "script:" not in text
    # Only what reads events waits for files from outside.
    assert re.findall(r'input_files\("(\w+)"\)', text) == ["read_events"]
    # Who feeds whom is seen: file by file for one partition, and all of a rule for an end.
    selected = '"smk/work/stage_Cuts/{dataset}/{part}/Cuts.arrow",'
    assert selected in text[text.index("rule stage_Met:") : text.index("rule merge:")]
    assert '**jobs_of("merge"),' in text[text.index("rule finish:") :]
    assert "pool" not in text  # the profile says what is counted in them
    assert "1 x finish" in done.stdout


def test_the_tables_and_records_follow_their_schemas(analysis: Path, smk: Run) -> None:
    smk("workflow.yaml", "-j", "2", cwd=analysis)
    table_schema = msgspec.json.schema(TaskTable)
    record_schema = json.loads((SCHEMAS / "record.schema.json").read_text())
    tables = list((analysis / "build/smk/tasks").glob("*.json"))
    records = list((analysis / "build/smk/work").rglob("record.json"))
    assert len(tables) == 2
    assert len(records) == 4
    for schema, paths in ((table_schema, tables), (record_schema, records)):
        jsonschema.Draft202012Validator.check_schema(schema)
        for path in paths:
            jsonschema.validate(json.loads(path.read_text()), schema)


def test_a_dry_run_says_what_would_run_and_runs_nothing(analysis: Path, smk: Run) -> None:
    before = smk("workflow.yaml", "-n", cwd=analysis)
    assert before.returncode == 0, before.stderr
    assert before.stdout.startswith("4 of 4 jobs would run:")
    assert "3 x stages_Vars_to_Met" in before.stdout
    assert not list((analysis / "build").rglob("record.json"))
    assert not list((analysis / "build/artifacts").rglob("*.root"))
    assert smk("workflow.yaml", "-j", "2", cwd=analysis).returncode == 0
    after = smk("workflow.yaml", "-n", cwd=analysis)
    assert after.stdout == "Nothing to do: all 4 jobs are up to date.\n"


@pytest.mark.long
def test_only_what_changed_runs_again(analysis: Path, smk: Run) -> None:
    stage = ("--granularity", "stage")
    assert smk("workflow.yaml", "-j", "2", *stage, cwd=analysis).returncode == 0
    workflow = analysis / "workflow.yaml"
    workflow.write_text("# a comment\n" + workflow.read_text())
    assert "Nothing to do" in smk("workflow.yaml", "-n", *stage, cwd=analysis).stdout
    workflow.write_text(workflow.read_text().replace("nbins: 20", "nbins: 25"))
    done = smk("workflow.yaml", "-n", *stage, cwd=analysis).stdout
    rules = dict(
        re.findall(r"(\d+) x (\w+)", done)
        and [(name, int(n)) for n, name in re.findall(r"(\d+) x (\w+)", done)]
    )
    assert rules == {"stage_Met": 3, "merge": 2, "finish": 1}


def test_plain_snakemake_runs_the_folder_from_a_fresh_shell(
    analysis: Path, smk: Run, snakemake: Run, tmp_path_factory: pytest.TempPathFactory
) -> None:
    assert smk("translate", "workflow.yaml", cwd=analysis).returncode == 0
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    profile = str(analysis / "build/smk/profile")
    done = snakemake("--profile", profile, "--cores", "2", cwd=elsewhere)
    assert done.returncode == 0, done.stderr
    assert (analysis / "build/artifacts/plots/Met.png").is_file()
    assert (analysis / "build/run_summary.yaml").is_file()
    assert "Nothing to do" in smk("workflow.yaml", "-n", cwd=analysis).stdout


def test_arguments_after_two_dashes_go_to_snakemake(analysis: Path, smk: Run) -> None:
    done = smk("workflow.yaml", "-j", "2", "--", "--until", "stages_Vars_to_Met", cwd=analysis)
    assert done.returncode == 0, done.stderr
    assert len(list((analysis / "build").rglob("record.json"))) == 3
    assert not (analysis / "build/run_summary.yaml").exists()


def test_the_repository_is_a_snakemake_workflow_itself(analysis: Path, snakemake: Run) -> None:
    snakefile = str(Path(__file__).parents[2] / "workflow/Snakefile")
    settings = ["--snakefile", snakefile, "--cores", "2", "--config"]
    done = snakemake(*settings, "workflow=workflow.yaml", "outdir=out", cwd=analysis)
    assert done.returncode == 0, done.stderr
    assert (analysis / "out/artifacts/plots/Met.png").is_file()
    wrong = snakemake(*settings, "workflow=workflow.yaml", "chunksize=3", cwd=analysis)
    assert wrong.returncode == 1
    assert "did you mean 'chunk_size'?" in wrong.stderr


def test_the_profile_asks_for_what_a_run_of_many_small_jobs_needs(analysis: Path, smk: Run) -> None:
    smk("translate", "workflow.yaml", cwd=analysis)
    profile = yaml.safe_load((analysis / "build/smk/profile/config.yaml").read_text())
    assert profile["scheduler"] == "greedy"
    assert profile["rerun-incomplete"] is True
    root = Path(__file__).parents[2]
    ours = yaml.safe_load((root / "fasthep_smk/config/profiles/local/config.yaml").read_text())
    assert {key: profile[key] for key in ours} == ours

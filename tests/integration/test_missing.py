"""Runs that go on when something fails, and end without the partitions that cannot be had."""

from __future__ import annotations

import json
import pickle
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.integration.conftest import Run
from tests.support.compare import compare_histograms
from tests.support.forms import LONG, some

pytestmark = pytest.mark.integration

# An op that fails for the partitions in a file beside the workflow, which is in no signature.
OPS = """\
import os
SPEC = {"name": "own.fragile", "kind": "transform", "params": {},
        "input": {"name": "stream", "kind": "event_stream", "required": True},
        "result": {"kind": "event_stream"}}


def run(*, stream, ctx=None, **_):
    part = dict(ctx["partition"])
    name = f"{part['dataset']}/{part['part']}"
    with open("tries.txt", "a") as tries:
        tries.write(f"{name}\\n")
    variation = dict(ctx.get("variation") or {}).get("name")
    with open("broken.txt") as file:
        broken = file.read().splitlines()
    if name in broken or f"{name} {variation}" in broken:
        raise OSError(f"cannot read {part['file']}")
    return stream
"""
REPORT = """\
# Of this run
{% for one in run.summary.missing_partitions | default([]) %}
- without {{ one.file }}: {{ one.reason }}
{% endfor %}
"""
WHY = "stage 'Fragile' (own.fragile) failed: OSError: cannot read data/data_1.root"


@pytest.fixture
def fragile(analysis: Path) -> Path:
    """The small analysis with a stage that fails for what ``broken.txt`` lists, and a report."""
    (analysis / "own_ops.py").write_text(OPS)
    (analysis / "short.md.j2").write_text(REPORT)
    (analysis / "broken.txt").write_text("")
    document = yaml.safe_load((analysis / "workflow.yaml").read_text())
    document["smk"] = {"ignore_reads": ["broken.txt"]}  # a repaired disk is no other result
    document["registry"] = {
        "transforms": {"own.fragile": {"spec": "own_ops:SPEC", "impl": "own_ops:run"}},
        "report_templates": {
            "own.short": {"path": "short.md.j2", "source": "provenance", "formats": ["markdown"]}
        },
    }
    document["reports"] = [
        {
            "id": "short",
            "op": "hep.report.template",
            "source": "provenance",
            "template": "own.short",
            "outputs": [{"path": "reports/short.md", "format": "markdown"}],
        }
    ]
    document["analysis"]["stages"].insert(3, {"id": "Fragile", "op": "own.fragile"})
    (analysis / "workflow.yaml").write_text(yaml.safe_dump(document, sort_keys=False))
    return analysis


@pytest.fixture
def varied(fragile: Path) -> Path:
    """The same with two variations, which part before the stage that may fail."""
    document = yaml.safe_load((fragile / "workflow.yaml").read_text())
    variables = document["analysis"]["stages"][0]["params"]["variables"]
    variables.append({"name": "met_up", "expr": "1.1 * sqrt(MET_px ** 2 + MET_py ** 2)"})
    document["systematics"] = {
        "include_nominal": True,
        "variations": [{"name": "up", "mode": "plan", "replace": {"met": "met_up"}}],
    }
    # FAST-HEP takes one report's path for all variations.
    del document["reports"]
    (fragile / "workflow.yaml").write_text(yaml.safe_dump(document, sort_keys=False))
    return fragile


def break_(folder: Path, *places: str) -> None:
    """Let the stage fail for these partitions (``dataset/part``, or with a variation's name)."""
    (folder / "broken.txt").write_text("\n".join(places))


def without_a_file(folder: Path) -> Path:
    """Write a workflow that does not list the second file of the data."""
    document = yaml.safe_load((folder / "workflow.yaml").read_text())
    document["data"]["datasets"][0]["files"].remove("data/data_1.root")
    path = folder / "fewer.yaml"
    path.write_text(yaml.safe_dump(document, sort_keys=False))
    return path


def run(smk: Run, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    done = smk("workflow.yaml", "-j", "2", *arguments, cwd=folder)
    assert "Traceback" not in done.stderr
    return done


def succeed(smk: Run, folder: Path, *arguments: str) -> str:
    """Run; what was said on standard error."""
    done = run(smk, folder, *arguments)
    assert done.returncode == 0, done.stderr
    return done.stderr


def fail(smk: Run, folder: Path, *arguments: str) -> str:
    done = run(smk, folder, *arguments)
    assert done.returncode == 1, done.stderr
    return done.stderr


def same_results(left: Path, right: Path) -> bool:
    """Tell whether histogram and cutflow of two folders are the same, bit for bit."""
    histograms = [
        pickle.loads((folder / "histograms" / "Met.pkl").read_bytes()) for folder in (left, right)
    ]
    cutflows = [
        json.loads((folder / "cutflows" / "Cuts.json").read_text()) for folder in (left, right)
    ]
    return not compare_histograms(*histograms) and cutflows[0] == cutflows[1]


def tries(folder: Path) -> Counter[str]:
    file = folder / "tries.txt"
    return Counter(file.read_text().split()) if file.exists() else Counter()


def speaking_of_missing(build: Path) -> set[str]:
    """The files for people and programs that speak of missing partitions."""
    found = [*build.glob("artifacts/**/*.json"), *build.glob("reports/**/*.*")]
    found += build.glob("run_summary.yaml")
    words = ("missing_partitions", "Missing partitions", "without data/")
    return {
        str(path.relative_to(build))
        for path in found
        if any(word in path.read_text() for word in words)
    }


@pytest.mark.parametrize("granularity", some(["auto", "stage"], 1))
def test_a_run_ends_without_what_is_missing_and_says_so(
    fragile: Path, smk: Run, granularity: str
) -> None:
    options = ("--granularity", granularity)
    build, missing = fragile / "build", fragile / "build/reports/missing_partitions.md"
    break_(fragile, "data/1_0")
    said = succeed(smk, fragile, "--accept-missing", "1", *options)
    assert "the run goes on without 1 partition" in said
    assert said.splitlines()[-3:] == [
        "fasthep-smk: THE RESULTS ARE INCOMPLETE: 1 of 3 partitions is missing:",
        f"    data: data/data_1.root, all entries: {WHY}",
        "--accept-missing 1 accepts 1 of 3; the next run tries the missing partitions again",
    ]
    entry = {"dataset": "data", "file": "data/data_1.root", "start": None, "stop": None}
    entry |= {"id": "events__data__1", "reason": WHY}
    summary = yaml.safe_load((build / "run_summary.yaml").read_text())
    assert summary["missing_partitions"] == [entry]
    assert [item["partition"]["id"] for item in summary["partitions"]] == [
        "events__data__0",
        "events__dy__0",
    ]
    assert summary["progress"]["counts"]["failed"] == 1
    manifests = {"histograms", "cutflows", "files/skim", "provenance"}
    for name in manifests:
        manifest = json.loads((build / "artifacts" / name / "manifest.json").read_text())
        assert manifest["missing_partitions"] == [entry]
    assert f"- without data/data_1.root: {WHY}" in (build / "reports/short.md").read_text()
    assert f"| data | data/data_1.root | all entries | {WHY} |" in missing.read_text()
    smk("fewer.yaml", "-o", "fewer", cwd=without_a_file(fragile).parent)
    assert same_results(build / "artifacts", fragile / "fewer/artifacts")

    record = build / "smk/work/finish/record.json"
    finished = record.stat().st_mtime_ns
    # A job that has nothing to do with it: nothing to do, but the results are what they are.
    rule = next(path for path in (build / "smk/work").iterdir() if (path / "dy").exists()).name
    said = succeed(smk, fragile, *options, "--", f"smk/work/{rule}/dy/0_0/record.json")
    assert said.endswith(f"fasthep-smk: THE RESULTS ARE INCOMPLETE: see {missing}\n")

    # Tried again, in vain: nothing else is done.
    before = tries(fragile)
    again = run(smk, fragile, "--accept-missing", "50%", *options)
    assert again.returncode == 0, again.stderr
    assert "everything else was up to date" in again.stdout
    assert f"    data: data/data_1.root, all entries: {WHY}\n" in again.stderr
    assert "--accept-missing 50% accepts 1 of 3 (rounded down)" in again.stderr
    assert tries(fragile) - before == Counter({"data/1_0": 1})
    assert record.stat().st_mtime_ns == finished

    break_(fragile)
    said = succeed(smk, fragile, *options)
    assert "INCOMPLETE" not in said
    assert "missing" not in said
    assert not speaking_of_missing(build)
    succeed(smk, fragile, "-o", "complete")
    assert same_results(build / "artifacts", fragile / "complete/artifacts")
    done = smk("workflow.yaml", "-n", *options, cwd=fragile)
    assert "Nothing to do" in done.stdout


def test_what_fails_in_one_variation_is_left_out_of_all(varied: Path, smk: Run) -> None:
    artifacts = varied / "build" / "artifacts"
    break_(varied, "data/1_0 up")
    said = succeed(smk, varied, "--accept-missing", "34%")
    assert f"    data: data/data_1.root, all entries: {WHY} (variation up)\n" in said
    smk("fewer.yaml", "-o", "fewer", cwd=without_a_file(varied).parent)
    for name in ("nominal", "up"):
        assert same_results(artifacts / name, varied / "fewer/artifacts" / name)
    assert speaking_of_missing(varied / "build") == {
        "artifacts/provenance/manifest.json",
        *(
            f"artifacts/{name}/{kind}/manifest.json"
            for name in ("nominal", "up")
            for kind in ("histograms", "cutflows", "files/skim")
        ),
        *(f"reports/{name}/run_summary.yaml" for name in ("nominal", "up")),
        *(f"reports/{name}/missing_partitions.md" for name in ("nominal", "up")),
    }

    break_(varied)
    assert "INCOMPLETE" not in succeed(smk, varied)
    assert not speaking_of_missing(varied / "build")
    for name in ("nominal", "up"):
        assert not same_results(artifacts / name, varied / "fewer/artifacts" / name)


def test_more_than_is_accepted_fails(fragile: Path, smk: Run) -> None:
    options = ("--chunk-size", "20")
    break_(fragile, "data/0_1", "dy/0_3")
    said = fail(smk, fragile, "--accept-missing", "1", *options)
    assert said.endswith("2 of 9 partitions are missing; --accept-missing 1 accepts 1 of 9\n")
    assert "file:      data/data_0.root (entries 20 to 40)" in said
    assert "file:      data/dy_0.root (entries 60 to 80)" in said
    said = fail(smk, fragile, "--accept-missing", "22%", *options)
    assert said.endswith("--accept-missing 22% accepts 1 of 9 (rounded down)\n")
    assert not (fragile / "build/run_summary.yaml").exists()
    # Every other partition was done in the first run.
    assert tries(fragile) == Counter(
        {f"data/{part}": 1 for part in ("0_0", "0_2", "1_0", "1_1")}
        | {f"dy/{part}": 1 for part in ("0_0", "0_1", "0_2")}
        | {"data/0_1": 2, "dy/0_3": 2}
    )
    said = succeed(smk, fragile, "--accept-missing", "2", *options)
    assert "    data: data/data_0.root, entries 20 to 40: " in said
    assert "    dy: data/dy_0.root, entries 60 to 80: " in said
    # One of them works at last: what is missing is another set.
    break_(fragile, "dy/0_3")
    said = succeed(smk, fragile, "--accept-missing", "2", *options)
    assert "1 of 9 partitions is missing" in said
    summary = yaml.safe_load((fragile / "build/run_summary.yaml").read_text())
    assert [one["id"] for one in summary["missing_partitions"]] == ["events__dy__0_3"]


def test_a_whole_dataset_is_never_left_out(fragile: Path, smk: Run) -> None:
    break_(fragile, "dy/0_0")
    said = fail(smk, fragile, "--accept-missing", "100%")
    assert "all partitions of dataset 'dy' are missing" in said
    assert not (fragile / "build/run_summary.yaml").exists()
    assert not (fragile / "build/artifacts/histograms/Met.pkl").exists()


def test_keep_going_runs_what_does_not_need_the_failed_job(fragile: Path, smk: Run) -> None:
    break_(fragile, "data/0_0", "data/1_0", "dy/0_0")
    assert "1 job failed; finished jobs are kept:" in fail(smk, fragile, "-j", "1")
    break_(fragile, "data/0_0", "data/1_0")
    said = fail(smk, fragile, "-j", "1", "--keep-going")
    assert "2 jobs failed; finished jobs are kept:" in said
    assert "cannot read data/data_0.root" in said
    assert WHY in said
    assert tries(fragile)["dy/0_0"] >= 1
    break_(fragile)
    assert "3 jobs to run: 2 x" in succeed(smk, fragile, "-k")


@pytest.mark.parametrize("missing", [("data/1_0",), pytest.param((), marks=LONG)])
def test_what_is_no_partition_must_not_fail(
    fragile: Path, smk: Run, missing: tuple[str, ...]
) -> None:
    workflow = fragile / "workflow.yaml"
    document: dict[str, Any] = yaml.safe_load(workflow.read_text())
    document["styles"]["met"]["axes"]["x"] = {"name": "met", "label": r"$\frac$"}
    workflow.write_text(yaml.safe_dump(document, sort_keys=False))
    break_(fragile, *missing)
    said = fail(smk, fragile, "--accept-missing", "2")
    assert ("the run goes on without 1 partition" in said) == bool(missing)
    last = said.partition("fasthep-smk: ")[2]
    assert last.startswith("1 job failed; finished jobs are kept:\nstage 'Met' (hep.render.hist1d)")
    assert "INCOMPLETE" not in said


def test_retries_come_first_and_nothing_is_hidden_by_quiet(fragile: Path, smk: Run) -> None:
    break_(fragile, "data/1_0")
    done = run(smk, fragile, "-q", "--accept-missing", "1", "--", "--retries", "1")
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"3 jobs done; results in {fragile / 'build'}\n"
    assert "jobs to run" not in done.stderr
    last = done.stderr.partition("fasthep-smk: ")[2]
    assert last.startswith("THE RESULTS ARE INCOMPLETE: 1 of 3 partitions is")
    assert WHY in done.stderr
    assert tries(fragile)["data/1_0"] == 2


@pytest.mark.long
def test_a_damaged_file_is_made_again_and_not_taken_for_missing(fragile: Path, smk: Run) -> None:
    break_(fragile, "data/1_0")
    succeed(smk, fragile, "--accept-missing", "1")
    stored = (fragile / "build/artifacts/histograms/Met.pkl").read_bytes()
    (archive,) = (fragile / "build/smk/work").glob("*/dy/0_0/products.zip")
    content = archive.read_bytes()
    archive.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    (fragile / "build/artifacts/plots/Met.png").unlink()
    said = succeed(smk, fragile, "--accept-missing", "1")
    assert "the run repeats the jobs that made these files" in said
    assert "1 of 3 partitions is missing" in said
    assert (fragile / "build/artifacts/histograms/Met.pkl").read_bytes() == stored


def test_no_file_of_an_earlier_run_stands_for_what_is_missing(fragile: Path, smk: Run) -> None:
    succeed(smk, fragile)
    skims = fragile / "build/artifacts/files/skim/data"
    assert {path.name for path in skims.iterdir()} == {"0_0.root", "1_0.root"}
    workflow = fragile / "workflow.yaml"
    workflow.write_text(workflow.read_text().replace("met > 5", "met > 10"))
    break_(fragile, "data/1_0")
    assert "INCOMPLETE" in succeed(smk, fragile, "--accept-missing", "1")
    assert {path.name for path in skims.iterdir()} == {"0_0.root"}

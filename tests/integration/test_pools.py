"""Each stage on the pool that it requires, asking for what was written, never silently less."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.integration.conftest import Run
from tests.support import events
from tests.support.compare import compare_builds
from tests.support.forms import LONG

pytestmark = pytest.mark.integration

EXAMPLES = Path(__file__).parents[2] / "workflow" / "pools"
#: What the first of them is translated into, for people to read: a change of it is looked at.
GOLDEN = Path(__file__).parent / "golden"
POOL_OF = {"BuildIndex": "high_memory", "RunInference": "gpu", "MuonPt": "default"}
GB = 10**9


@pytest.fixture
def examples(tmp_path: Path) -> Path:
    """The three workflows of FAST-HEP's page on pools, with events."""
    return prepare(tmp_path)


def prepare(folder: Path) -> Path:
    for file in EXAMPLES.glob("*"):
        if file.suffix in (".yaml", ".py"):
            shutil.copy(file, folder)
    for seed, name in enumerate(("data_0", "data_1", "dy_0", "dy_1")):
        path = folder / "data" / f"{name}.root"
        events.analysis_file(path, 40 + 10 * seed, seed, is_data=name.startswith("data"))
    return folder


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory, smk: Run) -> Path:
    """The folder of the first of them, after a run on a site that is large enough."""
    folder = prepare(tmp_path_factory.mktemp("finished"))
    done = smk("inline.yaml", "--profile", site(folder / "site"), cwd=folder)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture
def inline(finished: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    return Path(shutil.copytree(finished, tmp_path / "inline", symlinks=True))


def site(folder: Path, pools: dict[str, Any] | None = None, **settings: Any) -> str:
    """A site that is large enough, whatever the machine; its name for --profile."""
    here = {"machine": {"cpus": 16, "memory": "256GB", "gpus": 2}, **(pools or {})}
    folder.mkdir(exist_ok=True)
    (folder / "config.yaml").write_text(yaml.safe_dump({"executor": "local", **settings}))
    (folder / "pools.yaml").write_text(yaml.safe_dump(here))
    return str(folder)


def records(build: Path) -> list[dict[str, Any]]:
    found = [json.loads(path.read_text()) for path in build.glob("smk/work/**/record.json")]
    return sorted(found, key=lambda record: (record["rule"], record["key"]))


def records_of(build: Path, stage: str) -> list[dict[str, Any]]:
    found = [
        record
        for record in records(build)
        if any(table_stage == stage for table_stage in stages_of(build, record["rule"]))
    ]
    assert found, f"no job ran {stage}"
    return found


def stages_of(build: Path, rule: str) -> list[str]:
    table = json.loads((build / "smk" / "tasks" / f"{rule}.json").read_text())
    return [str(stage) for stage in table["stages"]]


def most_at_a_time(records: list[dict[str, Any]]) -> int:
    """How many of these jobs ran at the same time, by their own clocks."""
    starts = [(record["started"], 1) for record in records]
    ends = [(record["ended"], -1) for record in records]
    running = most = 0
    for _, change in sorted([*starts, *ends]):
        running += change
        most = max(most, running)
    return most


def fasthep_run(workflow: str, outdir: str, cwd: Path) -> None:
    """Run what FAST-HEP itself can run of a workflow."""
    command = [str(Path(sys.executable).parent / "fasthep"), "run", workflow, "--outdir", outdir]
    env = {"PYTHONPATH": str(cwd), "PATH": "/usr/bin:/bin"}
    done = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "workflow",
    [
        pytest.param("inline.yaml", marks=LONG),
        pytest.param("profiles.yaml", marks=LONG),
        "walltime.yaml",
    ],
)
def test_the_documented_examples_run_stage_by_stage_on_their_pools(
    examples: Path, smk: Run, workflow: str
) -> None:
    profile = site(examples / "site")
    done = smk(workflow, "--profile", profile, "--chunk-size", "30", cwd=examples)
    assert done.returncode == 0, done.stderr

    asked = {
        stage: records_of(examples / "build", stage)[0]["asked"]
        for stage in ("BuildIndex", "RunInference", "MuonPt")
    }
    assert {stage: item["pool"] for stage, item in asked.items()} == POOL_OF
    assert asked["BuildIndex"]["memory"] == 128 * GB
    assert asked["RunInference"]["gpus"] == 1
    assert asked["MuonPt"]["gpus"] == 0
    expected = 4 * 3600 if workflow == "walltime.yaml" else None
    assert asked["BuildIndex"]["walltime"] == expected
    # The gpu pool has one worker, high_memory two; BuildIndex takes 8 of the 16 cpus.
    assert most_at_a_time(records_of(examples / "build", "RunInference")) == 1
    assert most_at_a_time(records_of(examples / "build", "BuildIndex")) <= 2


def test_the_results_are_those_without_pools(inline: Path) -> None:
    plain = yaml.safe_load((inline / "analysis.yaml").read_text())
    for stage in plain["analysis"]["stages"]:
        stage.pop("execution", None)
    (inline / "plain.yaml").write_text(yaml.safe_dump(plain))
    fasthep_run("plain.yaml", "reference", inline)
    histograms = "artifacts/histograms/MuonPt.pkl"
    assert (inline / "build" / histograms).exists()
    differences = compare_builds(inline / "reference", inline / "build")
    assert not [item for item in differences if "provenance" not in item], differences


def test_what_the_compiler_was_given_is_a_workflow_for_fasthep(inline: Path) -> None:
    fasthep_run("build/smk/overlay.yaml", "reference", inline)
    assert not compare_builds(inline / "reference", inline / "build")


def test_another_site_is_another_profile_and_the_same_snakefile(examples: Path, smk: Run) -> None:
    """What is meant to change is written anew with WRITE_GOLDEN=1 in the environment."""
    texts = []
    for system in ("slurm", "htcondor"):
        done = smk("translate", "inline.yaml", "--profile", system, "-o", system, cwd=examples)
        assert done.returncode == 0, done.stderr
        texts.append((examples / system / "smk" / "Snakefile").read_bytes())
        profile = (examples / system / "smk/profile/config.yaml").read_text()
        for golden, text in (("Snakefile", texts[-1].decode()), (f"{system}.yaml", profile)):
            if os.environ.get("WRITE_GOLDEN"):
                (GOLDEN / golden).write_text(text)
            assert text == (GOLDEN / golden).read_text()
        settings = yaml.safe_load(profile)
        assert settings["executor"] == system
        assert settings["resources"]["pool_high_memory"] == 2
        own = settings["set-resources"]["stage_BuildIndex"]
        assert own["pool_high_memory"] == 1
        # Slurm's megabyte is 2**20 bytes; HTCondor's request stands in the Snakefile.
        assert own.get("mem_mb") == (122071 if system == "slurm" else None)
    assert texts[0] == texts[1]
    assert b"htcondor_request_mem_mb=122071," in texts[0]
    assert b"pool" not in texts[0]


def test_a_pool_changes_no_signature(inline: Path, smk: Run) -> None:
    workflow = inline / "inline.yaml"
    workflow.write_text(workflow.read_text().replace("128GB", "64GB").replace("workers: 2", ""))
    done = smk("inline.yaml", "-n", "--profile", site(inline / "site"), cwd=inline)
    assert "Nothing to do" in done.stdout, done.stdout + done.stderr


def test_a_small_machine_refuses_and_shrinks_when_asked(examples: Path, smk: Run) -> None:
    small = {"machine": {"cpus": 2, "memory": "8GB", "gpus": 0}}
    profile = site(examples / "small", small)
    done = smk("inline.yaml", "--profile", profile, cwd=examples)
    assert done.returncode == 1
    assert "4 problems" in done.stderr
    for text in ("cpus: 8", "memory: 128 GB", "memory: 16 GB", "gpus: 1", "--shrink-to-fit"):
        assert text in done.stderr
    assert not (examples / "build" / "smk" / "work").exists()

    done = smk("inline.yaml", "--profile", profile, "--shrink-to-fit", cwd=examples)
    assert done.returncode == 0, done.stderr
    assert "pool 'high_memory': memory 8 GB instead of 128 GB" in done.stderr
    asked = records_of(examples / "build", "BuildIndex")[0]
    assert (asked["asked"]["memory"], asked["asked"]["cpus"], asked["threads"]) == (8 * GB, 2, 2)


def test_pools_share_the_machine(examples: Path, smk: Run) -> None:
    # Two jobs of BuildIndex are allowed, but only one has room in the memory.
    room = {"machine": {"cpus": 16, "memory": "200GB", "gpus": 1}}
    done = smk("inline.yaml", "--profile", site(examples / "room", room), cwd=examples)
    assert done.returncode == 0, done.stderr
    assert most_at_a_time(records_of(examples / "build", "BuildIndex")) == 1


def test_what_explain_prints_is_what_the_jobs_got(examples: Path, smk: Run) -> None:
    profile = site(
        examples / "site",
        {
            "default": {"config": {"retries": 1, "walltime": "00:20:00"}},
            "pool_profiles": {"gpu_worker": {"resources": {"memory": "24GB"}, "workers": 2}},
        },
    )
    done = smk("explain", "profiles.yaml", "--profile", profile, "--json", cwd=examples)
    assert done.returncode == 0, done.stderr
    explained = json.loads(done.stdout)
    assert not (examples / "build").exists()
    done = smk("profiles.yaml", "--profile", profile, cwd=examples)
    assert done.returncode == 0, done.stderr

    for rule in explained["rules"]:
        first = {k: v for k, v in rule["attempts"][0].items() if k != "resources"}
        found = [record for record in records(examples / "build") if record["rule"] == rule["rule"]]
        assert len(found) == rule["jobs"]
        assert all(record["asked"] == first for record in found)
    gpu = next(pool for pool in explained["pools"] if pool["pool"] == "gpu")
    # The site's profile of that name comes before the workflow's.
    assert (gpu["memory"], gpu["gpus"], gpu["workers"]) == (24 * GB, 0, 2)
    text = smk("explain", "profiles.yaml", "--profile", profile, cwd=examples).stdout
    assert "RunInference: require: gpu" in text
    assert "pools.yaml: pool_profiles.gpu_worker.resources.memory" in text


FLAKY = """\
import awkward as ak
SPEC = {"name": "own.flaky", "kind": "transform", "params": {},
        "input": {"name": "stream", "kind": "event_stream", "required": True},
        "result": {"kind": "event_stream"}}


def run(*, stream, ctx=None, **_):
    import os
    if os.environ.get("BROKEN_POOL") == os.environ.get("FASTHEP_SMK_POOL"):
        raise RuntimeError("this worker is broken")
    return stream
"""


@pytest.fixture
def flaky(analysis: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The small analysis with a stage that fails on the pool ``spot``."""
    (analysis / "own_ops.py").write_text(FLAKY)
    monkeypatch.setenv("BROKEN_POOL", "spot")
    workflow = yaml.safe_load((analysis / "workflow.yaml").read_text())
    workflow["registry"] = {
        "transforms": {"own.flaky": {"spec": "own_ops:SPEC", "impl": "own_ops:run"}}
    }
    stage = {
        "id": "Flaky",
        "op": "own.flaky",
        "execution": {"prefer": "spot", "fallback": "ondemand"},
    }
    workflow["analysis"]["stages"].insert(1, stage)
    workflow["execution"] = {
        "pools": {
            "spot": {"workers": 3, "resources": {"memory": "1GB"}, "config": {"retries": 2}},
            "ondemand": {"resources": {"memory": "1GB"}},
        }
    }
    (analysis / "workflow.yaml").write_text(yaml.safe_dump(workflow))
    return analysis


def test_the_last_attempt_goes_to_the_fallback(flaky: Path, smk: Run) -> None:
    done = smk("workflow.yaml", cwd=flaky)
    assert done.returncode == 0, done.stderr
    for record in records_of(flaky / "build", "Flaky"):
        assert (record["attempt"], record["asked"]["pool"]) == (3, "ondemand")
        assert [(item["attempt"], item["pool"]) for item in record["earlier"]] == [
            (1, "spot"),
            (2, "spot"),
        ]
        assert all("this worker is broken" in item["problem"] for item in record["earlier"])
        log = flaky / "build/debug/distributed/logs" / record["rule"] / record["key"]
        assert "this worker is broken" in log.with_suffix(".attempt1.log").read_text()
        assert log.with_suffix(".log").exists()
        assert not log.with_suffix(".attempt3.log").exists()  # the one that succeeded


def test_a_fallback_that_fails_too_is_the_end(flaky: Path, smk: Run) -> None:
    (flaky / "own_ops.py").write_text(FLAKY.replace("if os.environ", "if True or os.environ"))
    done = smk("workflow.yaml", cwd=flaky)
    assert done.returncode == 1
    assert "stage 'Flaky' (own.flaky) failed: RuntimeError: this worker is broken" in done.stderr
    assert "pool 'ondemand' on " in done.stderr
    assert "attempt 3" in done.stderr


def test_a_timeout_is_the_jobs_time_limit(flaky: Path, smk: Run) -> None:
    slow = FLAKY.replace("    if os", "    import time\n    time.sleep(30)\n    if os")
    (flaky / "own_ops.py").write_text(slow)
    workflow = yaml.safe_load((flaky / "workflow.yaml").read_text())
    workflow["analysis"]["stages"][1]["execution"] = {"timeout": 6}
    (flaky / "workflow.yaml").write_text(yaml.safe_dump(workflow))
    done = smk("workflow.yaml", "--waiting", "1", cwd=flaky)
    assert done.returncode == 1
    assert "the time limit of pool 'default', 00:00:06, has passed" in done.stderr
    # While nothing finished, the run said what it was doing.
    assert "s without a finished job; running or queued: " in done.stderr


def test_waiting_for_a_pool_is_said(flaky: Path, smk: Run) -> None:
    slow = FLAKY.replace("    if os", "    import time\n    time.sleep(3)\n    if os")
    (flaky / "own_ops.py").write_text(slow)
    workflow = yaml.safe_load((flaky / "workflow.yaml").read_text())
    workflow["analysis"]["stages"][1]["execution"] = {"require": "ondemand"}
    workflow["execution"]["pools"]["ondemand"]["workers"] = 1
    (flaky / "workflow.yaml").write_text(yaml.safe_dump(workflow))
    done = smk("workflow.yaml", "--waiting", "1", cwd=flaky)
    assert done.returncode == 0, done.stderr
    assert "pool 'ondemand': 1 of 1 workers are busy" in done.stderr
    assert most_at_a_time(records_of(flaky / "build", "Flaky")) == 1


def test_check_validates_without_leaving_a_file(examples: Path, smk: Run) -> None:
    before = sorted(examples.rglob("*"))
    done = smk("check", "inline.yaml", "--profile", "slurm", cwd=examples)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "inline.yaml: ready to run: 13 jobs in 4 rules\n"
    (examples / "bad.yaml").write_text(
        "include: inline.yaml\nexecution: {pools: {gpu: {resources: {gpu: 2}}}}\n"
    )
    done = smk("check", "bad.yaml", cwd=examples)
    assert done.returncode == 1
    assert "bad.yaml: execution.pools.gpu.resources.gpu: unknown key" in done.stderr
    assert "did you mean 'gpus'?" in done.stderr
    ours = {examples / "bad.yaml"}
    after = [path for path in sorted(examples.rglob("*")) if "__pycache__" not in path.parts]
    assert [path for path in after if path not in ours] == before

"""Several jobs in a bundle: the same results; each is done, fails and counts alone."""

from __future__ import annotations

import json
import shlex
from collections import Counter
from pathlib import Path

import pytest

from fasthep_smk.run.lock import hold
from fasthep_smk.util.files import read_plain, unseal
from tests.integration.conftest import WORKFLOW, Run
from tests.support.compare import compare_builds
from tests.support.forms import some

pytestmark = pytest.mark.integration

# An op that does as a file beside the workflow says, and notes each of its tries.
OPS = """\
import json, os, signal
SPEC = {"name": "own.moody", "kind": "transform", "params": {},
        "input": {"name": "stream", "kind": "event_stream", "required": True},
        "result": {"kind": "event_stream"}}


def run(*, stream, ctx=None, **_):
    part = dict(ctx["partition"])
    name = f"{part['dataset']}/{part['part']}"
    with open("tries.txt", "a") as tries:
        tries.write(f"{name}\\n")
    with open("mood.json") as file:
        mood = json.load(file).get(name)
    if mood == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    if mood == "killed with its bundle":
        os.kill(os.getppid(), signal.SIGKILL)
        signal.pause()
    if mood == "fails":
        raise OSError("as the mood says")
    return stream
"""
MOODY = WORKFLOW.replace(
    "analysis:\n  stages:\n",
    "registry: {transforms: {own.moody: {spec: 'own_ops:SPEC', impl: 'own_ops:run'}}}\n"
    "smk: {ignore_reads: [mood.json]}\n"  # another mood is no other result
    "analysis:\n  stages:\n    - {id: Moody, op: own.moody}\n",
)
# 6 partitions of data in two files, 4 of dy: bundles of 4, 2 and 4.
OPTIONS = ("--chunk-size", "20", "--bundle", "4", "-j", "2")
DATA = [f"data/0_{part}" for part in range(3)] + [f"data/1_{part}" for part in range(2)]
DY = [f"dy/0_{part}" for part in range(4)]


@pytest.fixture
def moody(analysis: Path) -> Path:
    (analysis / "own_ops.py").write_text(OPS)
    (analysis / "workflow.yaml").write_text(MOODY)
    set_mood(analysis)
    return analysis


def set_mood(folder: Path, **moods: str) -> None:
    (folder / "mood.json").write_text(
        json.dumps({k.replace("__", "/"): v for k, v in moods.items()})
    )


def tries(folder: Path) -> Counter[str]:
    """How often each partition was tried since this was asked last."""
    path = folder / "tries.txt"
    found = Counter(path.read_text().split()) if path.exists() else Counter()
    path.unlink(missing_ok=True)
    return found


def succeed(smk: Run, folder: Path, *more: str) -> str:
    done = smk("workflow.yaml", *OPTIONS, *more, cwd=folder)
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    return done.stderr


def fail(smk: Run, folder: Path, *more: str) -> str:
    done = smk("workflow.yaml", *OPTIONS, *more, cwd=folder)
    assert done.returncode == 1, done.stderr
    assert "Traceback" not in done.stderr
    return done.stderr


@pytest.mark.parametrize("granularity", some(["auto", "stage"], 1))
def test_the_same_results_as_one_partition_a_job(moody: Path, smk: Run, granularity: str) -> None:
    said = succeed(smk, moody, "--granularity", granularity)
    assert tries(moody) == Counter([*DATA, *DY])
    if granularity == "auto":
        assert "10 jobs to run: 9 x stages_Moody_to_Met in 3 bundles, 1 x finish" in said
    options = ("--bundle", "1", "--granularity", granularity, "--outdir", "reference")
    succeed(smk, moody, *options)
    assert compare_builds(moody / "reference", moody / "build") == []


def test_what_is_done_stays_done_when_the_bundles_change(moody: Path, smk: Run) -> None:
    succeed(smk, moody)
    tries(moody)
    for size in ("1", "2", "100", "auto"):
        done = smk("workflow.yaml", "--chunk-size", "20", "--bundle", size, cwd=moody)
        assert "everything was up to date" in done.stdout
    assert not tries(moody)


def test_a_partition_that_fails_leaves_the_others_of_its_bundle_alone(
    moody: Path, smk: Run, snakemake: Run
) -> None:
    set_mood(moody, data__0_1="fails", dy__0_0="killed")
    said = fail(smk, moody, "--keep-going")
    assert tries(moody) == Counter([*DATA, *DY])
    assert "2 jobs failed" in said
    assert "dataset:   data\n    file:      data/data_0.root (entries 20 to 40)" in said
    assert "dataset:   dy\n    file:      data/dy_0.root (entries 0 to 20)" in said
    logs = [line.split()[-1] for line in said.splitlines() if line.strip().startswith("log:")]
    assert [Path(log).name for log in logs] == ["0_1.log", "0_0.log"]
    assert "as the mood says" in Path(logs[0]).read_text()
    alone = next(line for line in said.splitlines() if line.strip().startswith("rerun:"))
    set_mood(moody)
    command = shlex.split(alone.partition("&& ")[2])
    done = snakemake(*command[1:], cwd=moody / "build")
    assert done.returncode == 0, done.stderr
    assert tries(moody) == Counter(["data/0_1"])
    succeed(smk, moody)
    assert tries(moody) == Counter(["dy/0_0"])


def test_a_cold_bundle_imports_everything_once(
    moody: Path, smk: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its partitions are forked from it, as on a cluster: they have its command line."""
    monkeypatch.setenv("FASTHEP_SMK_FORK_SERVER", "")
    ops = OPS.replace("{name}\\n", "{sys.argv[-1]}\\n").replace("import json", "import sys, json")
    (moody / "own_ops.py").write_text(ops)
    succeed(smk, moody)
    assert tries(moody) == Counter({"bundle_0": 8, "bundle_1": 1})


def test_a_bundle_that_is_killed_goes_on_where_it_was(moody: Path, smk: Run) -> None:
    set_mood(moody, data__0_2="killed with its bundle")
    fail(smk, moody)
    assert {"data/0_0", "data/0_1", "data/0_2"} <= tries(moody).keys()
    set_mood(moody)
    succeed(smk, moody)
    assert not tries(moody).keys() & {"data/0_0", "data/0_1"}


def test_one_lost_or_damaged_partition_runs_alone(moody: Path, smk: Run, snakemake: Run) -> None:
    succeed(smk, moody, "--granularity", "stage")
    tries(moody)
    plain = ("--profile", "build/smk/profile", "--dry-run")
    assert "Nothing to be done" in snakemake(*plain, cwd=moody).stdout
    work = moody / "build/smk/work"
    stream = work / "stage_Moody/dy/0_3/Moody.arrow"
    content = bytearray(stream.read_bytes())
    content[len(content) // 2] ^= 1
    stream.write_bytes(content)
    # What follows from them is lost, too: else nobody would need them.
    lost = [*work.glob("stage*/data/0_1/record.json"), *work.glob("[mf]*/**/record.json")]
    later = [path for path in work.glob("stage*/dy/0_3/record.json") if "Moody" not in str(path)]
    for record in (*lost, *later):
        record.unlink()
    said = smk("workflow.yaml", *OPTIONS, "--granularity", "stage", "-n", cwd=moody).stdout
    assert "11 of 52 jobs would run" in said
    assert "1 x stage_Moody" in said
    # Other rules take over what these have made: a forecast counts what would run of either.
    others = smk("workflow.yaml", *OPTIONS, "-n", cwd=moody).stdout
    assert "took results from other jobs" in others
    for text, granularity in ((said, "stage"), (others, "auto")):
        options = (*OPTIONS, "--granularity", granularity, "--json")
        ahead = json.loads(smk("forecast", "workflow.yaml", *options, cwd=moody).stdout)
        assert text.startswith(f"{sum(one['to_do'] for one in ahead['rules'])} of ")
    with hold(moody / "build", Path("build")):  # a run may be asked for its end while it goes on
        assert smk("forecast", "workflow.yaml", *OPTIONS, cwd=moody).returncode == 0
    succeed(smk, moody, "--granularity", "stage")
    assert tries(moody) == Counter(["data/0_1", "dy/0_3"])


def test_only_jobs_that_import_own_code_have_a_process_each(moody: Path, smk: Run) -> None:
    succeed(smk, moody, "--granularity", "stage")

    def processes(rule: str) -> int:
        found = (moody / "build/smk/work" / rule).rglob("record.json")
        return len({unseal(read_plain(path))["pid"] for path in found})

    assert processes("stage_Moody") == 9
    assert processes("stage_Met") < 9


@pytest.mark.long
def test_streams_that_were_deleted_are_made_again_only_where_they_are_needed(
    moody: Path, smk: Run
) -> None:
    options = ("--granularity", "stage")
    succeed(smk, moody, *options, "--keep", "none")
    assert not list((moody / "build/smk/work").rglob("*.arrow"))
    tries(moody)
    assert "up to date" in smk("workflow.yaml", *OPTIONS, *options, cwd=moody).stdout
    changed = MOODY.replace("EventWeight * 2", "EventWeight * 3")
    (moody / "workflow.yaml").write_text(changed)
    succeed(smk, moody, *options)
    assert tries(moody) == Counter(DY)  # the stage Scale does not apply to data


def test_a_run_ends_without_a_partition_of_a_bundle(moody: Path, smk: Run) -> None:
    set_mood(moody, data__1_0="fails")
    said = succeed(smk, moody, "--accept-missing", "1")
    assert "THE RESULTS ARE INCOMPLETE: 1 of 9 partitions is missing:" in said
    assert tries(moody) == Counter([*DATA, *DY])
    set_mood(moody)
    said = succeed(smk, moody)
    assert "INCOMPLETE" not in said
    assert tries(moody) == Counter(["data/1_0"])


def test_a_run_ends_without_a_partition_that_a_later_bundle_waits_for(
    moody: Path, smk: Run
) -> None:
    set_mood(moody, data__1_0="fails")
    said = succeed(smk, moody, "--granularity", "stage", "--accept-missing", "1")
    assert "THE RESULTS ARE INCOMPLETE: 1 of 9 partitions is missing:" in said
    assert tries(moody) == Counter([*DATA, *DY])


VARIED = """\
registry: {functions: {broken: "faulty:broken"}}
systematics:
  include_nominal: true
  variations:
    - {name: good, mode: plan, weight: {multiply: ["(met * 0 + 1)"]}}
    - {name: bad, mode: plan, weight: {multiply: ["broken(met)"]}}
"""


def test_a_variation_that_fails_keeps_no_other_from_being_finished(
    analysis: Path, smk: Run
) -> None:
    weighted = WORKFLOW.replace(
        "dataset_axis: true", "dataset_axis: true\n        weight_expr: met"
    )
    # A function of the user's own is not called before the jobs.
    (analysis / "faulty.py").write_text("def broken(column):\n    return column / (1 // 0)\n")
    (analysis / "workflow.yaml").write_text(weighted + VARIED)

    def finished() -> list[str]:
        found = (analysis / "build/smk/work/finish").glob("*/record.json")
        return sorted(path.parent.name for path in found)

    said = fail(smk, analysis, "--keep-going")
    assert "ZeroDivisionError" in said
    assert "nominal" in finished()
    # What the others share with it is not needed twice.
    said = fail(smk, analysis, "--keep-going")
    assert "ZeroDivisionError" in said
    assert finished() == ["good", "nominal"]

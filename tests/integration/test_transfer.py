"""Jobs that travel: each runs where nothing of the project is to be seen, with what it was sent."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from fasthep_smk.storage import layout
from fasthep_smk.transfer.archive import DamagedParcel, write_parcel
from fasthep_smk.transfer.job_files import load_of
from fasthep_smk.transfer.receive import Arrival, accept
from fasthep_smk.transfer.spool import Sending
from fasthep_smk.transfer.tracker import Tracker, TravelVerdict
from tests.integration.conftest import WORKFLOW, Run
from tests.support import credentials
from tests.support.compare import compare_builds
from tests.support.forms import LONG, some

pytestmark = pytest.mark.integration


@pytest.fixture
def translated(analysis: Path, smk: Run) -> Path:
    """The small analysis, translated, with real files in place of links."""
    return translate(analysis, smk, WORKFLOW)


def translate(analysis: Path, smk: Run, workflow: str, *options: str) -> Path:
    files = (analysis / "data").readlink()
    (analysis / "data").unlink()
    (analysis / "data").mkdir()
    for file in files.iterdir():
        (analysis / "data" / file.name).write_bytes(file.read_bytes())
    (analysis / "workflow.yaml").write_text(workflow)
    done = smk("translate", "workflow.yaml", *options, cwd=analysis)
    assert done.returncode == 0, done.stderr
    return analysis


def send(project: Path, rule: str, place: tuple[str, ...], folder: Path) -> Path:
    """Run a job with the project out of sight; return what it sends back."""
    load = load_of(project / "build", rule, place)
    write_parcel(folder / "job.tar", load.content, load.about())
    run_errand(folder, project)
    return folder / "outcome.tar"


def run_errand(folder: Path, project: Path, *options: str) -> None:
    """Run the job in a folder's parcel, with the project out of sight."""
    hidden = project.rename(project.with_name(f"{project.name}.hidden"))
    try:
        errand = [sys.executable, "-P", "-m", "fasthep_smk.transfer.remote_job"]
        env = {"PATH": "/usr/bin:/bin", "PYTHONPATH": os.environ.get("PYTHONPATH", "")}
        subprocess.run([*errand, "job.tar", "outcome.tar", *options], cwd=folder, env=env)
        assert not project.exists()
    finally:
        hidden.rename(project)


def tables(build: Path) -> dict[str, Any]:
    found = sorted((build / layout.TASKS).glob("*.json"))
    return {path.stem: json.loads(path.read_text()) for path in found}


def in_order(build: Path) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield Snakemake's jobs, each after those that it reads; the end of the run is not sent."""
    left = {
        (rule, key): [table["jobs"][job] for job in (entry.get("jobs") or [key])]
        for rule, table in tables(build).items()
        for key, entry in (table["bundles"] or table["jobs"]).items()
        if table["scope"] not in ("finish", "publish")
    }
    while left:
        ready = [
            name
            for name, entries in left.items()
            if all(
                (build / read["folder"] / layout.RECORD).is_file()
                for entry in entries
                for read in entry["reads"]
            )
        ]
        assert ready, f"nothing can run of {list(left)}"
        for rule, key in ready:
            del left[rule, key]
            yield rule, tuple(key.split("/")) if key else ()


def run_all(project: Path, smk: Run, folder: Path) -> None:
    for rule, place in in_order(project / "build"):
        outcome = send(project, rule, place, folder)
        assert accept(project / "build", outcome, rule, place).status == 0
    done = smk("workflow.yaml", "-j", "1", cwd=project)
    assert done.returncode == 0, done.stderr
    assert "1 job to run: 1 x finish" in done.stdout + done.stderr


def names_of(folder: Path, text: str) -> list[str]:
    """Return the files that hold a text."""
    found = [path for path in folder.rglob("*") if path.is_file()]
    return [str(path) for path in found if text.encode() in path.read_bytes()]


@pytest.mark.parametrize(
    "options",
    [
        ("--bundle", "3"),
        pytest.param((), marks=LONG),
        ("--granularity", "stage"),
    ],
)
def test_results_are_those_of_jobs_at_home(
    analysis: Path, smk: Run, tmp_path_factory: pytest.TempPathFactory, options: tuple[str, ...]
) -> None:
    folder = tmp_path_factory.mktemp("node")
    project = translate(analysis, smk, WORKFLOW, *options)
    run_all(project, smk, folder)
    done = smk("workflow.yaml", "-o", "reference", "-j", "1", *options, cwd=project)
    assert done.returncode == 0, done.stderr
    assert compare_builds(project / "reference", project / "build") == []
    assert names_of(project / "build", "fasthep-smk-job-") == []
    assert not list((project / "build" / layout.STAGE).glob(".arrival-*"))


def test_a_job_takes_along_its_own_task_only(translated: Path) -> None:
    load = load_of(translated / "build", "stages_Vars_to_Met", ("data", "1_0"))
    mine = json.loads(load.content["build/smk/tasks/stages_Vars_to_Met.json"])  # type: ignore[arg-type]
    assert list(mine["jobs"]) == ["data/1_0"]
    assert mine["siblings"] == 3
    files = [name for name in load.content if not name.startswith("build/smk/")]
    assert files == ["launch/data/data_1.root"]


def test_what_both_sides_see_stays(translated: Path) -> None:
    shared = [str(translated / "data")]
    load = load_of(translated / "build", "stages_Vars_to_Met", ("data", "1_0"), shared=shared)
    assert not [name for name in load.content if name.endswith(".root")]


def test_a_job_that_fails_sends_its_note_and_log(
    translated: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    (translated / "data/data_1.root").write_bytes(b"root")
    rule, place = "stages_Vars_to_Met", ("data", "1_0")
    outcome = send(translated, rule, place, tmp_path_factory.mktemp("node"))
    build = translated / "build"
    assert accept(build, outcome, rule, place).status == 1
    (note,) = (build / "smk/failures").rglob("*.json")
    told = json.loads(note.read_text())
    assert told["file"] == "data/data_1.root"
    assert not (build / layout.job_folder(rule, place) / layout.RECORD).exists()
    assert "data_1.root" in (build / layout.log(rule, place)).read_text()


@pytest.mark.parametrize("how", some(["changed", "empty", "another job's", "cut short"], 2))
def test_what_arrives_damaged_is_not_put_anywhere(
    translated: Path, tmp_path_factory: pytest.TempPathFactory, how: str
) -> None:
    rule, place = "stages_Vars_to_Met", ("data", "1_0")
    outcome = send(translated, rule, place, tmp_path_factory.mktemp("node"))
    content = outcome.read_bytes()
    before = sorted((translated / "build").rglob("*"))
    if how == "cut short":
        outcome.write_bytes(content[: len(content) // 2])
    elif how == "changed":
        outcome.write_bytes(content[: len(content) // 2] + b"?" + content[len(content) // 2 + 1 :])
    elif how == "empty":
        outcome.write_bytes(b"")
    else:
        place = ("data", "0_0")
    with pytest.raises(DamagedParcel, match=r"^outcome\.tar"):
        accept(translated / "build", outcome, rule, place)
    left = [path for path in (translated / "build").rglob("*") if path.name != "stage"]
    assert sorted(left) == [path for path in before if path.name != "stage"]


def test_a_parcel_that_arrives_damaged_says_so(
    translated: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("node")
    (folder / "job.tar").write_bytes(b"nothing")
    command = [sys.executable, "-m", "fasthep_smk.transfer.remote_job", "job.tar", "outcome.tar"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 76
    assert "Traceback" not in done.stderr
    arrival = accept(translated / "build", folder / "outcome.tar", "any", ())
    assert arrival.status is None
    assert arrival == Arrival(None, arrival.problem, arrival.host)
    assert "job.tar" in str(arrival.problem)


class Snakemakes:
    """Stands for one of Snakemake's jobs, as its executors get it."""

    def __init__(self, rule: str, **wildcards: str) -> None:
        self.rule = SimpleNamespace(name=rule)
        self.wildcards = SimpleNamespace(**wildcards)
        self.name, self.jobid, self.attempt, self.threads = rule, 1, 1, 1


@pytest.fixture
def tracker(translated: Path) -> Tracker:
    """The tracker of a run of the translated analysis."""
    build = translated / "build"
    wildcards = {rule: table["wildcards"] for rule, table in tables(build).items()}
    said = {"python": sys.executable, "brings_python": False, "shared": [], "spool": None}
    (build / layout.TRANSFER).write_text(json.dumps({**said, "wildcards": wildcards}))
    return Tracker(build)


def carry(project: Path, sending: Sending, *options: str) -> None:
    """Run a job where nothing of the project is to be seen; carry its files there and back."""
    node = project.with_name("node")
    node.mkdir(exist_ok=True)
    shutil.copy(project / "build" / sending.parcel, node / "job.tar")
    run_errand(node, project, *options)
    shutil.copy(node / "outcome.tar", project / "build" / sending.outcome)


JOB = Snakemakes("stages_Vars_to_Met", dataset="data", part="1_0")


def test_a_job_that_comes_back_is_done(translated: Path, tracker: Tracker) -> None:
    sending = tracker.leave(JOB)
    carry(translated, sending)
    assert tracker.end(JOB) == TravelVerdict("done")
    spool = translated / "build" / layout.DEPOT
    assert not [path for path in spool.rglob("*") if path.is_file()]
    assert tracker.end(JOB, "removed") == TravelVerdict("failed", "removed")  # it was not under way


def test_what_a_job_sends_back_may_be_lost(translated: Path, tracker: Tracker) -> None:
    sending = tracker.leave(JOB)
    (translated / "build" / sending.outcome).write_bytes(b"")
    verdict = tracker.end(JOB)
    assert verdict.what == "lost"
    assert str(verdict.message).startswith(Path(sending.outcome).name)


def test_what_a_job_of_a_killed_run_leaves_is_not_taken(translated: Path, tracker: Tracker) -> None:
    """It may be of another version of the workflow."""
    old = tracker.leave(JOB)
    next_run = Tracker(tracker.spool.build)
    new = next_run.leave(JOB)
    carry(translated, old)
    assert (tracker.spool.build / new.parcel).is_file()
    verdict = next_run.end(JOB, "removed")
    assert (verdict.what, "nothing came back" in str(verdict.message)) == ("failed", True)


@pytest.mark.parametrize(
    ("message", "what"),
    [
        ("Job was held: Transfer input files failure", "lost"),
        ("completed but failed with ExitCode 75", "lost"),
        ("removed by somebody", "failed"),
        ("completed but failed with ExitCode 1", "failed"),
    ],
)
def test_where_nothing_comes_back_the_reason_counts(
    tracker: Tracker, message: str, what: str
) -> None:
    tracker.leave(JOB)
    verdict = tracker.end(JOB, message)
    assert verdict.what == what
    assert "nothing came back" in str(verdict.message)


def test_a_later_attempt_knows_of_those_before(translated: Path, tracker: Tracker) -> None:
    broken = translated / "data/data_1.root"
    content = broken.read_bytes()
    broken.write_bytes(b"root")
    carry(translated, tracker.leave(JOB))
    assert tracker.end(JOB, "failed").what == "failed"
    broken.write_bytes(content)
    carry(translated, tracker.leave(JOB), "--attempt", "2")
    assert tracker.end(JOB) == TravelVerdict("done")
    build = translated / "build"
    record = json.loads((build / "smk/work/stages_Vars_to_Met/data/1_0/record.json").read_text())
    assert record["attempt"] == 2
    (earlier,) = record["earlier"]
    assert (earlier["attempt"], earlier["kind"]) == (1, "error")
    assert not list((build / "smk/failures").rglob("*.json"))


def test_a_job_without_its_credential_says_so(
    analysis: Path,
    smk: Run,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """By its note it is handed back, and then sent the renewed one."""
    workflow = WORKFLOW.replace("analysis:", "execution: {credentials: [token]}\nanalysis:")
    translated = translate(analysis, smk, workflow)
    build = translated / "build"
    wildcards = {rule: table["wildcards"] for rule, table in tables(build).items()}
    said = {"python": sys.executable, "brings_python": False, "shared": [], "spool": None}
    (build / layout.TRANSFER).write_text(json.dumps({**said, "wildcards": wildcards}))
    tracker = Tracker(build)
    token = tmp_path_factory.mktemp("mine") / "token"
    credentials.write(token, credentials.token(-10))
    monkeypatch.setenv("BEARER_TOKEN_FILE", str(token))
    sending = tracker.leave(JOB)
    assert sending.credentials == {"token": str(token)}
    began = time.monotonic()
    carry(translated, sending, "--credential", f"token={token}")
    assert time.monotonic() - began < 30
    verdict = tracker.end(JOB, "exit status 1")
    assert verdict.what == "failed"
    (note,) = (build / "smk/failures").rglob("*.json")
    assert json.loads(note.read_text())["kind"] == "credential"
    parts = credentials.secret_parts(token.read_text())
    assert not credentials.scan([translated, translated.with_name("node")], parts)

    credentials.write(token, credentials.token(3600))
    carry(translated, tracker.leave(JOB), "--credential", f"token={token}")
    assert tracker.end(JOB) == TravelVerdict("done")
    record = json.loads((build / "smk/work/stages_Vars_to_Met/data/1_0/record.json").read_text())
    assert (record["attempt"], record["earlier"]) == (1, [])


SCALES = """
from pathlib import Path
import awkward as ak
from fasthep_smk import rng
SPEC = {"name": "own.scales", "kind": "transform", "params": {},
        "input": {"name": "stream", "kind": "event_stream", "required": True},
        "result": {"kind": "event_stream"}}


def run(*, stream, table, relative, ctx, **_):
    factor = float(Path(table).read_text()) * float(Path(relative).read_text())
    factor *= rng(ctx).normal(1, 0.1, len(stream))
    return ak.with_field(stream, stream.MET_px * factor, "MET_px")
"""


@pytest.mark.parametrize("begins", ["", "file://"])
def test_files_that_lie_elsewhere_are_sent_under_other_paths(
    begins: str,
    analysis: Path,
    smk: Run,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Input files by absolute paths, files that parameters name; no path of the worker stays.

    Random numbers are seeded with the paths of home.
    """
    far = tmp_path_factory.mktemp("far") / "it's a {place}, $HOME"
    far.mkdir()
    modules = tmp_path_factory.mktemp("modules")
    (modules / "own_scales.py").write_text(SCALES)
    repository = str(Path(__file__).parents[2])
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(modules), repository]))
    project = translate(analysis, smk, WORKFLOW)
    (far / "dy one.root").write_bytes((project / "data/dy_0.root").read_bytes())
    (far / "table.txt").write_text("1.5")
    (project / "factor.txt").write_text("2")
    workflow = yaml.safe_load(WORKFLOW)
    workflow["data"]["datasets"][1]["files"] = [f"{begins}{far}/dy one.root"]
    entry = {"spec": "own_scales:SPEC", "impl": "own_scales:run"}
    workflow["registry"] = {"transforms": {"own.scales": entry}}
    params = {"table": str(far / "table.txt"), "relative": "factor.txt"}
    stage = {"id": "Scales", "op": "own.scales", "params": params}
    workflow["analysis"]["stages"].insert(0, stage)
    (project / "workflow.yaml").write_text(yaml.safe_dump(workflow))
    done = smk("translate", "workflow.yaml", cwd=project)
    assert done.returncode == 0, done.stderr
    hidden = far.with_name("hidden")
    node = tmp_path_factory.mktemp("node")
    for rule, place in in_order(project / "build"):
        load = load_of(project / "build", rule, place)
        write_parcel(node / "job.tar", load.content, load.about())
        far.rename(hidden)
        try:
            run_errand(node, project)
        finally:
            hidden.rename(far)
        assert accept(project / "build", node / "outcome.tar", rule, place).status == 0
    done = smk("workflow.yaml", "-j", "1", cwd=project)
    assert done.returncode == 0, done.stderr
    assert "1 job to run" in done.stdout + done.stderr
    done = smk("workflow.yaml", "-o", "reference", "-j", "1", cwd=project)
    assert done.returncode == 0, done.stderr
    assert compare_builds(project / "reference", project / "build") == []
    assert names_of(project / "build", "fasthep-smk-job-") == []


def test_what_turns_out_to_be_damaged_there_is_made_again_here(
    analysis: Path, smk: Run, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """The worker finds that an event stream was altered: here, the job that made it runs again."""
    folder = tmp_path_factory.mktemp("node")
    project = translate(analysis, smk, WORKFLOW, "--granularity", "stage")
    build = project / "build"
    jobs = in_order(build)
    for rule, place in jobs:
        outcome = send(project, rule, place, folder)
        assert accept(build, outcome, rule, place).status == 0
        if made := list((build / layout.job_folder(rule, place)).glob("*.arrow")):
            break
    reads = [
        (name, tuple(key.split("/")))
        for name, table in tables(build).items()
        for key, entry in table["jobs"].items()
        if table["scope"] == "partition"
        and any(made[0].name in path for path in entry["inputs"])
        and f"{rule}/{'/'.join(place)}/" in "".join(entry["inputs"])
    ]
    content = made[0].read_bytes()
    made[0].write_bytes(content[:-9] + bytes([content[-9] ^ 1]) + content[-8:])
    reader, where = reads[0]
    outcome = send(project, reader, where, folder)
    assert accept(build, outcome, reader, where).status == 1
    (note,) = (build / "smk/failures").rglob("*.json")
    assert json.loads(note.read_text())["kind"] == "damaged"
    assert not (build / layout.job_folder(rule, place) / layout.RECORD).exists()


OWN = """\
class Outer:
    class Fit:
        def __init__(self, number):
            self.number = number

        def __add__(self, other):
            return Outer.Fit(self.number + other.number)


FIT = {
    "name": "my.fit", "kind": "transform", "version": "1.0", "params": {},
    "input": {"name": "stream", "kind": "event_stream", "required": True},
    "result": {"hist": {"kind": "histogram"}},
}


def fit(stream, *, ctx=None, **_):
    return {"hist": Outer.Fit(len(stream))}
"""
FIT = """\
version: 1.0
use: {profiles: [hep]}
registry: {transforms: {my.fit: {spec: "my_ops:FIT", impl: "my_ops:fit"}}}
data:
  defaults: {eventtype: mc, tree_primary: events}
  datasets: [{name: dy, files: [data/dy_0.root]}]
sources: {events: {kind: root_tree, tree: events}}
analysis: {stages: [{id: Fit, op: my.fit, params: {}}]}
"""


@pytest.fixture
def own_package(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """An installed module, which is on workers, too."""
    folder = tmp_path_factory.mktemp("installed")
    (folder / "my_ops.py").write_text(OWN)
    others = os.environ.get("PYTHONPATH", "")
    monkeypatch.setenv("PYTHONPATH", f"{folder}:{others}" if others else str(folder))


@pytest.mark.usefixtures("own_package")
def test_objects_of_own_classes_are_sent_if_they_are_listed(
    analysis: Path, smk: Run, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """At home, they need no list. A job that is sent says at its end what to write."""
    folder = tmp_path_factory.mktemp("node")
    project = translate(analysis, smk, FIT, "--chunk-size", "50")
    rule, place = "stage_Fit", ("dy", "0_0")
    outcome = send(project, rule, place, folder)
    assert accept(project / "build", outcome, rule, place).status == 1
    (note,) = (project / "build/smk/failures").rglob("*.json")
    said = note.read_text()
    assert "workers must not send this: it holds my_ops:Outer.Fit" in said
    assert "smk: {pickles_of: [my_ops:Outer.Fit]}" in said
    done = smk("workflow.yaml", "-j", "1", "-o", "home", "--chunk-size", "50", cwd=project)
    assert done.returncode == 0, done.stderr
    listed = f"{FIT}smk: {{pickles_of: [my_ops:Outer.Fit]}}\n"
    (project / "workflow.yaml").write_text(listed)
    done = smk("translate", "workflow.yaml", "--chunk-size", "50", cwd=project)
    assert done.returncode == 0, done.stderr
    for rule, place in in_order(project / "build"):
        outcome = send(project, rule, place, folder)
        assert accept(project / "build", outcome, rule, place).status == 0
    done = smk("workflow.yaml", "-j", "1", "--chunk-size", "50", cwd=project)
    assert done.returncode == 0, done.stderr
    assert "1 job to run: 1 x finish" in done.stdout + done.stderr
    made = [
        (project / build / "artifacts/histograms/Fit.pkl").read_bytes()
        for build in ("build", "home")
    ]
    assert made[0] == made[1]


@pytest.mark.usefixtures("own_package")
def test_a_result_that_is_no_histogram_is_not_sent(
    analysis: Path, smk: Run, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """The end of a run, sent as other jobs are: people read its histograms with pickle."""
    folder = tmp_path_factory.mktemp("node")
    project = translate(analysis, smk, FIT)
    done = smk("workflow.yaml", "-j", "1", cwd=project)
    assert done.returncode == 0, done.stderr
    result = project / "build/artifacts/histograms/Fit.pkl"
    result.unlink()
    (project / "build/smk/work/finish/record.json").unlink()
    outcome = send(project, "finish", (), folder)
    assert accept(project / "build", outcome, "finish", ()).status == 1
    assert not result.exists()
    (note,) = (project / "build/smk/failures").rglob("*.json")
    assert "artifacts/histograms/Fit.pkl: workers must not send this" in note.read_text()

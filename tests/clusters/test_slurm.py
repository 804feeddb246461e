"""Analyses on a real Slurm: where jobs ran, by Slurm's own records, and what happens in trouble."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from fasthep_smk.storage import failures
from tests.clusters.analyses import (
    at_home,
    demo,
    given_away,
    has_a_right_page,
    moody,
    records,
    set_mood,
    site,
    start,
    three_pools,
)
from tests.clusters.conftest import Cluster, cluster
from tests.support.compare import compare_builds
from tests.support.forms import some
from tests.support.project import once, shared_base

pytestmark = [pytest.mark.integration, pytest.mark.cluster]

SETTINGS = {
    "executor": "slurm",
    "seconds-between-status-checks": 1,
    "slurm-init-seconds-before-status-checks": 1,
}
# How the pools of the analyses are called in this Slurm.
POOLS = {
    "default": {"config": {"walltime": "00:10:00", "slurm": {"partition": "standard"}}},
    "pool_profiles": {
        "high_memory": {"config": {"slurm": {"partition": "highmem"}}},
        "gpu": {"config": {"slurm": {"partition": "gpu"}, "walltime": "00:05:00"}},
    },
}
GB = 10**9


class Run:
    """A ``fasthep-smk`` under way; what it says, line by line."""

    def __init__(
        self, slurm: Cluster, workflow: Path, *options: str, variables: dict[str, str] | None = None
    ) -> None:
        self.lines: list[str] = []
        self.process = start(
            slurm, workflow, "--profile", "site", *options, variables=variables or {}
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(line)

    @property
    def text(self) -> str:
        return "".join(self.lines)

    def until(self, condition: Callable[[], Any], seconds: float = 120) -> Any:
        """Wait until something is so, while the run goes on; return what was found."""
        end = time.monotonic() + seconds
        while not (found := condition()):
            assert self.process.poll() is None, f"it ended before:\n{self.text}"
            assert time.monotonic() < end, f"not within {seconds} s:\n{self.text}"
            time.sleep(0.2)
        return found

    def says(self, text: str, seconds: float = 60) -> None:
        self.until(lambda: text in self.text, seconds)

    def ended(self, status: int = 0, seconds: float = 300) -> str:
        """Wait for the end; what was said."""
        try:
            self.process.wait(timeout=seconds)
        except subprocess.TimeoutExpired:
            self.process.send_signal(signal.SIGTERM)
            self.process.wait(timeout=60)
            pytest.fail(f"no end within {seconds} s:\n{self.text}")
        self._reader.join(timeout=10)
        assert self.process.returncode == status, self.text
        assert "Traceback" not in self.text
        return self.text


# What Slurm knows.


def slurms_record(slurm: Cluster, job: str) -> dict[str, str]:
    """What Slurm has recorded of a job."""
    shown = slurm.run("scontrol", "--oneliner", "show", "job", job, timeout=20)
    assert shown.returncode == 0, shown.stderr
    return dict(pair.split("=", 1) for pair in shown.stdout.split() if "=" in pair)


def slurms_records(slurm: Cluster, build: Path) -> dict[str, list[dict[str, str]]]:
    """Slurm's records of all finished jobs, by rule."""
    found: dict[str, list[dict[str, str]]] = {}
    for record in records(build):
        found.setdefault(record["rule"], []).append(slurms_record(slurm, record["batch_job"]))
    return found


def jobs_of(slurm: Cluster, folder: Path, *states: str) -> list[str]:
    """The jobs of a folder's runs that Slurm has in its queue, or those in some states."""
    asked = ("--states", ",".join(states)) if states else ()
    shown = slurm.run("squeue", "--noheader", "--format=%i %Z", *asked, timeout=20)
    assert shown.returncode == 0, shown.stderr
    lines = [line.split(maxsplit=1) for line in shown.stdout.splitlines()]
    return [job for job, where in lines if where.startswith(str(folder))]


def most_at_a_time(spans: list[tuple[float, float]]) -> int:
    """How many of some things were under way at the same time."""
    running = most = 0
    for _, change in sorted([(a, 1) for a, _ in spans] + [(b, -1) for _, b in spans]):
        running += change
        most = max(most, running)
    return most


def slurms_span(record: dict[str, str]) -> tuple[float, float]:
    start, end = (datetime.fromisoformat(record[name]) for name in ("StartTime", "EndTime"))
    return start.timestamp(), end.timestamp()


# What the runs left.


def tries(folder: Path) -> Counter[str]:
    """How often the moody op was tried, by dataset."""
    path = folder / "tries.txt"
    return (
        Counter(line.split()[1] for line in path.read_text().splitlines())
        if path.exists()
        else Counter()
    )


def finished(folder: Path) -> dict[str, tuple[float, float]]:
    """When the finished jobs of a folder's runs started and ended."""
    return {
        f"{record['rule']}/{record['key']}": (record["started"], record["ended"])
        for record in records(folder / "build")
    }


def moody_record(folder: Path, dataset: str = "dy") -> dict[str, Any]:
    """The record of a moody job."""
    found = [
        record
        for record in records(folder / "build")
        if "Moody" in record["rule"] and record["key"].startswith(dataset)
    ]
    assert found
    return found[0]


@pytest.fixture(scope="session")
def moody_reference(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The build folder of the moody analysis, run on this machine: once for all tests."""

    def make(folder: Path) -> None:
        folder.mkdir()
        local_run(folder, moody(folder, execution={}, pools={"default": {}}))

    return once(shared_base(tmp_path_factory) / "moody", make) / "reference"


def local_run(folder: Path, workflow: Path, *options: str) -> Path:
    """Run an analysis on this machine, without Slurm; its build folder."""
    return at_home(folder, workflow.name, "reference", "--profile", "local", *options)


def is_right(folder: Path, reference: Path) -> None:
    """All results are those of the run on this machine, bit for bit."""
    assert not compare_builds(reference, folder / "build")


def in_trouble(
    slurm: Cluster,
    *,
    execution: dict[str, Any] | None = None,
    slurm_options: dict[str, Any] | None = None,
    retries: int = 2,
    together: int = 1,
    **mood: Any,
) -> Path:
    """A moody analysis in a folder of its own: three jobs, then one."""
    folder = slurm.new_folder()
    pool = {
        "workers": 3,
        "resources": {"memory": "2GB"},
        "config": {
            "retries": retries,
            "walltime": "00:05:00",
            "partitions_per_job": together,
        },
    }
    moody(
        folder,
        execution=execution or {},
        pools={"default": pool},
    )
    set_mood(folder, **mood)
    at(folder, **(slurm_options or {}))
    return folder


def at(folder: Path, **slurm_options: Any) -> None:
    """Make the folder's site one whose jobs have some options of Slurm's."""
    options = {"partition": "standard", **slurm_options}
    site(folder, {"default": {"config": {"slurm": options}}}, **SETTINGS)


# What jobs leave.


def test_what_an_operation_leaves_running_ends_with_its_job(slurm: Cluster) -> None:
    folder = in_trouble(slurm, leaves=True)
    Run(slurm, folder / "workflow.yaml").ended()
    left = [line.split() for line in (folder / "left.txt").read_text().splitlines()]
    assert len(left) == 3
    end = time.monotonic() + 60
    while any(str(failures.born(int(pid))) == born for pid, born in left):
        assert time.monotonic() < end, "a child of a job goes on"
        time.sleep(0.2)


# Where jobs run.


def test_three_pools_are_three_partitions(slurm: Cluster, tmp_path: Path) -> None:
    """Index, inference and histogram run where their pools say, with what was asked for."""
    folder = slurm.new_folder()
    workflow = three_pools(folder)
    site(folder, POOLS, **SETTINGS)
    Run(slurm, workflow).ended()

    build = folder / "build"
    found = slurms_records(slurm, build)
    expected = {
        # rule: partition, processors, megabytes of 2**20 bytes, GPUs, minutes
        "stage_BuildIndex": ("highmem", "8", "122071M", "none", "00:10:00"),
        "stage_RunInference": ("gpu", "1", "15259M", "gres:gpu:1", "00:05:00"),
        "stages_Muons_to_MuonPt": ("standard", "1", "3815M", "none", "00:10:00"),
        "finish": ("standard", "1", "3815M", "none", "00:10:00"),
    }
    assert set(found) == set(expected)
    assert [len(found[rule]) for rule in expected] == [4, 4, 4, 1]
    for rule, jobs in found.items():
        for job in jobs:
            assert job["JobState"] == "COMPLETED"
            assert (
                job["Partition"],
                job["NumCPUs"],
                job["MinMemoryNode"],
                job.get("TresPerJob", "none"),
                job["TimeLimit"],
            ) == expected[rule]

    pools = {"high_memory": 2, "gpu": 1, "default": 10}
    for pool, workers in pools.items():
        ours = [record for record in records(build) if record["asked"]["pool"] == pool]
        theirs = [slurms_record(slurm, record["batch_job"]) for record in ours]
        assert most_at_a_time([(record["started"], record["ended"]) for record in ours]) <= workers
        assert most_at_a_time([slurms_span(job) for job in theirs]) <= workers
    for record in records(build):  # Slurm tells whole seconds
        said = slurms_record(slurm, record["batch_job"])["SubmitTime"]
        assert -1.5 < datetime.fromisoformat(said).timestamp() - record["submitted"] < 20
        assert record["submitted"] < record["started"]
    has_a_right_page(build, tmp_path)

    machine = {"machine": {"cpus": 16, "memory": "256GB", "gpus": 1}}
    site(folder, machine, executor="local")
    reference = at_home(folder, workflow.name, "reference", "--profile", "site")
    assert not compare_builds(reference, build)


@pytest.mark.long
def test_the_demo_keeps_within_the_workers_of_its_pool(slurm: Cluster) -> None:
    """208,000 events on at most three workers, by our clocks and by Slurm's; the same results."""
    folder = slurm.new_folder()
    workflow = demo(folder)
    workers = {"default": {"workers": 3, "resources": {"memory": "2GB"}}}
    site(folder, {"default": POOLS["default"], "pool_profiles": workers}, **SETTINGS)
    Run(slurm, workflow).ended()

    build = folder / "build"
    ours = records(build)
    theirs = [slurms_record(slurm, record["batch_job"]) for record in ours]
    assert len(ours) > 3
    assert {job["Partition"] for job in theirs} == {"standard"}
    assert {job["MinMemoryNode"] for job in theirs} == {"1908M"}
    assert most_at_a_time([slurms_span(job) for job in theirs]) == 3
    assert most_at_a_time([(record["started"], record["ended"]) for record in ours]) <= 3
    assert not compare_builds(local_run(folder, workflow), build)


# Jobs that come to harm.


@pytest.mark.long
def test_a_job_killed_by_hand_is_tried_again(slurm: Cluster, moody_reference: Path) -> None:
    """``scancel`` of one job: this one runs again, the others do not."""
    folder = in_trouble(slurm, sleep=8)
    run = Run(slurm, folder / "workflow.yaml")
    run.until(lambda: tries(folder)["dy"])
    set_mood(folder)
    note = next((folder / "build").glob("smk/failures/*/dy*.json"))
    job = re.search(r'"batch_job": "(\d+)"', note.read_text())
    assert job
    slurm.run("scancel", job[1])
    run.ended()

    assert tries(folder) == {"data": 2, "dy": 2}
    record = moody_record(folder)
    assert record["attempt"] == 2
    assert [(item["attempt"], item["batch_job"]) for item in record["earlier"]] == [(1, job[1])]
    assert record["earlier"][0]["kind"] == "killed"
    is_right(folder, moody_reference)


def test_a_job_that_runs_out_of_memory_gets_more(slurm: Cluster, moody_reference: Path) -> None:
    """800 MB are asked for, 1.2 GB are taken: the second attempt asks for twice as much."""
    folder = in_trouble(slurm, execution={"resources": {"memory": "800MB"}}, memory=1_200_000_000)
    Run(slurm, folder / "workflow.yaml").ended()

    record = moody_record(folder)
    assert record["attempt"] == 2
    assert record["asked"]["memory"] == 1600 * 10**6
    [earlier] = record["earlier"]
    assert (earlier["kind"], earlier["memory"]) == ("memory", 800 * 10**6)
    # Said by the job itself or by Slurm, whichever was quicker.
    assert re.search("it needs more memory than the 800 MB|xceeded .*memory", earlier["problem"])
    assert slurms_record(slurm, record["batch_job"])["MinMemoryNode"] == "1526M"
    assert slurms_record(slurm, earlier["batch_job"])["MinMemoryNode"] == "763M"
    is_right(folder, moody_reference)


@pytest.mark.long
def test_a_pool_with_too_little_memory_is_the_end(slurm: Cluster) -> None:
    """Where the pool has no more, no other job is submitted, and the message says all of it."""
    folder = in_trouble(slurm, retries=1, memory=2_500_000_000)
    said = Run(slurm, folder / "workflow.yaml").ended(status=1)

    assert len(jobs_of(slurm, folder, "all")) == 3
    [about] = [part for part in re.split(r"\n(?=rule )", said) if "dataset:   dy" in part]
    assert about.startswith("rule stages_Moody_to_Met (stages read.events, Moody, Met) failed: ")
    for line in (
        r"file: +data/dy_0\.root \(all entries\)",
        r"where: +pool 'default' on \S+, slurm job \d+",
        r"memory: +2 GB asked for, (\d{4} MB used|use unknown)",
        r"log: +(\S*dy\S*)",
    ):
        assert re.search(rf"^    {line}$", about, re.MULTILINE), line
    title = about.splitlines()[0]
    assert re.search("it needs more memory than the 2 GB|over its memory, 2 GB,", title)
    assert title.endswith("; not tried again: no other attempt would get more")
    assert tries(folder) == {"data": 2, "dy": 1}


def test_a_job_that_takes_too_long_says_so(slurm: Cluster) -> None:
    """A stage's ``timeout`` ends it after five seconds, though Slurm counts in minutes."""
    folder = in_trouble(slurm, execution={"timeout": 5}, retries=0, sleep=60)
    said = Run(slurm, folder / "workflow.yaml").ended(status=1)
    assert "the time limit of pool 'default', 00:00:05, has passed" in said
    assert tries(folder) == {"data": 2, "dy": 1}


@pytest.mark.long
def test_a_partition_that_fails_at_every_attempt_is_missing(slurm: Cluster) -> None:
    """Its attempts are used up first; then the run ends without it, and says so."""
    folder = in_trouble(slurm, retries=1, fail="data/data_1.root")
    said = Run(slurm, folder / "workflow.yaml", "--accept-missing", "1").ended()
    assert tries(folder) == {"data": 3, "dy": 1}
    assert "THE RESULTS ARE INCOMPLETE: 1 of 3 partitions is missing:" in said
    assert "    data: data/data_1.root, all entries: stage 'Moody' (own.moody) failed: " in said


@pytest.mark.long
def test_a_bundle_is_one_job_and_is_tried_again_for_what_is_not_done(
    slurm: Cluster, moody_reference: Path
) -> None:
    """Two partitions are one job of Slurm, with the time of two; the one that is done stays so."""
    folder = in_trouble(slurm, retries=1, fail="data/data_1.root")
    said = Run(slurm, folder / "workflow.yaml", "--bundle", "2").ended(status=1)
    assert "dataset:   data\n    file:      data/data_1.root (all entries)" in said
    assert tries(folder) == {"data": 3, "dy": 1}
    done = moody_record(folder, "data")
    assert slurms_record(slurm, done["batch_job"])["TimeLimit"] == "00:10:00"
    log = re.search(r"log: +(\S+)", said)
    assert log
    assert "as the mood says" in Path(log[1]).read_text()
    set_mood(folder)
    Run(slurm, folder / "workflow.yaml", "--bundle", "2").ended()
    assert tries(folder) == {"data": 4, "dy": 1}
    is_right(folder, moody_reference)


@pytest.mark.long
def test_what_shares_a_job_with_a_missing_partition_is_not_missing(slurm: Cluster) -> None:
    """Three partitions are one job of Slurm, which ends when one fails: the others run alone."""
    folder = in_trouble(slurm, retries=0, together=3, fail="data/data_1.root")
    said = Run(slurm, folder / "workflow.yaml", "--accept-missing", "1").ended()
    assert "THE RESULTS ARE INCOMPLETE: 1 of 3 partitions is missing:" in said
    assert "    data: data/data_1.root, all entries: stage 'Moody' (own.moody) failed: " in said


# A cluster that comes to harm.


@pytest.fixture(scope="module")
def fragile() -> Iterator[Cluster]:
    """A Slurm of one's own that may be broken."""
    name = f"slurm-{os.environ.get('PYTEST_XDIST_WORKER', 'only')}"
    with cluster("slurm", {"SLURM_CONF": "etc/slurm.conf"}, name=name) as running:
        yield running


@contextmanager
def without(slurm: Cluster, daemon: str) -> Iterator[None]:
    """Kill a daemon of the cluster, a node's with its jobs, and start it again in the end."""
    if daemon == "slurmctld":
        written_down(slurm)
    off = slurm.folder / "run" / f"{daemon}.off"
    off.touch()
    end = time.monotonic() + 20
    try:
        while off.read_text() != "killed\n":
            assert time.monotonic() < end
            time.sleep(0.1)
        yield
    finally:
        off.unlink()


def written_down(slurm: Cluster) -> None:
    """Let the controller write down which jobs have started: killed before, it starts them again.

    It writes when a job is submitted, changed or over, and else once in five minutes.
    """
    state = slurm.folder / "state" / "slurmctld" / "job_state"
    if not state.exists():  # there was no job yet
        return
    before, end = state.stat().st_mtime_ns, time.monotonic() + 30
    jobs = slurm.run("squeue", "--noheader", "--format=%A", "--states=RUNNING").stdout.split()
    for job in jobs:
        as_root(slurm, "scontrol", "update", f"jobid={job}", "admincomment=runs")
    while jobs and state.stat().st_mtime_ns == before:
        assert time.monotonic() < end
        time.sleep(0.1)


def as_root(slurm: Cluster, *command: str) -> None:
    subprocess.run(command, env={**os.environ, **slurm.env}, check=True, timeout=30)


def test_a_node_that_dies_loses_no_result(fragile: Cluster, moody_reference: Path) -> None:
    """A node dies with its jobs, and is declared down: they run elsewhere."""
    folder = in_trouble(fragile, sleep=8)
    run = Run(fragile, folder / "workflow.yaml")
    run.until(lambda: sum(tries(folder).values()) == 3)
    set_mood(folder)
    notes = (folder / "build").glob("smk/failures/*/*.json")
    jobs = [json.loads(note.read_text())["batch_job"] for note in notes]
    node = slurms_record(fragile, jobs[0])["NodeList"]
    lost = [job for job in jobs if slurms_record(fragile, job)["NodeList"] == node]
    with without(fragile, node):
        as_root(fragile, "scontrol", "update", f"nodename={node}", "state=down", "reason=test")
        # Slurm puts these jobs back into the queue, for later; the test does not wait so long.
        run.until(lambda: set(lost) <= set(jobs_of(fragile, folder, "PENDING")))
        for job in lost:
            as_root(fragile, "scontrol", "update", f"jobid={job}", "starttime=now")
        run.ended()
    assert sum(tries(folder).values()) == 3 + len(lost)
    nodes = [slurms_record(fragile, job)["NodeList"] for job in jobs]
    assert node not in nodes
    is_right(folder, moody_reference)


@pytest.mark.long
def test_a_controller_that_restarts_loses_no_job(fragile: Cluster, moody_reference: Path) -> None:
    """Slurm does not answer while jobs are submitted, and again while Snakemake waits for them.

    No attempt is used up: there is only one.
    """
    folder = in_trouble(fragile, retries=0, sleep=60)
    run = Run(fragile, folder / "workflow.yaml")
    run.until((folder / "build" / "debug" / "distributed" / "snakemake.log").exists)
    with without(fragile, "slurmctld"):
        run.says("Slurm does not answer, trying again")
    run.until(lambda: sum(tries(folder).values()) == 3)
    with without(fragile, "slurmctld"):
        run.says("the states of jobs are not known: Slurm does not report them; running jobs go on")
    run.says("Slurm reports the states of jobs again")
    run.ended()
    assert sum(tries(folder).values()) == 3
    is_right(folder, moody_reference)


@pytest.mark.long
def test_jobs_that_slurm_has_forgotten_are_submitted_again(
    fragile: Cluster, moody_reference: Path
) -> None:
    """Its controller comes back without its state; there is only one attempt."""
    folder = in_trouble(fragile, retries=0, sleep=300)
    run = Run(fragile, folder / "workflow.yaml")
    run.until(lambda: sum(tries(folder).values()) == 3)
    with without(fragile, "slurmctld"):
        for path in (fragile.folder / "state" / "slurmctld").glob("job_state*"):
            path.unlink()
        set_mood(folder, sleep=0)
    run.says("Slurm does not know job", 180)
    said = run.ended()
    assert (
        len(re.findall(r"Slurm does not know job \d+ any more: it is submitted again", said)) == 3
    )
    assert sum(tries(folder).values()) == 6
    assert not (folder / "twice.txt").exists()
    is_right(folder, moody_reference)


#: Stands before Slurm's own: waits as long as there is a file, then is that.
LATE_SRUN = """\
#!/bin/sh
touch {folder}/late/begun
while [ -e {folder}/late/wait ]; do sleep 0.2; done
exec /usr/bin/srun "$@"
"""


@pytest.mark.waits
def test_a_job_whose_srun_meets_no_controller_has_not_begun(
    fragile: Cluster, moody_reference: Path
) -> None:
    """Three partitions in a batch job, which a Snakemake starts on the node: at the one attempt."""
    folder = in_trouble(fragile, retries=0, together=3)
    (folder / "late").mkdir()
    (folder / "late/wait").touch()
    (folder / "late/srun").write_text(LATE_SRUN.format(folder=folder))
    (folder / "late/srun").chmod(0o755)
    given_away(folder)
    path = f"{folder}/late:{os.environ['PATH']}"
    run = Run(fragile, folder / "workflow.yaml", variables={"PATH": path})
    run.until((folder / "late/begun").exists)
    with without(fragile, "slurmctld"):
        (folder / "late/wait").unlink()
        time.sleep(20)
    run.says("it is submitted again", 60)
    run.ended()
    assert tries(folder) == {"data": 2, "dy": 1}
    assert [one["attempt"] for one in records(folder / "build")] == [1] * 4
    is_right(folder, moody_reference)


@pytest.mark.long
def test_a_work_folder_that_cannot_be_written(slurm: Cluster, moody_reference: Path) -> None:
    """The message says what is wrong; when that is fixed, the next call goes on."""
    folder = in_trouble(slurm, retries=0, sleep=4)
    run = Run(slurm, folder / "workflow.yaml")
    run.until(lambda: sum(tries(folder).values()) == 3)
    work = folder / "build" / "smk" / "work"
    for path in [work, *work.rglob("*")]:
        path.chmod(0o555)
    said = run.ended(status=1)
    assert "Permission denied" in said
    assert "smk/work" in said

    for path in [work, *work.rglob("*")]:
        path.chmod(0o755)
    set_mood(folder)
    Run(slurm, folder / "workflow.yaml").ended()
    is_right(folder, moody_reference)


@pytest.mark.parametrize(
    ("options", "words", "fix"),
    [
        (
            {"constraint": "no_such_feature"},
            "Invalid feature specification",
            "constraint: FEATURE",
        ),
        pytest.param(
            {"extra": ["--licenses=no_such_license"]},
            "Invalid license specification",
            "extra: [--licenses=NAME]",
            marks=pytest.mark.long,
        ),
    ],
)
def test_what_slurm_refuses_is_said_once(
    slurm: Cluster, options: dict[str, Any], words: str, fix: str
) -> None:
    """A job that cannot be submitted ends the run, with Slurm's own words and the fix."""
    folder = in_trouble(slurm, slurm_options=options, retries=2)
    sbatch = folder / "bin/sbatch"
    sbatch.parent.mkdir()
    sbatch.write_text(f'#!/bin/sh\necho >>{folder}/calls.txt\nexec /usr/bin/sbatch "$@"\n')
    sbatch.chmod(0o755)
    given_away(folder)
    path = {"PATH": f"{folder}/bin:{os.environ['PATH']}"}
    said = Run(slurm, folder / "workflow.yaml", variables=path).ended(status=1, seconds=60)
    assert (
        "3 jobs failed; finished jobs are kept:\n"
        f"3 jobs could not be submitted: Batch job submission failed: {words}\n"
        "    dataset:   data, dy\n"
        "    file:      data/data_0.root (all entries) and 2 more\n"
        "    where:     pool 'default'\n"
        f"    fix:       config: {{slurm: {{{fix}}}}} in the pool, or in the site's pools.yaml; "
    ) in said
    assert said.count(words) == 1
    assert said.count(": could not be submitted\n") == 3
    assert not tries(folder)
    assert len((folder / "calls.txt").read_text()) == 3  # no job is tried again


def test_a_time_that_no_partition_allows_is_refused_before_the_run(slurm: Cluster) -> None:
    """The pool asks for five minutes, partition ``short`` gives two."""
    folder = in_trouble(slurm, slurm_options={"partition": "short"})
    said = Run(slurm, folder / "workflow.yaml").ended(status=1, seconds=60)
    assert "asks for more than partition short has" in said
    assert "walltime: 00:05:00" in said
    assert not jobs_of(slurm, folder, "all")


# Runs that are stopped.


@pytest.mark.parametrize("number", some([signal.SIGINT, signal.SIGTERM], 1))
def test_a_run_that_is_stopped_leaves_nothing_behind(
    slurm: Cluster, moody_reference: Path, number: signal.Signals
) -> None:
    """Ctrl-C: jobs that run and jobs that wait are cancelled, and the next call goes on.

    Jobs are submitted on hold. One is released and finishes, one is released and runs, the third
    is never released.
    """
    folder = in_trouble(slurm, slurm_options={"extra": ["--hold"]})
    run = Run(slurm, folder / "workflow.yaml", "--waiting", "3")
    run.until(lambda: len(jobs_of(slurm, folder, "PENDING")) == 3)
    run.says("3 jobs wait in partition standard: JobHeldUser", 20)
    first, second, _ = sorted(jobs_of(slurm, folder))
    slurm.run("scontrol", "release", first)
    run.says("[1/", 60)
    set_mood(folder, sleep=120)
    slurm.run("scontrol", "release", second)
    run.until(lambda: sum(tries(folder).values()) == 2)
    before = finished(folder)
    assert len(before) == 1

    run.process.send_signal(number)
    stopped = time.monotonic()
    said = run.ended(status=130, seconds=60)
    assert time.monotonic() - stopped < 15
    assert "stopped; finished jobs are kept, run again to resume" in said
    assert jobs_of(slurm, folder, "PENDING", "RUNNING") == []

    set_mood(folder)
    at(folder)
    Run(slurm, folder / "workflow.yaml").ended()
    is_right(folder, moody_reference)
    assert before.items() <= finished(folder).items()
    assert sum(tries(folder).values()) == 4

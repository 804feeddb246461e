"""Analyses on a real HTCondor: where jobs ran, by HTCondor's own records, and what happens when
jobs, machines or people interfere."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest
import yaml

from tests.clusters import analyses
from tests.clusters.conftest import Cluster, cluster
from tests.support.compare import compare_builds
from tests.support.forms import some
from tests.support.project import once, shared_base

pytestmark = [pytest.mark.integration, pytest.mark.cluster]

# Tests are in a hurry: look often, and give up a held job after seconds.
SETTINGS = {
    "executor": "htcondor",
    "seconds-between-status-checks": 1,
    "htcondor-held-timeout": 3,
}
# What Snakemake, its plugin and HTCondor's bindings print, and nobody wants to read.
NOISE = ("UserWarning", "CONDOR_CONFIG", "-m snakemake", "Traceback", "Will fail in", "ClusterId")
GB = 10**9


class Run:
    """A ``fasthep-smk`` under way on the cluster, and what it has said."""

    under_way: ClassVar[list[subprocess.Popen[str]]] = []

    def __init__(self, htcondor: Cluster, folder: Path, *options: str) -> None:
        self.folder = folder
        workflow = next(
            folder / n for n in ("inline.yaml", "workflow.yaml") if (folder / n).exists()
        )
        self.process = analyses.start(htcondor, workflow, "--profile", "site", *options)
        self.under_way.append(self.process)
        self._lines: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        self._lines.extend(self.process.stdout)

    @property
    def said(self) -> str:
        return "".join(self._lines)

    def until(self, condition: Callable[[], Any], seconds: float = 40) -> Any:
        """Wait until something is so, while the run goes on."""
        end = time.monotonic() + seconds
        while not (found := condition()):
            assert self.process.poll() is None, f"it ended before that:\n{self.said}"
            assert time.monotonic() < end, f"not within {seconds} s:\n{self.said}"
            time.sleep(0.2)
        return found

    def until_tried(self, number: int = 1) -> None:
        """Wait until the moody op was started so many times."""
        self.until(lambda: len(tries(self.folder)) >= number)

    def ended(self, status: int = 0, seconds: float = 120) -> str:
        """Wait for the end; everything that was said."""
        try:
            self.process.wait(timeout=seconds)
        except subprocess.TimeoutExpired:
            self.process.terminate()
            self.process.wait(timeout=30)
            pytest.fail(f"no end within {seconds} s:\n{self.said}")
        self._reader.join(timeout=10)
        assert self.process.returncode == status, self.said
        assert not [word for word in NOISE if word in self.said], self.said
        return self.said


@pytest.fixture(autouse=True)
def nothing_runs_on() -> Iterator[None]:
    """A test that has failed leaves no run under way."""
    yield
    while Run.under_way:
        process = Run.under_way.pop()
        process.terminate()
        try:
            process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            process.kill()


def tries(folder: Path) -> list[str]:
    """One word for each time that the moody op was started: the dataset's name."""
    path = folder / "tries.txt"
    return [line.split()[1] for line in path.read_text().splitlines()] if path.exists() else []


def queue(htcondor: Cluster, folder: Path) -> dict[str, int]:
    """The jobs of a folder's runs that HTCondor still knows: number and status."""
    shown = htcondor.run("condor_q", "-af", "ClusterId", "JobStatus", "Iwd", timeout=20)
    assert shown.returncode == 0, shown.stderr
    lines = [line.split(maxsplit=2) for line in shown.stdout.splitlines()]
    return {job: int(status) for job, status, where in lines if where.startswith(f"{folder}/")}


def running(htcondor: Cluster, folder: Path) -> list[str]:
    return [job for job, status in queue(htcondor, folder).items() if status == 2]


def is_empty_within(htcondor: Cluster, folder: Path, seconds: float) -> bool:
    """Whether nothing of a folder's runs is left in the queue before so long."""
    end = time.monotonic() + seconds
    while queue(htcondor, folder):
        if time.monotonic() > end:
            return False
        time.sleep(0.5)
    return True


def history(htcondor: Cluster, jobs: list[str]) -> dict[str, dict[str, Any]]:
    """HTCondor's own records of ended jobs; it writes them a moment after the end."""
    end = time.monotonic() + 20
    found: dict[str, dict[str, Any]] = {}
    while set(found) != set(jobs):
        assert time.monotonic() < end, f"no record of {sorted(set(jobs) - set(found))}"
        shown = htcondor.run("condor_history", "-json", *jobs, timeout=20)
        found = {str(ad["ClusterId"]): ad for ad in json.loads(shown.stdout or "[]")}
    return found


def most_at_a_time(spans: list[tuple[float, float]]) -> int:
    """How many of some things were under way at the same time."""
    here = most = 0
    for _, change_of in sorted([(a, 1) for a, _ in spans] + [(b, -1) for _, b in spans]):
        here += change_of
        most = max(most, here)
    return most


def spans_of(ads: list[dict[str, Any]]) -> list[tuple[float, float]]:
    return [(ad["JobStartDate"], ad["CompletionDate"]) for ad in ads]


def the_record(folder: Path) -> dict[str, Any]:
    """The record of the moody job, where there is one."""
    [found] = [r for r in analyses.records(folder / "build") if "Moody" in r["rule"]]
    return found


def in_trouble(
    htcondor: Cluster,
    *,
    files: int = 1,
    execution: dict[str, Any] | None = None,
    pool: dict[str, Any] | None = None,
    settings: dict[str, Any] | None = None,
    **mood: Any,
) -> Path:
    """A folder with the moody analysis of so many files, one job each, and a site."""
    folder = htcondor.new_folder()
    default = {"workers": 3, "resources": {"memory": "2GB"}, **(pool or {})}
    prepare_moody(folder, files, execution or {}, {"default": default})
    analyses.set_mood(folder, **mood)
    analyses.site(folder, {}, **{**SETTINGS, **(settings or {})})
    return folder


def prepare_moody(
    folder: Path, files: int, execution: dict[str, Any], pools: dict[str, Any]
) -> Path:
    workflow = analyses.moody(folder, execution=execution, pools=pools)
    content = yaml.safe_load(workflow.read_text())
    datasets = content["data"]["datasets"]
    content["data"]["datasets"] = datasets if files == 3 else datasets[:1]
    datasets[0]["files"] = datasets[0]["files"][:files]
    workflow.write_text(yaml.safe_dump(content))
    return workflow


def local_run(folder: Path, workflow: str, outdir: str, *options: str) -> Path:
    """Run an analysis on this machine alone; its build folder."""
    return analyses.at_home(folder, workflow, outdir, "--profile", "local", *options)


@pytest.fixture(scope="module")
def right(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Path], list[str]]:
    """What differs from a run of the moody analysis on this machine; nothing if all is right."""
    references: dict[int, Path] = {}

    def differences(folder: Path) -> list[str]:
        content = yaml.safe_load((folder / "workflow.yaml").read_text())
        files = sum(len(dataset["files"]) for dataset in content["data"]["datasets"])
        if files not in references:

            def make(here: Path) -> None:
                here.mkdir()
                prepare_moody(here, files, {}, {"default": {}})
                local_run(here, "workflow.yaml", "build")

            base = shared_base(tmp_path_factory)
            references[files] = once(base / f"moody-{files}", make) / "build"
        return compare_builds(references[files], folder / "build")

    return differences


# A run without trouble.

SITE = {
    "default": {
        "config": {
            "walltime": "00:10:00",
            "htcondor": {
                "classads": {"MyExperiment": "cms", "MyNumber": 42},
                "accounting_group": "group_physics.higgs",
                "job_flavour": "longlunch",
                "concurrency_limits": ["fasthep", "disk:2"],
                "priority": 7,
                "requirements": '(Arch == "X86_64") && (OpSys == "LINUX")',
                "rank": "Memory",
                "submit": {
                    "job_max_vacate_time": 30,
                    "periodic_release": "NumHolds < 1",
                    "MY.Project": '"higgs"',
                },
            },
        }
    },
    "pool_profiles": {
        "gpu": {
            "config": {
                "walltime": "00:05:00",
                "htcondor": {
                    "classads": {"MyNumber": 43},
                    "job_flavour": None,
                    "flavours": {"day": "1d", "short": "00:05:00"},
                },
            }
        }
    },
}


#: What each rule of the three pools asks for, and where it has to run.
EXPECTED = {
    # rule: jobs, slot, processors, megabytes of 2**20 bytes, GPUs, seconds
    "stage_BuildIndex": (2, "slot2", 8, 122071, 0, 600),
    "stage_RunInference": (2, "slot3", 1, 15259, 1, 300),
    "stages_Muons_to_MuonPt": (2, "slot1", 1, 3815, 0, 600),
    "finish": (1, "slot1", 1, 3815, 0, 600),
}


def test_three_pools_are_three_kinds_of_slots(htcondor: Cluster, tmp_path: Path) -> None:
    """Each rule runs on the slots of its pool with the requests and options of its pool, by
    HTCondor's own records; never more jobs than workers; the results are those of this machine."""
    folder = htcondor.new_folder()
    analyses.three_pools(folder, each=1)
    analyses.site(folder, SITE, **SETTINGS)
    said = Run(htcondor, folder).ended().splitlines()

    by_rule = history_by_rule(htcondor, folder)
    assert set(by_rule) == set(EXPECTED)
    for rule, (jobs, slot, cpus, memory, gpus, seconds) in EXPECTED.items():
        assert len(by_rule[rule]) == jobs
        for ad in by_rule[rule]:
            assert ad["LastRemoteHost"].startswith(f"{slot}_")
            assert (ad["RequestCpus"], ad["RequestMemory"]) == (cpus, memory)
            assert ad.get("RequestGPUs", 0) == gpus
            assert ad["AllowedExecuteDuration"] == seconds
            assert (ad["JobStatus"], ad["ExitCode"], ad["NumJobStarts"]) == (4, 0, 1)
            has_the_options_of_its_pool(ad, rule)

    # One worker has a GPU. (That two have much memory is seen on Slurm, with more jobs.)
    ours = [r for r in analyses.records(folder / "build") if r["rule"] == "stage_RunInference"]
    assert most_at_a_time([(r["started"], r["ended"]) for r in ours]) == 1
    assert most_at_a_time(spans_of(by_rule["stage_RunInference"])) == 1

    # The plan, a line per finished job, the results; neither warnings nor command lines.
    assert said[0].startswith("7 jobs to run: 2 x stage_BuildIndex")
    counted = [line.partition(" jobs done")[0] for line in said[1:8]]
    assert counted == [f"[{number}/7]" for number in range(1, 8)]
    assert said[8].startswith("7 jobs done; results in")
    analyses.has_a_right_page(folder / "build", tmp_path)

    local_run(folder, "inline.yaml", "local", "--shrink-to-fit")
    assert not compare_builds(folder / "local", folder / "build")


def has_the_options_of_its_pool(ad: dict[str, Any], rule: str) -> None:
    assert ad["MyExperiment"] == "cms"
    assert ad["MyNumber"] == (43 if rule == "stage_RunInference" else 42)
    assert ad["AccountingGroup"] == "group_physics.higgs"
    assert ad["JobFlavour"] == ("short" if rule == "stage_RunInference" else "longlunch")
    assert ad["ConcurrencyLimits"] == "fasthep,disk:2"
    assert ad["JobPrio"] == 7
    assert ad["JobMaxVacateTime"] == 30
    assert ad["Project"] == "higgs"
    assert ad["PeriodicRelease"] == "/Expr(NumHolds < 1)/"
    assert ad["JobBatchName"].startswith(rule)
    assert 'Arch == "X86_64"' in str(ad["Requirements"])
    assert "Memory" in str(ad["Rank"])


def history_by_rule(
    htcondor: Cluster, folder: Path, but: tuple[str, ...] = ()
) -> dict[str, list[dict[str, Any]]]:
    """HTCondor's records of all finished jobs of a folder's runs, by rule, without some rules."""
    records = [one for one in analyses.records(folder / "build") if one["rule"] not in but]
    ads = history(htcondor, [record["batch_job"] for record in records])
    found: dict[str, list[dict[str, Any]]] = {}
    for record in records:
        found.setdefault(record["rule"], []).append(ads[record["batch_job"]])
    return found


@pytest.mark.long
def test_the_demo_runs_three_jobs_at_a_time(htcondor: Cluster) -> None:
    """208,000 events in five datasets on three workers: at most three jobs, and three at times."""
    folder = htcondor.new_folder()
    analyses.demo(folder)
    workers = {"default": {"workers": 3, "resources": {"memory": "2GB"}}}
    analyses.site(folder, {"pool_profiles": workers}, **SETTINGS)
    Run(htcondor, folder).ended()

    ours = analyses.records(folder / "build")
    ads = list(history(htcondor, [record["batch_job"] for record in ours]).values())
    assert len(ads) == 8
    assert {ad["LastRemoteHost"].split("_")[0] for ad in ads} == {"slot1"}
    assert {ad["RequestMemory"] for ad in ads} == {1908}
    assert most_at_a_time(spans_of(ads)) == 3
    assert most_at_a_time([(record["started"], record["ended"]) for record in ours]) <= 3
    assert not compare_builds(local_run(folder, "workflow.yaml", "local"), folder / "build")
    summary = yaml.safe_load((folder / "build/run_summary.yaml").read_text())
    assert (summary["backend"], summary["strategy"]) == ("snakemake", "htcondor")
    assert summary["ran_on"] == [{"system": "htcondor", "pool": "default", "jobs": 8}]


# Jobs come to harm.


@pytest.mark.long
def test_a_removed_job_is_tried_again(
    htcondor: Cluster, right: Callable[[Path], list[str]]
) -> None:
    """``condor_rm`` of one of three jobs: this one runs a second time, the others do not."""
    folder = in_trouble(htcondor, files=3, sleep=7)
    run = Run(htcondor, folder)
    run.until_tried(3)
    victim = running(htcondor, folder)[0]
    htcondor.run("condor_rm", victim)
    run.until(lambda: victim not in queue(htcondor, folder), 10)
    analyses.set_mood(folder)
    run.ended()

    assert len(tries(folder)) == 4
    moody = [r for r in analyses.records(folder / "build") if "Moody" in r["rule"]]
    assert sorted(record["attempt"] for record in moody) == [1, 1, 2]
    [again] = [record for record in moody if record["attempt"] == 2]
    [first] = again["earlier"]
    assert (first["attempt"], first["kind"], first["batch_job"]) == (1, "killed", victim)
    assert not right(folder)


def test_a_job_that_takes_more_memory_gets_more(
    htcondor: Cluster, right: Callable[[Path], list[str]]
) -> None:
    """600 MB asked for, 0.9 GB taken: the second attempt asks for 1.2 GB of the pool's 2 GB."""
    folder = in_trouble(htcondor, execution={"resources": {"memory": "600MB"}}, memory=700_000_000)
    Run(htcondor, folder).ended()

    record = the_record(folder)
    assert record["attempt"] == 2, record["earlier"]
    [first] = record["earlier"]
    assert first["memory"] == 600_000_000
    # The job looks at its memory far more often than HTCondor, but HTCondor may be the quicker.
    words = {
        "memory": "it needs more memory than the 600 MB of pool 'default'"
        "|over its memory, 600 MB, of pool 'default'",
        "killed": "ended without an error message|HTCondor: removed|signal 9",
    }
    assert re.search(words[first["kind"]], first["problem"]), first
    # Removed after HTCondor held it, or ended by itself before that.
    ads = history(htcondor, [first["batch_job"], record["batch_job"]])
    assert ads[first["batch_job"]]["RequestMemory"] == 573
    assert ads[record["batch_job"]]["RequestMemory"] == 1145
    assert not queue(htcondor, folder)
    assert not right(folder)


@pytest.mark.long
def test_where_the_pool_has_no_more_memory_the_end_is_clear(htcondor: Cluster) -> None:
    """No other job is submitted; the message says who, where, on what, with how much."""
    folder = in_trouble(htcondor, pool={"resources": {"memory": "600MB"}}, memory=900_000_000)
    said = Run(htcondor, folder).ended(status=1)

    assert len(tries(folder)) == 1
    title = r"stages? .*Moody.* failed: it needs more memory than the 600 MB of pool 'default'"
    assert re.search(f"{title}; not tried again: no other attempt would get more", said)
    lines = (folder / "build/debug/distributed/events.jsonl").read_text().splitlines()
    assert len([line for line in lines if '"Submitted"' in line]) == 1
    for line in (
        r"dataset: +data",
        r"file: +.*data/data_0.root \(all entries\)",
        r"where: +pool 'default' on \S+, htcondor job \d+",
        r"memory: +600 MB asked for, ([6-9]\d\d|\d{4}) MB used",
        r"log: +\S+/0_0.log",
    ):
        assert re.search(rf"^    {line}$", said, re.MULTILINE), f"{line!r} not in\n{said}"
    assert is_empty_within(htcondor, folder, 10)


# Shorter: the same on Slurm; HTCondor's own limit is in its records of the three pools.
@pytest.mark.long
def test_a_job_that_takes_too_long_says_so(htcondor: Cluster) -> None:
    """``timeout: 5`` ends a job that sleeps; HTCondor has the limit too, as a second guard."""
    folder = in_trouble(
        htcondor, execution={"timeout": 5}, pool={"config": {"retries": 0}}, sleep=60
    )
    said = Run(htcondor, folder).ended(status=1, seconds=40)
    assert "stage 'Moody' (own.moody) failed: " in said
    assert "the time limit of pool 'default', 00:00:05, has passed" in said
    job = re.search(r"htcondor job (\d+)", said)
    assert job
    assert history(htcondor, [job[1]])[job[1]]["AllowedExecuteDuration"] == 5


def test_a_job_held_for_too_long_is_tried_again(
    htcondor: Cluster, right: Callable[[Path], list[str]]
) -> None:
    """``condor_hold`` by hand: after the site's held timeout it runs anew; nothing stays queued."""
    folder = in_trouble(htcondor, sleep=30)
    run = Run(htcondor, folder)
    run.until_tried()
    analyses.set_mood(folder)
    [job] = running(htcondor, folder)
    htcondor.run("condor_hold", "-reason", "looks odd", job)
    run.ended()
    record = the_record(folder)
    assert (record["attempt"], len(tries(folder))) == (2, 2)
    assert record["earlier"][0]["batch_job"] == job
    assert is_empty_within(htcondor, folder, 10)
    assert not right(folder)


def test_a_job_held_at_its_last_attempt_ends_with_the_reason(htcondor: Cluster) -> None:
    """The message holds HTCondor's words, and the held job is taken out of the queue."""
    folder = in_trouble(htcondor, pool={"config": {"retries": 0}}, sleep=30)
    run = Run(htcondor, folder)
    run.until_tried()
    [job] = running(htcondor, folder)
    htcondor.run("condor_hold", "-reason", "looks odd", job)
    said = run.ended(status=1, seconds=30)
    assert "failed: HTCondor: held: looks odd (by user physicist)" in said
    assert f"htcondor job {job}" in said
    assert is_empty_within(htcondor, folder, 10)


def test_a_job_that_is_held_for_ever_fails_at_once(htcondor: Cluster) -> None:
    """Over its memory in one call, of which it does not hear itself; others wait five minutes."""
    folder = in_trouble(
        htcondor,
        pool={"resources": {"memory": "600MB"}, "config": {"retries": 0}},
        settings={"htcondor-held-timeout": 300},
        ends={"data": "memory"},
    )
    said = Run(htcondor, folder).ended(status=1, seconds=100)
    # On a busy machine, the job hears of it before HTCondor has looked.
    of_condor, of_job = (
        "over its memory, 600 MB, of pool 'default' (HTCondor: held: ",
        "it needs more memory",
    )
    assert of_condor in said or of_job in said
    assert is_empty_within(htcondor, folder, 10)


#: As HTCondor holds a job at its time; allowed_execute_duration does not always.
OVER_TIME = "periodic_hold = JobStatus == 2 && time() - EnteredCurrentStatus > 2"


def test_each_end_is_heard(htcondor: Cluster) -> None:
    """What HTCondor says of jobs, in its queue and in its history."""
    folder = htcondor.new_folder()
    ends = {
        "runs": ("sleep 300", "", "alive HTCondor: it runs"),
        "waits": ("true", "requirements = false", "alive HTCondor: it waits"),
        "done": ("true", "", "done HTCondor: exit code 0"),
        "exit 3": ("exit 3", "", "failed HTCondor: exit code 3"),
        "signal": ("kill -9 $$", "", "failed HTCondor: ended by signal 9"),
        "removed": ("sleep 300", "", "failed HTCondor: removed: via condor_rm"),
        "held": ("sleep 300", "", "held HTCondor: held: looks odd"),
        "over time": ("sleep 300", OVER_TIME, "failed HTCondor: held: "),
    }
    jobs = {}
    for name, (command, line, _) in ends.items():
        words = f"executable = /bin/sh\narguments = -c '{command}'\n{line}\nqueue\n"
        words = words.replace("-c '", "\"-c '").replace("'\n", "'\"\n")
        (folder / "submit").write_text(words)
        done = htcondor.run("condor_submit", "-terse", "submit", cwd=folder)
        jobs[name] = done.stdout.partition(".")[0]
    code = (
        "import sys, json; from pathlib import Path; from fasthep_smk.sites import htcondor;"
        "found = htcondor.status(sys.argv[2:], Path(sys.argv[1]), 1e9);"
        "print(json.dumps({job: f'{one.kind} {one.said}' for job, one in found.items()}))"
    )

    def found(place: Path) -> dict[str, str]:
        command = [sys.executable, "-c", code, place, *jobs.values(), "99999"]
        told: dict[str, str] = json.loads(htcondor.run(*command, cwd=folder).stdout)
        return told

    def until(condition: Callable[[], bool]) -> None:
        end = time.monotonic() + 60
        while not condition():
            assert time.monotonic() < end, found(folder)
            time.sleep(0.5)

    under_way = [jobs["removed"], jobs["held"]]
    until(lambda: all("runs" in found(folder)[job] for job in under_way))
    htcondor.run("condor_rm", jobs["removed"])
    htcondor.run("condor_hold", "-reason", "looks odd", jobs["held"])
    until(lambda: all(found(folder)[jobs[name]].startswith(ends[name][2]) for name in ends))
    assert found(folder)["99999"] == "gone "
    assert set(found(htcondor.shared).values()) == {"gone "}  # of another folder
    htcondor.run("condor_rm", *jobs.values())


def test_what_htcondor_refuses_is_said_once(htcondor: Cluster) -> None:
    """A job that cannot be submitted ends the run, with HTCondor's own words, at one attempt."""
    wrong = {"config": {"retries": 2, "htcondor": {"requirements": "Machine == "}}}
    folder = in_trouble(htcondor, pool=wrong)
    said = Run(htcondor, folder).ended(status=1)
    head, _, about = said.partition("1 job failed; finished jobs are kept:\n")
    assert about.startswith("a job could not be submitted: "), said
    assert "failed: stages_Moody_to_Met data/0_0: could not be submitted\n" in head
    assert about.endswith(
        "    dataset:   data\n"
        "    file:      data/data_0.root (all entries)\n"
        "    where:     pool 'default'\n"
        "    fix:       config: {htcondor: {requirements: EXPRESSION}} in the pool, or in the "
        "site's pools.yaml\n"
    )
    lines = (folder / "build/debug/distributed/events.jsonl").read_text().splitlines()
    assert len([line for line in lines if '"JobFailed"' in line]) == 1


@pytest.mark.long
def test_a_folder_that_cannot_be_written_is_named_and_the_next_call_goes_on(
    htcondor: Cluster, right: Callable[[Path], list[str]]
) -> None:
    """One of two jobs has ended when the work folder loses its permission; only the other runs
    again after the fix."""
    pool = {"workers": 1, "config": {"retries": 0}}
    folder = in_trouble(htcondor, files=2, pool=pool)
    run = Run(htcondor, folder)
    run.until_tried()
    analyses.set_mood(folder, sleep=4)
    run.until_tried(2)
    rule = next(folder.glob("build/smk/work/*Moody*/data"))
    before = finished(folder)
    rule.chmod(0o555)
    said = run.ended(status=1)
    assert f"PermissionError: [Errno 13] Permission denied: '{rule}/" in said
    rule.chmod(0o755)
    analyses.set_mood(folder)
    Run(htcondor, folder).ended()
    assert len(tries(folder)) == 3
    assert before.items() <= finished(folder).items()
    assert not right(folder)


# A run is stopped.


@pytest.mark.parametrize("number", some([signal.SIGINT, signal.SIGTERM], 1))
def test_a_run_that_is_stopped_leaves_nothing_in_the_queue(
    htcondor: Cluster, right: Callable[[Path], list[str]], number: signal.Signals
) -> None:
    """Ctrl-C or a kill: what was submitted is removed, what finished is kept and not run again."""
    folder = in_trouble(htcondor, files=2, pool={"workers": 1})
    run = Run(htcondor, folder)
    run.until_tried()
    analyses.set_mood(folder, sleep=90)
    run.until_tried(2)
    before = finished(folder)
    run.process.send_signal(number)
    said = run.ended(status=130, seconds=20)
    assert "stopped; finished jobs are kept, run again to resume" in said
    assert is_empty_within(htcondor, folder, 15)
    assert len(before) == 1

    analyses.set_mood(folder)
    Run(htcondor, folder).ended()
    assert len(tries(folder)) == 3
    assert before.items() <= finished(folder).items()
    assert not right(folder)


def finished(folder: Path) -> dict[str, tuple[float, int]]:
    """When and as which process the finished jobs of a folder's runs ran."""
    return {
        f"{record['rule']}/{record['key']}": (record["started"], record["pid"])
        for record in analyses.records(folder / "build")
    }


# Jobs wait.


def test_a_run_says_which_jobs_wait_and_why(htcondor: Cluster) -> None:
    """No slot is what the pool requires: HTCondor's reason is on the screen after ``--waiting``."""
    htcondor_options = {"htcondor": {"requirements": '(Machine == "nowhere")'}}
    folder = in_trouble(
        htcondor, pool={"config": htcondor_options}, settings={"htcondor-held-timeout": 300}
    )
    started = time.monotonic()
    run = Run(htcondor, folder, "--waiting", "3")
    run.until(lambda: "jobs to run" in run.said)
    run.until(lambda: "1 job waits in rule stages_Moody_to_Met: no match found" in run.said, 8)
    [job] = queue(htcondor, folder)
    htcondor.run("condor_hold", "-reason", "looks odd", job)
    run.until(lambda: "held: looks odd" in run.said, 10)
    assert time.monotonic() - started < 40
    run.process.terminate()
    run.ended(status=130, seconds=20)
    assert is_empty_within(htcondor, folder, 15)
    assert not tries(folder)


# The cluster itself comes to harm: one that no other test uses.


@pytest.fixture(scope="module")
def fragile() -> Iterator[Cluster]:
    """An HTCondor that no other test uses, for those that break it."""
    files = {"CONDOR_CONFIG": "condor_config"}
    with cluster("htcondor", files, f"htcondor-fragile-{os.getpid()}") as running:
        yield running


def daemons(fragile: Cluster, name: str) -> list[int]:
    """The process ids of a cluster's daemons of that name."""
    found = []
    config = f"CONDOR_CONFIG={fragile.folder}/daemons_config".encode()
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if (process / "comm").read_text().strip() == name[:15]:
                variables = (process / "environ").read_bytes().split(b"\0")
                found += [int(process.name)] if config in variables else []
        except OSError:
            continue
    return found


@pytest.mark.long
def test_a_run_waits_for_slots_that_others_have(
    fragile: Cluster, right: Callable[[Path], list[str]]
) -> None:
    """All processors are taken: the run says that its job waits, and goes on when they are free."""
    submission = "executable = /usr/bin/env\narguments = sleep 300\nrequest_cpus = 8\nqueue\n"
    (fragile.shared / "other.sub").write_text(submission)
    other = fragile.run("condor_submit", "-terse", "other.sub").stdout.split(".")[0]
    folder = in_trouble(fragile)
    run = Run(fragile, folder, "--waiting", "3")
    run.until(lambda: "1 job waits in rule stages_Moody_to_Met: no match found" in run.said, 20)
    fragile.run("condor_rm", other)
    run.ended()
    assert len(tries(folder)) == 1
    assert not right(folder)


def test_a_job_whose_machine_goes_away_runs_elsewhere_or_later(
    fragile: Cluster, right: Callable[[Path], list[str]]
) -> None:
    """The startd is stopped in mid-run: HTCondor itself runs the job again when it is back."""
    folder = in_trouble(fragile, sleep=30)
    run = Run(fragile, folder)
    run.until_tried()
    analyses.set_mood(folder)
    [startd] = daemons(fragile, "condor_startd")
    os.kill(startd, signal.SIGQUIT)  # what condor_off -fast does; the master starts it again
    run.ended()
    assert len(tries(folder)) == 2
    assert the_record(folder)["attempt"] == 1
    assert not right(folder)


@pytest.mark.long
def test_a_run_survives_a_restart_of_the_schedd(
    fragile: Cluster, right: Callable[[Path], list[str]]
) -> None:
    """The schedd dies in mid-run and comes back: its jobs run on, later ones are submitted."""
    folder = in_trouble(fragile, sleep=6)
    run = Run(fragile, folder)
    run.until_tried()
    [schedd] = daemons(fragile, "condor_schedd")
    os.kill(schedd, signal.SIGKILL)
    said = run.ended()
    assert "HTCondor does not answer, trying again" in said
    assert len(tries(folder)) == 1
    assert not right(folder)


@pytest.mark.long
def test_a_run_stopped_while_the_schedd_is_away_says_how_to_clean_up(fragile: Cluster) -> None:
    """Ctrl-C when nothing can be removed: the command for later is on the screen, and works."""
    folder = in_trouble(fragile, sleep=90)
    run = Run(fragile, folder)
    run.until_tried()
    [schedd] = daemons(fragile, "condor_schedd")
    os.kill(schedd, signal.SIGKILL)
    run.process.send_signal(signal.SIGINT)
    said = run.ended(status=130, seconds=40)
    assert "HTCondor does not answer: jobs of this run may be left in its queue." in said
    command = re.search(r"^    (condor_rm .*)$", said, re.MULTILINE)
    assert command
    end = time.monotonic() + 40
    while fragile.run(*shlex.split(command[1])).returncode and time.monotonic() < end:
        time.sleep(1)
    assert is_empty_within(fragile, folder, 15)

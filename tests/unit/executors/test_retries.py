"""Which jobs are tried again that have failed, and at which attempt."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fasthep_smk.executors import retries
from fasthep_smk.executors.retries import Retries, decide, pass_over_hopeless
from fasthep_smk.executors.sizes import Sizes
from fasthep_smk.storage import failures, layout
from fasthep_smk.storage.task_table import BundleEntry
from tests.support import tables

GB = 10**9
PACKAGE = Path(__file__).parents[3] / "fasthep_smk"


def job(attempt: int = 1, retries: int = 2, part: str = "0_0") -> Any:
    """A job that has failed at an attempt, of three."""
    log = layout.log("r", ["dy", part])
    told = {"attempt": attempt, "restart_times": retries, "log": [log], "is_group": lambda: False}
    rule, place = SimpleNamespace(name="r"), {"part": part}
    return SimpleNamespace(rule=rule, wildcards_dict=place, **told)


def build(folder: Path, *memory: int | None, jobs: tuple[str, ...] = (), **note: Any) -> Path:
    """A build folder whose attempts ask for so much memory, and the note of one that died.

    With ``jobs`` it is a bundle of these.
    """
    (folder / "smk/tasks").mkdir(parents=True)
    bundle = (
        {"dy/bundle_0": BundleEntry(jobs, "smk/bundles/r.json", tables.signed())} if jobs else {}
    )
    keys = jobs or ("dy/0_0",)
    entries = {key: tables.entry(record=f"smk/work/r/{key}/record.json") for key in keys}
    table = tables.table(jobs=entries, bundles=bundle)
    (folder / layout.table("r")).write_text(table.to_text())
    attempts = [{"pool": "p", "memory": one and one * GB} for one in memory]
    asked = {"system": "local", "rules": {"r": attempts}}
    (folder / layout.REQUESTS).write_text(json.dumps(asked))
    said = {"rule": "r", "key": "dy/0_0", "record": "smk/work/r/dy/0_0/record.json"}
    said |= {"problem": "too much", "kind": "memory", "memory": 4 * GB, "attempt": 1, **note}
    failures.note(folder, failures.Failure(**said))
    return folder


@pytest.mark.parametrize(
    ("memory", "tried"),
    [
        ((4, 8, 16), 2),
        ((4, 4, 16), 3),
        ((4, 4, 4), None),
        ((4,), None),
        ((4, 2, 3), None),
        ((4, None), 2),
    ],
)
def test_the_next_attempt_has_more_memory(
    memory: tuple[int | None, ...], tried: int | None, tmp_path: Path
) -> None:
    """Where none has, the job is at its last; Snakemake adds one to the number for the next."""
    failed = job()
    folder = build(tmp_path, *memory)
    pass_over_hopeless(failed, folder)
    assert failed.attempt == (3 if tried is None else tried - 1)
    [note] = failures.read_all(folder)
    suffix = "" if tried else "; not tried again: no other attempt would get more"
    assert (note.attempt, note.problem) == (1, f"too much{suffix}")


@pytest.mark.parametrize(
    ("hours", "tried"), [((1, 1, 1), None), ((1, 2, 2), 2), ((1, 1, 2), 3), ((1, None, 1), 2)]
)
def test_the_next_attempt_has_more_time(
    hours: tuple[int | None, ...], tried: int | None, tmp_path: Path
) -> None:
    folder = build(tmp_path, 4, 4, 4, kind="time", walltime=3600)
    attempts = [{"pool": "p", "walltime": one and one * 3600} for one in hours]
    asked = {"system": "slurm", "rules": {"r": attempts}}
    (folder / layout.REQUESTS).write_text(json.dumps(asked))
    failed = job()
    pass_over_hopeless(failed, folder)
    assert failed.attempt == (3 if tried is None else tried - 1)


def test_of_a_bundle_one_may_lack_memory_and_another_time(tmp_path: Path) -> None:
    jobs = ("dy/7_7", "dy/8_8")
    folder = build(tmp_path, 4, 4, 8, jobs=jobs, key="dy/7_7", bundle="dy/bundle_0")
    first = failures.read_all(folder)[0]
    failures.note(folder, replace(first, key="dy/8_8", kind="time", walltime=60))
    attempts = [{"memory": one * GB, "walltime": 60} for one in (4, 4, 8)]
    asked = {"system": "slurm", "rules": {"r": attempts}}
    (folder / layout.REQUESTS).write_text(json.dumps(asked))
    failed = job(part="bundle_0")
    pass_over_hopeless(failed, folder)
    assert failed.attempt == 2


@pytest.mark.parametrize(
    "note",
    [{"kind": "error"}, {"kind": "killed"}, {"kind": "time"}, {"memory": None}, {"attempt": 2}],
)
def test_other_failures_are_tried_again(note: dict[str, Any], tmp_path: Path) -> None:
    failed = job()
    pass_over_hopeless(failed, build(tmp_path, 4, 4, 4, **note))
    assert failed.attempt == 1


def test_a_last_attempt_is_the_last_anyway(tmp_path: Path) -> None:
    failed = job(retries=0)
    folder = build(tmp_path, 4)
    pass_over_hopeless(failed, folder)
    assert failed.attempt == 1
    assert [note.problem for note in failures.read_all(folder)] == ["too much"]


@pytest.mark.parametrize(
    ("other", "attempt"), [("memory", 3), ("done", 3), ("error", 1), ("killed with it", 1)]
)
def test_a_bundle_goes_on_if_one_of_its_jobs_may(other: str, attempt: int, tmp_path: Path) -> None:
    """The other one may have died of the same, be done, have failed, or never have begun."""
    failed = job(part="bundle_0")
    jobs = ("dy/7_7", "dy/8_8")
    folder = build(tmp_path, 4, 4, 4, jobs=jobs, key="dy/7_7", bundle="dy/bundle_0")
    if other in ("memory", "error"):
        first = failures.read_all(folder)[0]
        failures.note(folder, replace(first, key="dy/8_8", kind=other))
    elif other == "done":
        (folder / "smk/work/r/dy/8_8").mkdir(parents=True)
        (folder / "smk/work/r/dy/8_8/record.json").write_text("{}")
    pass_over_hopeless(failed, folder)
    assert failed.attempt == attempt


@pytest.mark.parametrize(
    ("limit", "largest", "tried"),
    [(4 * GB, None, None), (None, None, 2), (None, 8 * GB, 2), (None, 4 * GB, None)],
)
def test_one_that_is_measured_in_a_pool_without_amounts_asks_for_more_while_a_node_has_it(
    tmp_path: Path, limit: int | None, largest: int | None, tried: int | None
) -> None:
    build(tmp_path, 1, 2, 4)
    most = {"memory": limit or largest} if limit or largest else {}
    said = {"pool": "p", "request": {"memory": limit}, "measured": ["memory"], "most": most}
    rule = {"stated": [said] * 3, "wildcards": ["dataset", "part"]}
    (tmp_path / layout.SIZES).write_text(json.dumps({"r": rule}))
    one = job()
    pass_over_hopeless(one, tmp_path, Sizes(tmp_path))
    assert one.attempt == (4 if tried is None else tried) - 1


@pytest.mark.parametrize(
    ("cause", "before", "attempt"),
    [
        ("lost", 0, "same"),
        ("lost", 4, "same"),
        ("lost", 5, "next"),
        ("credential", 19, "same"),
        ("credential", 20, "next"),
        ("wanted", 99, "same"),
        ("refused", 0, "none"),
        ("error", 0, "next"),
    ],
)
def test_what_is_tried_again(cause: retries.Cause, before: int, attempt: str) -> None:
    assert decide(cause, before) == attempt


class Snakemake:
    """The scheduler of Snakemake, as far as it hears of jobs that have failed."""

    def __init__(self) -> None:
        self.workflow: Any = SimpleNamespace(scheduler=SimpleNamespace(error_callback=self.again))
        self.attempts: list[int] = []

    def again(self, job: Any) -> None:
        job.attempt += 1
        self.attempts.append(job.attempt)


def test_a_job_that_is_lost_six_times_has_failed(tmp_path: Path) -> None:
    snakemake = Snakemake()
    mine, it = Retries(snakemake.workflow, tmp_path), numbered(attempt=2)
    assert [mine.settle(it, "lost") for _ in range(6)] == [True] * 5 + [False]
    assert snakemake.attempts == [2] * 5
    assert mine.settle(numbered(7), "lost")


def numbered(number: int = 1, attempt: int = 1) -> Any:
    it = job(attempt)
    it.jobid = number
    return it


REFUSED = [
    "Batch job submission failed: Invalid account or account/partition combination specified",
    "invalid partition specified: nowhere",
    "Batch job submission failed: Requested time limit is invalid (missing or exceeds some limit)",
    "Batch job submission failed: Requested node configuration is not available",
    "Parse error in expression: Machine ==",
]
MAY_PASS = [
    "QOSMaxSubmitJobPerUserLimit; Batch job submission failed: Job violates accounting/QOS"
    " policy (job submit limit, user's size and/or time limits)",
    "Slurm temporarily unable to accept job, sleeping and retrying",
    "Number of jobs submitted would exceed MAX_JOBS_PER_OWNER",
    "Batch job submission failed: Socket timed out on send/recv operation",
]


@pytest.mark.parametrize("said", [*REFUSED, *MAY_PASS])
def test_what_is_refused_is_tried_again_only_if_that_may_pass(tmp_path: Path, said: str) -> None:
    """Snakemake tries a job again whose attempt is at most the number of its restarts."""
    it = numbered()
    assert not Retries(Snakemake().workflow, tmp_path).settle(
        it, said=f"could not be submitted: {said}"
    )
    assert (it.attempt <= it.restart_times) == (said in MAY_PASS)


@pytest.mark.parametrize("others_come", [True, False])
@pytest.mark.parametrize("kind", ["credential", "error"])
def test_who_lacked_a_credential_is_handed_back_if_there_will_be_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, others_come: bool
) -> None:
    gate = SimpleNamespace(others_come=lambda _: others_come)
    monkeypatch.setattr(retries, "gate_of_run", lambda: gate)
    snakemake = Snakemake()
    mine = Retries(snakemake.workflow, build(tmp_path, 4, 8, kind=kind))
    group = SimpleNamespace(
        jobs=[numbered(), numbered(2)], jobid=3, attempt=1, restart_times=2, log=[]
    )
    group.is_group = lambda: True
    for it in (numbered(), group):
        assert mine.settle(it) == (kind == "credential" and others_come)
    assert snakemake.attempts == [1, 1] * (kind == "credential" and others_come)


def test_no_other_place_starts_a_job_again() -> None:
    found = {
        str(path.relative_to(PACKAGE))
        for path in PACKAGE.rglob("*.py")
        if re.search(r"\.error_callback\(|\.attempt (=|-=|\+=) ", path.read_text())
    }
    assert found == {
        "executors/retries.py",
        "executors/fallback.py",  # for the time in which a command is made
        "executors/sizes.py",  # sets what it is, so that it is evaluated anew
        "contrib/pilots/executor.py",  # no pilot lasts as long
    }

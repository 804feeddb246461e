"""What is said of a failed job, with what the batch system knows of its end."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from fasthep_smk.run import what_failed
from fasthep_smk.storage import failures
from fasthep_smk.storage.failures import Failure

KILLED = Failure(
    rule="stage_Mass",
    key="data/0_0",
    record="smk/work/stage_Mass/data/0_0/record.json",
    problem="it ended without an error message: it was killed, or its machine failed",
    kind="killed",
    stage="Mass",
    op="hep.hist",
    pool="gpu",
    host="node1",
    system="slurm",
    batch_job="12",
    memory=600_000_000,
    walltime=60,
)


@pytest.mark.parametrize(
    ("said", "problem"),
    [
        (
            "Slurm: TIMEOUT, TimeLimit, exit code 0:15, node n1",
            "over its time limit, 00:01:00, of pool 'gpu' (Slurm: TIMEOUT, TimeLimit, "
            "exit code 0:15, node n1)",
        ),
        (
            "Slurm: OUT_OF_MEMORY, node n1: Detected 1 oom_kill event",
            "over its memory, 600 MB, of pool 'gpu' (Slurm: OUT_OF_MEMORY, node n1: Detected 1 "
            "oom_kill event)",
        ),
        (
            "HTCondor: held: Job has gone over cgroup memory limit of 573 megabytes",
            "over its memory, 600 MB, of pool 'gpu' (HTCondor: held: Job has gone over cgroup "
            "memory limit of 573 megabytes)",
        ),
        ("Slurm: NODE_FAIL, node n1", "Slurm: NODE_FAIL, node n1"),
        (None, KILLED.problem),
    ],
)
def test_the_batch_system_knows_why_a_job_was_killed(
    tmp_path: Path, said: str | None, problem: str
) -> None:
    def fate(job: str) -> str | None:
        assert job == "12"
        return said

    text = what_failed.message(KILLED, tmp_path, profile=tmp_path / "smk/profile", fate=fate)
    assert text.splitlines()[0] == f"stage 'Mass' (hep.hist) failed: {problem}"
    assert failures.in_short(KILLED, fate) == f"stage 'Mass' (hep.hist) failed: {problem}"
    failures.note(tmp_path, KILLED)
    (attempt,) = failures.earlier(tmp_path, KILLED.rule, KILLED.key, fate)
    assert attempt["problem"] == problem


@pytest.mark.parametrize(
    ("said", "file", "fix"),
    [
        ("Slurm: OUT_OF_MEMORY", "a.root", r"more memory; or cut its files .* --chunk-size"),
        ("Slurm: TIMEOUT", "a.root", r"longer walltime.*; or cut its files"),
        ("Slurm: TIMEOUT", None, r"longer walltime, or its stage a longer timeout$"),
        ("Slurm: NODE_FAIL", "a.root", ""),
    ],
)
def test_what_to_do_where_memory_or_time_ran_out(
    tmp_path: Path, said: str, file: str | None, fix: str
) -> None:
    job = replace(KILLED, file=file, fix=None)
    text = what_failed.message(job, tmp_path, profile=tmp_path / "p", fate=lambda _: said)
    told = [line for line in text.splitlines() if line.startswith("    fix:")]
    assert len(told) == bool(fix)
    assert not fix or re.search(fix, told[0])


def test_without_amounts_the_sentence_is_short() -> None:
    alone = Failure(**{**vars(KILLED), "pool": None, "memory": None, "walltime": None})
    said = failures.in_short(alone, lambda _: "Slurm: TIMEOUT")
    assert said == "stage 'Mass' (hep.hist) failed: over its time limit (Slurm: TIMEOUT)"


def test_what_has_said_itself_why_is_not_asked() -> None:
    said = Failure(**{**vars(KILLED), "kind": "error", "problem": "ValueError: no"})
    assert failures.in_short(said, lambda _: "Slurm: TIMEOUT").endswith("failed: ValueError: no")


def test_what_is_said_of_a_pilot_is_not_said_of_its_job(tmp_path: Path) -> None:
    """A pilot goes on when a job in it has died, or was cancelled since with the run."""
    died = replace(
        KILLED, problem="signal 9 (killed): usually because memory ran out", in_pilot=True
    )
    text = what_failed.message(died, tmp_path, profile=tmp_path, fate=lambda _: "Slurm: CANCELLED")
    assert "stage 'Mass' (hep.hist) failed: signal 9 (killed)" in text
    assert "CANCELLED" not in text
    assert "slurm job 12" in text


@pytest.mark.parametrize(
    ("said", "kind", "problem"),
    [
        ("Slurm: NODE_FAIL, node n1", "killed", "; the last one: Slurm: NODE_FAIL, node n1"),
        ("HTCondor: held: memory exceeded", "memory", "; the last one: HTCondor: held: memory"),
        (None, "killed", "that ran it"),
    ],
)
def test_a_job_that_has_lost_its_pilots_says_how(said: str | None, kind: str, problem: str) -> None:
    """Where they had too little memory, the next attempt is one that has more."""
    lost = replace(KILLED, in_pilot=True)
    found = failures.without_pilot(lost, "3 pilots that ran it were lost", said)
    assert found.kind == kind
    assert found.problem.startswith("3 pilots that ran it were lost")
    assert problem in found.problem

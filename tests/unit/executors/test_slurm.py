"""Jobs that Slurm does not know any more are found, and no others."""

from __future__ import annotations

import pytest

from fasthep_smk.sites import slurm


def listed(monkeypatch: pytest.MonkeyPatch, *jobs: str) -> None:
    """Let squeue list jobs: one runs, the others have ended."""
    states = dict.fromkeys(jobs, "COMPLETED") | dict.fromkeys(jobs[:1], "RUNNING")
    lines = [f"{job}|{state}|None|0|n1|\n" for job, state in states.items()]
    monkeypatch.setattr(slurm, "ask", lambda _: "".join(lines))


def test_a_job_is_forgotten_that_was_missed_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    from fasthep_smk.executors.slurm import Forgotten

    forgotten = Forgotten(pause=0)
    listed(monkeypatch, "17", "19")
    assert forgotten.among(["17", "18", "19"]) == set()
    monkeypatch.setattr(slurm, "ask", lambda _: None)
    assert forgotten.among(["17", "18", "19"]) == set(), "Slurm has not answered"
    listed(monkeypatch, "19")
    assert forgotten.among(["17", "18", "19"]) == {"18"}
    listed(monkeypatch, "17", "19")
    assert forgotten.among(["17", "19"]) == set(), "it is there again"


def test_nothing_is_asked_before_a_minute_has_passed(monkeypatch: pytest.MonkeyPatch) -> None:
    from fasthep_smk.executors.slurm import Forgotten

    monkeypatch.setattr(slurm, "ask", None)
    assert Forgotten().among(["17"]) == set()

"""What is said of pilots that were lost, and when their jobs are not tried again."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from fasthep_smk import sites
from fasthep_smk.config.requests import Attempt, ResourceRequest
from fasthep_smk.contrib.pilots.losses import Losses
from fasthep_smk.storage.pilots import Crew

FIX = (
    "give pool 'gpu' a walltime, as long as one of its jobs takes at most (config: {walltime: "
    '"HH:MM:SS"}); a pilot then starts only jobs that it has time for'
)


class ManagerLost(Exception):
    """As Parsl's, which has the batch job of a pilot for its name."""

    def __init__(self, pilot: str) -> None:
        self.manager_id = f"{pilot}.c0ffee".encode()


class Told:
    """Losses, and what they say; the batch system says of pilots what ``fates`` do."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, **fates: str) -> None:
        self.asked: list[str] = []
        self.said: list[str] = []

        def fate(job: str) -> str | None:
            self.asked.append(job)
            return fates.get(f"job{job}")

        monkeypatch.setattr(sites, "system", lambda _name: SimpleNamespace(fate=fate))
        self.losses = Losses("slurm", self.said.append)


def crew(walltime: int | None = 3600, until: int | None = None) -> Crew:
    return Crew("pool0", 2, 1, Attempt("gpu", ResourceRequest(walltime=walltime)), until)


def test_a_pilot_is_told_once_whatever_it_ran(monkeypatch: pytest.MonkeyPatch) -> None:
    told = Told(monkeypatch, job7="Slurm: CANCELLED, node std1")
    for key in ("a", "b"):
        assert told.losses.note(key, crew(), ManagerLost("7")).number == 1
    assert told.asked == ["7"]
    assert told.said == [
        "pool 'gpu': pilot 7 was lost: Slurm: CANCELLED, node std1; its jobs run again"
    ]


def test_a_job_has_lost_as_many_as_it_had(monkeypatch: pytest.MonkeyPatch) -> None:
    told = Told(monkeypatch, job9="Slurm: NODE_FAIL, node std2")
    lost = [told.losses.note("a", crew(), ManagerLost(pilot)) for pilot in "789"]
    assert [one.number for one in lost] == [1, 2, 3]
    assert (lost[-1].said, lost[-1].fix) == ("Slurm: NODE_FAIL, node std2", None)
    assert lost[-1].why == "3 pilots that ran it were lost"
    assert told.said == [
        "pool 'gpu': pilot 7 was lost: Slurm does not say how it ended; its jobs run again",
        "pool 'gpu': pilot 8 was lost: Slurm does not say how it ended; its jobs run again",
        "pool 'gpu': pilot 9 was lost: Slurm: NODE_FAIL, node std2",
    ]


def test_a_job_that_is_longer_than_pilots_is_told_with_the_fix(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    over = "Slurm: TIMEOUT, TimeLimit, node std1"
    told = Told(monkeypatch, **{f"job{pilot}": over for pilot in "789"})
    lost = [told.losses.note("a", crew(), ManagerLost(pilot)) for pilot in "789"][-1]
    assert lost.why == "3 pilots that ran it reached their time limit"
    assert lost.fix == FIX
    assert told.said[0].startswith(f"pool 'gpu': pilot 7 was lost: {over}")
    assert told.said[1] == (
        f"pool 'gpu': a pilot ends after 01:00:00, and so does a job in it: {FIX}"
    )
    assert len(told.said) == 4  # the fix once


def test_where_jobs_have_a_walltime_it_is_not_what_is_missing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told = Told(monkeypatch, job7="Slurm: TIMEOUT")
    assert told.losses.note("a", crew(until=600), ManagerLost("7")).fix is None
    assert len(told.said) == 1


def test_a_process_that_was_killed_in_a_pilot_is_no_lost_pilot(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told = Told(monkeypatch)
    assert told.losses.note("a", crew(), RuntimeError("WorkerLost")).number == 1
    assert not told.asked
    assert not told.said

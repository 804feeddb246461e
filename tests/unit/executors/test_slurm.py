"""Jobs that Slurm does not know any more are found, and no others."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from fasthep_smk.sites import slurm
from fasthep_smk.sites.commands import Answer


def listed(monkeypatch: pytest.MonkeyPatch, *jobs: str) -> None:
    """Let squeue list jobs: one runs, the others have ended."""
    states = dict.fromkeys(jobs, "COMPLETED") | dict.fromkeys(jobs[:1], "RUNNING")
    lines = [f"{job}|{state}|None|0|n1|\n" for job, state in states.items()]
    monkeypatch.setattr(slurm, "ask", lambda _: "".join(lines))
    invalid = "slurm_load_jobs error: Invalid job id specified"
    monkeypatch.setattr(slurm, "order", lambda _: Answer(False, "", invalid))


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


@pytest.mark.parametrize(
    "answer",
    [
        Answer(True, "JobId=17 JobState=RUNNING", ""),
        Answer(False, "", "Unable to contact slurm controller (connect failure)"),
    ],
)
def test_an_empty_list_is_not_enough(monkeypatch: pytest.MonkeyPatch, answer: Answer) -> None:
    from fasthep_smk.executors.slurm import Forgotten

    forgotten = Forgotten(pause=0)
    listed(monkeypatch)
    monkeypatch.setattr(slurm, "order", lambda _: answer)
    assert [forgotten.among(["17"]) for _ in range(3)] == [set(), set(), set()]


def test_a_job_of_another_cluster_is_not_asked_for_here(monkeypatch: pytest.MonkeyPatch) -> None:
    from fasthep_smk.executors import slurm as executor

    monkeypatch.delenv("SBATCH_CLUSTERS", raising=False)
    here, there = SimpleNamespace(resources={}), SimpleNamespace(resources={"slurm_cluster": "b"})
    assert not executor._is_on_another_cluster(here)
    assert executor._is_on_another_cluster(there)
    monkeypatch.setenv("SBATCH_CLUSTERS", "b")
    assert executor._is_on_another_cluster(here)


def test_nothing_is_asked_before_a_minute_has_passed(monkeypatch: pytest.MonkeyPatch) -> None:
    from fasthep_smk.executors.slurm import Forgotten

    monkeypatch.setattr(slurm, "ask", None)
    assert Forgotten().among(["17"]) == set()


def test_jobs_in_partitions_that_the_site_hides_are_in_the_queue(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Source: squeue(1), "--all". One that is not found would be submitted beside itself."""

    def answer(command: list[str]) -> str:
        if "--all" not in command:
            return ""
        states = "--states=all" in command
        return "17|RUNNING|None|0|n1|\n" if states else f"17|R|secret|None|stage_A:dy|{tmp_path}\n"

    monkeypatch.setattr(slurm, "ask", answer)
    assert [one.batch_id for one in slurm.queued(tmp_path) or ()] == ["17"]
    assert slurm.unlisted(["17", "18"]) == {"18"}

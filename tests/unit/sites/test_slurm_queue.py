"""What Slurm says of jobs, where a real one cannot be made to say it quickly."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from fasthep_smk.sites import slurm_queue
from fasthep_smk.sites.slurm import Slurm
from tests.support.squeue import listed


class Commands:
    """Stand for Slurm's: each prints a text, and ends with a status."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.say("squeue")
        self.say("sacct")

    def say(self, name: str, text: str = "", status: int = 0, then: str = "") -> None:
        (self.folder / f"{name}.txt").write_text(text)
        path = self.folder / name
        script = f"#!/bin/sh\ncat {self.folder}/{name}.txt\n{then}\nexit {status}\n"
        path.write_text(script)
        path.chmod(0o755)


@pytest.fixture
def commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Commands:
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=os.pathsep)
    return Commands(tmp_path / "bin")


def found(folder: Path, *jobs: str) -> dict[str, str]:
    return {job: one.kind for job, one in slurm_queue.status(jobs, folder).items()}


def row(job: str, state: str, folder: object) -> str:
    return f"{job}|{state}|0:0|n1|{folder}\n"


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        ("CANCELLED by 20001", "failed"), ("CANCELLED+", "failed"), ("PREEMPTED", "failed"),
        ("OUT_OF_ME+", "alive"), ("OUT_OF_MEMORY", "failed"), ("TIMEOUT", "failed"),
        ("BOOT_FAIL", "failed"), ("DEADLINE", "failed"), ("NODE_FAIL", "failed"),
        ("COMPLETED", "done"), ("REQUEUED", "alive"), ("NEW_STATE_OF_29", "alive"), ("", "alive"),
    ],
)  # fmt: skip
def test_the_first_word_of_a_state_counts(said: str, kind: str) -> None:
    assert slurm_queue._state(said).kind == kind


def test_the_controller_has_the_last_word_on_what_it_lists(
    commands: Commands, tmp_path: Path
) -> None:
    """A job that was requeued has ended, for accounting."""
    commands.say("sacct", row("8", "PREEMPTED", tmp_path) + row("9", "NODE_FAIL", tmp_path))
    lines = (f"8|PD|spot|BeginTime|A:dy|{tmp_path}", f"9|REQUEUED|cpu|None|A:dy|{tmp_path}")
    commands.say("squeue", listed(*lines))
    assert found(tmp_path, "8", "9") == {"8": "alive", "9": "alive"}


def test_jobs_of_other_folders_are_others(commands: Commands, tmp_path: Path) -> None:
    """Numbers are given again, and lists of other programs have other jobs of them."""
    commands.say("squeue", listed("8|R|cpu|None|A:dy|/home/me"))
    commands.say("sacct", row("8", "COMPLETED", "/home/me") + row("9", "COMPLETED", tmp_path))
    assert found(tmp_path, "8", "9") == {"8": "gone", "9": "done"}
    (tmp_path / "same").symlink_to(tmp_path)
    assert found(tmp_path / "same", "9") == {"9": "done"}


@pytest.mark.parametrize(
    "silent", [{"status": 1}, {"status": 1, "then": "echo Unable to contact >&2"}]
)
def test_without_the_controller_only_the_end_is_known(
    commands: Commands, tmp_path: Path, silent: dict[str, object]
) -> None:
    commands.say("squeue", **silent)  # type: ignore[arg-type]
    commands.say("sacct", row("8", "NODE_FAIL", tmp_path) + row("4", "COMPLETED", tmp_path))
    assert found(tmp_path, "8", "4", "5") == {"4": "done"}
    commands.say("sacct", **silent)  # type: ignore[arg-type]
    assert found(tmp_path, "8", "4", "5") == {}


def test_without_accounting_what_is_not_listed_is_gone(commands: Commands, tmp_path: Path) -> None:
    commands.say("squeue", listed(f"8|R|cpu|None|A:dy|{tmp_path}"))
    commands.say("sacct", status=1, then="echo 'slurmdbd: connection refused' >&2")
    assert found(tmp_path, "8", "4") == {"8": "alive"}, "accounting is down"
    commands.say("sacct", status=1, then="echo 'Slurm accounting storage is disabled' >&2")
    assert found(tmp_path, "8", "4") == {"8": "alive", "4": "gone"}


def test_what_accounting_alone_has_under_way_is_not(commands: Commands, tmp_path: Path) -> None:
    """Of a job whose end it was not told, it says for ever that it runs."""
    commands.say("sacct", row("4", "RUNNING", tmp_path))
    assert found(tmp_path, "4") == {"4": "gone"}


def test_a_slow_command_is_no_answer(
    commands: Commands, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slurm_queue, "_PATIENCE", 1)
    commands.say("squeue", listed(f"8|R|cpu|None|A:dy|{tmp_path}"), then="exec sleep 20")
    began = time.monotonic()
    assert found(tmp_path, "8") == {}
    assert time.monotonic() - began < 10


def test_a_banner_is_no_job(commands: Commands, tmp_path: Path) -> None:
    text = "*** banner | with | three | bars ***\n" + listed(f"8|R|cpu|None|A:dy|{tmp_path}")
    commands.say("squeue", text)
    assert found(tmp_path, "8") == {"8": "alive"}


def test_jobs_in_partitions_that_the_site_hides_are_in_the_queue(
    commands: Commands, tmp_path: Path
) -> None:
    """Source: squeue(1), "--all". One that is not found would be submitted beside itself."""
    hidden = f'case " $* " in *" --all "*) cat {tmp_path}/hidden;; esac'
    (tmp_path / "hidden").write_text(listed(f"17|R|secret|None|A:dy|{tmp_path}"))
    commands.say("squeue", then=hidden)
    assert [one.batch_id for one in Slurm().queued(tmp_path) or ()] == ["17"]
    assert found(tmp_path, "17") == {"17": "alive"}


def test_a_job_that_has_to_start_again_says_why(commands: Commands, tmp_path: Path) -> None:
    lines = listed(*(f"{job}|PD|cpu|BeginTime|A:dy|{tmp_path}" for job in (17, 18)))
    commands.say("squeue", lines.replace("17|PENDING|BeginTime|0", "17|PENDING|BeginTime|1"))
    again, new = Slurm().queued(tmp_path) or ()
    assert (again.batch_id, new.reason) == ("17", "BeginTime")
    assert again.reason == (
        "BeginTime; put back into the queue after a start (node failed, preempted or requeued)"
    )


def test_a_job_is_found_by_its_name(commands: Commands, tmp_path: Path) -> None:
    """In whatever state it is, but none that was submitted before."""
    now = time.time()
    old = listed(f"5|FAILED|cpu|None|A:dy|{tmp_path}", submitted=now - 600)
    lines = [
        f"{job}|{state}|cpu|None|A:dy|{tmp_path}" for job, state in ((10, "COMPLETED"), (9, "PD"))
    ]
    others = (f"11|R|cpu|None|A:data|{tmp_path}", "12|R|cpu|None|A:dy|/home/me")
    commands.say("squeue", old + listed(*lines, *others, submitted=now))
    assert Slurm().arrived(tmp_path, "A:dy", now - 60) == ["9", "10"]
    assert Slurm().arrived(tmp_path, "A:top", now - 60) == []
    commands.say("squeue", status=1)
    assert Slurm().arrived(tmp_path, "A:dy", now - 60) is None

"""Batch jobs without a Snakemake around them: which, and with which command."""

from __future__ import annotations

import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fasthep_smk.executors import direct

COMMAND = "sh smk/worker debug/stage_Mass/dy/0_0.log 1 1 stage_Mass dy 0_0"


def job(**more: Any) -> Any:
    told = {
        "rule": SimpleNamespace(name="stage_Mass"),
        "shellcmd": COMMAND,
        "output": ["smk/work/stage_Mass/dy/0_0/record.json"],
        "log": ["debug/stage_Mass/dy/0_0.log"],
        "attempt": 1,
        "is_group": lambda: False,
    }
    return SimpleNamespace(**{**told, **more})


def workflow(*methods: str) -> Any:
    return SimpleNamespace(deployment_settings=SimpleNamespace(deployment_method={*methods}))


@pytest.fixture(autouse=True)
def build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A build folder, as the working folder, with the tasks of one rule."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "smk/tasks").mkdir(parents=True)
    (tmp_path / "smk/tasks/stage_Mass.json").write_text("{}")
    return tmp_path


def test_a_job_of_ours_is_its_command_alone(build: Path) -> None:
    words = direct.command_of(job(), workflow())
    assert words is not None and float(words.pop(3)) == pytest.approx(time.time(), abs=60)
    assert words == ["sh", "smk/worker", "--alone", *COMMAND.split()[2:]]
    assert (build / "debug/stage_Mass/dy").is_dir()


@pytest.mark.parametrize(("attempt", "stays"), [(1, False), (2, True)])
def test_the_first_attempt_begins_anew(build: Path, attempt: int, stays: bool) -> None:
    record = build / "smk/work/stage_Mass/dy/0_0/record.json"
    record.parent.mkdir(parents=True)
    record.write_text("{}")
    assert direct.command_of(job(attempt=attempt), workflow())
    assert record.exists() == stays


@pytest.mark.parametrize(
    "other",
    [
        job(is_group=lambda: True),
        job(shellcmd=None),
        job(shellcmd="python fit.py histogram.pkl"),
        job(rule=SimpleNamespace(name="fit")),
    ],
    ids=["several in a batch job", "a script", "a command", "another rule"],
)
def test_others_need_snakemake_on_the_node(other: Any) -> None:
    assert direct.command_of(other, workflow()) is None


def test_containers_and_environments_of_snakemake_need_it_too() -> None:
    assert direct.command_of(job(), workflow("apptainer")) is None

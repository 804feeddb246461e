"""One batch job cancelled, to be submitted again: what is said is what has happened."""

from __future__ import annotations

from pathlib import Path

import pytest

from fasthep_smk.cli import background
from fasthep_smk.storage import batch_jobs
from fasthep_smk.storage.batch_jobs import BatchJob
from fasthep_smk.util.errors import RunFailed
from tests.support.squeue import listed

NAME = "stage_Mass:dy/0_0"


@pytest.fixture
def build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A build folder with one job in the queue of a Slurm, and that Slurm's commands."""
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:/usr/bin:/bin")
    monkeypatch.setattr(background, "_GOES", 1.0)
    build = tmp_path / "build"
    (build / "smk/tasks").mkdir(parents=True)
    (build / "smk/run.json").write_text("{}")
    job = BatchJob(
        token="t",
        record="r",
        rule="stage_Mass",
        key="dy/0_0",
        system="slurm",
        name=NAME,
        batch_id="17",
    )
    batch_jobs.submitting(build, job)
    line = listed(f"17|R|cpu|None|{NAME}|{build}").strip()
    command(tmp_path, "squeue", f'[ -e {tmp_path}/gone ] || echo "{line}"')
    return build


def command(folder: Path, name: str, text: str) -> None:
    path = folder / "bin" / name
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


def test_a_job_that_is_gone_is_submitted_again(
    build: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command(build.parent, "scancel", f"touch {build.parent}/gone")
    assert background.retry(NAME, build) == 0
    said = f"job 17 ({NAME}) cancelled: the next run submits it again\n"
    assert capsys.readouterr().out == said
    assert [one.again for one in batch_jobs.read(build)] == ["yes"]


@pytest.mark.parametrize(
    ("scancel", "why"),
    [
        ("echo 'scancel: error: Access denied' >&2; exit 1", "scancel: error: Access denied"),
        ("true", "still in the queue after 1 s"),
    ],
)
def test_a_job_that_is_not_cancelled_is_not_said_to_be(build: Path, scancel: str, why: str) -> None:
    """And if it fails later, it has failed."""
    command(build.parent, "scancel", scancel)
    with pytest.raises(RunFailed, match="was not cancelled: ") as caught:
        background.retry(NAME, build)
    assert str(caught.value) == f"job 17 ({NAME}) was not cancelled: {why}"
    assert [one.again for one in batch_jobs.read(build)] == [""]

"""What a call does about a run of the same build folder that was killed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fasthep_smk.run import lock
from fasthep_smk.storage import layout


@pytest.mark.parametrize(("system", "warned"), [("slurm", True), ("local", False)])
def test_jobs_of_a_killed_run_of_an_earlier_version_are_warned_of(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], system: str, warned: bool
) -> None:
    """It has kept what it printed, and no events."""
    for name, text in ((layout.REQUESTS, json.dumps({"system": system})), (layout.RUN_LOG, "")):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    lock._take_back_queued(tmp_path)
    assert ("look in the queue of the batch system" in capsys.readouterr().err) == warned

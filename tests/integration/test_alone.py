"""The worker on a node without a Snakemake: it does what that would do for its job."""

from __future__ import annotations

import json
import subprocess
import threading
import time
from pathlib import Path

import pytest

from tests.integration.conftest import Run

pytestmark = pytest.mark.integration

RULE = "stages_Vars_to_Met"
#: When jobs are said to have been submitted, in seconds since 1970.
SUBMITTED = "1795528739.379"


def alone(build: Path, rule: str, *place: str) -> subprocess.CompletedProcess[str]:
    """Start a job as on a node."""
    log = Path("debug/distributed/logs", rule, *place).with_suffix(".log")
    (build / log).parent.mkdir(parents=True, exist_ok=True)
    command = ["sh", "smk/worker", "--alone", SUBMITTED, str(log), "1", "1", rule, *place]
    return subprocess.run(command, cwd=build, capture_output=True, text=True)


@pytest.fixture
def build(analysis: Path, smk: Run) -> Path:
    assert smk("translate", "workflow.yaml", cwd=analysis).returncode == 0
    return analysis / "build"


def test_its_record_says_when_it_was_submitted_and_what_it_moved(build: Path) -> None:
    assert alone(build, RULE, "dy", "0_0").returncode == 0
    record = json.loads((build / "smk/work" / RULE / "dy/0_0/record.json").read_text())
    assert record["submitted"] == float(SUBMITTED)
    made = sum(file["size"] for file in record["files"].values())
    assert record["used"]["written"] > made > 0
    assert record["used"]["read"] > made  # it has checked them


def test_it_waits_for_what_another_node_has_written(build: Path) -> None:
    """On a network file system, a file may be seen later than the job that has written it."""
    places = [("data", "0_0"), ("data", "1_0"), ("dy", "0_0")]
    for place in places:
        assert alone(build, RULE, *place).returncode == 0
    hidden = build / "smk/work" / RULE / "dy/0_0"
    hidden.rename(build / "later")
    appear = threading.Timer(3, lambda: (build / "later").rename(hidden))
    appear.start()
    began = time.monotonic()
    done = alone(build, "finish")
    appear.join()
    log = (build / "debug/distributed/logs/finish.log").read_text()
    assert done.returncode == 0, log
    assert time.monotonic() - began > 2
    assert f"waiting for {hidden}/record.json" in log
    assert (build / "artifacts/histograms/Met.pkl").is_file()

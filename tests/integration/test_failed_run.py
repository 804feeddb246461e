"""What a run leaves for programs and people who look for its end: a line of JSON, links to logs."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from fasthep_smk.storage import layout
from tests.integration.conftest import Run
from tests.support.own_op import add_own_op

pytestmark = pytest.mark.integration

KEYS = ["outcome", "problem", "build", "report", "jobs", "failures"]
#: Fails of one file until that is mended; it prints, as a process of its own does.
OP = """\
import os
from pathlib import Path

SPEC = {"name": "own.op", "kind": "transform", "params": {},
        "input": {"name": "stream", "kind": "event_stream", "required": True},
        "result": {"kind": "event_stream"}}

os.system("echo imported")
print("imported")


def run(*, stream, ctx=None):
    mended = Path(__file__).with_name("mended").exists()
    if ctx["partition"]["file"].endswith("data_1.root") and not mended:
        raise ValueError("no muons today")
    return stream
"""


@pytest.fixture
def fragile(analysis: Path) -> Path:
    return add_own_op(analysis, OP)


def line_of(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    """The line of a run: the only one on its standard output."""
    (line,) = done.stdout.splitlines()
    found: dict[str, Any] = json.loads(line)
    assert list(found) == KEYS
    return found


def links(build: Path) -> dict[str, str]:
    """What lies where errors are looked for: relative links, and where they lead."""
    top = build / "debug/distributed/err"
    found = [path for path in top.rglob("*") if not path.is_dir()]
    assert not any(path.readlink().is_absolute() for path in found)
    return {str(path.relative_to(top)): str(path.resolve().relative_to(build)) for path in found}


def test_a_run_that_fails_and_goes_on(fragile: Path, smk: Run) -> None:
    build = fragile / "build"
    done = smk("workflow.yaml", "--json", "-k", "--bundle", "1", cwd=fragile)
    assert done.returncode == 1
    line = line_of(done)
    assert (line["outcome"], line["build"]) == ("failed", str(build))
    assert line["report"] == str(build / "report.html")
    assert Path(line["report"]).is_file()
    assert f"fasthep-smk: {line['problem']}\n" in done.stderr
    (failure,) = line["failures"]
    assert failure["stage"] == "Own"
    assert failure["dataset"] == "data"
    assert failure["file"].endswith("data_1.root")
    assert "no muons today" in failure["problem"]
    assert "no muons today" in (build / failure["log"]).read_text()
    assert line["jobs"]["failed"] == 1
    assert line["jobs"]["done"] >= 2
    assert line["jobs"]["left"] >= 1

    told = json.loads(smk("status", "build", "--json", cwd=fragile).stdout)
    assert told["failed"] == line["failures"]
    # FAST-HEP's documentation says: look into debug/distributed/err.
    name = failure["log"].removeprefix(f"{layout.LOGS}/")
    assert links(build) == {name: failure["log"]}

    (fragile / "mended").touch()
    line = line_of(smk("run", "workflow.yaml", "--bundle", "1", "--json", cwd=fragile))
    assert (line["outcome"], line["problem"], line["failures"]) == ("finished", "", [])
    assert line["jobs"]["failed"] == line["jobs"]["left"] == 0
    assert links(build) == {}


def test_a_run_without_what_is_missing(fragile: Path, smk: Run) -> None:
    done = smk("workflow.yaml", "--json", "--accept-missing", "1", cwd=fragile)
    assert done.returncode == 0, done.stderr
    line = line_of(done)
    assert line["outcome"] == "partial"
    assert "THE RESULTS ARE INCOMPLETE" in line["problem"]


@pytest.mark.parametrize(
    ("arguments", "status", "problem"),
    [
        (["workflow.yaml", "--profile", "slrum"], 1, "did you mean 'slurm'?"),
        (["wrkflow.yaml"], 2, "did you mean workflow.yaml?"),
        (["workflow.yaml", "--chunk-sise", "3"], 2, "did you mean --chunk-size?"),
        (["workflow.yaml", "-n"], 2, "--json: not allowed with argument -n"),
    ],
)
def test_a_run_that_is_refused(
    analysis: Path, smk: Run, arguments: list[str], status: int, problem: str
) -> None:
    done = smk(*arguments, "--json", cwd=analysis)
    assert done.returncode == status
    line = line_of(done)
    assert line["outcome"] == "refused"
    assert problem in line["problem"]
    assert (line["report"], line["jobs"], line["failures"]) == (None, None, [])
    assert f"fasthep-smk: {line['problem']}\n" in done.stderr


def test_what_snakemake_is_told_is_no_option_of_ours(analysis: Path, smk: Run) -> None:
    done = smk("workflow.yaml", "-n", "--", "--json", cwd=analysis)
    assert "outcome" not in done.stdout


def test_links_lead_nowhere_else(tmp_path: Path) -> None:
    """A worker sends the notes of its jobs: a name in one may be anything."""
    from fasthep_smk.run.what_failed import _link_logs

    (tmp_path / "build/smk").mkdir(parents=True)
    (tmp_path / "build/smk/a.log").touch()
    log = f"{layout.LOGS}/../../../smk/a.log"
    (tmp_path / "build" / layout.LOGS).mkdir(parents=True)
    assert (tmp_path / "build" / log).is_file()
    _link_logs(tmp_path / "build", [log, "smk/a.log"])
    assert not (tmp_path / "build/debug/distributed/err").exists()

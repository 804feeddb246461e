"""What a run leaves for programs and people who look for its end: a line of JSON, links to logs."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from fasthep_smk import load_results
from fasthep_smk.storage import layout
from tests.integration.conftest import Run
from tests.support import warm
from tests.support.own_op import add_own_op
from tests.support.processes import until

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


SLOW = """\
import time
from pathlib import Path

SPEC = {"name": "own.op", "kind": "transform", "params": {},
        "input": {"name": "stream", "kind": "event_stream", "required": True},
        "result": {"kind": "event_stream"}}


def run(*, stream, ctx=None):
    Path("begun").touch()
    time.sleep(60)
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
    done = smk("workflow.yaml", "--json", "--chunk-size", "50", "--", "--dry-run", cwd=fragile)
    assert line_of(done)["outcome"] == "unfinished"


@pytest.mark.parametrize("option", ["--dry-run", "--touch", "--omit-from=finish"])
def test_a_run_that_leaves_jobs_out_is_not_finished(analysis: Path, smk: Run, option: str) -> None:
    """Its results are those of an earlier run, before an edit perhaps."""
    assert smk("workflow.yaml", cwd=analysis).returncode == 0
    workflow = analysis / "workflow.yaml"
    workflow.write_text(workflow.read_text().replace("nbins: 20", "nbins: 5"))
    done = smk("workflow.yaml", "--", option, cwd=analysis)
    assert done.returncode == 0, done.stderr
    assert "Snakemake has not run all jobs" in done.stderr
    with pytest.warns(UserWarning, match=r"has not finished \(unfinished\)"):
        load_results(analysis / "build")
    assert "not run all jobs" not in smk("workflow.yaml", cwd=analysis).stderr


def test_a_run_that_fails_after_it_has_begun(fragile: Path, smk: Run) -> None:
    """The workflow is wrong when it is read again, to go on without what has failed."""
    op = fragile / "own_ops.py"
    edit = 'Path("workflow.yaml").write_text("analysis: 7")'
    op.write_text(op.read_text().replace("raise ValueError", f"{edit}; raise ValueError"))
    done = smk("workflow.yaml", "--json", "--accept-missing", "50%", "--bundle", "1", cwd=fragile)
    assert done.returncode == 1
    line = line_of(done)
    assert line["outcome"] == "failed"
    assert "analysis" in line["problem"]
    assert line["jobs"]["failed"] == 1
    assert line["jobs"]["done"] >= 1


def test_a_run_of_a_sample(analysis: Path, smk: Run) -> None:
    line = line_of(smk("workflow.yaml", "--json", "--partitions", "data:1", cwd=analysis))
    assert line["outcome"] == "sample"


@pytest.mark.parametrize("how", ["an option", "the profile"])
def test_a_run_that_is_told_to_run_nothing(analysis: Path, smk: Run, how: str) -> None:
    if how == "an option":
        done = smk("workflow.yaml", "--json", "--", "--dry-run", cwd=analysis)
    else:
        (analysis / "profiles/default").mkdir(parents=True)
        (analysis / "profiles/default/config.yaml").write_text("touch: true\n")
        done = smk("workflow.yaml", "--json", cwd=analysis)
    assert done.returncode == 0, done.stderr
    line = line_of(done)
    assert line["outcome"] == "unfinished"
    assert "has not run all jobs" in line["problem"]
    assert line["jobs"]["done"] == 0
    assert line["jobs"]["left"] >= 3


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_run_that_is_stopped(analysis: Path, number: signal.Signals) -> None:
    add_own_op(analysis, SLOW)
    command = [sys.executable, "-m", "fasthep_smk", "workflow.yaml", "--json", "--no-preflight"]
    with subprocess.Popen(
        command, cwd=analysis, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as run:
        until((analysis / "begun").exists)
        run.send_signal(number)
        said, _ = run.communicate(timeout=120)
    assert run.returncode == 130
    line = json.loads(said)
    assert line["outcome"] == "stopped"
    assert line["jobs"]["failed"] == 0
    assert line["jobs"]["left"] >= 1
    assert line["failures"] == []
    assert json.loads((analysis / "build" / layout.LAST_RUN).read_text())["outcome"] == "stopped"


def test_nothing_follows_the_line(analysis: Path) -> None:
    add_own_op(analysis, OP + 'import atexit\natexit.register(print, "bye")\n')
    (analysis / "mended").touch()
    done = warm.run("workflow.yaml", "--json", cwd=analysis, cold=True)
    assert line_of(done)["outcome"] == "finished"
    assert "bye" in done.stderr


def test_help_has_no_line(analysis: Path, smk: Run) -> None:
    done = smk("run", "--json", "--help", cwd=analysis)
    assert done.returncode == 0
    assert done.stdout.startswith("usage: ")
    assert '"outcome"' not in done.stdout + done.stderr


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

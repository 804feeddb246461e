"""What a build folder says of its jobs; folders that are none."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from fasthep_smk.cli import status
from fasthep_smk.run import lock as holding
from fasthep_smk.storage import failures, run_lock
from fasthep_smk.storage import jobs as build
from fasthep_smk.storage.failures import Failure
from fasthep_smk.util.errors import Findings
from tests.support import tables

HERE = socket.gethostname()
RUN = run_lock.LockNote(host=HERE, pid=1, since="2026-01-01 00:00:00")


def note(**content: Any) -> Failure:
    return Failure(
        **{"rule": "r", "key": "a", "record": "smk/work/r/a/record.json", "problem": "p", **content}
    )


def started(**content: Any) -> Failure:
    """The note of a job that started in this process."""
    pid = os.getpid()
    return note(
        **{"kind": "killed", "host": HERE, "pid": pid, "born": failures.born(pid), **content}
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A build folder with a rule of two jobs, the first of them done."""
    place = tmp_path / "build"
    (place / "smk/tasks").mkdir(parents=True)
    jobs = {
        key: tables.entry(folder=f"smk/work/r/{key}", signature=tables.signed(key))
        for key in ("a", "b")
    }
    table = tables.table(outputs=("record.json",), jobs=jobs)
    (place / "smk/tasks/r.json").write_text(table.to_text())
    record(place, "a", "a")
    return place


def record(place: Path, key: str, signature: str, **more: str) -> None:
    (place / "smk/work/r" / key).mkdir(parents=True)
    content = {"rule": "r", "key": key, "signature": tables.signed(signature), **more}
    content |= {"started": 1.0, "ended": 2.0, "asked": {}, "used": {}, "results": {}}
    content["runs"] = [{"signature": "x"}]
    text = json.dumps(content, indent=1)
    (place / "smk/work/r" / key / "record.json").write_text(text)


def test_jobs_that_ran_in_their_fallback_are_named(folder: Path) -> None:
    attempts = [{"pool": "gpu"}, {"pool": "default"}]
    asked = {"system": "slurm", "rules": {"r": attempts}, "fallback_after": {"r": 60}}
    (folder / "smk/requests.json").write_text(json.dumps(asked))
    record(folder, "b", "b", waited_for="gpu")
    found = status.look(folder)
    words = "1 of r ran in pool default, after waiting too long for pool gpu"
    assert words in status.as_text(found).splitlines()
    moved = {"rule": "r", "waited_for": "gpu", "pool": "default", "jobs": 1}
    assert status.as_data(found)["moved"] == [moved]


# --- jobs -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("done", "found", "run", "state"),
    [
        (True, None, None, "done"),
        (True, note(), None, "done"),
        (False, None, None, "to do"),
        (False, None, RUN, "to do"),
        (False, note(kind="error"), RUN, "failed"),
        (False, note(kind="memory"), None, "failed"),
        (False, started(), None, "running"),
        (False, started(born=1), RUN, "failed"),
        (False, started(host="another"), RUN, "running"),
        (False, started(host="another"), None, "failed"),
        # A batch system may run it in a container, where its process cannot be seen.
        (False, started(born=1, system="slurm"), RUN, "running"),
        (False, started(born=1, system="slurm"), None, "failed"),
    ],
)
def test_the_state_of_a_job(
    done: bool, found: Failure | None, run: run_lock.LockNote | None, state: str
) -> None:
    assert build.state_of(done, found, run) == state


def test_a_job_is_done_by_the_record_of_what_it_is_now(folder: Path) -> None:
    record(folder, "b", "what it was")
    assert [build.is_done(folder, job) for job in build.read_jobs(folder)] == [True, False]


def test_a_failed_job_has_one_line(folder: Path) -> None:
    failures.note(folder, note(key="b", stage="Met", op="hep.hist", problem="x" * 500))
    text = status.as_text(status.look(folder))
    assert "1 job failed:\n    r b: stage 'Met' (hep.hist) failed: xxx" in text
    assert max(map(len, text.splitlines())) == 160
    assert status.as_data(status.look(folder))["failed"][0]["problem"] == "x" * 500


def test_who_works_on_a_folder_is_named_only_while_it_works(folder: Path) -> None:
    assert run_lock.holder(folder) is None
    with holding.hold(folder):
        found = run_lock.holder(folder)
        assert found is not None
        assert (found.pid, found.host) == (os.getpid(), HERE)
        assert f"run in progress: process {os.getpid()} on {HERE}, since" in status.as_text(
            status.look(folder)
        )
    assert run_lock.holder(folder) is None
    # As a run that was killed leaves it.
    lock = folder / "smk/lock"
    lock.write_text(lock.read_text().replace("ended", "running"))
    assert run_lock.holder(folder) is None


def test_results_that_lack_partitions_are_called_incomplete(folder: Path) -> None:
    assert "INCOMPLETE" not in status.as_text(status.look(folder))
    assert status.as_data(status.look(folder))["incomplete"] is False
    (folder / "reports").mkdir()
    (folder / "reports/missing_partitions.md").touch()
    assert "THE RESULTS ARE INCOMPLETE: see " in status.as_text(status.look(folder))
    assert status.as_data(status.look(folder))["incomplete"] is True


def test_looking_changes_nothing(folder: Path) -> None:
    before = {path: path.stat() for path in folder.rglob("*")}
    status.as_text(status.look(folder))
    after = {path: path.stat() for path in folder.rglob("*")}
    assert before.keys() == after.keys()
    assert all(before[path].st_ctime_ns == after[path].st_ctime_ns for path in before)


def test_nothing_large_is_imported(folder: Path) -> None:
    program = (
        "import sys\n"
        "from fasthep_smk.cli.main import main\n"
        "assert main(['status']) == main(['clean', '-n']) == 0\n"
        "large = {'hepflow', 'snakemake', 'awkward', 'numpy', 'yaml'}\n"
        "print(sorted(large & set(sys.modules)))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=folder.parent, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "[]"


# --- folders --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        (".", "is not a build folder"),
        ("biuld", "there is no such folder"),
        ("build/smk/work", "is not a build folder"),
        ("workflow.yaml", "is not a build folder"),
    ],
)
def test_what_is_no_build_folder(
    folder: Path, monkeypatch: pytest.MonkeyPatch, given: str, problem: str
) -> None:
    monkeypatch.chdir(folder.parent)
    Path("workflow.yaml").touch()
    with pytest.raises(Findings) as raised:
        build.find_build(Path(given))
    assert f"BUILD: {problem}" in str(raised.value)
    assert f"found: {given}" in str(raised.value)


@pytest.mark.parametrize("content", ["", "{", "[]", '{"rule": "r"}', '{"jobs": {"a": 1}}'])
def test_a_task_table_that_cannot_be_read_is_named(folder: Path, content: str) -> None:
    (folder / "smk/tasks/r.json").write_text(content)
    with pytest.raises(Findings, match=r"tasks/r.json: this task table cannot be read"):
        status.look(folder)

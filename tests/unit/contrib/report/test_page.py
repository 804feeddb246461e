"""The page on a build folder: it needs nothing else, runs nothing of others, holds no secret."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import socket
import stat
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from fasthep_smk.cli import main
from fasthep_smk.contrib.report import document, numbers, page
from fasthep_smk.contrib.report.facts import gather
from fasthep_smk.run import lock
from fasthep_smk.storage import failures, last_run, layout
from fasthep_smk.storage.task_table import Read, TaskTable
from fasthep_smk.util.errors import Findings
from tests.support import tables

CANARY = "<script>document.title='canary'</script>"
RUN: last_run.LastRun = {
    "outcome": "finished", "problem": "", "started": 90.0, "ended": 110.0, "command": "c",
    "site": "local", "system": "local", "versions": {}, "workflow": "w", "folder": "/",
    "digests": {}, "reasons": {"r": {"it has not run yet": 2}},
}  # fmt: skip
SECRET = "https://me:hunter2@host/file.root?authz=abcdefghij"


def record(build: Path, key: str, **told: Any) -> None:
    """A record as a job of an earlier version of this package has left it."""
    folder = build / "smk/work/r" / key
    folder.mkdir(parents=True)
    content = {
        "rule": "r",
        "key": key,
        "signature": tables.signed(key),
        "host": CANARY,
        "started": 100.0,
        "ended": 104.0,
        "attempt": 1,
        "threads": 1,
        "asked": {"pool": "default", "memory": 1000},
        "used": {"memory": 500, "cpu": 2.0, "warm": True},
        "earlier": [],
        **told,
        "results": {},
        "runs": [{"signature": "x"}],
    }
    (folder / "record.json").write_text(json.dumps(content, indent=1))


@pytest.fixture
def build(tmp_path: Path) -> Path:
    """A build folder with a finished job and a failed one, whose texts are not what they should."""
    build = tmp_path / "build"
    jobs = {
        key: tables.entry(
            folder=f"smk/work/r/{key}",
            signature=tables.signed(key),
            dataset=CANARY,
            partition={
                "id": key, "dataset": CANARY, "file": SECRET, "source": "events", "part": key,
                "start": 0, "stop": 100,
            },
            files={SECRET: f"{SECRET}|12|1795528739000000000"},
        )
        for key in ("a", "b")
    }  # fmt: skip
    (build / layout.TASKS).mkdir(parents=True)
    (build / layout.table("r")).write_text(tables.table(jobs=jobs).to_text())
    record(build, "a")
    note = failures.Failure(
        rule="r", key="b", record="smk/work/r/b/record.json", problem=f"{CANARY} {SECRET}",
        stage=CANARY, dataset=CANARY, file=SECRET, start=0, stop=100,
    )  # fmt: skip
    failures.note(build, note)
    log = build / failures.log_of(note)
    log.parent.mkdir(parents=True)
    log.write_text(f"{CANARY}\nBearer abcdefghijklmnopqrstuvwxyz123456\n{SECRET}\n")
    (build / "artifacts" / "plots").mkdir(parents=True)
    (build / "artifacts/plots" / '"><svg onload=alert(1)>.svg').write_text(f"<svg>{CANARY}</svg>")
    return build


def test_nothing_of_others_runs_in_it(build: Path) -> None:
    text = page.write(build).read_text()
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', text)
    assert policy is not None
    assert policy[1].startswith("default-src 'none'; img-src data:;")
    scripts = re.findall(r"<script>(.*?)</script>", text, re.DOTALL)
    digests = [base64.b64encode(hashlib.sha256(one.encode()).digest()).decode() for one in scripts]
    assert re.findall(r"'sha256-([^']*)'", policy[1]) == digests
    assert len(re.findall("<script", text)) == 4  # these three, and the data
    assert "document.title='canary'" not in "".join(scripts)
    assert "<svg onload" not in text
    assert 'src="data:image/svg+xml;base64,' in text  # a picture: its script does not run


def test_it_loads_nothing(build: Path) -> None:
    """Links go to files of the build folder."""
    text = page.write(build).read_text()
    loaded = re.findall(r'<[a-z]+[^>]* (?:src|href|data)="?([^"> ]*)', text)
    assert len(loaded) > 3
    assert [one for one in loaded if not one.startswith(("data:", "./", "#"))] == []


@pytest.mark.parametrize("form", ["page", "text", "json"])
def test_it_holds_no_secret(build: Path, form: str, capsys: pytest.CaptureFixture[str]) -> None:
    if form == "page":
        text = page.write(build).read_text()
    else:
        assert main.main(["report", str(build), f"--{form}"]) == 0
        text = capsys.readouterr().out
    assert "canary" in text  # it is said what failed
    for secret in ("hunter2", "abcdefghij"):
        assert secret not in text


def test_a_page_that_quotes_logs_is_as_private_as_they_are(build: Path) -> None:
    path = page.write(build)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    failures.clear(build, "r", "b")
    assert stat.S_IMODE(page.write(build).stat().st_mode) & 0o044


def test_a_file_that_is_no_page_of_ours_is_not_replaced(build: Path) -> None:
    path = build / layout.REPORT
    path.write_text("<html>mine</html>")
    with pytest.raises(Findings, match="fasthep-smk has not written this file") as raised:
        page.write(build)
    assert "move it away" in str(raised.value)
    assert path.read_text() == "<html>mine</html>"


def test_records_of_earlier_versions_are_understood(build: Path) -> None:
    found = document.report_on(gather(build))
    (row,) = found.rules
    assert (row.jobs, row.most, row.read, row.wait) == (1, 4.0, None, None)
    assert (row.events, row.speed) == (100, 25.0)


@pytest.mark.parametrize("holds", ["", "nonsense", "[1]", '{"signature": 5}'])
def test_a_damaged_record_is_none(build: Path, holds: str) -> None:
    (build / "smk/work/r/a/record.json").write_text(holds)
    assert document.report_on(gather(build)).counts["done"] == 0
    page.write(build)


@pytest.mark.parametrize("earlier", [{"started": "x"}, {"kind": 5, "started": 1, "ended": None}])
def test_what_is_said_of_earlier_attempts_hides_no_job(
    build: Path, earlier: dict[str, object]
) -> None:
    """A worker may have sent anything."""
    path = build / "smk/work/r/a/record.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "earlier": [earlier]}, indent=1))
    found = document.report_on(gather(build))
    assert (found.counts["done"], found.rules[0].retries) == (1, 1)


@pytest.mark.parametrize(
    ("outcome", "state"),
    [("running", "failed"), ("stopped", "stopped"), ("failed", "failed"), ("finished", "failed")],
)
def test_the_verdict_is_that_of_the_run_and_of_its_jobs(
    build: Path, outcome: last_run.Outcome, state: str
) -> None:
    last_run.write(build, {**RUN, "outcome": outcome})
    found = document.report_on(gather(build))
    assert found.verdict.state == state
    assert "1 of 2 jobs" in found.verdict.text


def running(build: Path) -> failures.Failure:
    """Let the job that failed be one that has run for 3 s now, in a run that goes on."""
    note = failures.read(failures.path_of(build, "r", "b"))
    assert note is not None
    here = replace(
        note,
        kind="killed",
        host=socket.gethostname(),
        pid=os.getpid(),
        born=failures.born(os.getpid()),
        started=time.time() - 3,
    )
    failures.note(build, here)
    last_run.write(build, {**RUN, "outcome": "running", "ended": None})
    return here


def test_a_run_that_goes_on_says_when_it_may_end(build: Path) -> None:
    record(build, "c")
    jobs = TaskTable.read(build, "r").jobs
    more = {
        key: structs.replace(jobs["a"], folder=f"smk/work/r/{key}", signature=tables.signed(key))
        for key in "cd"
    }
    (build / layout.table("r")).write_text(tables.table(jobs={**jobs, **more}).to_text())
    running(build)
    assert document.report_on(gather(build)).verdict.state == "failed"  # nobody works on it
    with lock.hold(build):
        found = document.report_on(gather(build))
        text = page.write(build, renewed=12).read_text()
    # Two took 4 s each; one has run 3 s of as many, and one is to start: they run one at a time.
    assert found.seconds_left == pytest.approx(4 + 1, abs=0.5)
    assert re.fullmatch(
        r"2 of 4 jobs are done, 1 run now\. About \d s left: the run may end at 20.* UTC\.",
        found.verdict.text,
    )
    assert '<meta http-equiv="refresh" content="12">' in text
    assert "it is renewed about every 12 s" in text
    assert 'http-equiv="refresh"' not in page.write(build).read_text()


def test_before_anything_is_translated_there_is_nothing_to_do(build: Path) -> None:
    (build / layout.table("r")).unlink()
    assert document.report_on(gather(build)).verdict == document.Verdict(
        "to do", "The workflow is not translated yet."
    )
    with lock.hold(build):
        assert document.report_on(gather(build)).verdict == document.Verdict(
            "running", "The run begins."
        )


def test_a_page_costs_a_run_next_to_nothing() -> None:
    assert page.pause(0.01) == 10
    assert page.pause(1.5) == 150


def test_a_job_that_was_stopped_with_its_run_has_not_failed(build: Path) -> None:
    path = failures.path_of(build, "r", "b")
    note = failures.read(path)
    assert note is not None
    failures.note(build, replace(note, kind="killed"))
    assert document.report_on(gather(build)).counts["failed"] == 1
    last_run.write(build, {**RUN, "outcome": "stopped"})
    found = document.report_on(gather(build))
    assert (found.counts["failed"], found.counts["to do"], found.failures) == (0, 1, [])


def told(text: str) -> dict[str, Any]:
    """What a page holds for its charts."""
    found: dict[str, Any] = json.loads(text.partition('id="jobs">')[2].partition("</script>")[0])
    return found


def test_attempts_that_failed_and_jobs_that_run_are_in_the_charts(build: Path) -> None:
    """A job has failed at 103 and 106 s, the second time for good; another ran from 100 to 104."""
    last_run.write(build, {**RUN, "limits": {"default": 2}})
    path = failures.path_of(build, "r", "b")
    note = failures.read(path)
    assert note is not None
    first = {"attempt": 1, "pool": "default", "host": "x", "problem": "p", "kind": "error"}
    times = {"started": 101.0, "ended": 103.0}
    place = {"pool": "default", "host": "x", "attempt": 2, "batch_job": "7", "system": "slurm"}
    more = {**place, "started": 105.0, "ended": 106.0, "memory": 2 * 10**9, "used": 10**8}
    failures.note(build, replace(note, earlier=[{**first, **times}], **more))
    text = page.write(build).read_text()
    assert told(text)["limits"] == {"default": 2}
    assert "pool &#39;default&#39; on x, slurm job 7, attempt 2" in text
    assert "2.0 GB asked for, 100 MB used" in text
    jobs = [[job[3], job[4], job[7:]] for job in told(text)["jobs"]]
    assert jobs == [[10, 14, []], [11, 13, [1]], [15, 16, [1]]]  # since the run began

    running(build)
    with lock.hold(build):
        text = page.write(build).read_text()
    assert [job[7:] for job in told(text)["jobs"]] == [[], [1], [2]]
    assert "Pale: still running." in text


def test_an_attempt_of_which_nobody_knows_when_is_in_no_chart(build: Path) -> None:
    """As an earlier version has noted it."""
    assert [job[7:] for job in told(page.write(build).read_text())["jobs"]] == [[]]


def test_skims_are_told_by_dataset(build: Path) -> None:
    files = [{"path": f"artifacts/files/skim/dy/{n}.root", "size_bytes": 300} for n in range(2)]
    skim = {"name": "skim", "datasets": {CANARY: {"total_entries": 12, "files": files}}}
    for folder, content in (("skim", skim), ("damaged", {"datasets": 5})):
        (build / "artifacts/files" / folder).mkdir(parents=True)
        (build / "artifacts/files" / folder / "manifest.json").write_text(json.dumps(content))
    (row,) = document.report_on(gather(build)).skims
    assert (row.name, row.dataset, row.events, row.size) == ("skim", CANARY, 12, 600)
    assert '<section id="skims">' in page.write(build).read_text()


def test_each_rule_is_told_with_its_stages_and_jobs(build: Path) -> None:
    jobs = TaskTable.read(build, "r").jobs
    one = structs.replace(jobs["b"], nodes=(f"stage.{CANARY}",))
    reads = (Read("smk/work/r/a", ()),)
    after = tables.entry(folder="smk/work/s", signature=tables.signed("s"), reads=reads)
    (build / layout.table("r")).write_text(tables.table(jobs={"b": one, "a": jobs["a"]}).to_text())
    (build / layout.table("s")).write_text(tables.table(rule="s", jobs={"": after}).to_text())
    first, second = document.report_on(gather(build)).each_rule
    assert first.stages == [CANARY]
    assert [(job.key, job.state) for job in first.jobs] == [("b", "failed"), ("a", "done")]
    assert first.jobs[0].log == "debug/distributed/logs/r/b.log"
    assert (second.reads, second.states["to do"]) == (["r"], 1)
    text = page.write(build).read_text()
    assert CANARY not in text
    shown = text.partition('<section id="each-rule">')[2].partition("</section>")[0]
    assert '<dt>reads</dt><dd><a href="#rule-r">r</a>' in shown and 'id="rule-r"' in shown
    assert '<dt>read by</dt><dd><a href="#rule-s">s</a>' in shown


def test_the_terminal_shows_the_command_that_runs_a_failed_job_alone(
    build: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.main(["report", str(build), "--text"]) == 0
    text = capsys.readouterr().out
    command = f"cd {build} && snakemake --profile smk/profile -- smk/work/r/b/record.json"
    assert f"run it alone: {command}" in text.splitlines()


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(None, "–"), (0.254, "0.25 s"), (12.34, "12.3 s"), (245, "4 min 05 s"), (9000, "2 h 30 min")],
)
def test_times_are_for_people(seconds: float | None, shown: str) -> None:
    assert numbers.duration(seconds) == shown


@pytest.mark.parametrize(
    ("share", "shown"),
    [(None, "–"), (0, "0 %"), (0.0000123, "0.00123 %"), (2 / 3, "66.67 %"), (1, "100 %")],
)
def test_a_share_has_four_digits(share: float | None, shown: str) -> None:
    assert numbers.percent(share) == shown


@pytest.mark.parametrize(
    ("before", "after", "shown"),
    [(None, 1, "–"), (0, 1, "–"), (2, None, "–"), (2, 2, "0 %"), (2, 2.01, "+0.50 %"),
     (2, 1, "-50 %")],
)  # fmt: skip
def test_a_change_is_a_share_of_what_it_was(
    before: float | None, after: float | None, shown: str
) -> None:
    assert numbers.change(before, after) == shown

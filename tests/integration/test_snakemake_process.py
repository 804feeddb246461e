"""What the installed Snakemake reports of a run, and what it says as text only."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from fasthep_smk.executors.job_events import (
    Event,
    JobFailed,
    JobFinished,
    JobRetried,
    JobsPlanned,
    JobStarted,
)
from fasthep_smk.run.prestart import Prestarted, environment
from fasthep_smk.run.snakemake_output import Reader
from fasthep_smk.run.snakemake_process import SnakemakeProcess

pytestmark = pytest.mark.integration

SNAKEFILE = """\
rule all:
    input: "first/record.json", "second/record.json"

rule make:
    output: "{name}/record.json"
    log: "{name}.log"
    shell: "{SCRIPT}"
"""
WELL = "touch {output}"
#: The first attempt at the second job fails.
FAILS_ONCE = "test {wildcards.name} = first || test -e tried || {{ touch tried; exit 3; }}; " + WELL
FAILS = "test {wildcards.name} = first; " + WELL


class Follower(Reader):
    """Remembers all that is reported."""

    def __init__(self) -> None:
        super().__init__(None)
        self.reported: list[Event] = []

    def event(self, event: Event) -> None:
        self.reported.append(event)
        super().event(event)

    def of(self, kind: type[Event]) -> list[Event]:
        return [event for event in self.reported if isinstance(event, kind)]


def run(folder: Path, script: str, *arguments: str) -> tuple[int, Follower]:
    (folder / "Snakefile").write_text(SNAKEFILE.replace("{SCRIPT}", script))
    process = SnakemakeProcess("local", folder, os.environ)
    process.tell(["--cores", "1", "--nocolor", *arguments])
    reader = Follower()
    return process.follow(reader), reader


def test_a_run_is_reported_from_its_plan_to_its_end(tmp_path: Path) -> None:
    status, reader = run(tmp_path, WELL)
    assert status == 0
    assert reader.of(JobsPlanned) == [JobsPlanned({"make": 2, "all": 1})]
    started = {(one.rule, *one.outputs) for one in reader.of(JobStarted)}  # type: ignore[union-attr]
    assert started == {
        ("make", "first/record.json"),
        ("make", "second/record.json"),
        ("all",),
    }
    assert len(reader.of(JobFinished)) == 3
    assert (reader.tally.done, sorted(reader.folders)) == (2, ["first", "second"])


def test_a_job_that_is_tried_again_is_said_as_text(tmp_path: Path) -> None:
    status, reader = run(tmp_path, FAILS_ONCE, "--retries", "1")
    assert status == 0
    assert [one.logs for one in reader.of(JobFailed)] == [["second.log"]]  # type: ignore[union-attr]
    assert len(reader.of(JobRetried)) == 1
    assert (reader.tally.done, reader.failed_logs) == (2, {})


def test_a_job_that_fails_is_known_by_its_log(tmp_path: Path) -> None:
    status, reader = run(tmp_path, FAILS, "--keep-going", "--retries", "1")
    assert status == 1
    assert len(reader.of(JobFailed)) == 2
    assert [*reader.failed_logs.values()] == ["second.log"]
    assert reader.tally.rules["make"].failed == 1


def test_a_locked_folder_is_said_as_text(tmp_path: Path) -> None:
    locks = tmp_path / ".snakemake" / "locks"
    locks.mkdir(parents=True)
    for kind in ("input", "output"):
        (locks / f"0.{kind}.lock").write_text("first/record.json\nsecond/record.json\n")
    status, reader = run(tmp_path, WELL)
    assert status == 1
    assert reader.locked_out


def test_a_dry_run_is_reported_alike(tmp_path: Path) -> None:
    status, reader = run(tmp_path, WELL, "--dry-run")
    assert status == 0
    assert (reader.jobs, sorted(reader.folders)) == ({"make": 2}, ["first", "second"])


@pytest.mark.parametrize("option", [["--logger", "other"], ["--logger=other"]])
def test_a_logger_of_the_users_own_gets_the_events_and_disturbs_nothing(
    tmp_path: Path, option: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    plugin = tmp_path / "plugins" / "snakemake_logger_plugin_other"
    plugin.mkdir(parents=True)
    (plugin / "__init__.py").write_text(
        "from pathlib import Path\n"
        "from snakemake_interface_logger_plugins.base import LogHandlerBase\n"
        "class LogHandler(LogHandlerBase):\n"
        "    def emit(self, record):\n"
        "        with Path('seen').open('a') as stream:\n"
        "            print(getattr(record, 'event', None), file=stream)\n"
        "        if getattr(record, 'event', None) == 'job_info':\n"
        "            raise ValueError('a mistake in the plugin')\n"
        "    writes_to_stream = writes_to_file = needs_rulegraph = False\n"
        "    has_filter = has_formatter = True\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(plugin.parent))
    status, reader = run(tmp_path, WELL, *option)
    assert (status, reader.tally.done) == (0, 2)
    assert "run_info" in (tmp_path / "seen").read_text()


def test_one_that_has_died_while_it_waited_is_not_told_anything(tmp_path: Path) -> None:
    variables = environment(tmp_path, None)
    prestarted = Prestarted(tmp_path, "local", variables, None)
    try:
        assert prestarted.is_for("local", variables)
        assert not prestarted.is_for("local", {**variables, "OTHER": "1"})
        prestarted.snakemake.signal(signal.SIGKILL)
        prestarted.snakemake._process.wait()
        assert not prestarted.is_for("local", variables)
    finally:
        prestarted.end()


def test_who_is_interrupted_interrupts_it(tmp_path: Path) -> None:
    (tmp_path / "Snakefile").write_text(
        "import os, time\nopen('begun', 'w').write(str(os.getpid()))\ntime.sleep(60)\n"
    )
    program = (
        "import os, signal, pathlib\n"
        "from fasthep_smk.run.snakemake_output import Reader\n"
        "from fasthep_smk.run.snakemake_process import SnakemakeProcess\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "process = SnakemakeProcess('local', pathlib.Path(), os.environ)\n"
        "process.tell(['--dry-run', '--cores', '1'])\n"
        "process.follow(Reader(None))\n"
    )
    with subprocess.Popen([sys.executable, "-c", program], cwd=tmp_path) as caller:
        begun = tmp_path / "begun"
        wait_until(lambda: begun.is_file() and begun.read_text() != "")
        caller.send_signal(signal.SIGINT)
        assert caller.wait(30) != 0
    wait_until(lambda: not Path("/proc", begun.read_text()).exists())


def wait_until(is_so: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.1)

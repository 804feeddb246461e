"""Start Snakemake on a translated workflow, show how it goes, and say what failed."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from fasthep_smk import failures
from fasthep_smk.errors import RunFailed
from fasthep_smk.translate.write import Written

__all__ = ["Outcome", "dry_run", "run"]

_STEPS = re.compile(r"^(\d+) of (\d+) steps \((\d+)%\) done")
_TOTAL = re.compile(r"^total\s+(\d+)\s*$")
_USAGE = re.compile(r"^\S*(snakemake|__main__\.py): error: ")
_FAILED_LOG = re.compile(r"^    log: (\S+) \(check log file")
_STAT = re.compile(r"^(\w+)\s+(\d+)\s*$")


@dataclass(frozen=True)
class Outcome:
    """How many jobs of each rule ran or would run."""

    jobs: dict[str, int]

    @property
    def total(self) -> int:
        return sum(self.jobs.values())


def run(
    written: Written, *, cores: int | None, extra: Sequence[str] = (), output: TextIO
) -> Outcome:
    """Run the workflow; ``extra`` goes to Snakemake unchanged.

    Raises:
        RunFailed: Snakemake ended with an error; the message names each failed job.
    """
    log = written.build / "debug" / "distributed" / "snakemake.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    command = _command(written, cores, extra)
    failures.forget(written.build)
    reader = _Reader(output)
    with log.open("w", encoding="utf-8") as stream:
        status = _follow(command, written.build, stream, reader)
    if status != 0:
        raise RunFailed(_what_failed(written, log, status, reader))
    return Outcome(reader.jobs)


def dry_run(written: Written, *, extra: Sequence[str] = ()) -> Outcome:
    """Return which jobs would run; run nothing.

    Raises:
        RunFailed: Snakemake refuses the workflow.
    """
    command = _command(written, 1, ["--dry-run", *extra])
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
        env=_environment(),
        cwd=written.build,
    )
    reader = _Reader(None)
    for line in f"{done.stdout}\n{done.stderr}".splitlines():
        reader.line(line)
    if done.returncode != 0:
        raise RunFailed(_refusal(reader))
    return Outcome(reader.jobs)


def _follow(command: list[str], folder: Path, log: TextIO, reader: _Reader) -> int:
    """Run Snakemake, copy what it prints to ``log``, and return its exit status.

    It runs in a session of its own, so that Ctrl-C reaches it once and through us: it then lets
    its running jobs end and removes its lock. SIGTERM is handled alike; a second one ends
    everything at once.
    """
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        env=_environment(),
        cwd=folder,
        start_new_session=True,
    )
    assert process.stdout is not None
    asked_to_stop = False

    def stop(_number: int, _frame: object) -> None:
        nonlocal asked_to_stop
        os.killpg(process.pid, signal.SIGKILL if asked_to_stop else signal.SIGINT)
        asked_to_stop = True

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        for line in process.stdout:
            log.write(line)
            log.flush()
            reader.line(line.rstrip("\n"))
        status = process.wait()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    if asked_to_stop:
        raise KeyboardInterrupt
    return status


class _Reader:
    """Follows Snakemake's output: the table of jobs, then the steps done."""

    def __init__(self, screen: TextIO | None) -> None:
        self.jobs: dict[str, int] = {}
        self.tail: list[str] = []
        self.failed_logs: list[str] = []
        self._screen = screen
        self._in_table = False

    def line(self, text: str) -> None:
        self.tail = [*self.tail[-24:], text]
        if text.startswith("Job stats:"):
            self._in_table, self.jobs = True, {}
        elif self._in_table and _TOTAL.match(text):
            self._in_table = False
            self._say_total()
        elif self._in_table and (found := _STAT.match(text)) and found[1] != "all":
            self.jobs[found[1]] = int(found[2])
        elif found := _STEPS.match(text):
            # "all" is a step of Snakemake's, not a job of ours.
            done, total = int(found[1]), int(found[2])
            if done < total:
                self._say(f"[{done}/{total - 1}] jobs done")
        elif found := _FAILED_LOG.match(text):
            self.failed_logs.append(found[1])
        elif text.startswith("Error in rule "):
            self._say(f"failed: {text.removeprefix('Error in rule ').rstrip(':')}")

    def _say_total(self) -> None:
        total = sum(self.jobs.values())
        parts = ", ".join(f"{count} x {rule}" for rule, count in self.jobs.items())
        self._say(f"{total} job{'s' if total != 1 else ''} to run: {parts}")

    def _say(self, text: str) -> None:
        if self._screen is not None:
            print(text, file=self._screen, flush=True)


def _command(written: Written, cores: int | None, extra: Sequence[str]) -> list[str]:
    # Run in the build folder: Snakemake would expand variables and globs in the profile's path.
    profile = str(written.profile.relative_to(written.build))
    command = [sys.executable, "-P", "-m", "snakemake", "--profile", profile]
    if cores is not None:
        command += ["--cores", str(cores)]
    return [*command, *extra]


def _environment() -> dict[str, str]:
    # Colours would end up in the log; the width of the table must not depend on the terminal.
    return {**os.environ, "NO_COLOR": "1", "COLUMNS": "200", "PYTHONUNBUFFERED": "1"}


def _refusal(reader: _Reader) -> str:
    """Return why Snakemake did not start: its own line of it if there is one."""
    found = [line for line in reader.tail if _USAGE.match(line)]
    return "\n    ".join(["Snakemake refuses to start:", *(found or reader.tail)])


def _what_failed(written: Written, log: Path, status: int, reader: _Reader) -> str:
    failed = failures.read_all(written.build)
    noted = {str(failures.log_of(item)) for item in failed}
    silent = [item for item in dict.fromkeys(reader.failed_logs) if item not in noted]
    count = len(failed) + len(silent)
    if not count and any(_USAGE.match(line) for line in reader.tail):
        return _refusal(reader)
    if not count:
        tail = [f"    {line}" for line in reader.tail]
        return "\n".join([f"Snakemake ended with status {status} (log: {log}):", *tail])
    title = f"{count} job{'s' if count != 1 else ''} failed; what finished is kept:"
    shown = [
        failures.message(item, written.build, log=failures.log_of(item), profile=written.profile)
        for item in failed[:10]
    ]
    shown += [
        "a job ended without a word: it was killed, perhaps for want of memory\n"
        f"    log:     {written.build / item}"
        for item in silent[: 10 - len(shown)]
    ]
    more = [f"... and {count - 10} more, see {log}"]
    return "\n".join([title, *shown, *(more if count > 10 else [])])

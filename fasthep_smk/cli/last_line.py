"""``run --json``: one line on standard output says how a run has ended, for programs."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TextIO

from fasthep_smk.cli.parser import parse
from fasthep_smk.cli.run import ended_as
from fasthep_smk.cli.status import failure_as_data
from fasthep_smk.storage import failures, layout
from fasthep_smk.storage.jobs import is_done, read_jobs, state_of
from fasthep_smk.storage.missing_report import reported
from fasthep_smk.util.errors import RunFailed, SmkError


def with_last_line(arguments: list[str], obey: Callable[[argparse.Namespace], int]) -> int:
    """Let ``obey`` run a workflow, then print the line; return or raise what ``obey`` does."""
    build: Path | None = None
    outcome, problem = "refused", ""
    with _standard_output() as stream:
        try:
            options = parse(arguments)
            build = options.outdir.absolute()
            status = obey(options)
            outcome, problem = ended_as(build), reported(build) or ""
            return status
        except KeyboardInterrupt:
            outcome = "stopped"
            raise
        except Exception as error:
            problem = str(error)
            if isinstance(error, RunFailed) or not isinstance(error, SmkError | ImportError):
                outcome = "failed"
            raise
        finally:
            found: dict[str, object] = {"report": None, "jobs": None, "failures": []}
            if build is not None and outcome != "refused":
                with contextlib.suppress(OSError, SmkError):  # what cannot be read is unknown
                    found = _left_in(build)
            named = None if build is None else str(build)
            line = {"outcome": outcome, "problem": problem, "build": named, **found}
            print(json.dumps(line), file=stream)


def _left_in(build: Path) -> dict[str, object]:
    """Return what a run has left in its build folder: its page, and the states of its jobs."""
    notes = {(note.rule, note.key): note for note in failures.read_all(build)}
    states = {
        (job.rule, job.key): state_of(is_done(build, job), notes.get((job.rule, job.key)), None)
        for job in read_jobs(build)
    }
    count = Counter(states.values())
    done, failed, page = count["done"], count["failed"], build / layout.REPORT
    return {
        "report": str(page) if page.is_file() else None,
        "jobs": {"done": done, "failed": failed, "left": count.total() - done - failed},
        "failures": [failure_as_data(notes[job]) for job in states if states[job] == "failed"],
    }


@contextlib.contextmanager
def _standard_output() -> Iterator[TextIO]:
    """Yield standard output; what this process and its children print goes to standard error."""
    sys.stdout.flush()
    with os.fdopen(os.dup(1), "w", encoding="utf-8") as stream:
        os.dup2(2, 1)
        try:
            with contextlib.redirect_stdout(sys.stderr):
                yield stream
        finally:
            os.dup2(stream.fileno(), 1)

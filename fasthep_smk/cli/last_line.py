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
from typing import Any, TextIO

from fasthep_smk.cli.parser import parse
from fasthep_smk.cli.run import ended_as
from fasthep_smk.cli.status import failure_as_data, states_of
from fasthep_smk.storage import failures, last_run, layout
from fasthep_smk.storage.missing_report import reported
from fasthep_smk.util.errors import RunFailed, SmkError


def with_last_line(arguments: list[str], obey: Callable[[argparse.Namespace], int]) -> int:
    """Let ``obey`` run a workflow, then print the line; return or raise what ``obey`` does."""
    try:
        options = parse(arguments)  # it may print help, and end the process
    except Exception as error:
        _print_line(sys.stdout, "refused", str(error), None)
        raise
    build = options.outdir.absolute()
    outcome, problem, before = "refused", "", last_run.read(build)
    with _standard_output() as stream:
        try:
            status = obey(options)
            outcome = ended_as(build)
            problem = last_run.UNFINISHED if outcome == "unfinished" else reported(build) or ""
            return status
        except KeyboardInterrupt:
            outcome = "stopped"
            raise
        except Exception as error:
            problem = str(error)
            is_refusal = isinstance(error, SmkError | ImportError)
            has_begun = isinstance(error, RunFailed) or last_run.read(build) != before
            if has_begun or not is_refusal:
                outcome = "failed"
            raise
        finally:
            _print_line(stream, outcome, problem, build)


def _print_line(stream: TextIO, outcome: str, problem: str, build: Path | None) -> None:
    """Print the line; ``build`` is ``None`` if the command line is wrong."""
    details: dict[str, Any] = {"report": None, "jobs": None, "failures": []}
    if build is not None and outcome != "refused":
        with contextlib.suppress(OSError, SmkError):  # what cannot be read is unknown
            details = _left_in(build, outcome)
    named = None if build is None else str(build)
    line = {"outcome": outcome, "problem": problem, "build": named, **details}
    print(json.dumps(line), file=stream)


def _left_in(build: Path, outcome: str) -> dict[str, Any]:
    """Return what a run has left in its build folder: its page, and the states of its jobs.

    Jobs that were stopped with the run have not failed.
    """
    notes = [
        note
        for note in failures.read_all(build)
        if not (outcome == "stopped" and note.kind == "killed")
    ]
    _, states, failed_jobs = states_of(build, None, notes)
    count = Counter(states.values())
    done, failed, page = count["done"], count["failed"], build / layout.REPORT
    return {
        "report": str(page) if page.is_file() else None,
        "jobs": {"done": done, "failed": failed, "left": count.total() - done - failed},
        "failures": list(map(failure_as_data, failed_jobs)),
    }


@contextlib.contextmanager
def _standard_output() -> Iterator[TextIO]:
    """Yield standard output; what this process and its children print goes to standard error.

    It does so until the process ends: modules of the user's may have registered exit handlers.
    """
    sys.stdout.flush()
    with os.fdopen(os.dup(1), "w", encoding="utf-8") as stream:
        os.dup2(2, 1)
        sys.stdout = sys.stderr
        yield stream

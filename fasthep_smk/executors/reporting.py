"""Reports the events of a run from Snakemake's process to the process that has started it.

The records of Snakemake's logger are taken as they are made. Its logger plugins get them in a
thread, which an error in any of the user's ends.
"""

from __future__ import annotations

import contextlib
import logging
import os
import threading
import traceback
from collections.abc import Iterable
from pathlib import Path
from typing import Any, TextIO

from snakemake_interface_logger_plugins.common import LogEvent

from fasthep_smk.executors import job_events
from fasthep_smk.executors.job_events import Event
from fasthep_smk.executors.read_as_text import IS_RETRIED
from fasthep_smk.storage import layout
from fasthep_smk.storage.run_lock import beat
from fasthep_smk.util.masking import masked

#: Log records come from Snakemake's threads, reports from those of the executors.
_lock = threading.Lock()
#: Where the events of this process go: one stream, or none before it has begun.
_streams: list[TextIO] = []


def begin(descriptor: int) -> None:
    """Report from now on to an open file, a line for each event."""
    _streams.append(os.fdopen(descriptor, "w", encoding="utf-8"))
    # The run goes on here if the process that holds its lock was killed.
    lock = Path(layout.LOCK).absolute()
    threading.Thread(target=beat, args=(lock, threading.Event()), daemon=True).start()
    # A filter: Snakemake removes handlers that it has not added itself.
    logging.getLogger("snakemake.logging").addFilter(_take)


def _take(record: logging.LogRecord) -> bool:
    """Report a record of Snakemake's, and let it be printed as it would be."""
    try:
        event = event_of(record)
    except AttributeError:  # another release of Snakemake: the run goes on without
        traceback.print_exc()
    else:
        if event is not None:
            report(event)
    return True


def report(event: Event) -> None:
    """Report an event from any thread, if anybody still reads: the jobs go on without."""
    for stream in _streams:
        with _lock, contextlib.suppress(OSError, ValueError):
            stream.write(job_events.to_line(event))
            stream.flush()


def problem(text: str) -> None:
    """Report what the user has to know at once, and print it into the log of the run."""
    text = masked(text)
    print(text, flush=True)
    report(job_events.ReportedProblem(text))


def event_of(record: logging.LogRecord) -> Event | None:
    """Return what a run needs to know of a record, without secrets; ``None`` if that is nothing."""
    data: Any = record  # Snakemake sets more attributes, which ones is told by its event
    match getattr(record, "event", None):
        case None:
            retried = IS_RETRIED.match(str(data.msg))
            return job_events.JobRetried(retried[1]) if retried else None
        case LogEvent.RUN_INFO:
            return job_events.JobsPlanned({k: n for k, n in data.stats.items() if k != "total"})
        case LogEvent.JOB_INFO:
            return job_events.JobStarted(str(data.jobid), data.rule_name, _texts(data.output))
        case LogEvent.JOB_FINISHED:
            return job_events.JobFinished(str(data.job_id))
        case LogEvent.JOB_ERROR if not data.indent:  # else the event of its group tells
            why = masked(str(data.rule_msg or ""))
            return job_events.JobFailed(str(data.jobid), data.rule_name, _texts(data.log), why)
        case LogEvent.GROUP_ERROR:
            numbers = [str(job["jobid"]) for job in data.job_error_info]
            why = masked(str(data.msg or ""))
            return job_events.GroupFailed(numbers, _texts(data.aux_logs), why)
        case _:
            return None


def _texts(values: Iterable[object]) -> list[str]:
    return [str(value) for value in values]

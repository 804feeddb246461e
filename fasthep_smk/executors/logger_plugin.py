"""Snakemake's logger plugin ``fasthep-smk``: it reports the events of a run to who started it.

Snakemake finds plugins by the names of installed packages; this one is registered by the processes
that fasthep-smk starts, and needs none. See the interface
https://github.com/snakemake/snakemake-interface-logger-plugins.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import threading
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from snakemake_interface_logger_plugins.base import LogHandlerBase
from snakemake_interface_logger_plugins.common import LogEvent
from snakemake_interface_logger_plugins.registry import LoggerPluginRegistry
from snakemake_interface_logger_plugins.settings import LogHandlerSettingsBase

from fasthep_smk.executors import job_events
from fasthep_smk.executors.job_events import Event
from fasthep_smk.executors.read_as_text import IS_RETRIED
from fasthep_smk.storage import layout
from fasthep_smk.storage.run_lock import beat
from fasthep_smk.util.masking import masked

_MODULE_NAME = "snakemake_logger_plugin_fasthep_smk"

#: Log records come from Snakemake's threads, reports from those of the executors.
_lock = threading.Lock()


@dataclass
class LogHandlerSettings(LogHandlerSettingsBase):
    """What the plugin is told on Snakemake's command line."""

    descriptor: int | None = field(
        default=None,
        metadata={"help": "Open file descriptor that takes one line for each event", "type": int},
    )


class LogHandler(LogHandlerBase):
    """Writes a line for each event to the descriptor.

    Snakemake hands records to all plugins in one thread, which an error in any of them ends. So the
    records are taken from its logger directly.
    """

    settings: LogHandlerSettings

    def __post_init__(self) -> None:
        super().__post_init__()
        assert self.settings.descriptor is not None
        self._stream = os.fdopen(self.settings.descriptor, "w", encoding="utf-8")
        _opened.append(self)
        # The run goes on here if the process that holds its lock was killed.
        lock = Path(layout.LOCK).absolute()
        threading.Thread(target=beat, args=(lock, threading.Event()), daemon=True).start()
        logging.getLogger("snakemake.logging").addHandler(_Direct(self))

    def emit(self, record: logging.LogRecord) -> None:
        """Do nothing: the record was reported when it was made."""

    def write(self, event: Event) -> None:
        """Report an event, if anybody still reads: the jobs go on without."""
        with _lock, contextlib.suppress(OSError, ValueError):
            self._stream.write(job_events.to_line(event))
            self._stream.flush()

    def close(self) -> None:
        with _lock, contextlib.suppress(OSError):
            self._stream.close()
        super().close()

    @property
    def writes_to_stream(self) -> bool:
        return False

    @property
    def writes_to_file(self) -> bool:
        return False

    @property
    def has_filter(self) -> bool:
        return True  # --quiet and its like concern what is printed

    @property
    def has_formatter(self) -> bool:
        return True

    @property
    def needs_rulegraph(self) -> bool:
        return False


class _Direct(logging.Handler):
    """Takes the records from Snakemake's logger."""

    def __init__(self, to: LogHandler) -> None:
        super().__init__(logging.INFO)
        self._to = to

    def emit(self, record: logging.LogRecord) -> None:
        try:
            event = event_of(record)
        except AttributeError:  # another release of Snakemake: the run goes on without
            self.handleError(record)
        else:
            if event is not None:
                self._to.write(event)


#: The handlers of this process: one, or none where no events are asked for.
_opened: list[LogHandler] = []


def register() -> None:
    """Make the plugin known to Snakemake in this process."""
    LoggerPluginRegistry().register_plugin(_MODULE_NAME, sys.modules[__name__])


def report(event: Event) -> None:
    """Report what Snakemake itself does not, from any thread."""
    for handler in _opened:
        handler.write(event)


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
        case LogEvent.PROGRESS:
            return job_events.Progressed(data.done, data.total)
        case _:
            return None


def _texts(values: Iterable[object]) -> list[str]:
    return [str(value) for value in values]

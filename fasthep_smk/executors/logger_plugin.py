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
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, cast

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

__all__ = [
    "LogHandler",
    "LogHandlerSettings",
    "event_of",
    "problem",
    "register",
    "report",
]

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
    report(job_events.Problem(text))


def event_of(record: logging.LogRecord) -> Event | None:
    """Return what a run needs to know of a record, without secrets; ``None`` if that is nothing."""
    kind = getattr(record, "event", None)
    if kind is not None:
        return _EVENTS[kind](cast("_Record", record)) if kind in _EVENTS else None
    found = IS_RETRIED.match(str(record.msg))
    return job_events.JobRetried(found[1]) if found else None


class _Record(Protocol):
    """What Snakemake says in its records: in each of them some of these, by its event."""

    stats: Mapping[str, int]
    jobid: int
    job_id: int
    rule_name: str
    output: Iterable[object]
    indent: bool
    log: Iterable[object]
    rule_msg: str | None
    job_error_info: Iterable[Mapping[str, object]]
    aux_logs: Iterable[object]
    msg: str | None
    done: int
    total: int


def _planned(record: _Record) -> Event:
    return job_events.JobsPlanned({rule: n for rule, n in record.stats.items() if rule != "total"})


def _started(record: _Record) -> Event:
    return job_events.JobStarted(str(record.jobid), record.rule_name, _texts(record.output))


def _finished(record: _Record) -> Event:
    return job_events.JobFinished(str(record.job_id))


def _failed(record: _Record) -> Event | None:
    if record.indent:  # one of a group, of which the event of the group tells
        return None
    return job_events.JobFailed(
        str(record.jobid), record.rule_name, _texts(record.log), masked(str(record.rule_msg or ""))
    )


def _group_failed(record: _Record) -> Event:
    numbers = [str(one["jobid"]) for one in record.job_error_info]
    return job_events.GroupFailed(numbers, _texts(record.aux_logs), masked(str(record.msg or "")))


def _progressed(record: _Record) -> Event:
    return job_events.Progressed(record.done, record.total)


def _texts(values: Iterable[object]) -> list[str]:
    return [str(value) for value in values]


_EVENTS: dict[LogEvent, Callable[[_Record], Event | None]] = {
    LogEvent.RUN_INFO: _planned,
    LogEvent.JOB_INFO: _started,
    LogEvent.JOB_FINISHED: _finished,
    LogEvent.JOB_ERROR: _failed,
    LogEvent.GROUP_ERROR: _group_failed,
    LogEvent.PROGRESS: _progressed,
}

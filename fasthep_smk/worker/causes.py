"""What a job died of, by the error that ended it."""

from __future__ import annotations

import signal
from pathlib import Path

from fasthep_smk.storage import failures
from fasthep_smk.util import disk_full
from fasthep_smk.worker.job import Sent
from fasthep_smk.worker.job_end import End
from fasthep_smk.worker.job_retry import Refused
from fasthep_smk.worker.limits import MemoryLimit, TimeLimit, time_is_over
from fasthep_smk.worker.planned import Changed

__all__ = ["cause_of", "damaged_record", "kind_of", "what_ended"]

#: What the processor or the process itself raises.
_FAULTS = frozenset(
    {signal.SIGSEGV, signal.SIGBUS, signal.SIGILL, signal.SIGFPE, signal.SIGABRT, signal.SIGSYS}
)


def kind_of(error: BaseException) -> failures.Kind:
    """Return what sort of thing it was."""
    cause = cause_of(error)
    if isinstance(error, Refused):
        return "credential"
    if isinstance(cause, Changed):
        return "changed"
    if isinstance(cause, MemoryLimit | MemoryError):
        return "memory"
    if isinstance(cause, TimeLimit):
        return "time"
    if damaged_record(error) is not None:
        return "damaged"
    return "disk" if disk_full.shown(error) else "error"


def cause_of(error: BaseException) -> BaseException:
    """Return the error that was raised in a stage; a stage's error holds it."""
    cause: BaseException = getattr(error, "cause", error)
    return cause


def damaged_record(error: BaseException) -> Path | None:
    """Return the record of the job whose file is damaged, if that is what an error says."""
    record: Path | None = getattr(cause_of(error), "record", None)
    return record


def what_ended(end: End, sent: Sent) -> tuple[failures.Kind, str, str | None]:
    """Return of which kind it is that ended a job's process too early, what, and the fix.

    A batch system, or the kernel when memory is short, kills from outside: the kind is ``killed``.
    """
    if end.status == 1 and sent.walltime is not None and end.seconds >= sent.walltime:
        over = time_is_over(sent.walltime, sent.asked.get("pool"))
        return "time", f"{over}, in code that cannot be interrupted", None
    if end.status >= 0:
        return (
            "error",
            f"its process ended with {end} before its work was done, as by os._exit({end.status})",
            "an operation must return its result, or raise an error",
        )
    if -end.status in _FAULTS:
        return "error", f"{end}", "the log shows where in Python it happened"
    if -end.status == signal.SIGKILL:
        return "killed", f"{end}: mostly because memory ran out", None
    return "killed", f"{end}: ended by a user or by the system", None

"""What a job died of, by the error that ended it."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import TYPE_CHECKING

from fasthep_smk.storage import failures
from fasthep_smk.util import disk_full
from fasthep_smk.util.errors import nearest
from fasthep_smk.worker.job import Sent
from fasthep_smk.worker.job_end import End
from fasthep_smk.worker.limits import MemoryLimit, TimeLimit, time_is_over
from fasthep_smk.worker.planned import Changed
from fasthep_smk.worker.refused import Refused

if TYPE_CHECKING:
    from fasthep_smk.flow.stage_error import MissingColumn

#: What the processor or the process itself raises.
_FAULTS = frozenset(
    {signal.SIGSEGV, signal.SIGBUS, signal.SIGILL, signal.SIGFPE, signal.SIGABRT, signal.SIGSYS}
)


def kind_of(error: BaseException) -> failures.FailureKind:
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


def column_fix(error: BaseException, file: str | None) -> str | None:
    """Return what to do about a column that an operation did not find in the events of a file."""
    missing: MissingColumn | None = getattr(error, "missing", None)
    if missing is None:
        return None
    from fasthep_smk.storage.root_files import look_into

    branches: frozenset[str] = frozenset()
    if missing.tree is not None and file:
        contents = look_into([file], [missing.tree], Path.cwd())[file]
        branches = contents.branches.get(missing.tree, branches)
    if missing.name in branches:
        return (
            f"add {missing.name!r}, a branch of the file, to `requires` in the spec of "
            f"{missing.op}, or to sources.{missing.source}.branches"
        )
    close = nearest(missing.name, {*missing.there, *branches}, cutoff=0.7)
    meant = f"did you mean {close!r}? " if close else ""
    return f"{meant}the events have the columns {_some(missing.there)}" if missing.there else None


def _some(names: tuple[str, ...]) -> str:
    return ", ".join(names[:12]) + (f" and {len(names) - 12} more" if len(names) > 12 else "")


def damaged_record(error: BaseException) -> Path | None:
    """Return the record of the job whose file is damaged, if that is what an error says."""
    record: Path | None = getattr(cause_of(error), "record", None)
    return record


def what_ended(end: End, sent: Sent) -> tuple[failures.FailureKind, str, str | None]:
    """Return of which kind it is that ended a job's process too early, what, and the fix.

    A batch system, or the kernel when memory is short, kills from outside: the kind is ``killed``.
    """
    if end.was_late and sent.walltime is not None:
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
        return "killed", f"{end}: usually because memory ran out", None
    return "killed", f"{end}: ended by a user or by the system", None


def after_work(end: End) -> str:
    """Return what a job left that kept its process from ending well after its work was done."""
    place = end.said.get("at") or "an exit handler or library of an operation"
    how = f"{place} did not end in time, and was killed" if end.was_late else f"{end}, in {place}"
    return f"its results are complete, but its process did not end well: {how} (docs/own-op.md)"

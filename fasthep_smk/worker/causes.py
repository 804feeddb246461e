"""What a job died of, by the error that ended it."""

from __future__ import annotations

from pathlib import Path

from fasthep_smk.storage import failures
from fasthep_smk.util import disk_full
from fasthep_smk.worker.job_retry import Refused
from fasthep_smk.worker.limits import MemoryLimit, TimeLimit
from fasthep_smk.worker.planned import Changed

__all__ = ["cause_of", "damaged_record", "kind_of"]


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

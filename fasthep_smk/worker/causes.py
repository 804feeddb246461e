"""What a job died of, by the error that ended it."""

from __future__ import annotations

from typing import Any

from fasthep_smk.storage import failures
from fasthep_smk.util import disk_full
from fasthep_smk.worker.job_retry import Refused
from fasthep_smk.worker.limits import MemoryLimit, TimeLimit
from fasthep_smk.worker.planned import Changed

__all__ = ["cause_of", "kind_of"]


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
    if getattr(cause, "record", None) is not None:
        return "damaged"
    return "disk" if disk_full.shown(error) else "error"


def cause_of(error: BaseException) -> Any:
    """Return the error that was raised in a stage; a stage's error holds it."""
    return getattr(error, "cause", error)

"""Jobs that were given to a batch system, and of which no run has seen the end.

Snakemake's process adds a line for each submission, before it and after it, and one for each job
that has ended well. A run that begins after another one was killed finds here what may still be in
the queue.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import msgspec

from fasthep_smk.storage import layout
from fasthep_smk.util import files
from fasthep_smk.util.documents import JsonObject
from fasthep_smk.util.executor_plugins import is_installed
from fasthep_smk.util.shapes import ready

#: Whoever reads a line asks a batch system for the job: what stands there may come from others.
_NUMBER = re.compile(r"([0-9]{1,20}(_[0-9]{1,20})?)?", re.ASCII)
_IDS = {"slurm": _NUMBER, "htcondor": _NUMBER}
#: What other batch systems call a job.
_ID = re.compile(r"([A-Za-z0-9][A-Za-z0-9._:-]{0,200})?", re.ASCII)


@dataclass(frozen=True, kw_only=True)
class BatchJob:
    """One submission; ``token`` is its own, ``record`` the first file that Snakemake waits for.

    ``signature`` says what the job computes, ``asked`` what it was submitted with and
    ``environment`` with which variables. Without a signature the job cannot be taken over: it is
    more than our worker's command. ``name`` is what it is called in the queue; without a
    ``batch_id`` it is unknown whether it got there. ``captured`` is the file of what it prints.
    ``again``: a person cancels it, and wants it to be submitted again.
    Of a pilot, which runs jobs and is none, ``pilot`` is its pool.
    """

    token: str
    record: str
    rule: str
    key: str
    system: str
    name: str
    signature: str = ""
    asked: str = ""
    environment: str = ""
    batch_id: str = ""
    captured: str = ""
    again: str = ""
    pilot: str = ""


def submitting(build: Path, job: BatchJob) -> None:
    """Note that a job is about to be submitted, so that this is known whatever happens then."""
    _add(build, asdict(job), durable=True)


def queued(build: Path, token: str, batch_id: str, captured: str) -> None:
    """Note that the batch system has taken a job."""
    _add(build, {"token": token, "batch_id": batch_id, "captured": captured})


def ended(build: Path, token: str) -> None:
    """Note that a job has ended well, or could not be submitted."""
    _add(build, {"token": token, "ended": "yes"})


def again(build: Path, token: str, *, wanted: bool = True) -> None:
    """Note that a person cancels a job only to have it submitted again, or takes that back."""
    _add(build, {"token": token, "again": "yes" if wanted else ""})


def read(build: Path) -> list[BatchJob]:
    """Return the jobs whose end was not seen, in the order in which they were submitted."""
    by_token: dict[str, dict[str, str]] = {}
    try:
        text = files.read_plain(build / layout.BATCH_JOBS).decode(errors="replace")
    except OSError:
        return []
    for line in text.splitlines():
        # One that was being written when its process died says nothing.
        with contextlib.suppress(msgspec.MsgspecError, RecursionError, KeyError):
            entry = msgspec.json.decode(line, type=ready(dict[str, str]))
            by_token[entry["token"]] = by_token.get(entry["token"], {}) | entry
    jobs = [_job(entry) for entry in by_token.values() if "ended" not in entry]
    return [job for job in jobs if job is not None]


def _job(entry: Mapping[str, str]) -> BatchJob | None:
    try:
        job = msgspec.convert(entry, ready(BatchJob))
    except msgspec.ValidationError:  # its first line is damaged
        return None
    if job.system not in _IDS and not is_installed(job.system):
        return None
    return job if _IDS.get(job.system, _ID).fullmatch(job.batch_id) else None


def replace(build: Path, jobs: Iterable[BatchJob]) -> None:
    """Let these be all that are left."""
    text = "".join(f"{json.dumps(asdict(job))}\n" for job in jobs)
    if text:
        with files.atomic_path(build / layout.BATCH_JOBS) as temporary:
            temporary.write_text(text, encoding="utf-8")
    else:
        (build / layout.BATCH_JOBS).unlink(missing_ok=True)


def environment(variables: JsonObject) -> str:
    """Return what tells the variables that a run was started with from others."""
    return hashlib.sha256(json.dumps(variables, sort_keys=True).encode()).hexdigest()[:32]


def _add(build: Path, entry: JsonObject, *, durable: bool = False) -> None:
    path = build / layout.BATCH_JOBS
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o644)
    try:
        # A process that was killed may have left half a line.
        os.write(descriptor, f"\n{json.dumps(entry)}\n".encode())
        if durable:
            os.fsync(descriptor)
    finally:
        os.close(descriptor)

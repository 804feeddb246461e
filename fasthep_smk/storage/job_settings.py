"""What jobs are told besides their task tables, as JSON: where they start, what they may use.

A translation writes ``run.json`` and ``requests.json``, a run ``transfer.json``, if its jobs are
sent what they need. (Their places: `fasthep_smk.storage.layout`.)
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict, TypeVar, cast

from fasthep_smk.storage import layout
from fasthep_smk.util import files

if TYPE_CHECKING:
    from fasthep_smk.config import requests
    from fasthep_smk.config.credentials import RequirementData
    from fasthep_smk.storage.record import Asked

_Said = TypeVar("_Said")

#: Added to the number of an attempt that has not got its pool in time and goes to the fallback. It
#: is more than any job has attempts: of values by attempt, such a job gets the last.
MOVED = 1000


def keep_log(build: Path, log: str, attempt: int) -> str:
    """Give a job's log the name under which it stays when Snakemake removes it; return that."""
    kept = f"{log.removesuffix('.log')}.attempt{attempt % MOVED}.log"
    (build / kept).unlink(missing_ok=True)
    with contextlib.suppress(OSError):  # no hard links here: one name must do
        (build / kept).hardlink_to(build / log)
    return kept


class Launch(TypedDict):
    """``run.json``: where the run was started, and what of the user's own runs in jobs.

    ``named_texts`` are texts of own modules that may name files, each with its source.
    ``pickles_of`` are the classes whose objects workers may send back as pickles,
    ``exports`` the formats that histograms are written in besides FAST-HEP's own.
    """

    launch_folder: str
    workflow: str
    own_folders: list[str]
    python_path: list[str]
    own_modules: list[str]
    named_texts: list[tuple[str, str]]
    ignore_reads: list[str]
    pickles_of: list[str]
    exports: list[str]


class Apart(TypedDict):
    """What jobs of a rule, which ``wildcards`` name, ask for at some places (``place_in``)."""

    wildcards: list[str]
    attempts: dict[str, list[Asked]]


class Requests(TypedDict):
    """``requests.json``: what the jobs of each rule ask for, attempt by attempt.

    ``by_dataset`` are those of jobs that ask for something else than others of their rule.
    ``submitted_as`` are digests of that and of all else that they are submitted with.
    ``fallback_after`` is how many seconds jobs of a rule wait for the pool of an attempt before
    they go to that of the last. ``spread`` are rules whose jobs use several processes if cpus are
    idle.
    """

    system: str
    credentials: list[RequirementData]
    rules: dict[str, list[Asked]]
    by_dataset: dict[str, Apart]
    submitted_as: dict[str, list[str]]
    fallback_after: dict[str, int]
    spread: list[str]


def place_in(wildcards: Mapping[str, str]) -> str:
    """Return where a job is, whatever its variation: ``ttbar/0_0``, ``ttbar``, or nowhere."""
    parts = (wildcards.get(name) for name in ("dataset", "part", "bundle"))
    return "/".join(part for part in parts if part is not None)


def at_place(own: Mapping[str, _Said], wildcards: Mapping[str, str]) -> _Said | None:
    """Return what is said of a job at its place, or else of its dataset."""
    setting = own.get(place_in(wildcards))
    return own.get(wildcards.get("dataset", "")) if setting is None else setting


def read_requests(build: Path) -> Requests:
    """Return what the jobs of a build folder ask for.

    An older version may have written it: then keys may be missing.

    Raises:
        OSError: it cannot be read, or is no regular file.
        ValueError: it is not a JSON object.
    """
    requests: Requests = json.loads(files.read_plain(build / layout.REQUESTS))
    if not isinstance(requests, dict):
        raise ValueError(f"{build / layout.REQUESTS} is not a JSON object")
    return requests


def attempts_of(requests: Requests, rule: str, key: str) -> list[Asked]:
    """Return what a job, or a bundle, asks for, attempt by attempt.

    Raises:
        KeyError: there is no such rule.
    """
    if (apart := requests.get("by_dataset", {}).get(rule)) is not None:
        wildcards = dict(zip(apart["wildcards"], key.split("/"), strict=False))
        if (attempts := at_place(apart["attempts"], wildcards)) is not None:
            return attempts
    return requests["rules"][rule]


def word(attempt: int, memory: int | None = None, walltime: int | None = None) -> str:
    """Return how a worker is told the number of its attempt, and amounts that only this job has."""
    if memory is None and walltime is None:
        return str(attempt)
    return f"{attempt}:{'' if memory is None else memory}:{'' if walltime is None else walltime}"


def heard(text: str) -> tuple[int, Asked]:
    """Return the number of an attempt, and the amounts of its own, from the word for it.

    Raises:
        ValueError: it is no such word.
    """
    attempt, _, rest = text.partition(":")
    memory, _, walltime = rest.partition(":")
    asked: Asked = {}
    if memory:
        asked["memory"] = int(memory)
    if walltime:
        asked["walltime"] = int(walltime)
    return int(attempt), asked


class Travel(TypedDict):
    """``transfer.json``: how jobs travel. ``spool`` is the folder that workers see, if one is used.

    ``python`` is the Python of jobs, or the archive that brings it; ``wildcards`` name the jobs of
    each rule. Folders in ``shared`` are seen everywhere. Jobs that are ``probes`` only say where
    they are.
    """

    spool: str | None
    python: str
    brings_python: bool
    shared: list[str]
    wildcards: dict[str, list[str]]
    probes: bool


def asked_of(attempt: requests.Attempt) -> Asked:
    """Return what an attempt asks for, as a record says it."""
    return cast("Asked", {"pool": attempt.pool, **asdict(attempt.request)})

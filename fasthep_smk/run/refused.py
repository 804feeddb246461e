"""What is said of jobs that the batch system has not taken: once for all that it refused alike."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from fasthep_smk import sites
from fasthep_smk.executors.refusals import REFUSED
from fasthep_smk.storage import layout
from fasthep_smk.storage.failures import span
from fasthep_smk.storage.job_settings import read_requests
from fasthep_smk.storage.task_table import TaskTable
from fasthep_smk.util.errors import SmkError

if TYPE_CHECKING:
    from fasthep_smk.storage.task_table import JobEntry

__all__ = ["message"]

#: So many datasets are named.
_NAMED = 5


def message(said: str, logs: Sequence[str], build: Path, system: sites.System) -> str:
    """Return the lines for jobs, by their logs, of which Snakemake was told the same."""
    places = [place for log in sorted(logs) if (place := layout.place_of_log(log))]
    entries = list(_entries(places, build))
    datasets = list(dict.fromkeys(one.dataset for one in entries if one.dataset))
    files = [one for one in entries if one.file]
    jobs = "a job" if len(logs) == 1 else f"{len(logs)} jobs"
    facts = [
        ("dataset", ", ".join(datasets[:_NAMED]) + (", ..." if len(datasets) > _NAMED else "")),
        ("file", _file(files[0], len(files) - 1) if files else ""),
        ("where", ", ".join(f"pool {pool!r}" for pool in _pools(places, build))),
        ("fix", system.remedy(said.removeprefix(REFUSED)) or ""),
    ]
    shown = [f"    {label + ':':11}{text}" for label, text in facts if text]
    return "\n".join([f"{jobs} {said}", *shown])


def _file(entry: JobEntry, others: int) -> str:
    of = entry.partition
    text = f"{entry.file} ({span(of.get('start'), of.get('stop'))})" if of else ""
    return f"{text} and {others} more" if others else text


def _entries(places: Iterable[tuple[str, str]], build: Path) -> Iterator[JobEntry]:
    """Yield what is known of jobs; of a bundle, those in it."""
    for rule, key in places:
        # What cannot be read says nothing: the sentence is told all the same.
        with contextlib.suppress(OSError, KeyError, ValueError, SmkError):
            yield from TaskTable.read(build, rule, key).jobs.values()


def _pools(places: Iterable[tuple[str, str]], build: Path) -> list[str]:
    """Return the pools of jobs at their first attempts."""
    with contextlib.suppress(OSError, KeyError, ValueError):
        requests = read_requests(build)
        rules = dict.fromkeys(rule for rule, _ in places)
        return list(dict.fromkeys(requests["rules"][rule][0]["pool"] for rule in rules))
    return []

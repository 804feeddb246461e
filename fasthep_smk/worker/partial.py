"""Run some nodes of a job and adopt what the others made before.

What is adopted is checked when it is read. If anything is not as the translation found it, the
job is told so by :class:`NotAdoptable`, and runs as a whole.
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from fasthep_smk.flow.runtime import Session, StageError
from fasthep_smk.flow.shapes import Key
from fasthep_smk.flow.summary import relocate
from fasthep_smk.storage import hard_links, products, run_records
from fasthep_smk.storage.record import ProductEntry, Record, RunFacts
from fasthep_smk.storage.task_table import Adopted
from fasthep_smk.util import files
from fasthep_smk.util.errors import SmkError
from fasthep_smk.worker.job import WorkerJob
from fasthep_smk.worker.limits import MemoryLimit, TimeLimit

if TYPE_CHECKING:
    from fasthep_smk.flow.shapes import Plan, Store

_ENDS = (MemoryLimit, TimeLimit, MemoryError)


class NotAdoptable(Exception):
    """Something that was to be adopted is gone or damaged, or not enough."""


class TakenOver:
    """What a job has from earlier ones.

    ``adopted`` are products in the archive of one of them, ``values`` those in others, ``streams``
    what its nodes read. Event streams are shared as files.
    """

    def __init__(self, job: WorkerJob) -> None:
        self.job = job
        self.adopted: tuple[Path, list[ProductEntry]] | None = None
        self.values: Store = {}
        self.streams: Store = {}
        self.runs: list[RunFacts] = []
        self.results: list[str] = []
        self.outside: dict[str, dict[str, str]] = {}
        self.jobs: list[str] = []
        self._shared: list[tuple[Path, Record, Key]] = []
        self._cached: list[tuple[Path, Record, Key]] = []
        for adopted in job.entry.adopted:
            self._take(adopted)

    def _take(self, adopted: Adopted) -> None:
        folder = self.job.build / adopted.folder
        record = products.read_record(folder)
        if record["signature"] != adopted.signature:
            raise NotAdoptable(f"{adopted.folder} now belongs to another job")
        here = str(self.job.build)
        there = str(record.get("build") or here)
        entries = hard_links.entries(record)
        lie = {key: set(hard_links.files_of(entries[key]["value"])) for key in adopted.keys}
        alone = [key for key in adopted.keys if lie[key] and products.ARCHIVE not in lie[key]]
        others = [key for key in adopted.keys if key not in alone]
        if here == there and others and self.adopted is None:
            if any(lie[key] for key in others):
                products.check(folder, record, products.ARCHIVE)
            self.adopted = (folder, [entries[key] for key in others])
            others = []
        loaded = products.load(folder, [*adopted.streams, *others])
        self.streams |= {key: loaded[key] for key in adopted.streams}
        self.values |= {key: relocate(loaded[key], there, here) for key in others}
        self._shared += [(folder, record, key) for key in alone]
        self._cached += [(folder, record, key) for key in adopted.cached]
        runs = run_records.runs(record, self.job.entry.partition, adopted.nodes)
        self.runs += relocate(list(runs), there, here)
        self._take_results(record, adopted.results)
        self.outside |= run_records.outside_of(record, adopted.nodes)
        self.jobs.append(f"{record['rule']}/{record['key']}")

    def _take_results(self, record: Record, names: Iterable[str]) -> None:
        for name in names:
            if files.described(self.job.build / name) != record["results"].get(name):
                raise NotAdoptable(f"{name} was changed")
            self.results.append(name)

    def shared(self) -> list[hard_links.Shared]:
        """Let the job's folder have those of its products that are files of their own.

        Raises:
            NotAdoptable: one is gone or damaged.
        """
        names = {keep.key: keep.file for keep in self.job.table.keeps}
        self.job.folder.mkdir(parents=True, exist_ok=True)
        shared = []
        try:
            for folder, record, key in self._shared:
                for file in hard_links.files_of(hard_links.entries(record)[key]["value"]):
                    products.check(folder, record, file)
                goal, name = self.job.folder, names.get(key)
                entry, described = hard_links.share(folder, record, key, goal, name=name)
                entry.pop("spare", None)
                shared.append((entry, described))
        except (OSError, ValueError, KeyError, SmkError) as error:
            raise _not_given(error) from error
        return shared

    def cached(self, made_anew: set[Key]) -> list[hard_links.Shared]:
        """Let the job's folder have the cached streams, but for those that were made again."""
        names = {stream.key: stream.file for stream in self.job.cached}
        shared = []
        for folder, record, key in self._cached:
            if key not in made_anew:
                with contextlib.suppress(OSError, ValueError, KeyError):  # no loss
                    goal, name = self.job.folder, names[key]
                    entry, described = hard_links.share(folder, record, key, goal, name=name)
                    entry["spare"] = True
                    shared.append((entry, described))
        return shared


def run_part(
    job: WorkerJob, plan: Plan, folder: Path, reads: Store
) -> tuple[TakenOver, Store, RunFacts]:
    """Run the nodes that have to; return what is adopted, what was made, what was recorded.

    ``reads`` are the products of other jobs that the nodes read.

    Raises:
        NotAdoptable: the job must run as a whole.
    """
    entry = job.entry
    assert entry.part is not None
    try:
        taken = TakenOver(job)
        session = Session(plan, folder)
        inputs = {**reads, **taken.streams}
        store, boundary = session.partition(
            entry.part.nodes, entry.partition, inputs, entry.file_digest, job.kept
        )
        recorded = session.record(partition=entry.partition, boundary=boundary)
        run = run_records.facts_of(recorded)
    except StageError as error:
        if isinstance(error.cause, _ENDS):
            raise
        _empty(folder)
        raise NotAdoptable(f"{error.stage} failed: {error}") from error
    except (OSError, ValueError, KeyError, SmkError) as error:
        raise _not_given(error) from error
    return taken, store, _merged(plan, [*taken.runs, run])


def _not_given(error: Exception) -> Exception:
    return error if isinstance(error, _ENDS) else NotAdoptable(str(error))


def _merged(plan: Plan, runs: list[RunFacts]) -> RunFacts:
    """Return what was recorded of a job's nodes as if all of them had run at once."""
    order = {node.id: number for number, node in enumerate(plan.nodes)}
    joined = runs[-1].copy()
    joined["boundary"] = sorted(
        (entry for run in runs for entry in run["boundary"]),
        key=lambda entry: order.get(entry["node"], len(order)),
    )
    joined["operations"] = sorted(
        (operation for run in runs for operation in run["operations"]),
        key=lambda operation: order.get(operation.get("node_id", ""), len(order)),
    )
    joined["warnings"] = [warning for run in runs for warning in run["warnings"]]
    return joined


def _empty(folder: Path) -> None:
    """Remove what nodes wrote before one of them failed."""
    for path in folder.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()

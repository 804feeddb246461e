"""What comes at the end of a run: plots, tables, writers. Each once, and several at a time.

What an earlier run made with the same signature (see ``plan.plot_signatures``) is adopted. The
rest is made by as many processes as the job has cpus, if none of it can tell the difference. If
something is in the way of that, or goes wrong there, all of it is made in this process, one after
the other as FAST-HEP does, and only what fails there fails the job.
"""

from __future__ import annotations

import os
import pickle
import shutil
import sys
from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from fasthep_smk.flow.plot_styles import PlotStyles
from fasthep_smk.flow.runtime import Session
from fasthep_smk.flow.summary import relocate
from fasthep_smk.storage import failures, run_records
from fasthep_smk.storage.record import Told
from fasthep_smk.storage.taken_over import TakenOver
from fasthep_smk.util.documents import JsonObject
from fasthep_smk.util.errors import SmkError
from fasthep_smk.util.masking import masked
from fasthep_smk.util.processes import die_with_parent
from fasthep_smk.worker.job import WorkerJob, goal_of
from fasthep_smk.worker.limits import MemoryLimit, TimeLimit
from fasthep_smk.worker.processes import FOR_PLOTS, has_one_thread, import_for_good

if TYPE_CHECKING:
    from fasthep_smk.flow.shapes import Store


@dataclass
class Ending:
    """What nodes at the end of a run made: their products, FAST-HEP's records of them, files.

    Files are relative to the job's folder for what operations write, but for ``results``, those of
    nodes that were ``taken`` over: they are relative to the build folder.
    """

    store: Store = field(default_factory=dict)
    operations: list[JsonObject] = field(default_factory=list)
    written: dict[str, list[str]] = field(default_factory=dict)
    results: dict[str, list[str]] = field(default_factory=dict)

    @property
    def taken(self) -> list[str]:
        return list(self.results)

    def add(self, other: Ending) -> None:
        """Take in what other nodes made."""
        self.store |= other.store
        self.operations += other.operations
        self.written |= other.written
        self.results |= other.results


class _InTheWay(Exception):
    """Nodes cannot be run apart from each other."""


def run_end(job: WorkerJob, session: Session, folder: Path, store: Store) -> Ending:
    """Run what comes at the end of a run, or take it over; files go below ``folder``.

    ``store`` holds the products of the run and gets those of the end. Without ``written``, what
    ran cannot be told apart: it has recorded a warning or resource of the whole job.

    Raises:
        StageError: a node failed.
    """
    nodes = session.end_nodes()
    before = _said(session)
    try:
        ending = _apart(job, session, folder, store, nodes)
    except _InTheWay as error:
        print(f"all plots are made again, one after another: {masked(str(error))}", file=sys.stderr)
        first = len(session.record().operations)
        for node in nodes:
            session.run_end_nodes(store, [node])
        ending = Ending(operations=session.record(replayed=first).operations)
    if _said(session) != before or not run_records.are_quiet(session.record().hooks):
        ending.written = {}
    store |= ending.store
    places = {node: number for number, node in enumerate(nodes, start=1)}
    for key in sorted(store, key=lambda key: places.get(key[0], 0)):
        store[key] = store.pop(key)
    ending.operations.sort(key=lambda item: places.get(item.get("node_id", ""), 0))
    return ending


def _apart(
    job: WorkerJob, session: Session, folder: Path, store: Store, nodes: list[str]
) -> Ending:
    """Run nodes, or take them over; each as if all of those before it had run here.

    Raises:
        StageError: a node failed.
        _InTheWay: that is not so: a node has left something behind, or written another one's file.
    """
    first = len(session.record().operations)
    ending = _adopted(job)
    left = [node for node in nodes if node not in ending.taken]
    values = job.entry.values
    if set(nodes) <= set(values):
        session.import_ops(left)
        styles = PlotStyles(map(session.plan.get_node, nodes))
    else:
        styles = PlotStyles(())
    if len(left) > 1 and job.sent.threads > 1 and set(left) <= set(values):
        try:
            child = _Child(session, store, folder.with_name(f"{folder.name}.apart"), styles)
            ending.add(_side_by_side(child, folder, left, job.sent.threads))
            left = []
        except (MemoryLimit, TimeLimit, MemoryError):
            raise
        except Exception as error:  # also where processes cannot talk to each other
            print(f"one after the other: {failures.one_line(error)}", file=sys.stderr)
    for node in left:
        styles.apply(node)
        ending.written[node] = _run_here(session, folder, store, node)
        if not styles.are_kept_by(node):
            styles.apply(nodes[0])
            raise _InTheWay(f"{node} changes how plots look")
    ending.operations += session.record(replayed=first).operations
    taken = {name for names in ending.results.values() for name in names}
    if taken and taken & {str(goal_of(Path(name), job)) for name in _names(ending)}:
        styles.apply(nodes[0])
        raise _InTheWay("another operation now writes an adopted file")
    return ending


def told(job: WorkerJob, ending: Ending) -> Told:
    """Return what a later job needs to adopt what nodes at the end have made."""
    job.results.extend(name for names in ending.results.values() for name in names)
    by_node = {
        **ending.results,
        **{
            node: [str(goal_of(Path(name), job)) for name in names]
            for node, names in ending.written.items()
        },
    }
    values = job.entry.values
    counts = Counter(name for names in by_node.values() for name in names)
    # What lies elsewhere, or is written by two, may be another's by the time it is adopted.
    own = {node for node, names in by_node.items() if names and all(counts[n] == 1 for n in names)}
    content: Told = {
        "values": {
            node: {"value": value, "files": by_node[node]}
            for node, value in values.items()
            if node in own
        }
    }
    if ending.taken:
        content["ran"] = [node for node in job.entry.nodes if node not in ending.taken]
        content["adopted"] = [f"{job.rule}/{job.key}"]
    return content


def _said(session: Session) -> tuple[int, JsonObject]:
    """Return what is recorded of no node in particular."""
    record = session.record()
    return len(record.warnings), record.resources


# --- what an earlier run made ---------------------------------------------------------------------


def _adopted(job: WorkerJob) -> Ending:
    """Return what an earlier job made, if all of it is as the translation has found it."""
    try:
        taken = TakenOver(job.build, job.entry.adopted, None, ())
        return Ending(
            store=taken.streams,
            operations=[item for run in taken.runs for item in run["operations"]],
            results={
                node: record["values"][node]["files"]
                for record, adopted in zip(taken.records, job.entry.adopted, strict=True)
                for node in adopted.nodes
            },
        )
    except (OSError, ValueError, KeyError, SmkError) as error:
        print(f"all plots are made again: {masked(str(error))}", file=sys.stderr)
        return Ending()


# --- one after the other --------------------------------------------------------------------------


def _run_here(session: Session, folder: Path, store: Store, node: str) -> list[str]:
    """Run a node; return the files that it has written."""
    before = _listed(folder)
    session.run_end_nodes(store, [node])
    return [name for name, seen in _listed(folder).items() if before.get(name) != seen]


def _listed(folder: Path) -> dict[str, tuple[int, int]]:
    listed = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file() or path.is_symlink():
            status = path.lstat()
            listed[str(path.relative_to(folder))] = (status.st_mtime_ns, status.st_size)
    return listed


# --- several at a time ----------------------------------------------------------------------------


@dataclass(frozen=True)
class _Child:
    session: Session
    store: Store
    folder: Path
    styles: PlotStyles


#: What a forked process works with: it has this from its parent's memory.
_child: _Child | None = None


def _side_by_side(child: _Child, folder: Path, nodes: list[str], processes: int) -> Ending:
    """Run nodes in processes of their own, whose files are moved to ``folder``.

    Raises:
        Exception: one failed, or two wrote one file: what they did is forgotten.
    """
    # Imported only where they are needed: every job of a run would have them.
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor

    if not run_records.are_quiet(child.session.record().hooks):
        raise _InTheWay("a hook counts operations")
    if "mplhep" in sys.modules:  # once, and not by each of the processes
        import_for_good(FOR_PLOTS)
    pool = ProcessPoolExecutor(
        min(processes, len(nodes)),
        multiprocessing.get_context("fork"),
        initializer=_begin,
        initargs=(child, os.getpid()),
    )
    ending = Ending()
    try:
        if not has_one_thread():
            raise _InTheWay("the process has threads")
        for place, of_node in map(pickle.loads, pool.map(_run_there, nodes)):
            if set(_names(of_node)) & set(_names(ending)):
                raise _InTheWay("two of them have written one file")
            of_node.store = relocate(of_node.store, str(place), str(folder))
            of_node.operations = relocate(of_node.operations, str(place), str(folder))
            ending.add(of_node)
        for place in child.folder.iterdir():
            for name in _listed(place):
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                (place / name).replace(folder / name)
        return ending
    except BaseException:
        # If the job's time is over, no plot is waited for that takes for ever.
        for process in multiprocessing.active_children():
            process.kill()
        raise
    finally:
        pool.shutdown(cancel_futures=True)
        shutil.rmtree(child.folder, ignore_errors=True)


def _names(ending: Ending) -> list[str]:
    return [name for names in ending.written.values() for name in names]


def _begin(child: _Child, parent: int) -> None:
    global _child
    die_with_parent(parent)
    _child = replace(child, folder=child.folder / str(os.getpid()))
    _child.folder.mkdir(parents=True)
    _child.session.write_to(_child.folder)


def _run_there(node: str) -> bytes:
    """Run a node in a forked process; return its folder and what the node made, pickled.

    Raises:
        _InTheWay: it failed; the process that runs it again will say how.
    """
    assert _child is not None, "the process has begun"
    session, store, folder = _child.session, _child.store, _child.folder
    first, before = len(session.record().operations), _said(session)
    try:
        _child.styles.apply(node)
        written = _run_here(session, folder, store, node)
        if not _child.styles.are_kept_by(node):
            raise _InTheWay(f"{node} changes how plots look")
        if _said(session) != before:
            raise _InTheWay(f"{node} records a warning or resource of the whole job")
        own = {key: value for key, value in store.items() if key[0] == node}
        operations = session.record(replayed=first).operations
        return pickle.dumps((folder, Ending(own, operations, {node: written})))
    except Exception as error:
        raise _InTheWay(failures.one_line(error)) from None

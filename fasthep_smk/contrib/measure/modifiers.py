"""Execution modifiers that measure a stage: where its time goes, and its memory.

The profile ``fasthep_smk:registry`` registers them as ``smk.profile`` and ``smk.memory``, for
``fasthep run`` as for our own command. Each writes a flame graph for each partition. They change no
result: what a stage computes is signed without them (``flow/reads.py``).
"""

from __future__ import annotations

import contextlib
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, ClassVar

from fasthep_smk.contrib.measure.flame_graph import Frame, page
from fasthep_smk.flow import upstream
from fasthep_smk.storage import layout
from fasthep_smk.util import files
from fasthep_smk.util.names import encode
from fasthep_smk.util.threads import meanwhile
from fasthep_smk.util.units import about_bytes

if TYPE_CHECKING:
    from fasthep_smk.flow.shapes import Context, PlanNode

#: How many calls above an allocation are told.
_CALLS = 25
#: How often memory is looked at, in seconds, and by how much more it is worth to be looked into.
_LOOK, _MORE = 0.01, 1.1


class Measured(ABC):
    """What both have in common: what is measured, and how the file of it ends."""

    WHAT: ClassVar[str] = ""
    UNIT: ClassVar[str] = ""
    ENDING: ClassVar[str] = ""

    @contextlib.contextmanager
    def around_node(self, *, node: PlanNode, ctx: Context, **_: object) -> Iterator[None]:
        """Measure what FAST-HEP does for a node; write what was found if it succeeds.

        That is ``artifacts/profiles/STAGE/DATASET_PART.profile.html``, or ``….memory.html``.
        """
        stage, partition = str(node.id).removeprefix("stage."), dict(ctx.get("partition") or {})
        of = (partition.get("dataset") or ctx.get("dataset_name"), partition.get("part"))
        parts = [str(part) for part in of if part]
        root = Frame("the stage")
        with self._measure(root) as notes:
            yield
        folder = upstream.BuildPaths.from_ctx(ctx).artifact_dir(layout.FLAME_GRAPHS)
        name = f"{'_'.join(map(encode, parts)) or 'all'}.{self.ENDING}.html"
        path = folder / encode(stage) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        title = f"{self.WHAT} of {', '.join([stage, *parts])}"
        files.write_text(path, page(root, title=title, unit=self.UNIT, notes=" ".join(notes)))

    @abstractmethod
    def _measure(self, root: Frame) -> contextlib.AbstractContextManager[list[str]]:
        """Measure what is done in a block; then ``root`` holds the calls, and the list notes."""


class Profile(Measured):
    """Writes a flame graph of where the time of the stage goes, for each partition.

    By Python's ``cProfile``, which counts each call and slows a stage of many short ones down.
    """

    WHAT, UNIT, ENDING = "Time", "s", "profile"

    @contextlib.contextmanager
    def _measure(self, root: Frame) -> Iterator[list[str]]:
        import cProfile

        profiler, notes = cProfile.Profile(), list[str]()
        start, cpu = time.perf_counter(), time.process_time()
        with profiler:
            yield notes
        seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
        profiler.create_stats()
        _add_counts(root, vars(profiler)["stats"])
        notes += [
            f"{seconds:.3g} s, of which {cpu:.3g} s are CPU time; measured by cProfile.",
            "cProfile counts calls by caller: if a function has several callers, its time is "
            "divided among them in proportion to the time of their calls.",
        ]


class Memory(Measured):
    """Writes a flame graph of which calls hold memory when it is the most, for each partition.

    By Python's ``tracemalloc``, which slows a stage of many small objects down.
    """

    WHAT, UNIT, ENDING = "Memory", "MB", "memory"

    @contextlib.contextmanager
    def _measure(self, root: Frame) -> Iterator[list[str]]:
        import tracemalloc

        held, snapshot, notes = 0, None, list[str]()

        def keep(more: float) -> None:
            """Keep who holds memory if that is so many times as much as when it was kept last."""
            nonlocal held, snapshot
            now, _ = tracemalloc.get_traced_memory()
            if snapshot is None or now > more * held:
                held, snapshot = now, tracemalloc.take_snapshot()

        def look(over: threading.Event) -> None:
            while not over.wait(_LOOK):
                keep(_MORE)

        started = not tracemalloc.is_tracing()
        if started:
            tracemalloc.start(_CALLS)
        tracemalloc.reset_peak()
        before, _ = tracemalloc.get_traced_memory()
        try:
            with meanwhile(look):
                yield notes
            keep(1.0)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            if started:
                tracemalloc.stop()
        for trace in snapshot.traces if snapshot else ():
            frame, megabytes = root, trace.size / 1e6
            root.amount += megabytes
            for call in trace.traceback:
                frame = frame.add(f"{call.filename}:{call.lineno}", megabytes)
        notes += [
            f"At its peak, the stage held {about_bytes(max(peak - before, 0))} more than at its "
            f"start. The frames show a moment at which the stage held {about_bytes(held)}. "
            "tracemalloc has measured this; it sees the memory of Python and NumPy, but not that "
            "of other libraries."
        ]


#: A function as cProfile names it: file, line, name.
_Function = tuple[str, int, str]


def _add_counts(root: Frame, counts: dict[_Function, Any]) -> None:
    """Add a tree of calls made of cProfile's counts, which are of pairs of functions.

    What a function takes is shared out among its callers by how long their calls took.
    """
    calls: dict[_Function, list[tuple[_Function, float]]] = {}
    for function, (_, _, _, _, callers) in counts.items():
        for caller, (_, _, _, spent) in callers.items():
            calls.setdefault(caller, []).append((function, spent))
    least = 1e-3 * sum(own for _, _, own, _, _ in counts.values())

    def add(above: Frame, function: _Function, amount: float, within: frozenset[_Function]) -> None:
        file, line, name = function
        frame = above.add(f"{name} ({file}:{line})" if line else name, amount)
        share = amount / counts[function][3] if counts[function][3] else 0.0
        for called, spent in calls.get(function, ()):
            if called not in within and spent * share > least:
                add(frame, called, spent * share, within | {called})

    for function, (_, _, _, total, callers) in counts.items():
        if not callers:
            root.amount += total
            add(root, function, total, frozenset([function]))

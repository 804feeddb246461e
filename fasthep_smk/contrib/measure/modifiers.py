"""Execution modifiers that measure a stage: where its time goes, and its memory.

The profile ``fasthep_smk:registry`` registers them as ``smk.profile`` and ``smk.memory``, for
``fasthep run`` as for our own command. Each writes a flame graph for each partition. They change no
result: what a stage computes is signed without them (``flow/reads.py``).
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from fasthep_smk.contrib.measure.flame_graph import Frame, page
from fasthep_smk.flow import upstream
from fasthep_smk.storage import layout
from fasthep_smk.util import files
from fasthep_smk.util.errors import nearest
from fasthep_smk.util.names import encode
from fasthep_smk.util.threads import meanwhile
from fasthep_smk.util.units import about_bytes

if TYPE_CHECKING:
    import cProfile

    from fasthep_smk.flow.shapes import Context, PlanNode

__all__ = ["Measured", "Memory", "Profile"]


_MEGABYTE = 1e6
#: How many calls above an allocation are told.
_CALLS = 25
#: How often memory is looked at, in seconds, and by how much more it is worth to be looked into.
_LOOK, _MORE = 0.01, 1.1


class Measured(ABC):
    """What both have in common: ``engine`` is what measures, the first one if nothing is said."""

    #: What may measure, and the package that each needs besides Python's own.
    ENGINES: ClassVar[Mapping[str, str]] = {}
    NAME: ClassVar[str] = ""

    def __init__(self, *, engine: str | None = None) -> None:
        if problem := self.problem(engine):
            raise ValueError(f"{self.NAME}: {problem}")
        self.engine = engine or next(iter(self.ENGINES))

    @classmethod
    def problem(cls, engine: object) -> str | None:
        """Return what is wrong with an engine, and what to write; ``None`` if nothing is."""
        if engine is None:
            return None
        if not isinstance(engine, str) or engine not in cls.ENGINES:
            close = nearest(str(engine), cls.ENGINES)
            hint = f": did you mean {close!r}?" if close else f", not {engine!r}"
            return f"engine is one of {', '.join(cls.ENGINES)}{hint}"
        package = cls.ENGINES[engine]
        if package and importlib.util.find_spec(package) is None:
            return f"there is no {package} here: pip install {package}, or leave out 'engine'"
        return None

    @contextlib.contextmanager
    def around_node(self, *, node: PlanNode, ctx: Context, **_: object) -> Iterator[None]:
        """Measure what FAST-HEP does for a node; write what was found if it succeeds."""
        _forget_parameter(ctx)
        found: list[str] = []
        with self._measure(_title(node, ctx), found):
            yield
        path = _place(node, ctx, self.NAME)
        path.parent.mkdir(parents=True, exist_ok=True)
        files.write_text(path, found[0])

    @abstractmethod
    def _measure(self, title: str, found: list[str]) -> contextlib.AbstractContextManager[None]:
        """Measure what is done in a block, and add the page on it to ``found``."""


class Profile(Measured):
    """Writes a flame graph of where the time of the stage goes, for each partition.

    ``engine`` is ``cprofile``, of Python, which counts each call and slows a stage of many short
    ones down; or ``pyinstrument``, which looks every millisecond.
    """

    ENGINES: ClassVar[Mapping[str, str]] = {"cprofile": "", "pyinstrument": "pyinstrument"}
    NAME: ClassVar[str] = "smk.profile"

    @contextlib.contextmanager
    def _measure(self, title: str, found: list[str]) -> Iterator[None]:
        if self.engine == "pyinstrument":
            profiler = importlib.import_module("pyinstrument").Profiler(async_mode="disabled")
        else:
            profiler = importlib.import_module("cProfile").Profile()
        start, cpu = time.perf_counter(), time.process_time()
        (profiler.start if self.engine == "pyinstrument" else profiler.enable)()
        try:
            yield
        finally:
            (profiler.stop if self.engine == "pyinstrument" else profiler.disable)()
        seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
        notes = f"{seconds:.3g} s, of them {cpu:.3g} s of CPU time; measured by {self.engine}."
        if self.engine == "cprofile":
            notes += (
                " It counts calls by pairs: what a function takes that is called from several "
                "places is shared out by how long each of these calls took."
            )
            root = _of_counts(profiler)
        else:
            root = _of_samples(profiler.last_session.root_frame())
        found.append(page(root, title=f"Time of {title}", unit="s", notes=notes))


class Memory(Measured):
    """Writes a flame graph of which calls hold memory when it is the most, for each partition.

    ``engine`` is ``tracemalloc``, of Python, which slows a stage of many small objects down.
    """

    ENGINES: ClassVar[Mapping[str, str]] = {"tracemalloc": ""}
    NAME: ClassVar[str] = "smk.memory"

    @contextlib.contextmanager
    def _measure(self, title: str, found: list[str]) -> Iterator[None]:
        import tracemalloc

        started = not tracemalloc.is_tracing()
        if started:
            tracemalloc.start(_CALLS)
        tracemalloc.reset_peak()
        before, _ = tracemalloc.get_traced_memory()
        largest = _Largest(tracemalloc)
        try:
            with meanwhile(largest.look):
                yield
            largest.take(1.0)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            if started:
                tracemalloc.stop()
        root = Frame(f"seen when it held {about_bytes(largest.held)}", 0.0)
        for one in largest.snapshot.traces:
            calls = [f"{frame.filename}:{frame.lineno}" for frame in one.traceback]
            _add(root, calls, one.size / _MEGABYTE)
        notes = (
            f"At most {about_bytes(max(peak - before, 0))} more than before. Measured by "
            "tracemalloc, which sees what Python and numpy ask for, and not what libraries do "
            "for themselves."
        )
        found.append(page(root, title=f"Memory of {title}", unit="MB", notes=notes))


class _Largest:
    """Looks at what is held all the time, and keeps who holds it when it is the most."""

    def __init__(self, tracing: Any) -> None:
        self._tracing = tracing
        self.held = 0
        self.snapshot: Any = None

    def look(self, over: threading.Event) -> None:
        """Look until the event is set."""
        while not over.wait(_LOOK):
            self.take(_MORE)

    def take(self, more: float) -> None:
        """Keep who holds memory now if that is so many times as much as when it was kept last."""
        now, _ = self._tracing.get_traced_memory()
        if self.snapshot is None or now > more * self.held:
            self.held, self.snapshot = now, self._tracing.take_snapshot()


def _add(root: Frame, calls: list[str], amount: float) -> None:
    """Add an amount to all frames of a stack of calls, the outermost first."""
    root.amount += amount
    for name in calls:
        called = next((one for one in root.calls if one.name == name), None)
        if called is None:
            called = Frame(name, 0.0)
            root.calls.append(called)
        called.amount += amount
        root = called


def _of_samples(frame: Any) -> Frame:
    """Return a tree of pyinstrument's as ours."""
    if frame is None:  # it was over before the first look
        return Frame("nothing seen", 0.0)
    name = f"{frame.function} ({frame.file_path_short}:{frame.line_no})"
    return Frame(name, float(frame.time), [_of_samples(one) for one in frame.children])


#: A function as cProfile names it: file, line, name.
_Function = tuple[str, int, str]


def _of_counts(profiler: cProfile.Profile) -> Frame:
    """Return a tree of calls made of cProfile's counts, which are of pairs of functions.

    What a function takes is shared out among its callers by how long their calls took.
    """
    profiler.create_stats()
    counts: dict[_Function, Any] = vars(profiler)["stats"]
    calls: dict[_Function, list[tuple[_Function, float]]] = {}
    for function, (_, _, _, _, callers) in counts.items():
        for caller, (_, _, _, spent) in callers.items():
            calls.setdefault(caller, []).append((function, spent))
    whole = sum(own for _, _, own, _, _ in counts.values())

    def made(function: _Function, amount: float, above: frozenset[_Function]) -> Frame:
        total = counts[function][3]
        part = amount / total if total else 0.0
        below = [
            made(one, spent * part, above | {function})
            for one, spent in calls.get(function, ())
            if one not in above and one != function and spent * part > whole * 1e-3
        ]
        file, line, name = function
        return Frame(f"{name} ({file}:{line})" if line else name, amount, below)

    tops = [one for one, (_, _, _, _, callers) in counts.items() if not callers]
    roots = [made(one, counts[one][3], frozenset()) for one in tops]
    return Frame("the stage", sum(one.amount for one in roots), roots)


def _forget_parameter(ctx: Context) -> None:
    """Take our parameter out of the context, where FAST-HEP lets all later nodes see it."""
    known = ctx.get("globals") or {}
    ctx.pop("engine", None)
    if "engine" in known:
        ctx["engine"] = known["engine"]


def _title(node: PlanNode, ctx: Context) -> str:
    return ", ".join([_stage(node), *_parts(ctx)])


def _stage(node: PlanNode) -> str:
    return str(node.id).removeprefix("stage.")


def _parts(ctx: Context) -> list[str]:
    """Return the dataset and partition that a node runs for, as far as it has them."""
    partition = dict(ctx.get("partition") or {})
    dataset = partition.get("dataset") or ctx.get("dataset_name")
    return [str(one) for one in (dataset, partition.get("part")) if one]


def _place(node: PlanNode, ctx: Context, name: str) -> Path:
    """Return the file of a flame graph: ``artifacts/profiles/STAGE/DATASET_PART.profile.html``."""
    what = name.rpartition(".")[2]
    parts = "_".join(map(encode, _parts(ctx))) or "all"
    folder: Path = upstream.BuildPaths.from_ctx(ctx).artifact_dir(layout.FLAME_GRAPHS)
    return folder / encode(_stage(node)) / f"{parts}.{what}.html"

"""A plan with its first events, before the run: what FAST-HEP refuses there fails in every job.

FAST-HEP's engine is the judge: its operations, and the user's own, run as they do in jobs, with
reductions, writers and plots. An operation that fails does not end it: what does not need its
result goes on, so that several mistakes are told at once.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fasthep_smk.flow import plan_files, summary
from fasthep_smk.flow.column_types import UnfitColumn, events_of
from fasthep_smk.flow.compiler_messages import raised_at
from fasthep_smk.flow.graph import OF_GPUS, Graph, Node
from fasthep_smk.flow.places import mapping, node_place, quoted, stages_by_id, written
from fasthep_smk.flow.runtime import Session, StageError
from fasthep_smk.flow.shapes import Key
from fasthep_smk.flow.stage_error import stage_of
from fasthep_smk.util.documents import YamlMapping
from fasthep_smk.util.errors import Finding
from fasthep_smk.util.remote import is_remote, server_of

if TYPE_CHECKING:
    from fasthep_smk.flow.records import PartitionData
    from fasthep_smk.flow.shapes import Plan, PlanNode, Store

    #: What nodes have made, and of that what outlives a partition: by name, digest and partition.
    Made = dict[tuple[str, str, str], tuple[Store, Store]]


#: More are not told at once.
_MOST = 10
#: Letters of a message that are shown: it may have an array in it.
_LONGEST = 2000
#: From so many entries on, a histogram should not be empty.
_MANY = 10
#: What a source raises that is told to read what there is not; the rest is wrong with a file.
_OF_NAMES = (KeyError, SyntaxError, NameError, TypeError, AttributeError)
#: What the system may have more of elsewhere, or later.
_OF_SYSTEM = (errno.ENOMEM, errno.ENOSPC, errno.EDQUOT)
#: What NumPy says of the largest of no numbers: there was no such object in any event.
_OF_NONE = "zero-size array to reduction operation"
#: awkward says after this how it was called.
_NOTES = "\n\nThis error occurred while"


@dataclass(frozen=True)
class Problem:
    """What failed: an operation, or the engine itself; and with which events, if with some.

    ``is_doubtful`` says that it need not fail in the run: no event was left, it needs memory, or a
    file cannot be read, which the run may do without.
    """

    error: Exception
    graph: Graph
    partition: PartitionData | None = None

    @property
    def cause(self) -> BaseException:
        return self.error.cause if isinstance(self.error, StageError) else self.error

    @property
    def stage(self) -> str:
        """The stage that failed; nothing if it was none."""
        return self.error.stage if isinstance(self.error, StageError) else ""

    @property
    def file(self) -> str | None:
        return self.partition["file"] if self.partition else None

    @property
    def is_of_file(self) -> bool:
        """Whether the file itself cannot be read."""
        if not isinstance(self.error, StageError):
            return False
        node = self.graph.nodes[self.error.node_id]
        return node.role == "source" and node.published and not isinstance(self.cause, _OF_NAMES)

    @property
    def is_doubtful(self) -> bool:
        if self.is_of_file or (isinstance(self.error, StageError) and self.error.had_no_events):
            return True
        of_system = isinstance(self.cause, OSError) and self.cause.errno == errno.ENOMEM
        of_none = isinstance(self.cause, ZeroDivisionError) or _OF_NONE in str(self.cause)
        return of_system or of_none or isinstance(self.cause, MemoryError)


def fly(
    graph: Graph,
    partitions: list[PartitionData],
    nodes: Mapping[str, str],
    folder: Path,
    made: Made,
    unreadable: set[str],
) -> tuple[list[Problem], list[str]]:
    """Run ``nodes`` of a plan on some partitions; return what fails, and what is odd, in words.

    Each node has a digest of what its products follow from. Operations write into ``folder``, and
    may leave anything behind: the process is to be thrown away. ``made`` keeps what has been made
    for the next plan: nothing is read or made twice. Partitions of ``unreadable`` files, which are
    added to, are left out, and then what comes after all datasets.
    """
    left, problems, odd = set(nodes), list[Problem](), dict[str, None]()
    while left and sum(not problem.is_of_file for problem in problems) < _MOST:
        readable = [partition for partition in partitions if partition["file"] not in unreadable]
        if len(readable) < len(partitions):
            left -= {name for name in left if graph.nodes[name].scope == "final"}
            if not readable:
                break
        flight = _Flight(graph, {name: nodes[name] for name in left}, folder, made)
        try:
            odd |= dict.fromkeys(flight.run(readable))
            break
        except StageError as error:
            problems.append(Problem(error, graph, flight.partition))
            if problems[-1].is_of_file and (file := problems[-1].file) is not None:
                unreadable |= {
                    partition["file"]
                    for partition in partitions
                    if _go_together(partition["file"], file)
                }
            else:
                left -= graph.with_readers([error.node_id, error.blamed])
        except Exception as error:  # the engine itself, a hook, a reduction
            problems.append(Problem(error, graph, flight.partition))
            break
    return problems, list(odd)


def _go_together(file: str, other: str) -> bool:
    """Whether a file is another one, or lies on the same server: what waits for it waits again."""
    is_there = is_remote(file) and is_remote(other) and server_of(file) == server_of(other)
    return file == other or is_there


class _Flight:
    """Some nodes of a plan, run in FAST-HEP's order; ``partition`` is the one at work."""

    def __init__(self, graph: Graph, nodes: Mapping[str, str], folder: Path, made: Made) -> None:
        self.partition: PartitionData | None = None
        self._graph, self._folder, self._before = graph, folder, made
        self._digests = nodes
        self._plan = plan_files.subset(_harmless(graph, folder / "elsewhere"), nodes)
        self._nodes: dict[str, list[str]] = {}
        for name, node in graph.nodes.items():
            if name in nodes:
                self._nodes.setdefault(node.scope, []).append(name)
        #: What a dataset may let fail although all is well with others of its kind.
        self._of_each = graph.with_inputs(
            name for name in nodes if _asks_dataset(graph.nodes[name])
        )
        #: Kinds of datasets that all nodes have run with.
        self._flown = set[object]()

    def run(self, partitions: list[PartitionData]) -> list[str]:
        """Run the nodes; raise what one of them raises. Return what they change, if that is odd."""
        self._plan.partitions = [plan_files.partition_from(item) for item in partitions]
        session = Session(self._plan, self._folder)
        side = session.side_products(self._nodes.get("global", ()))[0]
        if partitions:
            products = self._reduced(session, partitions, side)
        else:
            products = session.partition(self._nodes.get("partition", ()), None, dict(side))[0]
        for key, value in side.items():
            products.setdefault(key, value)
        session.write_products(products)
        session.run_end_nodes(products, session.end_nodes())
        session.write_manifests(products, self._folder)
        session.run_end()
        run = session.record()
        run.warnings = [
            warning for warning in run.warnings if warning.get("category") == summary.CHANGED
        ]
        changes = summary.told(self._plan, [run]).splitlines()
        return [*(line.removeprefix("- ") for line in changes), *_missed(self._plan, products)]

    def _reduced(self, session: Session, partitions: list[PartitionData], side: Store) -> Store:
        by_dataset: dict[str, list[Store]] = {}
        for self.partition in partitions:
            store = self._made(session, side)
            if store is not None:
                by_dataset.setdefault(self.partition["dataset"], []).append(store)
        self.partition = None
        stores = [
            session.dataset_end(dataset, {**side, **session.reduce(parts, dataset)})
            for dataset, parts in by_dataset.items()
        ]
        own = [
            {key: product for key, product in store.items() if key not in side} for store in stores
        ]
        return session.reduce(own, None)

    def _made(self, session: Session, side: Store) -> Store | None:
        """Run the nodes for the partition; return what outlives it.

        ``None``: its dataset is like an earlier one, so that only some of them had to run.
        """
        nodes = set(self._nodes.get("partition", ()))
        sources = {name for name in nodes if self._graph.nodes[name].role == "source"}
        store, lasting = dict(side), dict[Key, object]()
        self._run(session, sources, store, lasting)
        kind = self._kind({key: store[key] for key in store if key[0] in sources})
        is_like = kind in self._flown and "final" not in self._nodes
        rest = (nodes & self._of_each if is_like else nodes) - sources
        self._run(session, rest, store, lasting)
        if not any(map(_has_no_events, store.values())):
            self._flown.add(kind)  # else the next one of its kind may have some
        return None if is_like else lasting

    def _run(self, session: Session, nodes: set[str], store: Store, lasting: Store) -> None:
        """Run nodes that have not run with this partition; add their products to ``store``."""
        where = repr(self.partition)
        keys = {name: (name, self._digests[name], where) for name in nodes}
        done = {name for name, key in keys.items() if key in self._before}
        for name in done:
            products, kept = self._before[keys[name]]
            store |= products
            lasting |= kept
        if left := nodes - done:
            fresh, outlined = session.partition(left, self.partition, store)
            store |= fresh
            last = {
                key: fresh[key]
                for outline in outlined
                if (key := (outline["node"], outline["port"])) in fresh
            }
            lasting |= last
            for name in left:
                self._before[keys[name]] = (
                    {key: value for key, value in fresh.items() if key[0] == name},
                    {key: value for key, value in last.items() if key[0] == name},
                )

    def _kind(self, read: Store) -> object:
        """Return what tells datasets apart for FAST-HEP's operations, but for their names."""
        assert self.partition is not None, "there are datasets"
        datasets = self._plan.context.get("datasets") or {}
        dataset = dict(datasets.get(self.partition["dataset"]) or {})
        facts = {
            name: value if name == "eventtype" else type(value).__name__
            for name, value in dataset.items()
        }
        active = [name for name in self._graph.nodes if self._graph.active(name, dataset)]
        types = {
            key: self.partition["dataset"]
            if (events := events_of(value)) is None
            else str(events.type.content)
            for key, value in read.items()
        }
        return repr((sorted(facts.items()), active, sorted(types.items())))


def _has_no_events(value: object) -> bool:
    events = events_of(value)
    return events is not None and len(events) == 0


def _asks_dataset(node: Node) -> bool:
    """Whether a node may do something else for each dataset: a user's own does what it likes."""
    params = dict(node.params)
    if node.impl == "hep.hist":  # an axis has a bin for each
        params = {
            key: value for key, value in params.items() if key not in ("axes", "dataset_axis")
        }
    return not node.published or "dataset_" in repr(params)


def _missed(plan: Plan, products: Store) -> Iterator[str]:
    """Yield the axes of histograms in whose range no value is: it may be in another unit."""
    import hist

    for (node, _), histogram in products.items():
        if not isinstance(histogram, hist.BaseHist):
            continue
        for number, axis in enumerate(histogram.axes):
            alone = histogram.project(number)
            values, variances = alone.values(flow=True), alone.variances(flow=True)
            total = (values if variances is None else variances).sum()  # of counts, they are equal
            is_many = total > 0 and values.sum() ** 2 / total >= _MANY
            if is_many and axis.traits.underflow and not values[1:-1].any():
                yield (
                    f"stage {stage_of(plan.get_node(node))!r}: none of the first events has a "
                    f"value within axis {axis.name!r}, {axis.edges[0]:g} to {axis.edges[-1]:g}"
                )


def _harmless(graph: Graph, folder: Path) -> Plan:
    """Return the plan without modifiers that need a GPU, or that measure.

    What sinks and observers of FAST-HEP's would write outside the build folder goes to ``folder``.
    """

    def changed(item: Any) -> Any:
        node = graph.nodes[item.id]
        new: dict[str, Any] = {}
        if node.needs_gpu or node.diagnostics:
            execution = dict(node.execution)
            left = [
                modifier
                for modifier in execution.get("modifiers") or []
                if not str(modifier["name"]).startswith(OF_GPUS)
                and modifier["name"] not in node.diagnostics
            ]
            new["meta"] = {**item.meta, "execution": {**execution, "modifiers": left}}
        outside = {
            name: value for name, value in item.params.items() if _leads_out(node, name, value)
        }
        if outside:
            moved = {name: f"{folder}/{path.lstrip('/')}" for name, path in outside.items()}
            new["params"] = {**item.params, **moved}
        return replace(item, **new) if new else item

    plan: Any = graph.plan
    nodes = [changed(item) for item in plan.nodes]
    harmless: Plan = replace(plan, nodes=nodes, node_index={item.id: item for item in nodes})
    return harmless


def _leads_out(node: Node, name: str, value: object) -> bool:
    """Whether a parameter names a file outside the build folder that an operation writes."""
    if name not in ("path", "out") or not isinstance(value, str) or not node.published:
        return False
    # Observers may write into the current folder.
    return node.role == "observer" or (node.role == "sink" and value.startswith("/"))


def finding_of(problem: Problem, document: YamlMapping, *, workflow: str) -> Finding:
    """Return what is wrong with the workflow: at the text that FAST-HEP quotes, if it does."""
    error, cause, partition = problem.error, problem.cause, problem.partition
    events = f"events of {partition['file']}" if partition else "the first events"
    tried = f"tried with {events}"
    message = " ".join(str(cause).partition(_NOTES)[0][:_LONGEST].split())
    message = f"{type(cause).__name__}: {message}" if message else type(cause).__name__
    stage, text = raised_at(cause)
    if not isinstance(error, StageError):
        place = (
            quoted(document, stage, message) or stages_by_id(document).get(stage or "", (None,))[0]
        )
        return Finding(file=workflow, key=place, problem=f"fails: {message} ({tried})")
    node, fix = problem.graph.plan.get_node(error.blamed), error.fix
    failure = f"{node.impl} fails: {message}"
    if error.blamed != error.node_id:
        failure = str(error)
    elif isinstance(cause, UnfitColumn):
        failure, text, fix = cause.problem, cause.text, cause.hint
    elif type(cause).__module__.startswith("fasthep_smk."):
        failure = str(error)
    of_text = written(document, stage_of(node), text) if text else None
    if of_text and "truth value of an array" in message:
        fix = fix or (
            "'and', 'or', 'not', 'if' and '1 < a < 2' do not work for columns: write '&', '|' and "
            "'~' with each comparison in brackets, and 'where(a > 1, x, y)' in place of 'if'"
        )
    key = of_text or (quoted(document, stage_of(node), message) or "").removesuffix(".id")
    if node.id.startswith("render.") and ".render" not in key:
        content = stages_by_id(document).get(stage_of(node), ("", {}))[1]
        of_style = quoted(_styles(document, node, content), None, message)
        failure = (
            f"{node.impl} of stage {stage_of(node)!r} fails: {message}" if of_style else failure
        )
        key = of_style or (key if content.get("op") == node.impl else "")  # else of the histogram
    return Finding(
        file=workflow,
        key=key or node_place(node),
        problem=f"{failure}{f' ({error.at})' if error.at else ''} ({tried})",
        value=text if of_text else None,
        hint=fix,
    )


def _styles(document: YamlMapping, node: PlanNode, stage: YamlMapping) -> YamlMapping:
    """Return the part of a workflow that has the style of a plot, and those that it uses."""
    styles, used = mapping(document.get("styles")), dict[str, object]()
    name = dict(node.meta or {}).get("style_ref") or mapping(stage.get("params")).get("style")
    while isinstance(name, str) and name in styles and name not in used:
        used[name] = styles[name]
        name = mapping(styles[name]).get("use")
    return {"styles": used}

"""A trial before the run: FAST-HEP's own operations on the first events of a file.

How many values a column has for each event, and of what type, only the files say. An expression
that does not fit them fails in every job, after its time in the queue; or a column of lists is
summed as a weight, and nothing fails. The trial finds both before the run, with FAST-HEP's own
operations. A user's own operations and functions are not run: they may need a worker of their pool,
or take long. What they make is not known, and what follows is tried as far as it does not read it.
They may also change columns, or rows, without saying so in their spec: what fails after one of them
is a warning.
"""

from __future__ import annotations

import copy
import re
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fasthep_smk.flow import plan_files, upstream
from fasthep_smk.flow.column_types import UnfitColumn, events_of, inverted
from fasthep_smk.flow.expression_rules import is_elementwise
from fasthep_smk.flow.graph import Graph, Node
from fasthep_smk.flow.places import mapping, named, place_of, stages_by_id
from fasthep_smk.flow.reads import dependency_context, full_registry
from fasthep_smk.flow.runtime import Session, StageError
from fasthep_smk.util import files
from fasthep_smk.util.errors import Finding

if TYPE_CHECKING:
    import awkward as ak

    from fasthep_smk.flow.records import PartitionData
    from fasthep_smk.flow.shapes import Key, Plan, Registry, Store

__all__ = ["Trial"]

#: How many events are tried; and with how many what has failed: of a few, none may have a muon.
_EVENTS, _MORE_EVENTS = 100, 2000
#: What awkward says, and what helps.
_HINTS = {
    "non-event-level": "a cut has one yes or no for each event: compare a number; of a list, write "
    "reduce: {op: any, over: …}, or op: all",
    "broadcast": "columns of two collections have lists of different lengths, which do not "
    "combine: take one value for each event of one of them, as leading(…) does",
    "Unable to cast Python instance": "an axis of type category is for texts: type: int has a bin "
    "for each whole number",
    "Only integer arrays": "an axis of type int or bool is for whole numbers: dtype: int64 beside "
    "the name of a variable of hep.define makes them, or type: regular has bins",
    "bins > 0 required": "fewer bins: there is no room for so many",
    "no field named": "a column has no members: write the name of a column, such as Muon_pt",
    "exceeds the depth": "a reduction is over a list of values for each event, and this column "
    "has one value for each event",
}


@dataclass(frozen=True)
class _Product:
    """What a node has made; ``digest`` says from what.

    It is not ``complete`` if a column may be missing that a job would have, and not ``certain`` if
    a column may be another one than a job would have.
    """

    value: Any
    digest: str
    complete: bool = True
    certain: bool = True

    def without(self, columns: Iterable[str]) -> _Product:
        """Return events without what an operation would make that was not run."""
        names = list(columns)
        assert self.events is not None, "only an array has columns"
        left = self.events[[name for name in self.events.fields if name not in names]]
        digest = files.digest_of([self.digest, *names])
        return _Product(left, digest, complete=False, certain=self.certain)

    def doubtful(self) -> _Product:
        return replace(self, digest=f"{self.digest} doubtful", certain=False)

    @property
    def events(self) -> ak.Array | None:
        return events_of(self.value)

    @property
    def columns(self) -> frozenset[str]:
        return frozenset() if self.events is None else frozenset(self.events.fields)


_Products = Mapping["Key", _Product]
_START = "partition_start"
_NOT_RUN = Exception("an operation that the trial leaves out")


@dataclass(frozen=True)
class _Failure:
    """What fails: the stage, the text in it that is wrong if that is known, and how.

    It is ``certain`` if no operation of a user's own comes before.
    """

    node: Node
    text: str | None
    problem: str
    hint: str | None = None
    certain: bool = True


class Trial:
    """Trials of the plans of one workflow; what plans have in common is tried once.

    ``folder`` is where operations may write; ``warnings`` tell what may fail.
    """

    def __init__(self, document: Mapping[str, object], workflow: str, folder: Path) -> None:
        self._stages = stages_by_id(document)
        self._document, self._workflow, self._folder = document, workflow, folder
        self._known: dict[str, _Products] = {}
        self._told: set[tuple[str, str | None]] = set()
        self.warnings: list[str] = []

    def findings(self, graph: Graph, partition: PartitionData) -> list[Finding]:
        """Return what fails with the first events of a partition, or is not what it seems.

        A user's own hook may give expressions what they need: then nothing is tried.
        """
        if graph.hooked:
            return []
        if not self._failures(graph, partition, _EVENTS):
            return []
        found: list[Finding] = []
        for failure in self._failures(graph, partition, _MORE_EVENTS):
            stage = failure.node.stage
            finding = self._finding(failure, partition)
            # A text that does not stand there is a variation's form of one that does.
            of_variation = failure.text is not None and f"{finding.key}".endswith(".params")
            known = of_variation and any(told == stage for told, _ in self._told)
            if not known and (stage, failure.text) not in self._told:
                self._told.add((stage, failure.text))
                if failure.certain:
                    found.append(finding)
                else:
                    self.warnings.append(_doubt(finding))
        return found

    def _failures(self, graph: Graph, partition: PartitionData, events: int) -> list[_Failure]:
        start = partition["start"] or 0
        stop = start + events
        if partition["stop"] is not None:
            stop = min(stop, partition["stop"])
        few: PartitionData = {**partition, "start": start, "stop": stop}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the jobs give them
            return list(_Walk(graph, few, self._folder, self._known).failures())

    def _finding(self, failure: _Failure, partition: PartitionData) -> Finding:
        node = failure.node
        if node.role == "source":
            key = f"sources.{node.meta.get('source_name')}"
            if failure.text is not None:
                held = place_of("", self._document, failure.text).lstrip(".")
                key = named(held, self._document) if held else key
        else:
            key, content = self._stages.get(node.stage, (f"analysis.stages[{node.stage!r}]", {}))
            section = "write" if node.role == "sink" else "params"
            key = f"{key}.{section}"
            if failure.text is not None:
                key = place_of(key, content.get(section), failure.text)
        return Finding(
            file=self._workflow,
            key=key,
            problem=f"{failure.problem} (tried with events of {partition['file']})",
            value=failure.text,
            hint=failure.hint,
        )


class _Walk:
    """The nodes of one plan in their order, for a few events."""

    def __init__(
        self, graph: Graph, partition: PartitionData, folder: Path, known: dict[str, _Products]
    ) -> None:
        plan = graph.plan
        self._graph, self._partition, self._known = graph, partition, known
        self._registry = full_registry(plan)
        self._names = dependency_context(plan, self._registry)
        self._own = _own_functions(self._registry)
        self._session = Session(replace(plan, nodes=[], execution_hooks=_hooks(plan)), folder)
        self._ctx = upstream.build_partition_context(
            plan, base_ctx=self._session.ctx, partition=plan_files.partition_from(partition)
        )
        self._session.hooks.partition_start(partition=self._ctx["partition"], ctx=self._ctx)
        self._dataset = (plan.context.get("datasets") or {}).get(partition["dataset"])
        self._store: dict[Key, _Product] = {}

    def failures(self) -> Iterator[_Failure]:
        for node in self._graph.nodes.values():
            if node.role not in ("source", "transform", "sink") or node.scope == "global":
                continue
            if not self._graph.active(node.id, self._dataset):
                continue
            refs = [
                self._graph.resolve(ref, self._dataset, consumer=node.id)
                for ref in node.inputs
                if not ref.is_dependency
            ]
            given = {ref.key: self._store.get(ref.key) for ref in refs if ref is not None}
            known = {key: product for key, product in given.items() if product is not None}
            if len(known) == len(given):
                certain = all(product.certain for product in known.values())
                for failure in self._try(node, known):
                    yield replace(failure, certain=certain)

    def _try(self, node: Node, given: _Products) -> Iterator[_Failure]:
        if node.role == "source":
            if node.published and node.honours_ranges:
                read = self._made(node, node.params, {})
                if isinstance(read, Exception):
                    yield from _not_read(node, read)
                else:
                    self._store.update(read)
            return
        if node.role == "sink":
            yield from self._not_kept(node, given)
            return
        events = [product.events for product in given.values()]
        if node.impl == "hep.define" and node.published and all(one is not None for one in events):
            yield from self._define(node, *given.items())
            return
        made: _Products | Exception = _NOT_RUN
        if self._can_run(node, node.params, given):
            made = self._made(node, node.params, given)
            if made is not _NOT_RUN and isinstance(made, Exception):
                yield self._narrowed(node, given, made)
        self._store.update(self._unchanged(node, given) if isinstance(made, Exception) else made)

    def _not_kept(self, node: Node, given: _Products) -> Iterator[_Failure]:
        """Yield the columns of a file to write that its events do not have."""
        keep = node.params.get("keep")
        if not node.published or not isinstance(keep, list) or len(given) != 1:
            return
        (product,) = given.values()
        for name in keep if product.columns and product.complete else ():
            if isinstance(name, str) and name not in product.columns:
                problem = "is no column of the events that are written"
                hint = "list the names of columns, each by itself: no signs stand for several"
                hint = "leave it out, or let a stage make it" if name.isidentifier() else hint
                yield _Failure(node, name, problem, hint)

    def _define(self, node: Node, given: tuple[Key, _Product]) -> Iterator[_Failure]:
        """Run all variables, or as many as can be: each on what the earlier ones have made."""
        key, stream = given
        listed = node.params.get("variables")
        variables = list(map(mapping, listed if isinstance(listed, list) else ()))
        if self._can_run(node, node.params, {key: stream}) and "~" not in str(variables):
            made = self._made(node, node.params, {key: stream})
            if not isinstance(made, Exception):
                self._store.update(made)
                return
        (port,) = node.streams()
        for variable in variables:
            params = {**node.params, "variables": [variable]}
            made = _NOT_RUN
            if self._can_run(node, params, {key: stream}):
                made = self._made(node, params, {key: stream})
                if made is not _NOT_RUN and isinstance(made, Exception):
                    yield _failure(node, _text(variable), made)
                else:
                    yield from self._odd_values(node, variable, stream)
            if isinstance(made, Exception):
                stream = stream.without([str(variable.get("name"))])
            else:
                stream = made[(node.id, port)]
        self._store[(node.id, port)] = stream

    def _odd_values(
        self, node: Node, variable: Mapping[str, object], stream: _Product
    ) -> Iterator[_Failure]:
        text, events = _text(variable), stream.events
        if events is None or text is None:
            return
        if "~" in text:
            for told in inverted(text, events, self._ctx, is_condition="expr" not in variable):
                yield _Failure(node, *told)

    def _narrowed(self, node: Node, given: _Products, error: Exception) -> _Failure:
        """Return the failure of one cut, if there is one that fails alone."""
        if isinstance(_cause(error), UnfitColumn):
            return _failure(node, None, error)
        for name, step in _cuts(node):
            alone = self._made(node, {"selection": {name: [step]}}, given)
            if isinstance(alone, Exception):
                return _failure(node, _text(mapping(step)) or str(step), alone)
        return _failure(node, None, error)

    def _unchanged(self, node: Node, given: _Products) -> _Products:
        """Return the events of a node that was not run, without the columns that it makes."""
        made = self._declared(node) if len(given) == 1 else None
        ports = node.streams()
        if not made or len(ports) != 1:
            return {}
        (product,) = given.values()
        if not product.columns:
            return {}
        left = product.without(made)
        return {(node.id, ports[0]): left if node.published else left.doubtful()}

    def _declared(self, node: Node) -> frozenset[str]:
        found = self._dependencies(node, node.params)
        return frozenset(found.produces) if found is not None else frozenset()

    def _read(self, node: Node, params: Mapping[str, object]) -> frozenset[str] | None:
        """Return the columns that an operation reads; ``None``: not known."""
        found = self._dependencies(node, params)
        return frozenset(found.consumes) if found is not None and node.reads is not None else None

    def _dependencies(self, node: Node, params: Mapping[str, object]) -> Any:
        item = self._graph.plan.get_node(node.id)
        spec = upstream.component_spec_for_node(item, self._registry)
        try:
            return upstream.parse_component_data_dependencies(
                spec=spec, params=dict(params), dep_ctx=self._names
            )
        except Exception:
            return None  # the compiler has raised already if this matters

    def _can_run(self, node: Node, params: Mapping[str, object], given: _Products) -> bool:
        if not node.published or (self._own and self._own.search(repr(params))):
            return False
        if all(product.complete for product in given.values()):
            return True
        read = self._read(node, params)
        there = frozenset[str]().union(*(product.columns for product in given.values()))
        return read is not None and read <= there

    def _made(
        self, node: Node, params: Mapping[str, object], given: _Products
    ) -> dict[Key, _Product] | Exception:
        """Run an operation; return its products, or what it raises."""
        what = [node.id, node.impl, node.implementation, repr(params), dict(self._partition)]
        digest = files.digest_of([*what, *(product.digest for product in given.values())])
        if digest not in self._known:
            try:
                made = self._run(node, params, given)
            except Exception as error:  # whatever it raises is what is looked for
                return error
            complete = all(product.complete for product in given.values())
            certain = all(product.certain for product in given.values())
            self._known[digest] = {
                key: _Product(value, f"{digest} {key[1]}", complete, certain)
                for key, value in made.items()
            }
        return dict(self._known[digest])

    def _run(self, node: Node, params: Mapping[str, object], given: _Products) -> Store:
        session = self._session
        session.plan = self._alone(node, params)
        values = {key: product.value for key, product in given.items()}
        return session.partition([node.id], self._partition, values)[0]

    def _alone(self, node: Node, params: Mapping[str, object]) -> Plan:
        """Return the plan with one node, without its modifiers and their GPU."""
        plan: Any = self._graph.plan
        item: Any = plan.get_node(node.id)
        meta = {name: value for name, value in dict(item.meta or {}).items() if name != "execution"}
        # An operation may write into its parameters, which are those of the plan.
        item = replace(item, params=copy.deepcopy(dict(params)), meta=meta)
        index = {**plan.node_index, node.id: item}
        alone: Plan = replace(plan, nodes=[item], node_index=index)
        return alone


def _hooks(plan: Plan) -> list[object]:
    """Return the hooks that say what expressions may name: something of the dataset."""
    hooks = [one for one in plan.execution_hooks if isinstance(one, dict)]
    return [{**one, "events": [_START]} for one in hooks if _START in (one.get("events") or ())]


def _own_functions(registry: Registry) -> re.Pattern[str] | None:
    """Return a pattern that finds the functions that are not FAST-HEP's, numpy's or awkward's."""
    registered = registry.get("functions") or {}
    own = [name for name, reference in registered.items() if not is_elementwise(str(reference))]
    return re.compile(rf"\b(?:{'|'.join(map(re.escape, own))})\b") if own else None


def _cuts(node: Node) -> Iterator[tuple[str, object]]:
    """Yield the cuts of a cutflow, each with the name of its group."""
    if node.impl != "hep.selection.cutflow":
        return
    for name, group in mapping(node.params.get("selection")).items():
        steps = group if isinstance(group, list) else mapping(group).get("steps")
        if steps is None:
            steps = mapping(group).get("cuts")
        for step in steps if isinstance(steps, Sequence) else ():
            yield str(name), step


def _text(variable: Mapping[str, object]) -> str | None:
    """Return the expression of a variable or cut."""
    text = variable.get("expr", mapping(variable.get("reduce")).get("over"))
    return text if isinstance(text, str) else None


def _failure(node: Node, text: str | None, error: Exception) -> _Failure:
    cause = _cause(error)
    if isinstance(cause, UnfitColumn):
        return _Failure(node, cause.text, cause.problem, cause.hint)
    said = " ".join(str(cause).strip().partition("\n\n")[0].split())
    hint = next((one for words, one in _HINTS.items() if words in said), None)
    return _Failure(node, text, f"fails: {type(cause).__name__}: {said}", hint)


def _cause(error: Exception) -> BaseException:
    return error.cause if isinstance(error, StageError) else error


def _not_read(node: Node, error: Exception) -> Iterator[_Failure]:
    """Yield the failure of a source that asks for what is no branch.

    A damaged file is no mistake of the workflow: others may be read, and the run may do without.
    """
    cause = _cause(error)
    listed = node.params.get("branches")
    names = listed if isinstance(listed, list) else []
    several = next((one for one in names if isinstance(one, str) and "," in one), None)
    if several is not None or isinstance(cause, KeyError | SyntaxError):
        hint = "list each branch by itself" if several is not None else None
        yield replace(_failure(node, several, error), hint=hint)


def _doubt(finding: Finding) -> str:
    """Return the warning of a failure that an operation of a user's own may prevent."""
    value = f" {finding.value!r}:" if finding.value else ""
    return (
        f"{finding.key}:{value} {finding.problem}, unless an operation of your own changes a "
        "column before: then let its spec say that it provides it"
    )

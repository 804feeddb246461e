"""Keep what an operation of a user's own changes to itself: a value is a value.

Were a column changed in place seen by other stages, a result would depend on which stages ran
before in the same process: on ``--granularity``, on pools, on which jobs an edit runs again. So an
own operation gets copies of what it may change, and what it leaves in modules is undone: each stage
sees what it would see in a process of its own.
"""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable, Collection, Iterator, Mapping, MutableMapping
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import awkward as ak
import numpy as np

from fasthep_smk.flow import upstream
from fasthep_smk.flow.modules import is_of_user, own_modules_of
from fasthep_smk.flow.own_modules import OwnModules, RandomState
from fasthep_smk.flow.reads import (
    CATEGORY,
    is_published,
    modifiers_of,
    references,
    user_hooks,
)
from fasthep_smk.flow.stage_error import TooManyEvents
from fasthep_smk.util.documents import YamlMapping

if TYPE_CHECKING:
    from fasthep_smk.flow.shapes import Context, Key, Plan, PlanNode, Store

#: What FAST-HEP keeps in the context for itself, also while an operation of a user's own runs.
_OF_FASTHEP = ("_warnings", "resources", "resolved_resources", "runtime_resources")


class _Copied(NamedTuple):
    """An array that an operation got in the place of ``original``.

    Both are packed, as what another job hands over is: what NumPy writes into a column that is a
    selection of events would be lost.
    """

    original: ak.Array
    mine: ak.Array
    layout: object
    deep: bool


class _Copies(dict["Key", object]):
    """Products of which each reader gets a copy."""

    def __getitem__(self, key: Key) -> object:
        return _copy_of_product(super().__getitem__(key))


class Isolation:
    """Keeps what the own operations among the nodes of a plan change from the others.

    ``kept`` are the products that outlive the nodes (all, if it is ``None``), ``unseeded`` is the
    state of random numbers before any module of the user's was imported.
    """

    def __init__(self, plan: Plan, kept: Collection[Key] | None, unseeded: RandomState) -> None:
        registry = plan.registry
        of_user = {
            name: references(plan, node, CATEGORY[node.role])[0].partition(":")[0]
            for name, node in plan.node_index.items()
            if not is_published(registry, CATEGORY[node.role], node.impl)
        }
        #: Otherwise nobody misses what an operation has changed in a module.
        self._has_others = len(of_user) > 1
        here = {node.id for node in plan.nodes}
        self._operations = {name: module for name, module in of_user.items() if name in here}
        #: Hooks of the user's own keep in modules what they like while a job lasts.
        self.has_hooks = bool(user_hooks(plan, registry))
        #: Nodes with a modifier or hook of the user's own: these may change what nodes are given.
        self._modified = {
            node.id
            for node in plan.nodes
            if self.has_hooks
            or any(
                not is_published(registry, "execution_modifiers", name)
                for name in modifiers_of(node, registry)
            )
        }
        self._own = self._operations.keys() | self._modified
        self._has_own_sinks = self.has_hooks or any(
            node.role == "sink" and node.id in self._own for node in plan.nodes
        )
        self._reads = {node.id: [ref.node_id for ref in node.inputs] for node in plan.nodes}
        self._kept = {node for node, _ in kept} if kept is not None else None
        own = [name for name in own_modules_of(plan) if is_of_user(name)]
        self._modules = OwnModules(own, unseeded) if own else None
        functions = (registry.get("functions") or {}).values()
        self._has_functions = any(is_of_user(str(name).partition(":")[0]) for name in functions)
        self._copied: list[_Copied] = []
        self._context: dict[str, object] = {}
        self._params: YamlMapping = {}

    def enter(self, node: PlanNode, inputs: dict[str, object], ctx: Context) -> None:
        """Let an operation begin: an own one gets copies of ``inputs`` and of what ``ctx`` holds.

        The arrays in ``inputs`` share their columns with the originals where nothing that comes
        later could see a change of these.
        """
        if node.id not in self._own:
            return
        deep = self._may_be_seen(node.id)
        self._copied = []
        inputs.update({name: self._copy(value, deep) for name, value in inputs.items()})
        if node.id in self._operations:
            self._params, node.params = node.params, copy.deepcopy(dict(node.params))
        self._context = {
            name: value
            for name, value in ctx.items()
            if type(value) in (dict, list) and name not in _OF_FASTHEP
        }
        ctx.update(copy.deepcopy(self._context))

    def leave(self, node: PlanNode, outputs: object, ctx: Context) -> list[str]:
        """Take back what the operation has changed beside ``outputs``; say what that was.

        Raises:
            TooManyEvents: there are more events among ``outputs`` than it got.
        """
        changes: list[str] = []
        if node.id not in self._own:
            return changes
        if node.id in self._operations:
            changes += ["its parameters"] * _differ(node.params, self._params)
            node.params = self._params
        changes += [
            f"ctx[{name!r}]" for name, value in self._context.items() if _differ(ctx[name], value)
        ]
        ctx.update(self._context)
        products = _products(node, outputs)
        returned = list(_arrays(products))
        streams = {port: products[port] for port in products if _is_stream(node, port)}
        events = sum(len(item.original) for item in self._copied)
        most = max(map(len, _arrays(streams)), default=0)
        if node.id in self._operations and self._copied and most > events:
            raise TooManyEvents(f"it returned {most} events, but got {events}")
        columns = [text for item in self._copied for text in _changed_columns(item, returned)]
        self._copied = []
        return list(dict.fromkeys(changes if node.id in self._modified else changes + columns))

    def enter_modules(self, node: PlanNode) -> None:
        """Let an operation find the user's modules as they were imported."""
        if self._modules is not None and (self._has_functions or node.id in self._own):
            self._modules.enter(self._operations.get(node.id), anew=self.has_hooks)

    def leave_modules(self, node: PlanNode, outputs: object) -> list[str]:
        """Take back what was changed in the user's modules; say what that was.

        Raises:
            ValueError: one of the ``outputs`` is among that.
        """
        if self._modules is None or not (self._has_functions or node.id in self._own):
            return []
        products = _products(node, outputs)
        for array in _arrays(products):
            self._modules.separate(array)
        changes = self._modules.leave([outputs, *products.values()])
        return changes if self._has_others else []

    def handing_out(self, store: Store) -> Store:
        """Return a store for sinks at the end, which read it before :meth:`enter` is called."""
        return _Copies(store) if self._has_own_sinks else store

    def _may_be_seen(self, node: str) -> bool:
        """Whether anything but ``node``, and what leads to it, reads or keeps what leads to it."""
        before: set[str] = set()
        waiting = list(self._reads[node])
        while waiting:
            name = waiting.pop()
            if name not in before:
                before.add(name)
                waiting += self._reads.get(name, [])
        if self._kept is None or before & self._kept:
            return True
        others = self._reads.keys() - before - {node}
        return any(before.intersection(self._reads[name]) for name in others)

    def _copy(self, value: Any, deep: bool) -> object:
        if isinstance(value, ak.Array):
            packed, new = _packed(value)
            deep = deep or not _is_writable(packed)
            mine = copy.copy(packed)
            if deep:
                mine.layout = _with_copies_of_columns(packed.layout, new)
            self._copied.append(_Copied(packed, mine, mine.layout, deep))
            return mine
        if type(value) is dict:
            return {name: self._copy(item, deep) for name, item in value.items()}
        if type(value) in (list, tuple):
            return type(value)(self._copy(item, deep) for item in value)
        return _copy_of_product(value)


def _copy_of_product(value: object) -> object:
    with suppress(Exception):
        return copy.deepcopy(value)
    with suppress(Exception):  # what is handed from job to job can be pickled
        return pickle.loads(pickle.dumps(value))
    return value


def copy_arguments(registry: YamlMapping, functions: MutableMapping[str, Any]) -> None:
    """Let the user's own among the ``functions`` of expressions get copies of the columns."""
    for name, reference in (registry.get("functions") or {}).items():
        module = str(reference).partition(":")[0]
        if name in functions and is_of_user(module):
            functions[name] = partial(_with_copies, functions[name])


def _with_copies(function: Callable[..., object], *arguments: object, **named: object) -> object:
    def copied(value: object) -> object:
        if isinstance(value, ak.Array):
            return ak.copy(ak.to_packed(value))
        return copy.deepcopy(value) if isinstance(value, (ak.Record, np.ndarray)) else value

    return function(*map(copied, arguments), **{name: copied(item) for name, item in named.items()})


def _packed(array: ak.Array) -> tuple[ak.Array, list[bool]]:
    """Return events as another job would hand them over: no column is a selection of another one.

    Also return of each column whether it shares nothing with those of ``array``; of none if the
    events are no records. ``ak.to_packed`` does the same, and takes ten times as long for the usual
    columns.
    """
    layout, contents = array.layout, ak.contents
    if isinstance(layout, contents.IndexedArray) and layout.content.is_record:
        record = layout.content
        columns = [
            contents.IndexedArray.simplified(layout.index, column) for column in record.contents
        ]
    elif isinstance(layout, contents.RecordArray):
        record, columns = layout, layout.contents
    else:
        return ak.to_packed(array), []
    if layout.backend.name != "cpu":
        return ak.to_packed(array), []
    items: dict[tuple[int, int], tuple[Any, Any]] = {}
    pairs = [_packed_column(column, items) for column in columns]
    packed = contents.RecordArray(
        [column for column, _ in pairs],
        record.fields,
        length=len(array),
        parameters=record.parameters,
    )
    whole = ak.Array(packed, behavior=array.behavior, attrs=array.attrs)
    return whole, [is_new for _, is_new in pairs]


def _packed_column(column: Any, items: dict[tuple[int, int], tuple[Any, Any]]) -> tuple[Any, bool]:
    """Return a column that is no selection, and whether its numbers are copies of the given ones.

    ``items`` are offsets of lists, and what is in them: columns that are selected together and have
    the same lists share these.
    """
    contents = ak.contents
    if isinstance(column, contents.NumpyArray) and column.is_contiguous:
        return column, False
    if not isinstance(column, contents.IndexedArray) or column.parameters:
        return column.to_packed(), False
    lists, selected = None, column.content
    if isinstance(selected, contents.ListOffsetArray) and not selected.parameters:
        lists, selected = selected, selected.content
    if not isinstance(selected, contents.NumpyArray):
        return column.to_packed(), False
    index = np.asarray(column.index)
    if lists is None:
        return selected.copy(data=selected.data[index]), True
    offsets = np.asarray(lists.offsets)
    key = (column.index.data.ctypes.data, offsets.ctypes.data)
    if key not in items:
        starts = offsets[:-1][index]
        counts = offsets[1:][index] - starts
        ends = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])
        items[key] = (
            ak.index.Index64(ends),
            np.arange(ends[-1]) + np.repeat(starts - ends[:-1], counts),
        )
    ends, inside = items[key]
    return contents.ListOffsetArray(ends, selected.copy(data=selected.data[inside])), True


def _with_copies_of_columns(packed: Any, new: list[bool]) -> Any:
    """Return a layout into which an operation may write: with copies of what is not ``new``."""
    if not new:
        return copy.deepcopy(packed)
    pairs = zip(packed.contents, new, strict=True)
    return packed.copy(
        contents=[column if is_new else copy.deepcopy(column) for column, is_new in pairs]
    )


def _is_writable(array: ak.Array) -> bool:
    buffers = ak.to_buffers(array)[2].values()
    return all(getattr(buffer.flags, "writeable", True) for buffer in buffers)  # on a GPU, always


def _differ(value: object, other: object) -> bool:
    try:
        return bool(value != other)
    except ValueError:  # an operation has put an array into one of them
        return True


def _products(node: PlanNode, outputs: object) -> Mapping[str, object]:
    """Return what an operation has returned by the names of its ports, as FAST-HEP reads it."""
    if isinstance(outputs, upstream.OperationResult):
        return dict(outputs.products)
    if isinstance(outputs, dict) and outputs.keys() == node.outputs.keys():
        return outputs
    return dict.fromkeys(node.outputs, outputs)


def _is_stream(node: PlanNode, port: str) -> bool:
    return str(node.outputs.get(port)) == "event_stream"


def _arrays(value: object) -> Iterator[ak.Array]:
    if isinstance(value, ak.Array):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from _arrays(item)


def _changed_columns(item: _Copied, returned: list[ak.Array]) -> list[str]:
    """Return what an operation has changed in its copy of an array.

    Columns that it has not changed are shared with the original again: the copies would stay in
    memory as long as what it returned.
    """
    changed = ["the columns of its input"] if item.mine.layout is not item.layout else []
    before, after = item.original.layout, item.layout
    if not item.deep or not isinstance(after, ak.contents.RecordArray):
        return changed
    same: dict[int, object] = {}
    for field, original, mine in zip(after.fields, before.contents, after.contents, strict=True):
        if original is mine or _equal(original, mine):
            same[id(mine)] = original
        else:
            changed.append(f"the values of {field!r} in its input")
    for array in returned:
        array.layout = _with_originals(array.layout, same)
    return changed


def _with_originals(layout: Any, same: dict[int, object]) -> Any:
    """Return a layout with others in the place of ``same``, also within what was selected."""
    if id(layout) in same:
        return same[id(layout)]
    if isinstance(layout, ak.contents.IndexedArray):
        return layout.copy(content=_with_originals(layout.content, same))
    if isinstance(layout, ak.contents.RecordArray):
        return layout.copy(contents=[_with_originals(column, same) for column in layout.contents])
    return layout


def _equal(original: object, mine: object) -> bool:
    """Whether two columns have the same bits."""
    buffers = [ak.to_buffers(column, backend="cpu")[2] for column in (original, mine)]
    return all(_same_bits(buffer, buffers[1][name]) for name, buffer in buffers[0].items())


def _same_bits(original: np.ndarray[Any, Any], mine: np.ndarray[Any, Any]) -> bool:
    bits = [np.ascontiguousarray(array).reshape(-1).view(np.uint8) for array in (original, mine)]
    return bool(np.array_equal(bits[0], bits[1]))

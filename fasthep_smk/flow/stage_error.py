"""Why a stage failed, told of the stage, and of the line, that has to be changed."""

from __future__ import annotations

import re
import traceback
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import CodeType
from typing import TYPE_CHECKING, NamedTuple

from fasthep_smk.flow import op_identity, upstream
from fasthep_smk.flow.distributions import is_installed_file
from fasthep_smk.flow.reads import CATEGORY, is_published
from fasthep_smk.util.errors import chain_of

if TYPE_CHECKING:
    from fasthep_smk.flow.shapes import Plan, PlanNode

_ARRAYS = {"Array": "an array", "ndarray": "an array"}
_OURS = f"{Path(__file__).parents[1]}/"
#: What Awkward says of a column that an array lacks, by ``stream["x"]`` and ``stream.x``.
_NO_COLUMN = re.compile(r"no field (?:named )?'([^']+)'")


@dataclass(frozen=True)
class MissingColumn:
    """A column that an operation looked for: those that it got, and the source of its events."""

    op: str
    name: str
    there: tuple[str, ...]
    source: str | None
    tree: str | None


class StageError(Exception):
    """An operation raised: which node of the plan, and what.

    ``at`` is the line of the user's own module. A stage that got ``None``, or a mere column, in
    place of events is not the one to be changed: the node ``blamed`` is the one that returned it.
    ``had_no_events`` says that one of its inputs holds nothing.
    """

    def __init__(
        self, node: PlanNode, cause: BaseException, *, plan: Plan, inputs: Mapping[str, object],
        ctx: Mapping[str, object],
    ) -> None:  # fmt: skip
        self.missing: MissingColumn | None = None
        self.fix: str | None = None
        wrong = _wrong_result(node, plan, inputs, ctx)
        maker = wrong.maker if wrong else None
        if wrong is not None:
            super().__init__(
                f"it returned {wrong.what}, but stage {stage_of(node)!r} reads its result"
            )
            self.fix = wrong.fix
            self.at = _function_line(wrong.maker, plan)
        else:
            ours = type(cause).__module__.startswith("fasthep_smk.")  # a sentence by itself
            super().__init__(str(cause) if ours else f"{type(cause).__name__}: {cause}")
            self.fix = getattr(cause, "hint", None) if ours else None
            self.at = own_line(cause)
            if isinstance(cause, TooManyEvents):
                self.at = _function_line(node, plan)
            self.missing = _missing_column(node, cause, plan, inputs)
        self.node_id: str = node.id
        self.blamed: str = (maker or node).id
        self.had_no_events: bool = any(map(_is_empty, inputs.values()))
        self.stage: str = stage_of(maker or node)
        self.impl: str = (maker or node).impl
        self.cause = cause


class TooManyEvents(ValueError):
    """An operation returned more events than it got: cutflows and sums would count some twice."""

    hint = (
        "return one entry for each event, or fewer for a selection; for several values per "
        "event, return a column of lists: a histogram is filled with all of them"
    )


class Exited(Exception):
    """An operation called ``sys.exit``."""

    def __init__(self, code: object) -> None:
        shown = "" if code is None else repr(code)
        super().__init__(f"sys.exit({shown}) was called: an operation must return or raise errors")


def stage_of(node: PlanNode) -> str:
    """Return the stage that a node of the plan belongs to."""
    return str(dict(node.meta or {}).get("stage_id") or node.id)


def own_line(error: BaseException) -> str | None:
    """Return the last line of a user's own module that an error went through."""
    for cause in chain_of(error):
        walked = traceback.walk_tb(cause.__traceback__)
        if own := [(frame, line) for frame, line in walked if _is_own(frame.f_code)]:
            frame, line = own[-1]
            return _told(frame.f_code, str(frame.f_globals.get("__name__")), line)
    return None


def _is_own(code: CodeType) -> bool:
    file = code.co_filename
    return not (file.startswith(("<", _OURS)) or is_installed_file(file))


def _told(code: CodeType, module: str, line: int) -> str:
    """Say where a line is: by the module's path, as the folder may be that of a job's copy."""
    file = Path(code.co_filename)
    steps = len(module.split(".")) + (file.stem == "__init__")
    name = "/".join(file.parts[-steps:])
    inside = "" if code.co_name.startswith("<") else f", in {code.co_name}"
    return f"{name}, line {line}{inside}"


class _WrongResult(NamedTuple):
    """What a transform returned in place of events, and what it should do."""

    maker: PlanNode
    what: str
    fix: str


def _wrong_result(
    node: PlanNode, plan: Plan, inputs: Mapping[str, object], ctx: Mapping[str, object]
) -> _WrongResult | None:
    """Return the transform whose ``None``, or what else has no columns, a node got."""
    for ref in node.inputs:
        got = inputs.get(ref.input_name, ref)
        is_stream = plan.get_node(ref.node_id).outputs.get(ref.output_name) == "event_stream"
        if got is None or (is_stream and not _has_columns(got)):
            dataset = ctx.get("dataset")
            active = upstream.resolve_active_input_ref(
                plan, ref, dataset=dataset if isinstance(dataset, dict) else None
            )
            maker: PlanNode = plan.get_node(active.node_id)
            if maker.role != "transform":
                return None
            if got is None:
                fix = "the function must return its result"
                return _WrongResult(maker, "nothing (None)", fix)
            port_kind = maker.outputs.get(active.output_name)
            own = not is_published(plan.registry, CATEGORY[maker.role], maker.impl)
            if own and port_kind == "event_stream":
                fix = "the function must end with return ak.with_field(stream, …)"
                kind = type(got).__name__
                return _WrongResult(maker, f"{_ARRAYS.get(kind, f'a {kind}')}, not events", fix)
    return None


def _is_empty(value: object) -> bool:
    """Whether there are no events, or a histogram's sum is not above 0."""
    import awkward as ak

    if isinstance(value, dict):
        return any(map(_is_empty, value.values()))
    if isinstance(value, ak.Array):
        return len(value) == 0
    counts = getattr(value, "values", None)
    return hasattr(value, "axes") and callable(counts) and bool(counts(flow=True).sum() <= 0)


def _has_columns(value: object) -> bool:
    import awkward as ak

    return isinstance(value, dict) or (isinstance(value, ak.Array) and bool(ak.fields(value)))


def _function_line(node: PlanNode, plan: Plan) -> str | None:
    """Return where the function of a user's own operation begins."""
    reference = op_identity.impl_of(plan.registry, CATEGORY[node.role], node.impl)
    function = upstream.load_object(reference) if reference else None
    code = getattr(function, "__code__", None)
    if not isinstance(code, CodeType) or not _is_own(code):
        return None
    return _told(code, str(getattr(function, "__module__", "")), code.co_firstlineno)


def _missing_column(
    node: PlanNode, cause: BaseException, plan: Plan, inputs: Mapping[str, object]
) -> MissingColumn | None:
    """Return which column of its events an operation did not find."""
    import awkward as ak

    match = _NO_COLUMN.match(str(cause))
    arrays = [value for value in inputs.values() if isinstance(value, ak.Array)]
    if match is None or not arrays:
        return None
    sources = [maker for maker in _above(node, plan) if maker.role == "source"]
    source = sources[0] if len(sources) == 1 else None
    return MissingColumn(
        node.impl,
        match[1],
        tuple(dict.fromkeys(name for array in arrays for name in ak.fields(array))),
        str(dict(source.meta or {}).get("source_name")) if source else None,
        str(source.params["tree"]) if source and source.params.get("tree") else None,
    )


def _above(node: PlanNode, plan: Plan) -> Iterator[PlanNode]:
    """Yield the nodes that a node's events come from."""
    left, seen = [ref.node_id for ref in node.inputs], set()
    while left:
        name = left.pop()
        if name not in seen:
            seen.add(name)
            maker: PlanNode = plan.get_node(name)
            yield maker
            left += [ref.node_id for ref in maker.inputs]

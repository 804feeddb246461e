"""Expressions that FAST-HEP evaluates without an error, and otherwise than they are meant.

They are Python, and their values are columns: ``&`` binds more strongly than ``>``, ``x[0]`` is the
first event, and ``~`` turns the bits of a number. What fails when it is evaluated is not looked for
here. Which texts are expressions is what FAST-HEP's own analysis of the compiled plan says; an
operation that is not FAST-HEP's may read its own in another way.
"""

from __future__ import annotations

import ast
import contextlib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from fasthep_smk.flow import op_identity, upstream
from fasthep_smk.flow.patches.parsed_expressions import parsed_expressions
from fasthep_smk.flow.places import as_python, mapping, place_of, stages_by_id
from fasthep_smk.flow.reads import dependency_context, full_registry, is_published
from fasthep_smk.flow.upstream import ExecutionPlan
from fasthep_smk.util.errors import Finding, is_slip, nearest

#: What is wrong, and what to write where that is certain.
FoundProblems = Iterator[tuple[str, str | None]]

_LOGIC = {ast.BitAnd: "&", ast.BitOr: "|", ast.BitXor: "^"}
_ORDER = (ast.Lt, ast.LtE, ast.Gt, ast.GtE)
_EQUAL = (ast.Eq, ast.NotEq)
_AMONG = (ast.In, ast.NotIn)
_DIFFERENCE = (ast.Sub, ast.Div, ast.FloorDiv, ast.Pow)
_COLLECTIONS = (ast.List, ast.Tuple, ast.Set, ast.Dict, ast.JoinedStr)
_COUNTING = ("awkward:num", "awkward:count")
_WHERE = ("numpy:where", "awkward:where")
_OF_FLAGS = (np.logical_not, np.invert)
#: What people import in Python, and an expression does not have.
_MODULES = ("np", "numpy", "ak", "awkward", "math")


@dataclass(frozen=True)
class Names:
    """The names in expressions that are no columns.

    ``functions`` has the ``module:object`` of each, ``values`` what other names can stand for in a
    job: nothing if that is not known, one value for each dataset if it is the dataset's.
    """

    functions: Mapping[str, str]
    values: Mapping[str, tuple[object, ...]]


def expression_findings(
    plans: Iterable[ExecutionPlan], document: Mapping[str, object], *, workflow: str
) -> list[Finding]:
    """Return the expressions that would do something else than they say; one for each mistake.

    The plans are those of a workflow's systematic variations, the nominal one first.
    """
    written = stages_by_id(document)
    findings: dict[tuple[str, str], Finding] = {}
    told_stages: set[str] = set()
    seen: set[str] = set()
    for plan in plans:
        names = _names(plan)
        for stage, text in expressions_of(plan, seen):
            key, content = written.get(stage, (f"analysis.stages[{stage!r}]", {}))
            key = place_of(f"{key}.params", content.get("params"), text)
            if key.endswith(".params") and stage in told_stages:
                continue  # a variation's form of an expression of the stage
            reading = Reading(text, names, is_condition=key.endswith(".over"))
            if first := next(reading.problems(), None):  # one mistake often looks like several
                problem, hint = first
                finding = Finding(file=workflow, key=key, problem=problem, value=text, hint=hint)
                findings.setdefault((key, problem), finding)
                told_stages.add(stage)
    return list(findings.values())


def expressions_of(plan: ExecutionPlan, seen: set[str] | None = None) -> list[tuple[str, str]]:
    """Return the expressions of FAST-HEP's own operations, each with its stage.

    What is in ``seen``, stages with their parameters, is left out, and others are added.
    """
    seen = set() if seen is None else seen
    context = dependency_context(plan, full_registry(plan))
    expressions: dict[tuple[str, str], None] = {}
    for node in plan.nodes:
        stage = str(dict(node.meta or {}).get("stage_id") or node.id)
        content = repr((stage, node.impl, node.params))
        published = is_published(plan.registry, "transforms", node.impl)
        if node.role != "transform" or not published or content in seen:
            continue
        seen.add(content)
        spec = upstream.component_spec_for_node(node, plan.registry)
        with contextlib.suppress(Exception), parsed_expressions() as texts:
            # The compiler has refused what it cannot read.
            upstream.parse_component_data_dependencies(
                spec=spec, params=dict(node.params), dep_ctx=context
            )
            expressions |= dict.fromkeys((stage, text) for text in texts)
    return list(expressions)


def _names(plan: ExecutionPlan) -> Names:
    registry = full_registry(plan)
    context = dependency_context(plan, registry)
    datasets = {
        name: mapping(content) for name, content in mapping(plan.context.get("datasets")).items()
    }
    values: dict[str, tuple[object, ...]] = dict.fromkeys(
        {*context.context_symbols, *context.known_constants}, ()
    )
    values |= {name: (value,) for name, value in mapping(plan.context.get("globals")).items()}
    values["dataset_name"] = tuple(datasets)
    for key in ("group", "eventtype"):
        values[f"dataset_{key}"] = tuple(dataset.get(key) for dataset in datasets.values())
    values["dataset_is_data"] = (True, False)
    functions = mapping(registry.get("functions"))
    return Names({name: str(reference) for name, reference in functions.items()}, values)


def unknown_function(text: str, registry: Mapping[str, object]) -> str | None:
    """Return which function of an expression there is not: FAST-HEP takes it for a branch."""
    functions = mapping(registry.get("functions"))
    try:
        nodes = list(ast.walk(ast.parse(as_python(text), mode="eval")))
    except (SyntaxError, ValueError):
        return None
    for name in (ast.unparse(node.func) for node in nodes if isinstance(node, ast.Call)):
        module, _, attribute = name.partition(".")
        if module not in functions and (not attribute or module in _MODULES):
            meant = nearest(name, functions, cutoff=0.75)
            hint = f"did you mean {meant!r}?" if meant else f"choose from {', '.join(functions)}"
            return f"there is no function {name!r}: {hint}"
    return None


class Reading:
    """An expression as Python reads it.

    ``is_condition`` says that it is asked whether something is true of each event or object.
    """

    def __init__(self, text: str, names: Names, *, is_condition: bool = False) -> None:
        self._text, self._names, self._is_asked = as_python(text), names, is_condition
        self._tree = ast.parse(self._text, mode="eval").body
        self._nodes = list(ast.walk(self._tree))

    def problems(self) -> FoundProblems:
        """Yield what the expression does otherwise than it says."""
        for node in self._nodes:
            match node:
                case ast.Compare():
                    parts = [node.left, *node.comparators]
                    for left, sign, right in zip(parts, node.ops, node.comparators, strict=False):
                        yield from self._comparison(left, sign, right)
                case ast.UnaryOp(op=ast.Invert(), operand=part):
                    if self._is_condition(part) and not self._is_column(part):
                        yield "'~' of a single condition gives -1 or -2: use 'not'", None
                case ast.BinOp(op=ast.BitXor()):
                    yield from self._power(node)
                case ast.BinOp(ast.BinOp(op=ast.Pow(), right=ast.Constant(1)), ast.Div()):
                    yield "'**' binds more strongly than '/': the power is 1", "write ** (1 / …)"
                case ast.BoolOp(ast.Or(), [ast.Compare() | ast.Constant(), *others]):
                    for part in others:
                        if isinstance(part, ast.Constant) and not isinstance(part.value, bool):
                            yield f"'or {part.value!r}' is not a comparison", None
                case ast.Subscript():
                    yield from self._one_event(node)
                case ast.Call():
                    yield from self._call(node)
        yield from self._whole_columns()
        names = any(isinstance(node, ast.Name) for node in self._nodes)
        if not names and any(isinstance(node, ast.Compare) for node in self._nodes):
            yield "names no column, so its value is the same for every event", None
        body = self._tree
        if self._is_asked and isinstance(body, ast.BinOp) and isinstance(body.op, _DIFFERENCE):
            yield "makes a number, not a condition", None

    def _comparison(self, left: ast.expr, sign: ast.cmpop, right: ast.expr) -> FoundProblems:
        columns = self._is_column(left) or self._is_column(right)
        for part, other in ((left, right), (right, left)):
            if not self._in_brackets(part):
                yield from self._precedence(part, sign, other, is_left=part is left)
            if isinstance(sign, (*_EQUAL, *_AMONG)):
                within = part is right and isinstance(sign, _AMONG)
                yield from self._named(part, other, within=within)
            added = isinstance(part, ast.BinOp) and isinstance(part.op, ast.Add) and columns
            if added and self._is_condition(part) and not _asks_for_any(sign, other):
                yield "'+' of two conditions gives true or false, not how many are true", None
        if isinstance(sign, ast.Is | ast.IsNot):
            constants = [part.value for part in (left, right) if isinstance(part, ast.Constant)]
            if columns or not any(value is None or isinstance(value, bool) for value in constants):
                yield "'is' compares objects, not values: use '=='", None
        if isinstance(sign, _AMONG) and columns:
            yield "'in' gives one answer for all events: compare with each value instead", None

    def _precedence(
        self, part: ast.expr, sign: ast.cmpop, other: ast.expr, *, is_left: bool
    ) -> FoundProblems:
        """Find ``pt > 20 & good``, which asks for bits, and ``~n > 1``, which turns them."""
        if isinstance(part, ast.BinOp) and not self._is_number(part, sign, other, is_left=is_left):
            symbol = _LOGIC[type(part.op)]
            read = " ".join((ast.get_source_segment(self._text, part) or "").split())
            problem = f"{symbol!r} binds more strongly than a comparison"
            hint = f"put each comparison into brackets: (a > 1) {symbol} (b < 2)"
            yield f"{problem}: this compares with ({read})", hint
        if isinstance(part, ast.UnaryOp) and isinstance(part.op, ast.Invert):
            negative = isinstance(other, ast.UnaryOp) and isinstance(other.op, ast.USub)
            number = isinstance(other, ast.Constant) and type(other.value) in (int, float)
            compares = isinstance(sign, _ORDER) or (isinstance(sign, _EQUAL) and number)
            if compares and not negative and not self._is_condition(part.operand):
                yield "'~' binds more strongly than the comparison", "write ~(a > 1)"

    def _is_number(
        self, part: ast.BinOp, sign: ast.cmpop, other: ast.expr, *, is_left: bool
    ) -> bool:
        """Whether a part is a number, perhaps of bits: ``flags & 4 > 0``, ``n == mask & n``."""
        leaves = self._leaves(part)
        if all(isinstance(leaf, ast.Constant) for leaf in leaves) or len(leaves) == 1:
            return True
        if isinstance(sign, _EQUAL) and ast.dump(other) in map(ast.dump, leaves):
            return True
        asked = isinstance(other, ast.Constant) or (is_left and not self._is_column(other))
        masked = not all(map(self._is_column, leaves))
        return asked and masked and not any(map(self._is_condition, leaves))

    def _leaves(self, node: ast.expr) -> list[ast.expr]:
        """Return what a chain of ``&``, ``|`` and ``^`` combines."""
        if isinstance(node, ast.BinOp) and type(node.op) in _LOGIC:
            sides = (node.left, node.right)
            parts = ([side] if self._in_brackets(side) else self._leaves(side) for side in sides)
            return [leaf for part in parts for leaf in part]
        return [node]

    def _named(self, name: ast.expr, held: ast.expr, *, within: bool = False) -> FoundProblems:
        """Find ``dataset_name == "zmumuu"`` where it is zmumu, and a number compared with a text.

        ``within`` says that the text may be a part of the name.
        """
        read = ast.unparse(name)
        values = [value for value in self._names.values.get(read, ()) if value is not None]
        constants = [node.value for node in self._nodes if isinstance(node, ast.Constant)]
        parts = held.elts if isinstance(held, ast.List | ast.Tuple | ast.Set) else [held]
        for text in (part.value for part in parts if isinstance(part, ast.Constant)):
            if text is None or (within and any(str(text) in str(value) for value in values)):
                continue
            mixed = {isinstance(value, str) for value in values} == {not isinstance(text, str)}
            if mixed and not within:
                yield f"{read} is {values[0]!r}: it is never equal to {text!r}", None
            elif isinstance(text, str) and read.startswith("dataset_") and text not in values:
                meant = next((value for value in map(str, values) if _is_slip(text, value)), text)
                if meant not in constants:  # others may be names of another day
                    yield f"no dataset has {read} {text!r}", f"did you mean {meant!r}?"

    def _power(self, node: ast.BinOp) -> FoundProblems:
        """Find ``x^2``, a power in ROOT's formulas: in Python, ``^`` compares bits."""
        number = ast.get_source_segment(self._text, node.right) or ""
        bits = (ast.Compare, ast.BitAnd, ast.BitOr, ast.Invert, ast.LShift, ast.RShift)
        of_bits = any(isinstance(part, bits) for part in ast.walk(node.left))
        if re.fullmatch(r"[-+]?[\d.]+", number) and not of_bits:
            yield (
                "'^' is not a power: use '**'",
                f"write ** {number}; if you mean bits, write a number such as 0x2",
            )

    def _one_event(self, node: ast.Subscript) -> FoundProblems:
        """Find ``pt[0]`` and ``pt[:1]``, where the first object of each event is meant."""
        first = (
            [*node.slice.elts, node.slice][0] if isinstance(node.slice, ast.Tuple) else node.slice
        )
        number = first.operand if isinstance(first, ast.UnaryOp) else first
        counted = isinstance(number, ast.Constant) and type(number.value) is int
        ranged = isinstance(first, ast.Slice) and (first.lower or first.upper or first.step)
        if isinstance(node.value, ast.Call):  # a function of the user's own may make a pair
            module = self._names.functions.get(ast.unparse(node.value.func), "").partition(":")[0]
            counted &= module in ("numpy", "awkward") or op_identity.is_published(module)
        if self._is_column(node.value) and (counted or ranged):
            read = ast.unparse(first)
            yield f"[{read}] selects one event of the partition, not one object of each event", None

    def _call(self, node: ast.Call) -> FoundProblems:
        """Find ``abs(x < 2)``: the number that a comparison gives is 0 or 1."""
        name, first = ast.unparse(node.func), node.args[0] if node.args else node.func
        reference = self._names.functions.get(name, "")
        module, _, attribute = reference.partition(":")
        function = getattr(np, attribute, None) if module == "numpy" else None
        if reference in _WHERE and len(node.args) + len(node.keywords) == 1:
            yield f"{name} with only a condition returns positions of events, not a column", None
        numeric = isinstance(function, np.ufunc) and function.nin == 1 and function not in _OF_FLAGS
        if (numeric or reference in _COUNTING) and self._is_condition(first):
            yield f"{name} is applied to a comparison: check the brackets", None
        if isinstance(node.func, ast.Attribute) and isinstance(node.func.value, ast.Dict):
            keys = [key for key in node.func.value.keys if key is not None]
            yield from self._named(first, ast.List(keys))  # {"dy": 1.2}.get(dataset_name, 1)

    def _whole_columns(self) -> FoundProblems:
        """Find ``[pt]`` and ``pt,``: each event would hold the column of all events."""
        holders = (ast.Call, ast.keyword, ast.Subscript, ast.Attribute, *_COLLECTIONS)
        held = {
            id(part)
            for node in self._nodes
            if isinstance(node, holders)
            for part in ast.iter_child_nodes(node)
        }
        for node in self._nodes:
            if isinstance(node, _COLLECTIONS) and id(node) not in held and self._is_column(node):
                problem = f"{ast.unparse(node)} would give each event the values of all events"
                hint = "write one column, not a list, tuple, dict or text of columns"
                yield problem, f"{hint}; decimals need a point: 20.5"

    def _is_column(self, node: ast.AST) -> bool:
        """Whether a value has an entry for each event, as far as can be told."""
        if isinstance(node, ast.Name):
            return node.id not in self._names.functions and node.id not in self._names.values
        return any(map(self._is_column, ast.iter_child_nodes(node)))

    def _is_condition(self, node: ast.expr) -> bool:
        """Whether a value is a yes or no for sure."""
        match node:
            case ast.Compare() | ast.UnaryOp(op=ast.Not()) | ast.Constant(value=bool()):
                return True
            case ast.UnaryOp(op=ast.Invert(), operand=part):
                return self._is_condition(part)
            case ast.BinOp(left, ast.BitAnd() | ast.BitOr() | ast.BitXor(), right):
                return self._is_condition(left) or self._is_condition(right)
            case ast.BinOp(left, ast.Add(), right):
                return self._is_condition(left) and self._is_condition(right)
            case ast.Name(name):
                values = self._names.values.get(name, ())
                return bool(values) and all(isinstance(value, bool) for value in values)
        return False

    def _in_brackets(self, node: ast.expr) -> bool:
        """Whether a part stands in brackets of its own."""
        text = self._text.encode()
        lines = text.splitlines(keepends=True)
        start = len(b"".join(lines[: node.lineno - 1])) + node.col_offset
        end = len(b"".join(lines[: (node.end_lineno or 1) - 1])) + (node.end_col_offset or 0)
        return text[:start].rstrip().endswith(b"(") and text[end:].lstrip().startswith(b")")


def _asks_for_any(sign: ast.cmpop, other: ast.expr) -> bool:
    """Whether a comparison with a sum asks whether it is 0: ``> 0``, ``>= 1``."""
    value = other.value if isinstance(other, ast.Constant) else None
    return value == 0 or (value == 1 and isinstance(sign, ast.GtE | ast.Lt))


def _is_slip(text: str, name: str) -> bool:
    """Whether a name is meant by a text; a name with another number is another name."""
    plain, other = re.sub(r"\d+", "", text), re.sub(r"\d+", "", name)
    return text.lower() == name.lower() or (
        len(text) > 3 and plain != other and is_slip(text, name)
    )

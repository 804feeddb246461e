"""Findings about expressions that FAST-HEP reads in another way than they are meant.

Its expressions are Python's, and their values are columns: ``and`` asks a whole column whether it
is true, and ``&`` binds more strongly than ``>``. Such an expression ends each job with an error,
or lets events pass that it was to cut. Which texts are expressions is what FAST-HEP's own analysis
of the compiled plan says; an operation that is not FAST-HEP's may read its own in another way.
"""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from fasthep_smk.flow import op_identity, upstream
from fasthep_smk.flow.expression_forms import odd_forms
from fasthep_smk.flow.patches.parsed_expressions import parsed_expressions
from fasthep_smk.flow.places import mapping, place_of, stages_by_id
from fasthep_smk.flow.reads import CATEGORY, dependency_context, full_registry, is_published
from fasthep_smk.flow.syntax_hints import as_python
from fasthep_smk.flow.unknown_functions import instead_of
from fasthep_smk.flow.upstream import ExecutionNode, ExecutionPlan
from fasthep_smk.util.errors import Finding, is_slip

__all__ = ["expression_findings", "is_elementwise"]

_ORDER = (ast.Lt, ast.LtE, ast.Gt, ast.GtE)
_LOGIC = (ast.BitAnd, ast.BitOr)
_BITS = ast.BitAnd | ast.BitOr | ast.Invert | ast.LShift | ast.RShift
_SIGNS = {ast.And: ("and", "&"), ast.Or: ("or", "|"), ast.BitAnd: ("", "&"), ast.BitOr: ("", "|")}
#: What people import in Python, and an expression does not have.
_MODULES = ("np", "numpy", "ak", "awkward", "math")
_CONSTANTS = {
    f"{module}.{name}": getattr(math, name) for module in _MODULES for name in ("pi", "e")
}
#: Methods of numpy's arrays and of C++, which a column does not have.
_METHODS = ("size", "len", "length", "count", "sum", "mean", "max", "min", "any", "all", "std")
#: Functions of numbers; that of a comparison is a slip.
_OF_NUMBERS = ("abs", "sqrt", "log", "exp")
_NUMBER = re.compile(r"[+-]?\d+(\.\d*)?([eE][+-]?\d+)?")
#: A decimal comma.
_COMMA = re.compile(r"(?<![\w.])(\d+),(\d+)(?![\w.])")
_BRACKETS = "put each comparison into brackets: (a > 1) {0} (b < 2)"


def expression_findings(
    plan: ExecutionPlan, document: Mapping[str, object], *, workflow: str
) -> list[Finding]:
    """Return the expressions of a compiled plan that cannot mean what they say."""
    registry = full_registry(plan)
    context = dependency_context(plan, registry)
    names = _Names(
        scalars=frozenset(context.context_symbols | context.known_constants),
        functions={
            name: _function(mapping(registry.get("functions")).get(name))
            for name in context.known_functions
        },
        elementwise=frozenset(
            name
            for name, reference in (registry.get("functions") or {}).items()
            if is_elementwise(str(reference))
        ),
        values=_dataset_values(plan),
    )
    written = stages_by_id(document)
    found: dict[tuple[str, str], Finding] = {}
    for node in plan.nodes:
        if not is_published(plan.registry, CATEGORY[node.role], node.impl):
            continue
        stage = str(dict(node.meta or {}).get("stage_id") or node.id)
        for text in _expressions(plan, node, context):
            for problem, hint in _Reading(text, names).problems():
                key, content = written.get(stage, (f"analysis.stages[{stage!r}]", {}))
                found.setdefault(
                    (stage, text),
                    Finding(
                        file=workflow,
                        key=place_of(f"{key}.params", content.get("params"), text),
                        problem=problem,
                        value=text,
                        hint=hint,
                    ),
                )
                break  # one mistake often looks like several
    return list(found.values())


def _function(reference: object) -> Callable[..., object] | None:
    """Return a published function; another may take what its signature does not say."""
    if not isinstance(reference, str) or not is_elementwise(reference):
        return None
    found = upstream.load_object(reference)
    return found if callable(found) else None


def is_elementwise(reference: str) -> bool:
    """Whether a function makes a column of columns, as far as is known."""
    module = reference.partition(":")[0]
    return module in ("numpy", "awkward") or op_identity.is_published(module)


def _dataset_values(plan: ExecutionPlan) -> dict[str, tuple[str, ...]]:
    datasets = mapping(plan.context.get("datasets"))
    return {
        "dataset_name": tuple(map(str, datasets)),
        **{
            f"dataset_{key}": tuple(str(mapping(one).get(key)) for one in datasets.values())
            for key in ("group", "eventtype")
        },
    }


def _expressions(plan: ExecutionPlan, node: ExecutionNode, context: object) -> list[str]:
    if node.role != "transform":
        return []
    spec = upstream.component_spec_for_node(node, plan.registry)
    if spec is None:
        return []
    with parsed_expressions() as texts:
        try:
            upstream.parse_component_data_dependencies(
                spec=spec, params=dict(node.params), dep_ctx=context
            )
        except Exception:
            return []  # the compiler raised already if this mattered
    return list(dict.fromkeys(texts))


@dataclass(frozen=True)
class _Names:
    """The names in expressions that are no columns; ``elementwise`` functions make columns."""

    scalars: frozenset[str]
    functions: Mapping[str, Callable[..., object] | None]
    elementwise: frozenset[str]
    #: What the names of a dataset's own can be: dataset_name, dataset_group, dataset_eventtype.
    values: Mapping[str, tuple[str, ...]]


class _Reading:
    """An expression as Python reads it."""

    def __init__(self, text: str, names: _Names) -> None:
        self._names = names
        self._source = as_python(text)
        self._tree = ast.parse(self._source, mode="eval")

    def problems(self) -> Iterator[tuple[str, str | None]]:
        """Yield what is wrong and what to write, the plainest mistake first."""
        nodes = list(ast.walk(self._tree))
        for node in nodes:
            if isinstance(node, ast.Compare):
                yield from self._comparison(node)
                yield from self._compared(node)
        for node in nodes:
            if isinstance(node, ast.BoolOp) and any(map(self._is_column, node.values[:-1])):
                word, sign = _SIGNS[type(node.op)]
                hint = _BRACKETS.format(sign)
                yield f"{word!r} does not combine columns: {sign!r} does", hint
            turned = isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not)
            if isinstance(node, ast.UnaryOp) and turned and self._is_column(node.operand):
                yield "'not' does not negate a column: '~' does", "write ~(…)"
            if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitXor):
                yield from self._power(node)
            if isinstance(node, ast.IfExp) and self._is_column(node.test):
                yield "'if' asks a whole column", "write where(condition, this, that)"
            if isinstance(node, ast.Attribute) and ast.unparse(node) in _CONSTANTS:
                yield (
                    f"an expression has no module {ast.unparse(node.value)!r}",
                    f"write {_CONSTANTS[ast.unparse(node)]}",
                )
            if isinstance(node, ast.Call):
                yield from self._call(node)
                yield from self._moved_bracket(node)
        if any(isinstance(part, ast.Tuple) for part in _values(self._tree)):
            written = _COMMA.search(self._source)
            point = f"write {written[1]}.{written[2]}" if written else None
            yield "a comma makes two values of it", point
        yield from odd_forms(self._tree, self._names.functions, self._is_column)

    def _comparison(self, node: ast.Compare) -> Iterator[tuple[str, str | None]]:
        first, *others = node.ops
        right = node.comparators[0]
        swallowed = [
            part
            for part in (node.left, *node.comparators)
            if isinstance(part, ast.BinOp)
            and isinstance(part.op, _LOGIC)
            and not self._in_brackets(part)
        ]
        if others and any(map(self._is_column, [node.left, *node.comparators])):
            if swallowed and not _is_whole(swallowed[0]):
                yield self._strong(swallowed[0])
            else:
                yield (
                    "a column cannot be compared with two things at once",
                    "write two comparisons: (a < x) & (x < b)",
                )
            return
        if not swallowed:
            flipped = node.left
            if (
                isinstance(flipped, ast.UnaryOp)
                and isinstance(flipped.op, ast.Invert)
                and isinstance(first, _ORDER)
                and not _is_negative(right)  # ~ turns the bits of a number: -1, -2, …
            ):
                yield "'~' binds more strongly than the comparison", "write ~(a > 1)"
            return
        if right in swallowed and self._cuts(node.left, first, right):
            yield self._strong(right)
        elif node.left in swallowed and isinstance(first, _ORDER) and self._flags(node.left, right):
            yield self._strong(node.left)

    def _compared(self, node: ast.Compare) -> Iterator[tuple[str, str | None]]:
        """Find what cannot be compared: each job would fail, or no event would pass."""
        parts = [node.left, *node.comparators]
        for one, other in (parts[:2], parts[1::-1]):
            if isinstance(node.ops[0], ast.Eq | ast.NotEq | ast.In | ast.NotIn):
                yield from self._dataset_value(one, other)
        if not any(map(self._is_column, parts)):
            return
        for sign, *sides in zip(node.ops, parts, node.comparators, strict=False):
            for part in sides:
                value = part.value if isinstance(part, ast.Constant) else None
                if isinstance(value, str) and isinstance(sign, _ORDER):
                    number = value.strip()
                    hint = f"write {number}" if _NUMBER.fullmatch(number) else None
                    yield "a column of numbers cannot be above or below a text", hint

    def _dataset_value(self, name: ast.expr, held: ast.expr) -> Iterator[tuple[str, str | None]]:
        """Find ``dataset_name == "zmumuu"`` where a dataset is named zmumu."""
        known = self._names.values.get(name.id, ()) if isinstance(name, ast.Name) else ()
        parts = held.elts if isinstance(held, ast.Tuple | ast.List | ast.Set) else [held]
        texts = [one.value for one in parts if isinstance(one, ast.Constant)]
        said = {one.value for one in ast.walk(self._tree) if isinstance(one, ast.Constant)}
        for text in texts:
            close = _meant(text, known) if isinstance(text, str) else None
            if close is not None and close not in said:
                yield f"no dataset has {ast.unparse(name)} {text!r}", f"did you mean {close!r}?"

    def _cuts(self, left: ast.expr, sign: ast.cmpop, right: ast.expr) -> bool:
        """Whether ``pt > 20 & good`` is meant as two cuts, not as a test of bits."""
        assert isinstance(right, ast.BinOp)
        number = right.left.operand if isinstance(right.left, ast.UnaryOp) else right.left
        meant = isinstance(sign, _ORDER) or isinstance(number, ast.Constant)
        return meant and not isinstance(left, ast.Constant) and not _is_whole(right)

    def _flags(self, left: ast.expr, right: ast.expr) -> bool:
        """Whether ``good & n > 2`` is meant as two cuts; ``flags & 4 > 0`` asks for a bit."""
        assert isinstance(left, ast.BinOp)
        bits = (left.left, left.right, right)
        whole = [one for one in bits[:2] if isinstance(one, ast.Constant)]
        zero = isinstance(right, ast.Constant) and right.value == 0
        columns = all(map(self._is_column, bits[:2]))
        return columns and not whole and not zero

    def _strong(self, node: ast.expr) -> tuple[str, str]:
        assert isinstance(node, ast.BinOp)
        sign = _SIGNS[type(node.op)][1]
        read = ast.get_source_segment(self._source, node) or ast.unparse(node)
        problem = f"{sign!r} binds more strongly than a comparison: this compares with ({read})"
        return problem, _BRACKETS.format(sign)

    def _power(self, node: ast.BinOp) -> Iterator[tuple[str, str | None]]:
        """Find ``x^2``, a power in ROOT's formulas: in Python, ``^`` compares bits."""
        if self._is_column(node.left) and self._is_plain_number(node.right):
            if any(isinstance(part, ast.Compare | _BITS) for part in ast.walk(node.left)):
                return  # bits or flags are meant
            power = ast.unparse(ast.BinOp(node.left, ast.Pow(), node.right))
            bits = ast.unparse(ast.BinOp(node.right, ast.BitXor(), node.left))
            yield "'^' is no power: '**' is", f"write {power}; for the bit operation {bits}"

    def _is_plain_number(self, node: ast.expr) -> bool:
        """Whether a part is a number as powers are written: ``2``, ``-1``, ``0.5``; no ``0x2``."""
        number = node.operand if isinstance(node, ast.UnaryOp) else node
        if not isinstance(number, ast.Constant) or type(number.value) not in (int, float):
            return False
        written = ast.get_source_segment(self._source, number) or ""
        return written[:2].lower() not in ("0x", "0b", "0o")

    def _call(self, node: ast.Call) -> Iterator[tuple[str, str | None]]:
        called = node.func
        functions = frozenset(self._names.functions)
        known = functions | self._names.scalars
        if isinstance(called, ast.Name) and called.id not in known:
            hint = instead_of(called.id, node.args, functions)
            yield f"there is no function {called.id!r}", hint
        if isinstance(called, ast.Attribute):
            held = ast.unparse(called.value)
            if held.partition(".")[0] in _MODULES and held.partition(".")[0] not in known:
                hint = instead_of(called.attr, node.args, functions)
                yield f"an expression has no module {held!r}", hint
            elif called.attr in _METHODS and self._is_column(called.value):
                hint = instead_of(called.attr, [called.value], functions)
                yield f"a column has no method {called.attr!r}", hint

    def _moved_bracket(self, node: ast.Call) -> Iterator[tuple[str, str | None]]:
        """Find ``abs(x < 2)``: the number that a comparison gives is 0 or 1."""
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        first = node.args[0] if len(node.args) == 1 and not node.keywords else None
        if name in _OF_NUMBERS and isinstance(first, ast.Compare) and len(first.ops) == 1:
            call = ast.Call(node.func, [first.left], [])
            meant = ast.unparse(ast.Compare(call, first.ops, first.comparators))
            yield f"{name} of a comparison: a bracket is in the wrong place", f"write {meant}"

    def _is_column(self, node: ast.expr) -> bool:
        """Whether the value has one entry for each event, as far as can be told."""
        if isinstance(node, ast.Name):
            return node.id not in self._names.functions and node.id not in self._names.scalars
        if isinstance(node, ast.Compare):
            if all(isinstance(one, ast.Is | ast.IsNot) for one in node.ops):
                return False
            return any(map(self._is_column, [node.left, *node.comparators]))
        if isinstance(node, ast.BinOp):
            return self._is_column(node.left) or self._is_column(node.right)
        if isinstance(node, ast.UnaryOp):
            return self._is_column(node.operand)
        if isinstance(node, ast.Call):
            made = isinstance(node.func, ast.Name) and node.func.id in self._names.elementwise
            return made and any(map(self._is_column, node.args))
        return False

    def _in_brackets(self, node: ast.expr) -> bool:
        """Whether a part stands in brackets of its own."""
        before = self._source[: self._at(node.lineno, node.col_offset)].rstrip()
        after = self._source[self._at(node.end_lineno, node.end_col_offset) :].lstrip()
        return before.endswith("(") and after.startswith(")")

    def _at(self, line: int | None, column: int | None) -> int:
        lines = self._source.splitlines(keepends=True)
        start = len("".join(lines[: (line or 1) - 1]))
        text = lines[(line or 1) - 1].encode()[: column or 0]
        return start + len(text.decode())


def _values(tree: ast.Expression) -> Iterator[ast.expr]:
    """Yield the parts of an expression that must be single values."""
    yield tree.body
    for node in ast.walk(tree):
        if isinstance(node, ast.BinOp):
            yield from (node.left, node.right)
        if isinstance(node, ast.BoolOp):
            yield from node.values
        if isinstance(node, ast.UnaryOp):
            yield node.operand
        if isinstance(node, ast.Compare):
            yield node.left


def _is_whole(node: ast.expr) -> bool:
    """Whether a part combines the bits of two numbers: ``1 | 2``."""
    return isinstance(node, ast.BinOp) and all(
        isinstance(one, ast.Constant) for one in (node.left, node.right)
    )


def _is_negative(node: ast.expr) -> bool:
    return isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub)


def _meant(text: str, known: Iterable[str]) -> str | None:
    """Return the known name that a text is nearly; one of another number is another name."""
    known = list(known)
    if text in known:
        return None
    for name in known:
        plain = (re.sub(r"\d+", "", text), re.sub(r"\d+", "", name))
        other = plain[0] == plain[1] and text != name
        if text.lower() == name.lower() or (len(text) > 3 and not other and is_slip(text, name)):
            return name
    return None

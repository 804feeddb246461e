"""Findings about histograms that would lack events, weights or categories, or fail in each job.

The parameters are those of the compiled plan, in which FAST-HEP has made all axes.
"""

from __future__ import annotations

import ast
import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import pairwise

from fasthep_smk.flow import upstream
from fasthep_smk.flow.places import mapping
from fasthep_smk.flow.reads import is_published
from fasthep_smk.flow.upstream import ExecutionNode, ExecutionPlan
from fasthep_smk.util.documents import YamlMapping
from fasthep_smk.util.errors import Finding, nearest
from fasthep_smk.util.yaml_values import as_yaml

__all__ = ["histogram_findings", "told_of_axes"]

_OP = "hep.hist"
#: What an axis takes its values from, if not from a column.
_DATASET, _VARIATION = "dataset_name", "__variation__"
_NOMINAL = "nominal"
#: The parameters of `hist.Hist.fill`, which takes the values of an axis by the axis' name.
FILL_PARAMETERS = ("self", "weight", "sample", "threads")
#: What other packages call an axis whose bins differ in width.
_OF_WIDTHS = ("variable", "var", "edges", "irregular")
_WIDTHS = (
    "FAST-HEP has no bins of different widths: take narrow ones, type: regular with bins: "
    "{low: …, high: …, nbins: …}, and merge them afterwards"
)


def histogram_findings(plan: ExecutionPlan, *, workflow: str) -> list[Finding]:
    """Return what is wrong with the histograms of a plan."""
    found: list[Finding] = []
    for node in plan.nodes:
        if node.impl != _OP or not is_published(plan.registry, "transforms", _OP):
            continue
        stage = dict(node.meta or {}).get("stage_id")
        key = f"analysis.stages[{stage!r}].params"
        datasets = [
            dict(content)
            for content in (plan.context.get("datasets") or {}).values()
            if upstream.node_applies_to_plan_dataset(node, dataset=dict(content))
        ]
        found += _of_axes(node, datasets, key, workflow)
        found += _of_weights(node, key, workflow)
        known = _eventtypes(plan)
        found += _of_variations(node, datasets, known, f"{key}.variations", workflow)
    return found


def told_of_axes(found: list[Finding], params: YamlMapping, key: str) -> list[Finding]:
    """Return findings about parameters with hints for the binnings that FAST-HEP does not have.

    What stands beside a type that does not exist is not told as well.
    """
    told: list[Finding] = []
    listed = params.get("axes")
    axes = {f"{key}.axes[{n}]": a for n, a in enumerate(listed if isinstance(listed, list) else ())}
    for one in found:
        start, _, rest = (one.key or "").rpartition(".")
        axis = mapping(axes.get(start))
        kind, bins = axis.get("type"), axis.get("bins")
        other = isinstance(kind, str) and kind.lower() in _OF_WIDTHS
        if other and rest == "type":
            told.append(replace(one, hint=_WIDTHS))
        elif other:
            continue
        elif rest == "bins" and kind == "regular" and isinstance(bins, list):
            told.append(replace(one, hint=_of_list(bins)))
        else:
            told.append(one)
    return told


def _of_list(bins: list[object]) -> str:
    """Return what to write for bins as ROOT takes them, or by their edges."""
    numbers = [one for one in bins if isinstance(one, int | float) and not isinstance(one, bool)]
    if len(numbers) == len(bins) == 3 and isinstance(numbers[0], int) and numbers[1] < numbers[2]:
        return f"write {{low: {bins[1]}, high: {bins[2]}, nbins: {bins[0]}}}"
    widths = {round(b - a, 9) for a, b in pairwise(numbers)}
    if len(widths) == 1 and len(numbers) == len(bins):
        return f"write {{low: {bins[0]}, high: {bins[-1]}, nbins: {len(bins) - 1}}}"
    return _WIDTHS


def _eventtypes(plan: ExecutionPlan) -> list[str]:
    """Return the event types that the datasets of a plan have."""
    datasets = (plan.context.get("datasets") or {}).values()
    return list(dict.fromkeys(str(mapping(one).get("eventtype")) for one in datasets))


def _of_axes(
    node: ExecutionNode, datasets: list[dict[str, object]], key: str, workflow: str
) -> Iterator[Finding]:
    listed = node.params.get("axes")
    axes = [mapping(axis) for axis in (listed if isinstance(listed, list) else ())]
    names = [str(axis.get("name")) for axis in axes]
    for number, axis in enumerate(axes):
        kind, bins, source = axis.get("type"), axis.get("bins"), axis.get("source")
        place = f"{key}.axes[{str(axis.get('name'))!r}]"
        if names.index(names[number]) != number:
            yield Finding(
                file=workflow,
                key=f"{place}.name",
                problem="two axes of the histogram have this name",
                value=as_yaml(names[number]),
                expected="a name for each axis",
                hint="dataset_axis: true makes an axis 'dataset'"
                if source != _VARIATION and names[number] == "dataset"
                else None,
            )
        if names[number] in FILL_PARAMETERS:
            yield Finding(
                file=workflow,
                key=f"{place}.name",
                problem="no axis can have this name: hist.fill has a parameter of that name",
                value=as_yaml(names[number]),
                expected="another name",
            )
        if isinstance(source, str) and source not in (_DATASET, _VARIATION):
            yield from _of_source(source, place, workflow)
        if bins is None:
            continue
        if kind == "int" or (kind == "category" and not isinstance(bins, list)):
            yield Finding(
                file=workflow,
                key=f"{place}.bins",
                problem=f"an axis of type {kind} does not read these bins: "
                "it has one for each value that occurs",
                value=as_yaml(bins),
                expected="type: regular, or no bins"
                if kind == "int"
                else "a list of categories, or no bins",
            )
        if kind == "regular" and isinstance(bins, dict):
            yield from _of_edges(bins, f"{place}.bins", workflow)
        if kind == "category" and isinstance(bins, list):
            yield from _of_categories(bins, source, datasets, f"{place}.bins", workflow)


def _of_source(source: str, place: str, workflow: str) -> Iterator[Finding]:
    try:
        tree = ast.parse(source.strip(), mode="eval").body
    except SyntaxError:
        return  # a column may have any name
    if isinstance(tree, ast.BinOp | ast.UnaryOp | ast.Call | ast.Compare | ast.BoolOp | ast.IfExp):
        yield Finding(
            file=workflow,
            key=f"{place}.source",
            problem="is an expression: an axis takes a column by its name",
            value=as_yaml(source),
            expected="the name of a column",
            hint="let a stage with op: hep.define make the column",
        )


def _of_edges(bins: Mapping[str, object], place: str, workflow: str) -> Iterator[Finding]:
    for name in ("low", "high"):
        try:
            edge = float(str(bins.get(name)))
        except ValueError:
            continue  # told by the schema
        if not math.isfinite(edge):
            yield Finding(
                file=workflow,
                key=f"{place}.{name}",
                problem="is not a finite number",
                value=as_yaml(bins[name]),
                expected="a number",
            )


def _of_categories(
    bins: list[object],
    source: object,
    datasets: list[dict[str, object]],
    place: str,
    workflow: str,
) -> Iterator[Finding]:
    listed = [str(one) for one in bins]
    counted = Counter(listed)
    twice = next((one for one in listed if counted[one] > 1), None)
    if twice is not None:
        yield Finding(
            file=workflow,
            key=place,
            problem="holds a category twice",
            value=as_yaml(twice),
            expected="each category once",
        )
    if source != _DATASET:
        return
    names = [str(one.get("name")) for one in datasets]
    unused = [one for one in counted if one not in set(names)]
    for name in names:
        # A histogram of some of the datasets is right: all that it lists are there.
        if unused and name not in counted:
            close = nearest(name, unused)
            yield Finding(
                file=workflow,
                key=place,
                problem=f"holds no category {name!r}: the events of that dataset would be lost",
                value=", ".join(listed),
                expected="all datasets, or no bins",
                hint=f"{close!r} is no dataset: write {name!r}" if close else "leave the bins out",
            )


def _of_weights(node: ExecutionNode, key: str, workflow: str) -> Iterator[Finding]:
    weight, variations = node.params.get("weight_expr"), node.params.get("variations")
    storage = node.params.get("storage")
    if variations is not None and weight is not None:
        yield Finding(
            file=workflow,
            key=f"{key}.weight_expr",
            problem="is not used: variations.weights holds the weights",
            value=as_yaml(weight),
            expected="no weight_expr, and 'nominal' among variations.weights",
            hint=f"write variations: {{weights: {{nominal: {weight}}}}}",
        )
    if variations is not None and storage == "count":
        yield Finding(
            file=workflow,
            key=f"{key}.storage",
            problem="variations need weights",
            value=as_yaml(storage),
            expected="storage: weighted",
        )
    if storage == "weighted" and variations is None and not str(weight or "").strip():
        yield Finding(
            file=workflow,
            key=f"{key}.storage",
            problem="a weighted histogram has no weight_expr",
            value=as_yaml(storage),
            expected="weight_expr: a column or an expression; or storage: count",
        )


def _of_variations(
    node: ExecutionNode,
    datasets: list[dict[str, object]],
    known: list[str],
    key: str,
    workflow: str,
) -> Iterator[Finding]:
    variations = mapping(node.params.get("variations"))
    weights = mapping(variations.get("weights"))
    apply_to = variations.get("apply_to")
    wanted = mapping(apply_to).get("eventtype")
    if wanted is None:
        if isinstance(apply_to, dict) and set(apply_to) <= {"eventtype"}:
            yield Finding(
                file=workflow,
                key=f"{key}.apply_to",
                problem="names no eventtype",
                expected="eventtype: data or mc",
            )
        return
    if str(wanted) not in known and not _is_absent(str(wanted), known):
        close = nearest(str(wanted), known)
        yield Finding(
            file=workflow,
            key=f"{key}.apply_to.eventtype",
            problem="no dataset has this eventtype (as it is written): no weight would be applied",
            value=as_yaml(wanted),
            expected=" or ".join(known),
            hint=f"did you mean {close!r}?" if close else None,
        )
        return
    outside = [one for one in datasets if str(one.get("eventtype")) != str(wanted)]
    if weights and outside and _NOMINAL not in weights:
        name = str(outside[0].get("name"))
        yield Finding(
            file=workflow,
            key=f"{key}.weights",
            problem=f"has no {_NOMINAL!r}: the events of {name!r}, to which apply_to does not "
            "apply, would be lost",
            value=", ".join(map(str, weights)),
            expected=f"{_NOMINAL}: a weight",
        )


def _is_absent(wanted: str, known: list[str]) -> bool:
    """Whether an event type is right, and this run happens to have no dataset of it."""
    return wanted in ("data", "mc") and wanted not in [one.lower() for one in known]

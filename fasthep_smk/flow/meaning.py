"""Findings about compiled plans that would silently compute something else than was meant.

What fails is found by the compiler, or with the first events. Here stands what does not: a
histogram that lacks events, a variation that varies nothing, a plot that lacks a dataset.
"""

from __future__ import annotations

import ast
import contextlib
from collections.abc import Collection, Iterator, Mapping, Sequence

from fasthep_smk.config import schema
from fasthep_smk.flow import upstream
from fasthep_smk.flow.context_use import OF_CONTEXT, sees_variation
from fasthep_smk.flow.expression_rules import expression_findings, expressions_of
from fasthep_smk.flow.places import (
    as_python,
    mapping,
    named,
    node_place,
    place_of,
    stages_by_id,
    variations_of,
)
from fasthep_smk.flow.reads import (
    CATEGORY,
    dependency_context,
    full_registry,
    is_published,
    references,
    user_hooks,
)
from fasthep_smk.flow.upstream import ExecutionNode, ExecutionPlan
from fasthep_smk.flow.vocabulary import Vocabulary
from fasthep_smk.util.documents import YamlMapping
from fasthep_smk.util.errors import Doubt, Finding, is_slip, nearest
from fasthep_smk.util.yaml_values import key_of

_RENDERERS = "hep.render."
#: Plots with the label of an experiment, which is CMS by default.
_LABELLED = (f"{_RENDERERS}hist1d", f"{_RENDERERS}data_mc")
_DATASET_AXES = ("dataset", "dataset_name")
#: Where FAST-HEP's compiler replaces a name.
_REPLACED = (
    "a name in a weight_expr, in the expr of a variable, in a selection list, or in the source of "
    "an axis; variations cannot replace names in the groups of a cutflow or in a reduce"
)


def meaning_findings(
    plans: Sequence[ExecutionPlan], document: Mapping[str, object], *, workflow: str
) -> list[Finding]:
    """Return what the plans of a workflow would do otherwise than it says.

    The plans differ by their systematic variations: what is wrong with the stages is told of the
    first.
    """
    findings: list[Finding] = []
    for plan in plans[:1]:
        findings += expression_findings(plans, document, workflow=workflow)
        findings += _of_columns(plan, workflow)
        findings += _of_histograms(plan, workflow)
        findings += _of_patches(plan, document, workflow)
        findings += _of_plots(plan, document, workflow)
    changed: dict[str, str] = {}
    varied = [plan for plan in plans if not _is_nominal(plan)]
    if len(varied) == len(plans) and "include_nominal" not in mapping(document.get("systematics")):
        problem = "has no include_nominal: only the variations run"
        findings.append(
            Doubt(file=workflow, key="systematics", problem=problem, expected="true or false")
        )
    for plan in varied:
        if _is_seen(plan):
            continue
        findings += _unchanged(plan, document, workflow)
        findings += _of_changes(plan, document, changed, workflow)
    return list(
        {(finding.key, finding.problem, finding.value): finding for finding in findings}.values()
    )


def _is_nominal(plan: ExecutionPlan) -> bool:
    return bool(mapping(plan.context.get("variation")).get("is_nominal", True))


def hidden_findings(
    plan: ExecutionPlan,
    document: YamlMapping,
    listed: Collection[str],
    branches: Collection[str],
    *,
    workflow: str,
) -> list[Finding]:
    """Return the names that stand for something else than a column in expressions.

    There, a constant goes before a column, and FAST-HEP's context, which has the globals, before
    both. ``listed`` are branches that the workflow names, ``branches`` those of its files.
    """
    registry = full_registry(plan)
    values, constants = mapping(plan.context.get("globals")), mapping(registry.get("constants"))
    read = {name for _, text in expressions_of(plan) for name in _names(text)}
    origins = mapping(mapping(plan.data_flow).get("origins"))
    columns = {*listed, *origins, *(read & set(branches))}
    own = "is a name that FAST-HEP uses itself"
    why = dict.fromkeys(columns, "hides a column that expressions read")
    problems = {
        key_of("registry.constants", [name]): why[name] for name in constants if name in why
    }
    why = dict.fromkeys(constants, "hides a constant of the same name") | why
    why |= dict.fromkeys((*plan.context, *OF_CONTEXT), own)
    problems |= {key_of("analysis.globals", [name]): why[name] for name in values if name in why}
    hooked = dependency_context(plan, registry).context_symbols - values.keys()
    for name in sorted(read & hooked & origins.keys()):  # a column that a stage makes
        key = place_of("analysis", document.get("analysis"), name)
        problems[named(key, document)] = own
    hint = "rename it here and where it is used"
    return [Finding(file=workflow, key=key, problem=problems[key], hint=hint) for key in problems]


def _names(text: str) -> set[str]:
    """Return the names in an expression, those of functions among them."""
    try:
        nodes = ast.walk(ast.parse(as_python(text)))
    except SyntaxError:  # which is told of itself
        return set()
    return {node.id for node in nodes if isinstance(node, ast.Name)}


def _of_fasthep(plan: ExecutionPlan, op: str) -> list[ExecutionNode]:
    """Return the nodes of an operation, if it is FAST-HEP's."""
    published = is_published(plan.registry, "transforms", op)
    return [node for node in plan.nodes if node.impl == op and published]


def _of_columns(plan: ExecutionPlan, workflow: str) -> Iterator[Finding]:
    """Yield variables that are defined twice in a stage, and the first is read by nothing."""
    for node in _of_fasthep(plan, "hep.define"):
        unread: set[str] = set()
        for number, variable in enumerate(_mappings(node.params.get("variables"))):
            name, reduced = str(variable.get("name")), mapping(variable.get("reduce"))
            unread -= _names(str(variable.get("expr", reduced.get("over", ""))))
            if name in unread:
                yield Doubt(
                    file=workflow,
                    key=f"{node_place(node)}.variables[{number}].name",
                    problem=f"this stage defines {name!r} twice, and nothing reads the first one",
                )
            unread.add(name)


def _of_histograms(plan: ExecutionPlan, workflow: str) -> Iterator[Finding]:
    """Yield axes without a category, and variations without a weight, for some of the datasets."""
    contents = [dict(dataset) for dataset in (plan.context.get("datasets") or {}).values()]
    for node in _of_fasthep(plan, "hep.hist"):
        active = [
            dataset
            for dataset in contents
            if upstream.node_applies_to_plan_dataset(node, dataset=dataset)
        ]
        names = [str(dataset.get("name")) for dataset in active]
        for axis in _mappings(node.params.get("axes")):
            bins = axis.get("bins")
            if axis.get("source") == "dataset_name" and isinstance(bins, list):
                key = f"{node_place(node)}.axes[{str(axis.get('name'))!r}].bins"
                yield from _of_categories(
                    [str(category) for category in bins], names, key, workflow
                )
        variations = mapping(node.params.get("variations"))
        wanted = mapping(variations.get("apply_to")).get("eventtype")
        outside = [dataset for dataset in active if str(dataset.get("eventtype")) != str(wanted)]
        weights = mapping(variations.get("weights"))
        seen: dict[str, str] = {}
        for name, weight in ((str(key), weight) for key, weight in weights.items()):
            same = seen.setdefault(str(weight), name)
            if same not in (name, "nominal"):  # of one side only, the other is the nominal one
                key = key_of(f"{node_place(node)}.variations.weights", [name])
                yield Doubt(file=workflow, key=key, problem=f"has the same weight as {same!r}")
        if wanted and outside and "nominal" not in weights:
            name = str(outside[0].get("name"))
            yield Finding(
                file=workflow,
                key=f"{node_place(node)}.variations.weights",
                problem=f"has no 'nominal': the events of {name!r} would be lost, since apply_to "
                "does not include them",
                value=", ".join(map(str, weights)),
                expected="nominal: a weight",
            )


def _of_categories(
    bins: list[str], datasets: list[str], key: str, workflow: str
) -> Iterator[Finding]:
    unused = [category for category in bins if category not in datasets]
    for name in datasets if unused else ():  # a histogram of some of the datasets is right
        if name not in bins:
            close = nearest(name, unused)
            yield Finding(
                file=workflow,
                key=key,
                problem=f"holds no category {name!r}: the events of that dataset would be lost",
                value=", ".join(bins),
                expected="bins for all datasets, or no bins",
                hint=f"{close!r} is not a dataset: write {name!r}" if close else None,
            )


def _of_patches(
    plan: ExecutionPlan, document: Mapping[str, object], workflow: str
) -> Iterator[Finding]:
    """Yield parameters of inline variations that one of FAST-HEP's operations does not read."""
    vocabulary = Vocabulary(document)
    for node in plan.nodes:
        meta = dict(node.meta or {})
        op, original = str(node.impl), meta.get("variation_of")
        if original is None or node.params == plan.get_node(str(original)).params:
            continue
        if is_published(plan.registry, "transforms", op) and schema.holds(op):
            key = f"{_template(mapping(meta.get('variation')), document)}.patch"
            yield from vocabulary.findings(node.params, op, file=workflow, key=key)


def _of_plots(
    plan: ExecutionPlan, document: Mapping[str, object], workflow: str
) -> Iterator[Finding]:
    """Yield what is wrong with complete styles: FAST-HEP has put together what each is made of."""
    datasets = mapping(plan.context.get("datasets"))
    names = [str(name) for name in datasets]
    groups = [str(mapping(content).get("group") or name) for name, content in datasets.items()]
    vocabulary, labelled = Vocabulary(document), False
    if names:
        vocabulary.names |= {"drawn datasets": names, "drawn groups": groups}
    for node in plan.nodes:
        op = str(node.impl)
        if not op.startswith(_RENDERERS) or not is_published(plan.registry, "sinks", op):
            continue
        spec = mapping(node.params.get("spec"))
        then = mapping(mapping(spec.get("project")).get("then"))
        if f"{_RENDERERS}data_mc" not in (op, then.get("op")):
            spec = {name: value for name, value in spec.items() if name != "data_mc"}
        vocabulary.names["axes"] = _axes(plan, node)
        if names:
            listed = [*_mappings(spec.get("transforms")), *_mappings(then.get("transforms"))]
            groupings = [mapping(transform.get("by")) for transform in listed]
            grouped = [str(name) for by in groupings for name in by]
            vocabulary.names["drawn"] = [*names, *groups, *grouped]
        key = _style_key(node, document)
        data = mapping(spec.get("data_mc")).get("data")
        if mapping(datasets.get(str(data))).get("eventtype") == "mc":
            problem = f"dataset {data!r} is simulation: its eventtype is mc"
            yield Doubt(file=workflow, key=f"{key}.data_mc.data", problem=problem)
        style = mapping(then.get("style") or spec.get("style"))
        if then.get("op", op) in _LABELLED and "experiment" not in style and not labelled:
            yield Doubt(
                file=workflow,
                key=f"{key if key.startswith('styles.') else f'{key}.style'}.style.experiment",
                problem="is missing: FAST-HEP then writes 'CMS' and '13 TeV' on the plot; "
                "'experiment: ROOT' prevents this",
            )
            labelled = True  # said once
        findings = list(vocabulary.findings(spec, "style", file=workflow, key=key))
        yield from findings
        is_told = any(".transforms" in (finding.key or "") for finding in findings)
        if spec.get("transforms") and op != f"{_RENDERERS}project" and not is_told:
            yield Finding(
                file=workflow,
                key=f"{key}.transforms",
                problem=f"have no effect in a plot of {op}: nothing is grouped or scaled",
                expected="'transforms' in a plot of hep.render.project, or under its 'then'",
            )


def _axes(plan: ExecutionPlan, node: ExecutionNode) -> list[str]:
    """Return the axes of the histogram that is drawn, but for that of the datasets."""
    makers = [plan.get_node(ref.node_id) for ref in node.inputs if ref.input_name != "dependency"]
    axes = [axis.get("name") for maker in makers for axis in _mappings(maker.params.get("axes"))]
    return [str(name) for name in axes if name not in _DATASET_AXES]


def _mappings(listed: object) -> list[YamlMapping]:
    """Return the items of a list that are mappings; none of what is no list."""
    return [item for item in listed if isinstance(item, dict)] if isinstance(listed, list) else []


def _style_key(node: ExecutionNode, document: Mapping[str, object]) -> str:
    """Return where the style of a plot stands: among the styles, or at its stage."""
    meta = dict(node.meta or {})
    _, stage = stages_by_id(document).get(str(meta.get("stage_id")), ("", {}))
    params = mapping(stage.get("params"))
    style = meta.get("style_ref")
    if "style" in params:  # the stage is a plot; what else it says is part of the style
        style = params["style"] if len(params) == 1 else None
    return f"styles.{style}" if isinstance(style, str) else node_place(node)


def _of_changes(
    plan: ExecutionPlan, document: Mapping[str, object], changed: dict[str, str], workflow: str
) -> Iterator[Finding]:
    """Yield what a plan variation changes as another does, or for datasets that it does not name.

    ``changed`` has the names of those before it, by what they change.
    """
    variation = mapping(plan.context.get("variation"))
    rewrites, limits = (mapping(variation.get(key)) for key in ("rewrites", "applies_to"))
    if not rewrites:
        return
    key, name = _template(variation, document), str(variation.get("name"))
    same = changed.setdefault(repr((rewrites, variation.get("group"))), name)
    if same != name:
        problem = f"{name!r} makes the same changes as {same!r}"
        yield Doubt(file=workflow, key=f"{key}.name", problem=problem)
    rewritten = [*_mappings(rewrites.get("weight_expr")), *_mappings(rewrites.get("fields"))]
    stages = {rewrite.get("stage") for rewrite in rewritten}
    nodes = [node for node in plan.nodes if dict(node.meta or {}).get("stage_id") in stages]
    types, names = (
        {str(limit).lower() for limit in limits.get(key) or ()}
        for key in ("eventtypes", "datasets")
    )
    outside = [
        str(dataset)
        for dataset, content in mapping(plan.context.get("datasets")).items()
        if (types and str(content.get("eventtype")).lower() not in types)
        or (names and str(dataset).lower() not in names)
        if any(upstream.node_applies_to_plan_dataset(node, dataset=dict(content)) for node in nodes)
    ]
    if outside:
        problem = (
            f"has no effect with 'mode: plan'. The variation changes {', '.join(outside)}, too"
        )
        yield Doubt(file=workflow, key=f"{key}.applies_to", problem=problem)


def _unchanged(
    plan: ExecutionPlan, document: Mapping[str, object], workflow: str
) -> Iterator[Finding]:
    """Yield what a plan variation says and FAST-HEP's compiler has found no place for."""
    variation = mapping(plan.context.get("variation"))
    key, rewrites = _template(variation, document), mapping(variation.get("rewrites"))
    if mapping(variation.get("weight")).get("multiply") and not rewrites.get("weight_expr"):
        yield Finding(
            file=workflow,
            key=f"{key}.weight.multiply",
            problem="no stage has a weight_expr: the variation changes no weight",
            expected="a stage with weight_expr among its params",
        )
    fields = [mapping(field).get("replacements") for field in rewrites.get("fields") or ()]
    used = {str(name) for replacements in fields for name in mapping(replacements)}
    replaced = mapping(variation.get("replace"))
    flow = mapping(plan.data_flow)
    columns = {*mapping(flow.get("origins")), *mapping(flow.get("consumers"))} - set(replaced)
    for name, other in replaced.items():
        if name == other:
            problem = f"replaces {name!r} with itself"
            yield Finding(file=workflow, key=f"{key}.replace.{name}", problem=problem)
            continue
        # A file of variations may serve several workflows: what they lack has no effect.
        if name not in used and (not used or any(is_slip(str(name), column) for column in columns)):
            yield Finding(
                file=workflow,
                key=f"{key}.replace",
                problem=f"replaces {name!r}, which is not used where variations can replace names",
                expected=_REPLACED,
                hint="define a column from it in a hep.define stage, and replace that column",
            )
        left = [stage for stage, text in expressions_of(plan) if name in _names(text)]
        if left and name in used:
            stages = ", ".join(map(repr, dict.fromkeys(left)))
            fix = "use a copy of the column there, and replace the copy, too"
            problem = f"is not replaced in {stages}: {fix}"
            yield Doubt(file=workflow, key=f"{key}.replace.{name}", problem=problem)


def _is_seen(plan: ExecutionPlan) -> bool:
    """Whether an operation that is not FAST-HEP's may look at what the variation says."""
    return user_hooks(plan, plan.registry) or any(
        not is_published(plan.registry, CATEGORY[node.role], node.impl)
        and sees_variation(*references(plan, node, CATEGORY[node.role]))
        for node in plan.nodes
    )


def _template(variation: YamlMapping, document: Mapping[str, object]) -> str:
    """Return the key of the item of the document that a variation is made from."""
    name = str(variation.get("name"))
    values = mapping(variation.get("matrix_values"))
    for key, template in variations_of(document):
        written = str(template.get("name") or "").strip()
        with contextlib.suppress(LookupError, ValueError):
            if (written.format(**values) if values else written) == name:
                return key
    return f"systematics.variations[{name!r}]"

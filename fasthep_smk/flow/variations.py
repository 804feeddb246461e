"""Findings about systematic variations that would change nothing, or less than they say.

FAST-HEP reads some keys in plan mode only, others in inline mode only, and passes over the rest.
What a variation has changed in its plan stands in the plan, which is asked for it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping

from fasthep_smk.config import schema
from fasthep_smk.flow.context_use import sees_variation
from fasthep_smk.flow.places import datasets_at, mapping, stages_of, variations_of
from fasthep_smk.flow.reads import CATEGORY, is_published, references, user_hooks
from fasthep_smk.flow.upstream import ExecutionNode, ExecutionPlan
from fasthep_smk.util.documents import YamlMapping
from fasthep_smk.util.errors import Finding, is_slip, not_among, slips_among
from fasthep_smk.util.yaml_values import as_yaml

__all__ = ["branch_findings", "unchanged_findings", "variation_findings"]

#: What only one of the modes reads.
_ONLY_INLINE = ("anchor", "stage", "patch", "params", "stop_before", "export")
_ONLY_PLAN = ("weight", "replace", "datasets")
#: Of two that say the same, the first counts.
_ALIASES = (("anchor", "stage"), ("patch", "params"))
#: Where FAST-HEP's compiler replaces a name.
_REPLACED = (
    "a name in a weight_expr, in the expr of variables, in a selection that is a list, or the "
    "source of an axis; not one in the groups of a cutflow, or what is reduced"
)


def variation_findings(document: Mapping[str, object], *, workflow: str) -> list[Finding]:
    """Return keys of variations that their mode does not read, and names of what is not there."""
    found: list[Finding] = []
    stages = [str(stage.get("id")) for _, stage in stages_of(document)]
    datasets = list(dict.fromkeys(name for _, name, _ in datasets_at(document)))
    eventtypes = [str(content.get("eventtype")) for _, _, content in datasets_at(document)]
    for key, variation in variations_of(document):
        inline = str(variation.get("mode") or "plan").strip() == "inline"
        found += _of_mode(variation, inline, key, workflow)
        found += _of_stages(variation, inline, stages, key, workflow)
        found += _of_datasets(variation, datasets, key, workflow)
        found += _of_eventtypes(variation, eventtypes, key, workflow)
    return found


def _of_mode(variation: YamlMapping, inline: bool, key: str, workflow: str) -> Iterator[Finding]:
    mode, other = ("inline", "plan") if inline else ("plan", "inline")
    for name in _ONLY_PLAN if inline else _ONLY_INLINE:
        if variation.get(name):
            said = "mode" in variation
            yield Finding(
                file=workflow,
                key=f"{key}.{name}",
                problem=f"is not read with mode: {mode}"
                + ("" if said else ", which is the default"),
                expected=", ".join(_ONLY_INLINE if inline else _ONLY_PLAN),
                hint=f"write mode: {other}",
            )
    for first, second in _ALIASES:
        if inline and first in variation and second in variation:
            yield Finding(
                file=workflow,
                key=f"{key}.{second}",
                problem=f"is not read beside {first!r}, which means the same",
                expected=f"{first} or {second}",
            )


def _of_stages(
    variation: YamlMapping, inline: bool, stages: list[str], key: str, workflow: str
) -> Iterator[Finding]:
    named = {"requires": variation.get("requires")}
    if inline:
        named["stop_before"] = variation.get("stop_before")
        name = "anchor" if "anchor" in variation else "stage"
        named[name] = variation.get(name)
    for name, value in named.items():
        for stage in value if isinstance(value, list) else [value]:
            text = str(stage or "").strip()
            # With a dot it is the name of a node; braces are filled in by the matrix.
            if text and text not in stages and "." not in text and "{" not in text:
                yield not_among(
                    text,
                    stages,
                    problem="the workflow has no such stage",
                    file=workflow,
                    key=f"{key}.{name}",
                )


def _of_datasets(
    variation: YamlMapping, datasets: list[str], key: str, workflow: str
) -> Iterator[Finding]:
    problem = "the workflow has no such dataset"
    replaced = mapping(mapping(variation.get("datasets")).get("replace"))
    for name, other in replaced.items():
        if not isinstance(other, str):
            yield Finding(
                file=workflow,
                key=f"{key}.datasets.replace.{name}",
                problem="is not the name of a dataset",
                value=as_yaml(other),
                expected="one dataset in the place of another",
            )
    texts = [one for one in (*replaced, *replaced.values()) if isinstance(one, str)]
    for text in dict.fromkeys(texts):
        if text not in datasets and "{" not in text:
            place = f"{key}.datasets.replace"
            yield not_among(text, datasets, problem=problem, file=workflow, key=place)
    named = mapping(variation.get("applies_to")).get("datasets")
    for text in slips_among(named if isinstance(named, list) else [named], datasets):
        place = f"{key}.applies_to.datasets"
        yield not_among(text, datasets, problem=problem, file=workflow, key=place)


def _of_eventtypes(
    variation: YamlMapping, known: Iterable[str], key: str, workflow: str
) -> Iterator[Finding]:
    applies_to = variation.get("applies_to")
    mapped = isinstance(applies_to, dict)
    named = mapping(applies_to).get("eventtypes") if mapped else applies_to
    lower = {"data", "mc", *(one.lower() for one in known)}
    for text in named if isinstance(named, list) else [named]:
        if isinstance(text, str) and text.strip().lower() not in lower:
            yield not_among(
                text,
                sorted(lower),
                problem="no dataset has this eventtype",
                file=workflow,
                key=f"{key}.applies_to.eventtypes" if mapped else f"{key}.applies_to",
            )


def unchanged_findings(
    plans: Iterable[ExecutionPlan], document: Mapping[str, object], *, workflow: str
) -> list[Finding]:
    """Return what plan variations say that has changed nothing in their plans."""
    found: list[Finding] = []
    for plan in plans:
        variation = mapping(plan.context.get("variation"))
        if variation and not variation.get("is_nominal") and not _is_seen(plan):
            found += _unchanged(plan, variation, _template(variation, document), workflow)
    return found


def _unchanged(
    plan: ExecutionPlan, variation: YamlMapping, key: str, workflow: str
) -> Iterator[Finding]:
    rewrites = mapping(variation.get("rewrites"))
    if mapping(variation.get("weight")).get("multiply") and not rewrites.get("weight_expr"):
        yield Finding(
            file=workflow,
            key=f"{key}.weight.multiply",
            problem="no stage has a weight_expr: the variation changes no weight",
            expected="a stage with weight_expr among its params",
        )
    used = {
        str(name)
        for one in rewrites.get("fields") or ()
        for name in mapping(mapping(one).get("replacements"))
    }
    replaced = mapping(variation.get("replace"))
    flow = mapping(plan.data_flow)
    known = {*mapping(flow.get("origins")), *mapping(flow.get("consumers"))} - set(replaced)
    for name in replaced:
        # A file of variations may serve several workflows: what they lack has no effect.
        if name not in used and (not used or any(is_slip(str(name), one) for one in known)):
            yield Finding(
                file=workflow,
                key=f"{key}.replace",
                problem=f"replaces {name!r}, which is in no place where names are replaced",
                expected=_REPLACED,
                hint="let a stage with op: hep.define make a column of it, and replace it there",
            )


def branch_findings(
    plan: ExecutionPlan, document: Mapping[str, object], *, workflow: str
) -> list[Finding]:
    """Return what inline variations patch and export that is not there."""
    found: list[Finding] = []
    made = mapping(plan.data_flow).get("origins") or {}
    silent = any(
        node.role == "transform" and not is_published(plan.registry, "transforms", node.impl)
        for node in plan.nodes
    )
    for node in plan.nodes:
        meta = dict(node.meta or {})
        variation = mapping(meta.get("variation"))
        if not variation:
            continue
        key = _template(variation, document)
        if "export_of" in meta and not silent:
            for value in mapping(node.params.get("aliases")).values():
                if isinstance(value, str) and value.isidentifier() and value not in made:
                    problem = "no stage makes such a column"
                    place = f"{key}.export"
                    found.append(not_among(value, made, problem=problem, file=workflow, key=place))
        elif "variation_of" in meta:
            found += _of_patch(plan, node, str(meta["variation_of"]), f"{key}.patch", workflow)
    return found


def _of_patch(
    plan: ExecutionPlan, node: ExecutionNode, original: str, key: str, workflow: str
) -> list[Finding]:
    """Return parameters of a patch that one of FAST-HEP's operations does not read."""
    op = str(node.impl)
    known = is_published(plan.registry, "transforms", op) and schema.holds(op, schema.LANGUAGE)
    if not known or node.params == plan.get_node(original).params:
        return []
    return schema.findings_of(node.params, op, file=workflow, key=key, schema=schema.LANGUAGE)


def _template(variation: YamlMapping, document: Mapping[str, object]) -> str:
    """Return the key of the item of the document that a variation is made from."""
    name = str(variation.get("name"))
    values = mapping(variation.get("matrix_values"))
    for key, one in variations_of(document):
        written = str(one.get("name") or "").strip()
        with contextlib.suppress(LookupError, ValueError):
            if (written.format(**values) if values else written) == name:
                return key
    return f"systematics.variations[{name!r}]"


def _is_seen(plan: ExecutionPlan) -> bool:
    """Whether an operation that is not FAST-HEP's may look at what the variation says."""
    return user_hooks(plan, plan.registry) or any(
        not is_published(plan.registry, CATEGORY[node.role], node.impl)
        and sees_variation(*references(plan, node, CATEGORY[node.role]))
        for node in plan.nodes
    )

"""Findings about keys of a workflow that have no effect, and values without a meaning.

FAST-HEP's compiler passes over what it does not know, so that a misspelt key changes the physics
silently. ``language.schema.json`` holds every key that its packages read. What is free stays
free: metadata of datasets, parameters of operations that are not FAST-HEP's, keys that begin with
``x-``, and ``comment`` and ``description`` everywhere.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from fasthep_smk.config import schema
from fasthep_smk.flow.histograms import told_of_axes
from fasthep_smk.flow.places import mapping, named
from fasthep_smk.flow.reads import is_published
from fasthep_smk.util.documents import YamlMapping
from fasthep_smk.util.errors import Finding, is_slip
from fasthep_smk.util.yaml_values import as_yaml

if TYPE_CHECKING:
    from fasthep_smk.flow.shapes import Registry

__all__ = ["language_findings", "operation_findings"]

#: Checked elsewhere, with keys of our own.
_OURS = ("execution", "smk")
_FREE = "nothing reads it; keys that begin with x- are free"
#: What FAST-HEP reads of a dataset; all other keys are metadata.
_OF_DATASET = ("name", "files", "nevents", "eventtype", "group")
_METADATA = ("xs", "n_unskimmed_events", "filter_efficiency")
_OF_DEFAULTS = ("eventtype", "tree_primary")
_OF_HOOK = ("kind", "events", "params", "match")
#: Keys of a dataset that look right, and what is meant.
_MISTAKEN = {"event_type": "eventtype", "file": "files"}
_RENDERERS = "hep.render."
#: A key of a stage, and those that belong below its ``execution``.
_OF_STAGE = re.compile(r"analysis\.stages\[(\d+)\]\.(\w+)")
_OF_EXECUTION = ("require", "prefer", "fallback", "fallback_after", "timeout", "modifiers")
#: Keys that are found at the top by mistake, and where they belong.
_BELOW = {
    "stages": "analysis", "globals": "analysis", "defaults": "data", "files": "data.datasets",
    "variations": "systematics", "include_nominal": "systematics", "profiles": "use",
    "pools": "execution", "resources": "execution",
}  # fmt: skip


def language_findings(document: YamlMapping, *, workflow: str) -> list[Finding]:
    """Return the keys of a merged workflow that have no effect, and values without a meaning."""
    try:
        content = _Texts().of(document)
    except RecursionError:
        problem = "contains itself: an anchor and its *"
        return [Finding(file=workflow, problem=problem)]
    bare = {**content, "analysis": _without_execution(content.get("analysis"))}
    for section in _OURS:
        bare.pop(section, None)
    found = [
        replace(one, hint=f"it belongs below {_BELOW[one.key]}") if one.key in _BELOW else one
        for one in _unknown(bare, "workflow", workflow)
    ]
    found = [_misplaced(one, content) for one in found]
    found += _near_misses(content, workflow)
    found += _slips(content, workflow)
    return [replace(one, key=named(one.key or "", content)) for one in found]


def _misplaced(finding: Finding, content: YamlMapping) -> Finding:
    """Return a finding about a key of a stage with the place that it belongs to, if it has one."""
    at = _OF_STAGE.fullmatch(finding.key or "")
    stages = mapping(content.get("analysis")).get("stages")
    if at is None or finding.problem != "unknown key" or not isinstance(stages, list):
        return finding
    op, key = str(mapping(stages[int(at[1])]).get("op")), at[2]
    if key == "pool":
        return replace(finding, hint="write execution: {require: …}")
    if key in _OF_EXECUTION:
        return replace(finding, hint="it belongs below execution")
    params = schema.load(op, schema.LANGUAGE) if schema.holds(op, schema.LANGUAGE) else {}
    known = mapping(mapping(mapping(params.get("$defs")).get(op)).get("properties"))
    return replace(finding, hint="it belongs below params") if key in known else finding


def operation_findings(
    document: YamlMapping, registry: Registry, *, workflow: str
) -> list[Finding]:
    """Return the same of what FAST-HEP's operations and renderers read.

    ``registry`` is that of the compiled plan: another operation may have the name of one of
    FAST-HEP's.
    """
    content = _Texts().of({name: document.get(name) for name in ("analysis", "styles")})
    found: list[Finding] = []
    styles = mapping(content.get("styles"))
    for name, style in styles.items():
        if _renderer(style, styles, registry):
            found += _unknown(style, "style", workflow, f"styles.{name}")
    for key, stage in _stages(content):
        op, params = stage.get("op"), stage.get("params")
        if _is_published(op, "transforms", registry) or _is_published(op, "sinks", registry):
            if schema.holds(str(op), schema.LANGUAGE):
                unknown = _unknown(params or {}, str(op), workflow, f"{key}.params")
                found += told_of_axes(unknown, mapping(params), f"{key}.params")
            if op == "hep.hist":
                found += _of_histogram(mapping(params), f"{key}.params", workflow)
        for place, render in _renders(stage, key):
            style = render.get("style")
            if _renderer(style, styles, registry):
                found += _unknown(render, "render", workflow, place)
                if isinstance(style, dict):
                    found += _unknown(style, "style", workflow, f"{place}.style")
    return [replace(one, key=named(one.key or "", content)) for one in found]


def _unknown(content: object, part: str, workflow: str, key: str = "") -> list[Finding]:
    found = schema.findings_of(content, part, file=workflow, key=key, schema=schema.LANGUAGE)
    return [
        replace(one, hint=_FREE) if one.problem == "unknown key" and not one.hint else one
        for one in found
    ]


def _is_published(op: object, section: str, registry: Registry) -> bool:
    return isinstance(op, str) and is_published(registry, section, op)


def _renderer(style: object, styles: YamlMapping, registry: Registry) -> bool:
    """Whether a style, or the one that it is made from, is for a renderer of FAST-HEP's."""
    for _ in range(len(styles) + 1):
        if isinstance(style, str):
            style = styles.get(style)
        if not isinstance(style, dict):
            return False
        op = mapping(style.get("with")).get("op", style.get("op"))
        if op is not None:
            published = isinstance(op, str) and op.startswith(_RENDERERS)
            return published and _is_published(op, "sinks", registry)
        style = style.get("use")
    return False


def _renders(stage: YamlMapping, key: str) -> Iterator[tuple[str, YamlMapping]]:
    raw = stage.get("render")
    if isinstance(raw, dict):
        yield f"{key}.render", raw
    for number, one in enumerate(raw if isinstance(raw, list) else ()):
        if isinstance(one, dict):
            yield f"{key}.render[{number}]", one


def _of_histogram(params: YamlMapping, key: str, workflow: str) -> Iterator[Finding]:
    """Yield weights that are not used, and axes whose lower edge is not below the upper one."""
    if params.get("weight_expr") and params.get("storage") == "count":
        yield Finding(
            file=workflow,
            key=f"{key}.weight_expr",
            problem="is not used with storage: count",
            value=as_yaml(params["weight_expr"]),
            expected="storage: weighted",
        )
    axes = params.get("axes")
    for number, axis in enumerate(axes if isinstance(axes, list) else ()):
        bins = mapping(mapping(axis).get("bins"))
        try:
            low, high = float(bins["low"]), float(bins["high"])
        except (KeyError, TypeError, ValueError):
            continue
        if not low < high:
            yield Finding(
                file=workflow,
                key=f"{key}.axes[{number}].bins",
                problem="the lower edge is not below the upper one",
                value=f"{bins['low']} to {bins['high']}",
                expected="low: a number below high",
            )


def _near_misses(document: YamlMapping, workflow: str) -> Iterator[Finding]:
    """Yield keys of datasets that are one letter away from one that FAST-HEP reads."""
    data = mapping(document.get("data"))
    blocks = {"datasets": document.get("datasets"), "data.datasets": data.get("datasets")}
    for start, block in blocks.items():
        items: Iterable[tuple[str | int, object]] = (
            enumerate(block) if isinstance(block, list) else ()
        )
        if isinstance(block, dict):
            items = block.items()
        for place, dataset in items:
            content = mapping(dataset)
            for key, value in content.items():
                hint = _meant(key, value, content)
                if hint:
                    yield Finding(
                        file=workflow,
                        key=schema.key_of(start, [place, key]),
                        problem="nothing reads this key of a dataset",
                        expected=", ".join((*_OF_DATASET, *_METADATA)),
                        hint=f"{hint} Metadata of yours needs another name",
                    )


def _slips(document: YamlMapping, workflow: str) -> Iterator[Finding]:
    """Yield free keys of defaults and hooks that are one letter away from one that is read."""
    parts: list[tuple[str, YamlMapping, tuple[str, ...]]] = []
    defaults = mapping(mapping(document.get("data")).get("defaults"))
    parts.append(("data.defaults", defaults, _OF_DEFAULTS))
    hooks = document.get("execution_hooks")
    for number, hook in enumerate(hooks if isinstance(hooks, list) else ()):
        parts.append((f"execution_hooks[{number}]", mapping(hook), _OF_HOOK))
    for place, content, known in parts:
        for key in content:
            meant = next((one for one in known if is_slip(key.lower(), one)), None)
            if key not in known and meant and meant not in content:
                yield Finding(
                    file=workflow,
                    key=schema.key_of(place, [key]),
                    problem="nothing reads this key",
                    expected=", ".join(known),
                    hint=f"did you mean {meant!r}?",
                )


def _meant(key: str, value: object, dataset: YamlMapping) -> str | None:
    """Return what is meant by a key that differs from a known one by a slip of the keyboard."""
    known = (*_OF_DATASET, *_METADATA)
    if key in known:
        return None
    inside = [name for name in known if name in mapping(value)]
    if key in ("meta", "metadata") and inside:
        return f"write {inside[0]!r} beside the name of the dataset."
    meant = _MISTAKEN.get(key) or next(
        # An own key of one or two letters is hardly a slip.
        (
            name
            for name in known
            if key.lower() == name
            or (is_slip(key.lower(), name) and (len(name) > 2 or set(key) == set(name)))
        ),
        None,
    )
    return f"did you mean {meant!r}?" if meant and meant not in dataset else None


class _Texts:
    """Makes values whose keys are texts, as FAST-HEP reads them; what several share, once."""

    def __init__(self) -> None:
        self._made: dict[int, object] = {}

    def of(self, document: YamlMapping) -> dict[str, object]:
        """Return a document without the keys that are free at the top.

        Raises:
            RecursionError: it holds itself.
        """
        kept = {str(key): value for key, value in document.items()}
        return {
            key: self._text(value) for key, value in kept.items() if not key.startswith(("x-", "."))
        }

    def _text(self, content: object) -> object:
        if isinstance(content, datetime.date):
            return str(content)
        if not isinstance(content, dict | list):
            return content
        if id(content) not in self._made:
            self._made[id(content)] = (
                {str(key): self._text(value) for key, value in content.items()}
                if isinstance(content, dict)
                else [self._text(value) for value in content]
            )
        return self._made[id(content)]


def _stages(content: YamlMapping) -> list[tuple[str, YamlMapping]]:
    raw = mapping(content.get("analysis")).get("stages")
    listed = raw if isinstance(raw, list) else []
    return [
        (f"analysis.stages[{number}]", stage)
        for number, stage in enumerate(listed)
        if isinstance(stage, dict)
    ]


def _without_execution(analysis: object) -> object:
    if not isinstance(analysis, dict) or not isinstance(analysis.get("stages"), list):
        return analysis
    stages = [
        {key: value for key, value in stage.items() if key != "execution"}
        if isinstance(stage, dict)
        else stage
        for stage in analysis["stages"]
    ]
    return {**analysis, "stages": stages}

"""Findings about keys of a workflow that have no effect, and values without a meaning.

FAST-HEP's compiler passes over what it does not know, so that a misspelt key changes the physics
silently. ``language.schema.json`` holds every key that its packages read. What is free stays
free: metadata of datasets, parameters of operations that are not FAST-HEP's, keys that begin with
``x-``, and ``comment`` and ``description`` everywhere.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from fasthep_smk.config import schema
from fasthep_smk.flow.places import mapping, named, stages_of
from fasthep_smk.flow.reads import is_published
from fasthep_smk.flow.vocabulary import Vocabulary
from fasthep_smk.util.documents import YamlMapping
from fasthep_smk.util.errors import Finding

if TYPE_CHECKING:
    from fasthep_smk.flow.shapes import Registry

#: Where keys are our own, and checked elsewhere.
_OURS = re.compile(r"(execution|smk|analysis\.stages\[\d+\]\.execution)(?!\w)")
_RENDERERS = "hep.render."


def language_findings(document: YamlMapping, *, workflow: str) -> list[Finding]:
    """Return the keys of a merged workflow that have no effect, and values without a meaning."""
    content = _as_texts(document)
    findings = Vocabulary(content).findings(content, "workflow", file=workflow)
    return [
        replace(finding, key=named(finding.key or "", content))
        for finding in findings
        if not _OURS.match(finding.key or "")
    ]


def operation_findings(
    document: YamlMapping, registry: Registry, *, workflow: str
) -> list[Finding]:
    """Return the same of what FAST-HEP's operations and renderers read.

    ``registry`` is that of the compiled plan: another operation may have the name of one of
    FAST-HEP's.
    """
    content = _as_texts(document)
    vocabulary = Vocabulary(content)
    return [
        finding
        for part, key, section in _parts(content, registry)
        for finding in vocabulary.findings(section, part, file=workflow, key=key)
    ]


def _parts(content: YamlMapping, registry: Registry) -> Iterator[tuple[str, str, object]]:
    """Yield what FAST-HEP reads of stages and styles: part of the schema, place, content."""
    styles = mapping(content.get("styles"))
    for name, style in styles.items():
        if _renderer(style, styles, registry):
            yield "style", f"styles.{name}", style
    for key, stage in stages_of(content):
        op, params = str(stage.get("op")), mapping(stage.get("params"))
        renders = list(_renders(stage, key))
        if op.startswith(_RENDERERS) and is_published(registry, "sinks", op):
            rest = {name: value for name, value in params.items() if name != "style"}
            yield "style", f"{key}.params", rest
            renders.append((f"{key}.params", {"style": {"op": op, **mapping(params.get("style"))}}))
        elif is_published(registry, "transforms", op) and schema.holds(op):
            yield op, f"{key}.params", stage.get("params") or {}
        for place, render in renders:
            style = render.get("style")
            if _renderer(style, styles, registry):
                yield "render", place, render
                if isinstance(style, dict):
                    yield "style", f"{place}.style", style


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
            return published and is_published(registry, "sinks", str(op))
        style = style.get("use")
    return False


def _renders(stage: YamlMapping, key: str) -> Iterator[tuple[str, YamlMapping]]:
    raw = stage.get("render")
    if isinstance(raw, dict):
        yield f"{key}.render", raw
    for number, render in enumerate(raw if isinstance(raw, list) else ()):
        if isinstance(render, dict):
            yield f"{key}.render[{number}]", render


def _as_texts(document: YamlMapping) -> dict[str, object]:
    """Return a document with texts as keys, as FAST-HEP reads it; not what is free at the top."""
    kept = {str(key): value for key, value in document.items()}
    return {key: _text(kept[key]) for key in kept if not key.startswith(("x-", "."))}


def _text(content: object) -> object:
    if isinstance(content, dict):
        return {str(key): _text(value) for key, value in content.items()}
    if isinstance(content, list):
        return [_text(value) for value in content]
    return str(content) if isinstance(content, datetime.date) else content

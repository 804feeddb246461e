"""Findings about keys of a workflow: those that nobody reads, and values that mean nothing.

FAST-HEP's compiler passes over what it does not know, so that a misspelt key changes the physics
without a word. ``language.schema.json`` holds every key that its packages read. What is free stays
free: metadata of datasets, parameters of operations that are not FAST-HEP's, keys that begin with
``x-``, and ``comment`` and ``description`` everywhere.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from fasthep_smk.config import schema
from fasthep_smk.util.errors import Finding

__all__ = ["language_findings"]

#: A key of an item of one of these lists.
_NUMBERED = re.compile(
    r"(analysis\.stages|data\.datasets|datasets|systematics\.variations)\[(\d+)\](.*)", re.DOTALL
)
#: Checked elsewhere, with keys of our own.
_OURS = ("execution", "smk")
#: What FAST-HEP reads of a dataset; all other keys are metadata.
_OF_DATASET = ("name", "files", "nevents", "eventtype", "group")
_METADATA = ("xs", "n_unskimmed_events", "filter_efficiency")
#: Keys of a dataset that nothing reads though they look right, and what is meant.
_MISTAKEN = {
    "meta": "write metadata beside the name of the dataset.",
    "metadata": "write metadata beside the name of the dataset.",
    "event_type": "did you mean 'eventtype'?",
    "file": "did you mean 'files'?",
}


def language_findings(document: Mapping[str, Any], *, workflow: str) -> list[Finding]:
    """Return the keys of a merged workflow that nobody reads, and values that mean nothing."""
    try:
        content = _texts(document)
    except RecursionError:  # an alias in its own anchor
        return []
    stages = _stages(content)
    bare = {**content, "analysis": _without_execution(content.get("analysis"))}
    for section in _OURS:
        bare.pop(section, None)
    found = schema.findings_of(bare, "workflow", file=workflow, schema=schema.LANGUAGE)
    own = {*_names(content, "transforms"), *_names(content, "sinks")}
    for key, stage in stages:
        op, params = stage.get("op"), stage.get("params")
        if op not in own and isinstance(op, str) and schema.holds(op, schema.LANGUAGE):
            found += schema.findings_of(
                params, op, file=workflow, key=f"{key}.params", schema=schema.LANGUAGE
            )
        if op == "hep.hist" and op not in own:
            found += _edges(params, f"{key}.params.axes", workflow)
    found += _near_misses(content, workflow)
    return [replace(one, key=_named(one.key or "", content)) for one in found]


def _named(key: str, content: Mapping[str, Any]) -> str:
    """Return a key with the names of stages, datasets and variations instead of their numbers."""
    start, number, rest = found.groups() if (found := _NUMBERED.match(key)) else (key, None, "")
    if number is None:
        return key
    held: Any = content
    for step in start.split("."):
        held = held[step]
    item = held[int(number)]
    name = item.get("id", item.get("name")) if isinstance(item, dict) else None
    return f"{start}[{name!r}]{rest}" if isinstance(name, str) and name else key


def _edges(params: Any, key: str, workflow: str) -> Iterator[Finding]:
    """Yield axes that would be empty: all events are outside of them."""
    axes = params.get("axes") if isinstance(params, dict) else None
    for number, axis in enumerate(axes if isinstance(axes, list) else ()):
        bins = axis.get("bins") if isinstance(axis, dict) else None
        low, high = (bins.get(name) if isinstance(bins, dict) else None for name in ("low", "high"))
        if not (isinstance(low, int | float) and isinstance(high, int | float)):
            continue
        if not low < high:
            yield Finding(
                file=workflow,
                key=f"{key}[{number}].bins",
                problem="the lower edge is not below the upper one",
                value=f"{low} to {high}",
                expected="low: a number below high",
            )


def _near_misses(content: Mapping[str, Any], workflow: str) -> Iterator[Finding]:
    """Yield keys of datasets that are one letter away from one that FAST-HEP reads."""
    data = content.get("data")
    blocks = {"datasets": content.get("datasets")}
    blocks["data.datasets"] = data.get("datasets") if isinstance(data, dict) else None
    for start, block in blocks.items():
        items: Iterable[tuple[Any, Any]] = enumerate(block) if isinstance(block, list) else ()
        if isinstance(block, dict):
            items = block.items()
        for place, dataset in items:
            for key in dataset if isinstance(dataset, dict) else ():
                hint = _MISTAKEN.get(key) or _meant(key)
                if hint:
                    yield Finding(
                        file=workflow,
                        key=schema.key_of(start, [place, key]),
                        problem="nothing reads this key of a dataset",
                        expected=", ".join((*_OF_DATASET, *_METADATA)),
                        hint=f"{hint} Metadata of yours needs another name",
                    )


def _meant(key: str) -> str | None:
    """Return what is meant by a key that differs from a known one by a slip of the keyboard."""
    known = (*_OF_DATASET, *_METADATA[1:])
    if key in (*known, *_METADATA):
        return None
    meant = next((name for name in known if _is_slip(key.lower(), name)), None)
    return f"did you mean {meant!r}?" if meant else None


def _is_slip(one: str, other: str) -> bool:
    """Whether one letter is missing, added or another, or two neighbours are exchanged."""
    if one == other:
        return True
    if abs(len(one) - len(other)) > 1:
        return False
    first = next((n for n, pair in enumerate(zip(one, other, strict=False)) if pair[0] != pair[1]),
                 min(len(one), len(other)))  # fmt: skip
    rest, wanted = one[first:], other[first:]
    return (
        rest[1:] == wanted[1:]
        or rest[1:] == wanted
        or rest == wanted[1:]
        or (rest[:2] == wanted[:2][::-1] and rest[2:] == wanted[2:])
    )


def _texts(content: Any) -> Any:
    """Return a value whose keys are texts, as FAST-HEP reads them."""
    if isinstance(content, dict):
        return {str(key): _texts(value) for key, value in content.items()}
    if isinstance(content, list):
        return [_texts(value) for value in content]
    return content


def _stages(content: Mapping[str, Any]) -> list[tuple[str, Mapping[str, Any]]]:
    analysis = content.get("analysis")
    raw = analysis.get("stages") if isinstance(analysis, dict) else None
    listed = raw if isinstance(raw, list) else []
    return [
        (f"analysis.stages[{number}]", stage)
        for number, stage in enumerate(listed)
        if isinstance(stage, dict)
    ]


def _without_execution(analysis: Any) -> Any:
    if not isinstance(analysis, dict) or not isinstance(analysis.get("stages"), list):
        return analysis
    stages = [
        {key: value for key, value in stage.items() if key != "execution"}
        if isinstance(stage, dict)
        else stage
        for stage in analysis["stages"]
    ]
    return {**analysis, "stages": stages}


def _names(content: Mapping[str, Any], section: str) -> list[str]:
    """Return the names that a workflow registers itself."""
    registry = content.get("registry")
    found = registry.get(section) if isinstance(registry, dict) else None
    return list(found) if isinstance(found, dict) else []

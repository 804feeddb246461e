"""Findings about branches that input files do not have: who reads them, and what was meant.

FAST-HEP takes each column that no stage makes for a branch. So a misspelt column of an operation
is looked for in the files, and a misspelt collection is as many branches as it has properties.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from fasthep_smk.config.schema import key_of
from fasthep_smk.flow.missing_columns import columns_before, why_missing
from fasthep_smk.flow.places import mapping, stages_of
from fasthep_smk.flow.upstream import ExecutionPlan
from fasthep_smk.util.documents import YamlMapping
from fasthep_smk.util.errors import Finding, nearest
from fasthep_smk.util.yaml_values import as_yaml

__all__ = ["Lack", "branch_findings"]

#: How much a name must resemble another one to be meant by it: Jet_eta is not Muon_eta.
_ALIKE = 0.6
_PI = ("pi", "PI", "M_PI", "Pi")


@dataclass(frozen=True)
class Lack:
    """A branch that ``source`` reads and some files do not have.

    ``files`` are the datasets and files that lack it, ``having`` the datasets whose files all have
    it, ``branches`` those that the first of the files does have; ``other`` is a source whose tree
    in that file has it.
    """

    branch: str
    source: str
    tree: str
    files: tuple[tuple[str, str], ...]
    having: tuple[str, ...]
    branches: frozenset[str]
    other: str | None = None


@dataclass(frozen=True)
class _Named:
    """Where a workflow names a column, and by which text; ``prefix`` if that is its beginning."""

    key: str
    text: str | None = None
    prefix: bool = False


def branch_findings(
    lacks: Sequence[Lack],
    plan: ExecutionPlan,
    document: YamlMapping,
    readers: Mapping[str, Sequence[str]],
    *,
    workflow: str,
) -> list[Finding]:
    """Return one finding for each mistake; ``readers`` are the stages that read a branch."""
    groups: dict[tuple[object, ...], list[Lack]] = {}
    named: dict[str, _Named | None] = {}
    for lack in lacks:
        place = _named(document, lack.branch, readers.get(lack.branch, ()))
        if place is not None and place.prefix and _has(lack.branches, f"{place.text}_"):
            place = _Named(place.key, place.text)  # the collection is there, and lacks a property
        named[lack.branch] = place
        one = place.key if place is not None and place.prefix else lack.branch
        groups.setdefault((lack.source, one, lack.files), []).append(lack)
    telling = _Telling(plan, readers, workflow)
    return [telling.finding(group, named[group[0].branch]) for group in groups.values()]


class _Telling:
    def __init__(
        self, plan: ExecutionPlan, readers: Mapping[str, Sequence[str]], workflow: str
    ) -> None:
        self._plan, self._readers, self._workflow = plan, readers, workflow
        self._why = why_missing(plan)

    def finding(self, group: list[Lack], place: _Named | None) -> Finding:
        lack = group[0]
        names = [repr(one.branch) for one in group]
        (dataset, file), more = lack.files[0], len(lack.files) - 1
        files = f"{file} and {more} more file{'s' if more > 1 else ''}" if more else file
        stages = ", ".join(self._readers.get(lack.branch, ()))
        listed = ", ".join(names)
        problem = f"tree {lack.tree!r} has no branch {listed}" + (
            f", which {stages} reads" if stages else ""
        )
        where = f"dataset {dataset!r}, source {lack.source!r}"
        return Finding(
            file=self._workflow if place else files,
            key=place.key if place else where,
            problem=problem,
            value=None if place is None or place.text is None else as_yaml(place.text),
            expected=f"a branch of {files} ({where}), or a column that a stage before makes",
            hint=self._hint(group, place),
        )

    def _hint(self, group: list[Lack], place: _Named | None) -> str | None:
        lack = group[0]
        if lack.other is not None:
            return (
                f"source {lack.other!r} has it, and FAST-HEP asks each source for what stages read "
                f"of any: write missing_branches: ignore below sources.{lack.source}"
            )
        text = (place.text if place else None) or ""
        made = columns_before(self._plan, lack.branch)
        known = {*lack.branches, *made} - {lack.branch}
        if f"{lack.branch}(" in text.replace(" ", ""):
            known |= set(self._plan.registry.get("functions") or {})
        if place is not None and place.prefix:
            close = _collection(text, [one.branch for one in group], known)
            meant = f"did you mean {close!r}?" if close else None
        else:
            meant = _dotted(lack.branch, text, known)
            if meant is None and (close := nearest(lack.branch, known, cutoff=_ALIKE)):
                meant = f"did you mean {close!r}?"
        if lack.branch in _PI:
            meant = f"write {math.pi}; or registry: {{constants: {{{lack.branch}: 'numpy:pi'}}}}"
        why = self._why(lack.branch) or _only_of(lack, self._plan)
        return " Or: ".join(filter(None, (meant, why))) or None


def _only_of(lack: Lack, plan: ExecutionPlan) -> str | None:
    """Return how to keep a stage to the datasets that have the branch."""
    datasets = mapping(plan.context.get("datasets"))
    types = {str(mapping(datasets.get(one)).get("eventtype")) for one in lack.having}
    others = {str(mapping(datasets.get(one)).get("eventtype")) for one, _ in lack.files}
    if len(types) == 1 and not types & others and types <= {"data", "mc"}:
        (only,) = types
        return f"applies_to: {{eventtype: {only}}} keeps the stage to the datasets that have it"
    return None


def _has(names: Iterable[str], start: str) -> bool:
    return any(one.startswith(start) for one in names)


def _collection(text: str, missing: list[str], known: Iterable[str]) -> str | None:
    """Return the collection that is meant: the nearest of those with the same properties."""
    ends = [one[len(text) :] for one in missing]
    counted: dict[str, int] = {}
    for name in known:
        for end in ends:
            if name.endswith(end):
                start = name[: -len(end)]
                counted[start] = counted.get(start, 0) + 1
    whole = [one for one, number in counted.items() if number == len(ends)]
    return nearest(text, whole or counted, cutoff=_ALIKE)


def _dotted(branch: str, text: str, known: Iterable[str]) -> str | None:
    """Return what to write for ``Muon.pt``, where a branch is Muon_pt, or pt."""
    for found in re.finditer(rf"(?<![\w.]){re.escape(branch)}\.([A-Za-z_]\w*)", text):
        for meant in (f"{branch}_{found[1]}", found[1]):
            if meant in known:
                return f"write {meant} in place of {found[0]}"
    return None


def _named(document: YamlMapping, column: str, readers: Iterable[str]) -> _Named | None:
    """Return where a workflow names a column that these stages read."""
    reading = set(readers)
    stages = [(key, stage) for key, stage in stages_of(document) if stage.get("id") in reading]
    parts: list[tuple[str, object]] = [(f"{key}.params", one.get("params")) for key, one in stages]
    parts += [(f"{key}.write", one.get("write")) for key, one in stages]
    others = [(name, document.get(name)) for name in ("sources", "systematics", "analysis")]
    word = re.compile(rf"(?<!\w){re.escape(column)}(?!\w)")
    for start, content in (*parts, *others):
        for key, text in _texts(content, start):
            if word.search(text):
                return _Named(key, text)
    starts = [
        _Named(key, text, prefix=True)
        for start, content in parts
        for key, text in _texts(content, start)
        if text.isidentifier() and column.startswith(f"{text}_")
    ]
    if starts:
        return max(starts, key=lambda one: len(one.text or ""))
    return _Named(f"{stages[0][0]}.params") if stages else None


def _texts(content: object, key: str) -> Iterator[tuple[str, str]]:
    """Yield the key and the content of each text."""
    if isinstance(content, str):
        yield key, content
    elif isinstance(content, dict):
        for name, value in content.items():
            yield from _texts(value, key_of(key, [str(name)]))
    elif isinstance(content, list):
        for number, value in enumerate(content):
            yield from _texts(value, key_of(key, [number]))

"""Findings about a workflow before FAST-HEP's compiler sees it.

Only what the compiler loses silently, says without naming the place, or would write to disk
before it can be refused. The language itself is FAST-HEP's.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from fasthep_smk.config.secret_urls import secret_findings
from fasthep_smk.flow.datasets import dataset_findings
from fasthep_smk.flow.language import language_findings
from fasthep_smk.flow.places import datasets_at, mapping, named
from fasthep_smk.util.documents import YamlMapping
from fasthep_smk.util.errors import Finding, nearest, not_among
from fasthep_smk.util.names import folder_problem
from fasthep_smk.util.yaml_values import as_yaml

__all__ = [
    "datasets_of",
    "document_findings",
    "exports_of",
    "ignored_reads",
    "name_finding",
    "pickles_of",
    "root_trees_of",
]

_WHEN = ("partition", "dataset", "final", "partition_end", "dataset_end", "run_end")


def document_findings(document: YamlMapping, *, workflow: str) -> list[Finding]:
    """Return what is wrong with a workflow whose includes are merged into ``document``."""
    if not document:
        return [Finding(file=workflow, problem="the workflow is empty", expected=_EXPECTED)]
    shapes = [
        Finding(
            file=workflow, key=key, problem="is not a mapping", value=as_yaml(document[key]),
            expected=f"{key}: with names below it",
        )
        for key in ("data", "analysis", "sources", "systematics", "execution")
        if document.get(key) is not None and not isinstance(document[key], dict)
    ]  # fmt: skip
    if shapes:
        return shapes
    found = [
        *secret_findings(document, file=workflow),
        *_dataset_findings(document, workflow),
        *_source_findings(document, workflow),
        *dataset_findings(document, workflow=workflow),
        *_variation_findings(document, workflow),
        *_stage_findings(document, workflow),
    ]
    told = {one.key for one in found}
    others = language_findings(document, workflow=workflow)
    renamed = {f"{(one.key or '').rpartition('.')[0]} {one.hint}" for one in others}
    meant = [(word, _LACKING.format(word)) for word in ("id", "op")]
    found = [
        one
        for one in found
        if not any(
            one.problem == lacking
            and f"{named(one.key or '', document)} did you mean {word!r}?" in renamed
            for word, lacking in meant
        )
    ]
    if any(one.hint == "did you mean 'datasets'?" for one in others):
        found = [one for one in found if one.problem != _NO_DATASET]
    return [*found, *(one for one in others if one.key not in told)]


_LACKING = "the stage has no {!r}"
_NO_DATASET = "there is no dataset: a source of ROOT files has nothing to read"
#: Bytes of the name of a file, on the usual file systems.
_LONGEST_NAME = 255
_EXPECTED = "data.datasets, sources and analysis.stages"


def name_finding(name: str, problem: str, *, key: str, workflow: str) -> Finding:
    """Return the finding for a dataset or variation that no folder can be named after."""
    shown = repr(name if len(name) <= 60 else f"{name[:57]}...")
    expected = "a name that can be a folder's: plain text, no '..', no slash at its ends"
    return Finding(file=workflow, key=key, problem=problem, value=shown, expected=expected)


def datasets_of(document: YamlMapping) -> list[tuple[str, YamlMapping]]:
    """Return name and content of each dataset, as far as they are well formed, in order."""
    data = mapping(document.get("data"))
    found: list[tuple[str, YamlMapping]] = []
    for block in (document.get("datasets"), data.get("datasets")):
        if isinstance(block, list):
            items = [item for item in block if isinstance(item, dict) and item.get("name")]
            found += [(str(item["name"]).strip(), item) for item in items]
        elif isinstance(block, dict):
            found += [(str(name).strip(), mapping(item)) for name, item in block.items()]
    return found


def ignored_reads(document: YamlMapping) -> list[str]:
    """Return the patterns of files whose changes do not count: ``smk: {ignore_reads: …}``."""
    return _said(document, "ignore_reads")


def pickles_of(document: YamlMapping) -> list[str]:
    """Return the classes whose objects workers may send back: ``smk: {pickles_of: …}``."""
    return _said(document, "pickles_of")


def exports_of(document: YamlMapping) -> list[str]:
    """Return the formats that histograms are written in besides: ``smk: {export: …}``."""
    return sorted(set(_said(document, "export")))


def _said(document: YamlMapping, key: str) -> list[str]:
    listed = mapping(document.get("smk")).get(key)
    return [str(item) for item in listed] if isinstance(listed, list) else []


def root_trees_of(document: YamlMapping) -> list[str] | None:
    """Return the trees that the sources read; ``None`` if one of them does not read ROOT trees."""
    sources = document.get("sources")
    if sources is None:  # FAST-HEP's default source
        defaults = mapping(mapping(document.get("data")).get("defaults"))
        return [str(defaults.get("tree_primary") or "events")]
    if not isinstance(sources, dict):
        return None
    trees: list[str] = []
    for source in sources.values():
        kind = mapping(source).get("kind", "root_tree")
        tree = mapping(source).get("tree")
        if kind != "root_tree" or tree is None or isinstance(tree, list | dict):
            return None
        trees.append(str(tree))
    return trees


def _dataset_findings(document: YamlMapping, workflow: str) -> Iterator[Finding]:
    datasets = datasets_of(document)
    seen: set[str] = set()
    for name, content in datasets:
        if name and name in seen:
            yield Finding(
                file=workflow,
                key="data.datasets",
                problem="two datasets have the same name: the files of one would be lost",
                value=as_yaml(name),
                expected="a name for each dataset; one dataset may list several files",
            )
        seen.add(name)
        if name and (problem := folder_problem(name)):
            yield name_finding(name, problem, key="data.datasets", workflow=workflow)
        nevents = content.get("nevents")
        if nevents is not None and not re.fullmatch(r"\s*\d*\s*", str(nevents)):
            yield Finding(
                file=workflow,
                key=f"data.datasets[{name!r}].nevents",
                problem="is not a number of events",
                value=as_yaml(nevents),
                expected="a whole number, or no nevents",
            )
    for key, name, _ in datasets_at(document):
        if not name:
            yield Finding(
                file=workflow, key=f"{key}.name", problem="is missing: the dataset has no name",
                expected="a name for each dataset",
            )  # fmt: skip
    if not datasets and root_trees_of(document):
        yield Finding(
            file=workflow,
            key="data.datasets",
            problem=_NO_DATASET,
            expected="at least one dataset with a name and files",
        )


def _source_findings(document: YamlMapping, workflow: str) -> Iterator[Finding]:
    """Yield sources that end before they begin."""
    for name, source in mapping(document.get("sources")).items():
        start, stop = mapping(source).get("start") or 0, mapping(source).get("stop")
        if mapping(source).get("kind") not in (None, "root_tree"):
            continue
        if isinstance(start, int) and isinstance(stop, int) and 0 <= stop <= start:
            yield Finding(
                file=workflow,
                key=f"sources.{name}.stop",
                problem=f"no event is between start ({start}) and stop",
                value=as_yaml(stop),
                expected="a number above start",
            )


def _variation_findings(document: YamlMapping, workflow: str) -> Iterator[Finding]:
    variations = mapping(document.get("systematics")).get("variations")
    for item in variations if isinstance(variations, list) else []:
        texts = [mapping(item).get("name")]
        for values in mapping(mapping(item).get("matrix")).values():
            texts += values if isinstance(values, list) else []
        for text in texts:
            if isinstance(text, str) and (problem := folder_problem(text)):
                yield name_finding(text, problem, key="systematics.variations", workflow=workflow)


def _stage_findings(document: YamlMapping, workflow: str) -> Iterator[Finding]:
    raw = mapping(document.get("analysis")).get("stages")
    stages = [item for item in raw if isinstance(item, dict)] if isinstance(raw, list) else []
    streams = {str(name) for part in ("sources", "joins") for name in mapping(document.get(part))}
    if document.get("sources") is None:
        streams.add("events")  # FAST-HEP's default source
    known = streams | {str(stage.get("id")) for stage in stages}
    yield from _repeated_ids(stages, workflow)
    yield from _order_findings(stages, streams, workflow)
    yield from _join_findings(document, streams, workflow)
    for number, stage in enumerate(stages):
        name = stage.get("id")
        named = str(name if name is not None else "").strip()
        key = f"analysis.stages[{name!r}]" if named else f"analysis.stages[{number}]"
        for required, text in (("id", named), ("op", str(stage.get("op") or "").strip())):
            if not text:
                yield Finding(
                    file=workflow, key=key, problem=_LACKING.format(required),
                    expected="an id and an op for every stage",
                )  # fmt: skip
        yield from _long_id(stage, f"analysis.stages[{number}]", workflow)
        yield from _reference_findings(stage, key, known, workflow)
        yield from _needs_findings(stage, key, stages, workflow)
        yield from _when_findings(stage, key, workflow)
        yield from _port_findings(stage, key, workflow)


def _repeated_ids(stages: Sequence[YamlMapping], workflow: str) -> Iterator[Finding]:
    seen: set[str] = set()
    for number, stage in enumerate(stages):
        name = str(stage.get("id") or "").strip()
        if name in seen:
            yield Finding(
                file=workflow,
                key=f"analysis.stages[{number}].id",
                problem="an earlier stage has the same id",
                value=as_yaml(name),
                expected="an id of its own for each stage",
            )
        seen.update([name] if name else [])


def _long_id(stage: YamlMapping, key: str, workflow: str) -> Iterator[Finding]:
    """Yield an id after which FAST-HEP names files, and no file system takes their names."""
    name, op = str(stage.get("id") or ""), str(stage.get("op"))
    draws = stage.get("render") or op.startswith("hep.render.")
    if not draws and op not in ("hep.hist", "hep.selection.cutflow"):
        return
    longest = _LONGEST_NAME - len("render__0.yaml" if draws else ".json")
    if len(name.encode("utf-8", "replace")) > longest:
        yield Finding(
            file=workflow,
            key=f"{key}.id",
            problem=f"is too long: files are named after it, with more than {_LONGEST_NAME} bytes",
            value=as_yaml(name, 60),
            expected=f"at most {longest} bytes",
            hint="a short id, and the long text as label of an axis or x-note of the stage",
        )


def _reference_findings(
    stage: YamlMapping, key: str, known: set[str], workflow: str
) -> Iterator[Finding]:
    for name in _inputs(stage):
        # Node ids (stage.A, read.events) and clones of a variation (A@up) are FAST-HEP's business.
        plain = name.partition("@")[0]
        if plain in known or plain.partition(".")[2] in known:
            continue
        close = nearest(name, known)
        yield Finding(
            file=workflow,
            key=f"{key}.from",
            problem="no stage, source or join of this name",
            value=as_yaml(name),
            expected=f"one of the workflow's, such as {close!r}" if close else "one of its stages",
        )


def _inputs(stage: YamlMapping) -> list[str]:
    """Return what a stage names in ``from``."""
    raw = stage.get("from", stage.get("in"))
    listed = raw if isinstance(raw, list) else [raw]
    names = (item.get("node") if isinstance(item, dict) else item for item in listed)
    return [name for name in names if isinstance(name, str) and name]


def _order_findings(
    stages: Sequence[YamlMapping], streams: set[str], workflow: str
) -> Iterator[Finding]:
    """Yield stages that take their events from themselves, or from one that comes later."""
    order = {str(stage.get("id")): number for number, stage in enumerate(stages)}
    takes = {str(stage.get("id")): _inputs(stage) for stage in stages}
    for number, stage in enumerate(stages):
        name = str(stage.get("id"))
        for other in takes[name]:
            if other in streams or order.get(other, -1) < number:
                continue
            circle = _way(other, name, takes)
            yield Finding(
                file=workflow,
                key=f"analysis.stages[{name!r}].from",
                problem="takes its events from itself"
                if name == other
                else f"stages take their events from each other: {' from '.join(circle)}"
                if circle
                else "takes its events from a stage that comes later",
                value=as_yaml(other),
                expected="an earlier stage, a source or a join",
                hint=None if circle else f"move stage {name!r} below {other!r}",
            )


def _way(start: str, end: str, takes: Mapping[str, list[str]]) -> list[str]:
    """Return the stages from ``end`` back to itself, if it leads there by way of ``start``."""
    ways, seen = [[end, start]], set()
    while ways:
        way = ways.pop()
        if way[-1] == end:
            return way
        if way[-1] not in seen:
            seen.add(way[-1])
            ways += [[*way, one] for one in takes.get(way[-1], ())]
    return []


def _join_findings(document: YamlMapping, streams: set[str], workflow: str) -> Iterator[Finding]:
    for name, join in mapping(document.get("joins")).items():
        listed = mapping(join).get("inputs")
        for number, item in enumerate(listed if isinstance(listed, list) else ()):
            source = item.get("source") if isinstance(item, dict) else item
            if isinstance(source, str) and source and source not in streams - {str(name)}:
                yield not_among(
                    source,
                    sorted(streams - {str(name)}),
                    problem="no source or join has this name",
                    file=workflow,
                    key=f"joins.{name}.inputs[{number}]",
                )


def _needs_findings(
    stage: YamlMapping, key: str, stages: Sequence[YamlMapping], workflow: str
) -> Iterator[Finding]:
    raw = stage.get("needs")
    known = [str(one.get("id")).strip() for one in stages]
    for name in raw if isinstance(raw, list) else [raw]:
        if isinstance(name, str) and name.strip() and name.strip() not in known:
            problem = "the workflow has no such stage"
            yield not_among(name, known, problem=problem, file=workflow, key=f"{key}.needs")


def _when_findings(stage: YamlMapping, key: str, workflow: str) -> Iterator[Finding]:
    for section in ("write", "render"):
        raw = stage.get(section)
        for number, item in enumerate(raw if isinstance(raw, list) else [raw]):
            when = mapping(item).get("when")
            if when is not None and str(when).strip() not in _WHEN:
                close = nearest(str(when), _WHEN)
                close = _WHEN[_WHEN.index(close) % 3] if close else None
                yield Finding(
                    file=workflow,
                    key=f"{key}.{section}[{number}].when",
                    problem="is not a time at which something can be written",
                    value=as_yaml(when),
                    expected=", ".join(map(repr, _WHEN[:3])),
                    hint=f"did you mean {close!r}?" if close else None,
                )


def _port_findings(stage: YamlMapping, key: str, workflow: str) -> Iterator[Finding]:
    raw = stage.get("from", stage.get("in"))
    listed = [item for item in raw if isinstance(item, dict)] if isinstance(raw, list) else []
    ports: dict[str, list[str]] = {}
    for item in listed:
        ports.setdefault(str(item.get("node")), []).append(str(item.get("port", "stream")))
    for node, names in ports.items():
        if len(names) > 1:
            yield Finding(
                file=workflow,
                key=f"{key}.from",
                problem=f"takes {len(names)} inputs from {node!r}: FAST-HEP keeps one of them "
                "and drops the others",
                value=", ".join(names),
                expected="at most one port of each stage",
                hint="let a stage in between pass the second port on",
            )

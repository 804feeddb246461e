"""Findings about a workflow before FAST-HEP's compiler sees it.

Only what the compiler loses silently, or would write to disk before it can be refused. The language
itself is FAST-HEP's.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from fasthep_smk.config.secret_urls import secret_findings
from fasthep_smk.flow.language import language_findings
from fasthep_smk.flow.places import datasets_at, mapping, stages_of, variations_of
from fasthep_smk.util.documents import YamlMapping
from fasthep_smk.util.errors import Doubt, Finding, not_among
from fasthep_smk.util.names import folder_problem
from fasthep_smk.util.remote import same_file
from fasthep_smk.util.yaml_values import as_yaml


def document_findings(document: YamlMapping, *, workflow: str) -> list[Finding]:
    """Return what is wrong with a workflow whose includes are merged into ``document``."""
    if not document:
        return [Finding(file=workflow, problem="the workflow is empty", expected=_EXPECTED)]
    findings = [
        *secret_findings(document, file=workflow),
        *_dataset_findings(document, workflow),
        *_source_findings(document, workflow),
        *double_findings(document, workflow=workflow),
        *_variation_findings(document, workflow),
        *_stage_findings(document, workflow),
    ]
    keys = {finding.key for finding in findings}
    others = language_findings(document, workflow=workflow)
    if any(
        finding.key == "data" or finding.hint == "did you mean 'datasets'?" for finding in others
    ):
        findings = [finding for finding in findings if finding.problem != _NO_DATASET]
    findings += [finding for finding in others if finding.key not in keys]
    return findings or [*_unnamed(document, workflow)]


_WHEN = ("partition", "dataset", "final", "partition_end", "dataset_end", "run_end")
_NO_DATASET = "there is no dataset: a source of ROOT files has nothing to read"
_EXPECTED = "data.datasets, sources and analysis.stages"
#: What differs between two datasets that list one file by mistake.
_NO_DIFFERENCE = (
    *("name", "files", "nevents", "group", "xs", "n_unskimmed_events", "filter_efficiency"),
    *("comment", "description"),
)
#: By these, an expression tells which of the events are whose; a text of the name alone does not.
_TOLD_APART = re.compile(
    r"""\bdataset_(name|group)\b\s*[^\s'"]|[^\s'"]\s*\bdataset_(name|group)\b"""
)


def name_finding(name: str, problem: str, *, key: str, workflow: str) -> Finding:
    """Return the finding for a dataset or variation that no folder can be named after."""
    shown = repr(name if len(name) <= 60 else f"{name[:57]}...")
    expected = "a name that a folder can have: plain text, no '..', no slash before or after it"
    return Finding(file=workflow, key=key, problem=problem, value=shown, expected=expected)


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
    names: set[str] = set()
    for key, name, _ in datasets_at(document):
        if not name:
            yield Finding(
                file=workflow, key=f"{key}.name", problem="is missing: each dataset needs a name"
            )
        if name and name in names:
            yield Finding(
                file=workflow,
                key="data.datasets",
                problem="two datasets have the same name: the files of one would be lost",
                value=as_yaml(name),
                expected="a name for each dataset; one dataset may list several files",
            )
        if name and (problem := folder_problem(name)):
            yield name_finding(name, problem, key="data.datasets", workflow=workflow)
        names.add(name)
    if not names and root_trees_of(document):
        yield Finding(
            file=workflow,
            key="data.datasets",
            problem=_NO_DATASET,
            expected="at least one dataset with a name and files",
        )


def double_findings(document: Mapping[str, object], *, workflow: str) -> Iterator[Finding]:
    """Yield files that stand twice, in a dataset or in two that nothing tells apart."""
    seen: dict[str, tuple[str, dict[str, object]]] = {}
    exchanged = {
        str(dataset)
        for _, variation in variations_of(document)
        for pair in mapping(mapping(variation.get("datasets")).get("replace")).items()
        for dataset in pair
    }
    told_apart = _TOLD_APART.search(repr(document.get("analysis")))
    for key, name, content in datasets_at(document):
        own = {key: value for key, value in content.items() if key not in _NO_DIFFERENCE}
        files = content.get("files")
        for number, file in enumerate(files if isinstance(files, list) else ()):
            if not isinstance(file, str):
                continue
            same = same_file(file)
            other, facts = seen.get(same, (None, own))
            # By what is said of it, an operation may tell which of the events are whose; of those
            # that variations exchange, one is there.
            same_events = facts == own and not {other, name} <= exchanged and not told_apart
            problem, hint = "the dataset lists this file twice: its events would count twice", None
            if other != name:
                problem = f"dataset {other!r} lists this file, too: its events would count twice"
                hint = "if both are right, add a key that tells them apart, such as part: low_mass"
            if other is not None and (other == name or same_events):
                yield Finding(
                    file=workflow,
                    key=f"{key}.files[{number}]",
                    problem=problem,
                    value=as_yaml(file),
                    expected="each file once",
                    hint=hint,
                )
            seen[same] = (name, own)


def _source_findings(document: YamlMapping, workflow: str) -> Iterator[Finding]:
    """Yield bounds below 0, by which others mean no bound."""
    for name, source in mapping(document.get("sources")).items():
        for key in ("start", "stop") if mapping(source).get("kind") in (None, "root_tree") else ():
            value = mapping(source).get(key)
            if isinstance(value, int) and value < 0:
                yield Doubt(
                    file=workflow,
                    key=f"sources.{name}.{key}",
                    problem=f"{value} counts from the end of each file: some events are left out",
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
    for key, stage in stages_of(document):
        yield from _when_findings(stage, key, workflow)
        yield from _port_findings(stage, key, workflow)


def _unnamed(document: YamlMapping, workflow: str) -> Iterator[Finding]:
    """Yield stages without an id or an op, of which the compiler does not say which they are."""
    for key, stage in stages_of(document):
        for word in ("id", "op"):
            value = stage.get(word)
            if value is None or not str(value).strip():
                problem = f"the stage has no {word!r}"
                yield Finding(file=workflow, key=key, problem=problem)


def _when_findings(stage: YamlMapping, key: str, workflow: str) -> Iterator[Finding]:
    """Yield times at which nothing is written: FAST-HEP knows some that only hooks have."""
    for section in ("write", "render"):
        raw = stage.get(section)
        for number, item in enumerate(raw if isinstance(raw, list) else [raw]):
            when = mapping(item).get("when")
            if when is not None and str(when).strip() not in _WHEN:
                problem = "is not a valid time for writing"
                place = f"{key}.{section}[{number}].when"
                yield not_among(when, _WHEN, problem=problem, file=workflow, key=place)


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
                hint="add a stage in between, which passes on the second port",
            )

"""From a workflow file to a Snakemake workflow: the steps in their order."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fasthep_smk.errors import Finding, Findings, nearest
from fasthep_smk.flow.check import plan_findings, registry_findings
from fasthep_smk.flow.compile import Compiled, compile_workflow, load_document
from fasthep_smk.flow.document import datasets_of, document_findings, root_trees_of
from fasthep_smk.flow.execute import prepare_build
from fasthep_smk.flow.graph import describe
from fasthep_smk.inputs import Inputs, is_remote, problem_finding
from fasthep_smk.leftovers import forget_lost_results
from fasthep_smk.plan.checks import name_findings, output_findings
from fasthep_smk.plan.jobs import make_rules
from fasthep_smk.plan.partitions import check_inputs, make_partitions, sources_of
from fasthep_smk.plan.rules import Rule, Variation
from fasthep_smk.plan.tasks import Granularity
from fasthep_smk.plan.variations import unite_sources
from fasthep_smk.translate.write import Written, write

__all__ = ["Options", "Translation", "from_config", "translate"]

#: FAST-HEP takes the parent of a folder of such a name for the build folder.
_RESERVED_FOLDERS = ("compile", "graph", "render", "reports", "debug", "execution")


@dataclass(frozen=True, kw_only=True)
class Options:
    """What a user chooses about a translation. ``chunk_size`` is in events."""

    workflow: Path
    outdir: Path
    chunk_size: int | None = None
    granularity: Granularity = "auto"
    variation: str | None = None


@dataclass(frozen=True)
class Translation:
    """A translated workflow: its rules, where they were written, what is worth a warning."""

    rules: list[Rule]
    variations: list[Variation]
    written: Written
    warnings: list[str]


def translate(options: Options, *, root: Path) -> Translation:
    """Compile and translate a workflow. ``root`` is where its relative paths start.

    Raises:
        Findings: everything that is wrong with the workflow or its input files.
    """
    build = _build_folder(options.outdir)
    workflow = options.workflow
    shown = str(workflow)
    document = load_document(workflow)
    _raise_if_any(document_findings(document, workflow=shown))
    _find_local_modules(root, workflow)
    _raise_if_any(registry_findings(document, workflow=shown))
    _make(build, options.outdir)
    inputs = Inputs(root, build / "smk" / "cache" / "inputs.json")
    _raise_if_any(_file_findings(document, inputs))
    compiled = _selected(
        compile_workflow(workflow, build, chunk_size=options.chunk_size), options.variation, shown
    )
    findings = [item for one in compiled for item in plan_findings(one.plan, workflow=shown)]
    _raise_if_any(findings)
    variations, warnings = _variations(
        compiled, options.chunk_size, inputs, (root, workflow.resolve().parent)
    )
    findings = name_findings(variations, workflow=shown)
    for item in variations:
        findings += output_findings(item, workflow=shown)
    _raise_if_any(findings)
    unite_sources({item.label: item.graph for item in variations})
    rules = make_rules(variations, options.granularity, root=root)
    for item in variations:
        prepare_build(item.graph.plan, build)
    written = write(rules, variations, build=build, workflow=workflow, root=root)
    forget_lost_results(rules, build)
    return Translation(rules, variations, written, warnings)


def from_config(config: Mapping[str, Any], *, root: Path, write: bool) -> Written:
    """Translate what a Snakemake configuration names; return where it was written.

    Without ``write`` the translation that the main process wrote is used.

    Raises:
        Findings: a setting or the workflow is wrong.
    """
    known = {"workflow", "outdir", "chunk_size", "granularity", "variation"}
    granularity = config.get("granularity", "auto")
    if granularity not in ("auto", "stage"):
        raise Findings.one(
            "unknown granularity",
            key="config: granularity",
            value=repr(granularity),
            expected="auto or stage",
        )
    chunk_size = config.get("chunk_size")
    if chunk_size is not None and (not str(chunk_size).isdigit() or int(chunk_size) < 1):
        raise Findings.one(
            "is not a number of events",
            key="config: chunk_size",
            value=repr(chunk_size),
            expected="a positive whole number",
        )
    for name in config:
        if name not in known:
            close = nearest(name, known)
            raise Findings.one(
                "unknown setting",
                key=f"config: {name}",
                expected=", ".join(sorted(known)),
                hint=f"did you mean {close!r}?" if close else None,
            )
    options = Options(
        workflow=Path(str(config["workflow"])),
        outdir=Path(str(config.get("outdir", "build"))),
        chunk_size=None if chunk_size is None else int(chunk_size),
        granularity=granularity,
        variation=config.get("variation"),
    )
    if write:
        return translate(options, root=root).written
    return Written.below(_build_folder(options.outdir))


def _variations(
    compiled: list[Compiled], chunk_size: int | None, inputs: Inputs, roots: tuple[Path, ...]
) -> tuple[list[Variation], list[str]]:
    variations: list[Variation] = []
    findings: list[Finding] = []
    warnings: list[str] = []
    for one in compiled:
        graph = describe(one.plan, roots)
        sources = sources_of(graph.nodes.values())
        datasets = one.plan.context.get("datasets") or {}
        flow = one.plan.data_flow
        found, warned = check_inputs(
            sources,
            datasets,
            inputs,
            readers={
                column: [graph.nodes[node].stage for node in nodes if node in graph.nodes]
                for column, nodes in (flow.get("consumers") or {}).items()
            },
            made=[
                *(name for node in graph.nodes.values() for name in node.makes),
                *(one.plan.registry.get("functions") or {}),
            ],
        )
        findings += found
        warnings += warned
        if found:
            continue
        partitions = make_partitions(sources, datasets, chunk_size=chunk_size, inputs=inputs)
        variations.append(Variation(one.variation, graph, tuple(partitions)))
    _raise_if_any(findings)
    return variations, list(dict.fromkeys(warnings))


def _selected(compiled: list[Compiled], wanted: str | None, workflow: str) -> list[Compiled]:
    if wanted is None:
        return compiled
    names = [one.variation for one in compiled if one.variation is not None]
    chosen = [one for one in compiled if one.variation == wanted]
    if not chosen:
        close = nearest(wanted, names)
        raise Findings.one(
            "the workflow has no such variation",
            file=workflow,
            key="systematics.variations",
            value=repr(wanted),
            expected=", ".join(names) or "no --variation: the workflow has no systematics",
            hint=f"did you mean {close!r}?" if close else None,
        )
    return chosen


def _build_folder(outdir: Path) -> Path:
    build = outdir.absolute()
    if build.name in _RESERVED_FOLDERS:
        raise Findings.one(
            "this name has a meaning inside a FAST-HEP build folder",
            key="--outdir",
            value=str(outdir),
            expected=f"another name than {', '.join(_RESERVED_FOLDERS)}",
        )
    if build.exists() and not build.is_dir():
        raise Findings.one("is a file, not a folder", key="--outdir", value=str(outdir))
    return build


def _make(build: Path, outdir: Path) -> None:
    try:
        build.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise Findings.one(
            f"the folder cannot be made: {error.strerror or error}",
            key="--outdir",
            value=str(outdir),
            expected="a folder that you may write to",
        ) from error


def _file_findings(document: Mapping[str, Any], inputs: Inputs) -> list[Finding]:
    """Return what is wrong with ROOT files, before FAST-HEP's compiler opens them."""
    trees = root_trees_of(document)
    if not trees:
        return []
    findings: list[Finding] = []
    for name, content in datasets_of(document):
        listed = content.get("files")
        local = (
            [str(file) for file in listed if isinstance(file, str) and not is_remote(file)]
            if isinstance(listed, list)
            else []
        )
        facts = inputs.look(local, trees)
        findings += [
            problem_finding(file, name, problem)
            for file in local
            if (problem := facts[file].problem)
        ]
    return findings


def _find_local_modules(root: Path, workflow: Path) -> None:
    """Let a workflow's own modules be imported from the current folder and from beside it."""
    for folder in (str(root), str(workflow.resolve().parent)):
        if folder not in sys.path:
            sys.path.append(folder)


def _raise_if_any(findings: list[Finding]) -> None:
    if findings:
        raise Findings(list({str(item): item for item in findings}.values()))

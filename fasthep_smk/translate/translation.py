"""From a workflow file to a Snakemake workflow: the steps in their order."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from fasthep_smk import sites
from fasthep_smk.config import schema
from fasthep_smk.config.execution import Execution, read_execution
from fasthep_smk.config.site import load_site
from fasthep_smk.flow.check import plan_findings, registry_findings
from fasthep_smk.flow.compile import Compiled, compile_workflow, load_document, load_with_digests
from fasthep_smk.flow.graph import describe
from fasthep_smk.flow.local_modules import find_local_modules
from fasthep_smk.flow.module_state import state_warnings
from fasthep_smk.flow.modules import modules_of
from fasthep_smk.flow.named_files import NamedFiles
from fasthep_smk.flow.op_identity import modules_of_entry
from fasthep_smk.flow.overlay import compilable, overlay, profile_sections
from fasthep_smk.flow.patches.quick_yaml import quick_yaml
from fasthep_smk.flow.runtime import prepare_build
from fasthep_smk.flow.workflow_checks import (
    datasets_of,
    document_findings,
    ignored_reads,
    pickles_of,
    root_trees_of,
)
from fasthep_smk.plan.bundles import BundleSize, bundle
from fasthep_smk.plan.checks import name_findings, output_findings
from fasthep_smk.plan.jobs import make_rules
from fasthep_smk.plan.partitions import check_inputs, make_partitions, sources_of
from fasthep_smk.plan.rules import Rule, Variation
from fasthep_smk.plan.tasks import Granularity
from fasthep_smk.plan.variations import unite_sources
from fasthep_smk.reuse import Settled, asked, settle
from fasthep_smk.reuse.times import seconds
from fasthep_smk.storage.inputs import Inputs, problem_finding
from fasthep_smk.storage.observed import (
    Checks,
    Surroundings,
    keep_environment,
    start_environment,
    written,
)
from fasthep_smk.storage.outdir import build_folder, make_folder
from fasthep_smk.translate.placement import place, unsafe_path
from fasthep_smk.translate.profile import Placement
from fasthep_smk.translate.write import Written, write
from fasthep_smk.util.errors import Finding, Findings, nearest
from fasthep_smk.util.remote import is_remote
from fasthep_smk.util.scratch import scratch

__all__ = [
    "Options",
    "Planned",
    "Translation",
    "execution_of",
    "plan",
    "translate",
]


@dataclass(frozen=True, kw_only=True)
class Options:
    """What a user chooses about a translation. ``chunk_size`` is in events.

    ``profile`` names a site; ``shrink_to_fit`` cuts what is larger than the one machine there.
    ``identity`` says what makes an input file the same: size and time, or the checksum. ``bundle``
    is how many partitions share a job. ``verify`` reads all files of finished jobs. ``without``
    are partitions (dataset and part) that are left out of all reductions, each with what went wrong
    with it. ``rerun`` are stages to run again, each with a token that is new every time.
    """

    workflow: Path
    outdir: Path
    chunk_size: int | None = None
    granularity: Granularity = "auto"
    bundle: BundleSize = "auto"
    variation: str | None = None
    profile: str | None = None
    shrink_to_fit: bool = False
    identity: Literal["stat", "checksum"] = "stat"
    verify: bool = False
    without: Mapping[tuple[str, str], str] = field(default_factory=dict)
    rerun: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Planned:
    """A workflow cut into rules and sent to a site; nothing of it is written yet."""

    rules: list[Rule]
    variations: list[Variation]
    execution: Execution
    placement: Placement
    warnings: list[str]
    inputs: Inputs
    named: NamedFiles
    documents: Mapping[str, str]
    pickles_of: list[str]


@dataclass(frozen=True)
class Translation:
    """A translated workflow: its rules, where they were written, what is worth a warning.

    ``settled`` tells which of its jobs are done already, and why the others are not. ``without``
    are the partitions that are left out, as in the options.
    """

    rules: list[Rule]
    variations: list[Variation]
    written: Written
    placement: Placement
    warnings: list[str]
    settled: Settled
    planned: Planned
    without: Mapping[tuple[str, str], str] = field(default_factory=dict)


def translate(options: Options, *, root: Path) -> Translation:
    """Compile and translate a workflow. ``root`` is where its relative paths start.

    Raises:
        Findings: everything that is wrong with the workflow or its input files.
    """
    build = build_folder(options.outdir)
    planned = _plan(options, build, root)
    for item in planned.variations:
        prepare_build(item.graph.plan, build)
    surroundings = Surroundings(root, keep_environment(build))
    checks = Checks(build, surroundings, planned.named)
    partial = options.variation is not None
    settled = settle(planned.rules, build, checks, partial=partial, verify=options.verify)
    written = write(
        planned.rules,
        planned.variations,
        build=build,
        workflow=options.workflow,
        root=root,
        placement=planned.placement,
        settled=settled,
        without=options.without,
        ignore_reads=planned.named.ignored,
        pickles_of=planned.pickles_of,
        stat=planned.inputs.stat,
    )
    unreadable = map(_unreadable_record, settled.unreadable[:3])
    warnings = [*planned.warnings, *unreadable, *settled.damaged[:3]]
    return Translation(
        planned.rules,
        planned.variations,
        written,
        planned.placement,
        warnings,
        settled,
        planned,
        options.without,
    )


def plan(options: Options, *, root: Path) -> Planned:
    """Do all that :func:`translate` does before it writes; leave no file behind.

    Raises:
        Findings: everything that is wrong with the workflow, its input files or the site.
    """
    with scratch() as folder:
        return _plan(options, folder / "build", root)


@quick_yaml()
def _plan(options: Options, build: Path, root: Path) -> Planned:
    start_environment()  # before a module of the user's is imported
    workflow = options.workflow
    shown = str(workflow)
    document, documents = load_with_digests(workflow)
    execution, findings = _execution(document, options, root)
    _raise_if_any(
        [
            *document_findings(document, workflow=shown),
            *schema.findings_of(document.get("smk"), "smk", file=shown, key="smk"),
            *findings,
        ]
    )
    assert execution is not None, "without findings there is an execution"
    unsafe = unsafe_path(execution, build_folder(options.outdir).absolute(), root)
    _raise_if_any([unsafe] if unsafe else [])
    site = execution.site
    execution.router.retries = site.settings.get("retries", sites.system(site.system).RETRIES)
    not_searched = find_local_modules(root, workflow, modules_of_entry(document.get("registry")))
    _raise_if_any(registry_findings(document, workflow=shown))
    make_folder(build, options.outdir)
    inputs = Inputs(root, build / "smk" / "cache" / "inputs.json")
    _raise_if_any(_file_findings(document, inputs))
    source = workflow
    if not compilable(document):
        source = overlay(document, workflow, build / "smk" / "overlay.yaml", execution.asked)
    compiled = _selected(
        compile_workflow(workflow, build, chunk_size=options.chunk_size, source=source),
        options.variation,
        shown,
    )
    findings = [item for one in compiled for item in plan_findings(one.plan, workflow=shown)]
    _raise_if_any(findings)
    unknown = inputs.ask_servers(_files_of(compiled))
    earlier = build_folder(options.outdir)
    named = NamedFiles(
        (root, workflow.resolve().parent),
        ignored_reads(document),
        own=[build, earlier],
    ).knowing(written(earlier, root))
    reruns = asked.tokens(earlier, options.rerun)
    variations, warnings = _variations(compiled, options.chunk_size, inputs, named, reruns)
    _raise_if_any(_unknown_stages(options, variations))
    findings = name_findings(variations, workflow=shown)
    for item in variations:
        findings += output_findings(item, workflow=shown)
    _raise_if_any(findings)
    unite_sources({item.label: item.graph for item in variations})
    if unknown:
        warnings.append(_unknown_files(unknown))
    warnings += state_warnings((name for one in compiled for name in modules_of(one.plan)), root)
    rules = make_rules(
        variations,
        options.granularity,
        identity=inputs.identity if options.identity == "stat" else inputs.checksum,
        router=execution.router,
        without=frozenset(options.without),
    )
    placement, findings, notes = place(rules, execution, shrink=options.shrink_to_fit)
    _raise_if_any(findings)
    bundle(
        rules,
        options.bundle,
        seconds=lambda rule: seconds(rule, earlier),
        apart=placement.together,
        without=options.without,
    )
    said = [text for rule in rules for text in rule.warnings]
    warnings = list(dict.fromkeys([*execution.notices, *not_searched, *warnings, *said, *notes]))
    return Planned(
        rules,
        variations,
        execution,
        placement,
        warnings,
        inputs,
        named,
        documents,
        pickles_of(document),
    )


def execution_of(workflow: Path | None, profile: str | None, *, root: Path) -> Execution:
    """Return where stages run: by a workflow and a site, or the pools of a site alone.

    Raises:
        Findings: something is wrong with what is said about it.
    """
    if workflow is not None:
        document = load_document(workflow)
        options = Options(workflow=workflow, outdir=Path("build"), profile=profile)
        execution, findings = _execution(document, options, root)
    else:
        # Every pool profile of the site is a pool, as if a workflow used them all.
        site = load_site(profile, "local", workflow="")
        pools: dict[str, Any] = {name: {} for name in site.pool_profiles}
        document = {"execution": {"pools": pools}}
        execution, findings = read_execution(document, {}, profile=profile, workflow="")
    _raise_if_any(findings)
    assert execution is not None, "without findings there is an execution"
    return execution


def _execution(
    document: Mapping[str, Any], options: Options, root: Path
) -> tuple[Execution | None, list[Finding]]:
    """Return where stages run, or what is wrong with what is said about it."""
    shape = document.get("execution")
    if shape is not None and not isinstance(shape, dict):
        return None, []  # among the findings of the document
    return read_execution(
        document,
        profile_sections(document, options.workflow, root),
        profile=options.profile,
        workflow=str(options.workflow),
    )


def _variations(
    compiled: list[Compiled],
    chunk_size: int | None,
    inputs: Inputs,
    named: NamedFiles,
    reruns: Mapping[str, str],
) -> tuple[list[Variation], list[str]]:
    variations: list[Variation] = []
    findings: list[Finding] = []
    warnings: list[str] = []
    for one in compiled:
        graph = describe(one.plan, named, reruns)
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


def _unknown_stages(options: Options, variations: Iterable[Variation]) -> list[Finding]:
    nodes = [node for item in variations for node in item.graph.nodes.values()]
    stages = list(
        dict.fromkeys(str(node.meta["stage_id"]) for node in nodes if node.meta.get("stage_id"))
    )
    return [
        Finding(
            file=str(options.workflow),
            key="--rerun",
            problem="the workflow has no such stage",
            value=repr(name),
            expected=", ".join(stages),
            hint=f"did you mean {close!r}?" if (close := nearest(name, stages)) else None,
        )
        for name in options.rerun
        if name not in stages
    ]


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


def _file_findings(document: Mapping[str, Any], inputs: Inputs) -> list[Finding]:
    """Return what is wrong with ROOT files, before FAST-HEP's compiler opens them."""
    trees = root_trees_of(document)
    if not trees:
        return []
    local = [
        (name, [file for file in listed if isinstance(file, str) and not is_remote(file)])
        for name, content in datasets_of(document)
        if isinstance(listed := content.get("files"), list)
    ]
    groups = [listed for _, listed in local]
    facts = inputs.look([file for listed in groups for file in listed], trees, alike=groups)
    return [
        problem_finding(file, name, problem)
        for name, listed in local
        for file in listed
        if (problem := facts[file].problem)
    ]


def _files_of(compiled: list[Compiled]) -> list[str]:
    return [
        str(file)
        for one in compiled
        for dataset in (one.plan.context.get("datasets") or {}).values()
        for file in dataset.get("files") or ()
    ]


def _unknown_files(paths: list[str]) -> str:
    more = f" and {len(paths) - 1} more" if len(paths) > 1 else ""
    return f"nothing can be learnt of {paths[0]}{more}: a change of the content will not be noticed"


def _unreadable_record(path: Path) -> str:
    return f"{path} is damaged, or of another version: its job runs again"


def _raise_if_any(findings: list[Finding]) -> None:
    if findings:
        raise Findings(list({str(item): item for item in findings}.values()))

"""From a workflow file to a Snakemake workflow: the steps, each with what it adds."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from fasthep_smk import sites
from fasthep_smk.config import schema
from fasthep_smk.config.execution import Execution, load_site, read_execution
from fasthep_smk.config.run_settings import RunSettings
from fasthep_smk.flow import check, release
from fasthep_smk.flow.compile import (
    CompiledPlan,
    compile_workflow,
    load_with_digests,
    registry_of,
)
from fasthep_smk.flow.files_written import prepare_build
from fasthep_smk.flow.graph import describe
from fasthep_smk.flow.language import operation_findings
from fasthep_smk.flow.local_modules import find_local_modules
from fasthep_smk.flow.locations import located, yaml_slips
from fasthep_smk.flow.meaning import meaning_findings
from fasthep_smk.flow.modules import own_modules_of
from fasthep_smk.flow.named_files import NamedFiles
from fasthep_smk.flow.op_identity import modules_of_entry
from fasthep_smk.flow.overlay import compilable, overlay, profile_sections
from fasthep_smk.flow.patches.naming import naming, told_of_graph
from fasthep_smk.flow.patches.quick_yaml import quick_yaml
from fasthep_smk.flow.places import stages_of
from fasthep_smk.flow.profiles import profile_findings
from fasthep_smk.flow.workflow_checks import (
    document_findings,
    exports_of,
    ignored_reads,
)
from fasthep_smk.plan.bundles import bundle
from fasthep_smk.plan.checks import name_findings, output_findings
from fasthep_smk.plan.jobs import make_rules
from fasthep_smk.plan.node_routes import gpu_findings
from fasthep_smk.plan.partitions import (
    Place,
    check_inputs,
    counting,
    files_of,
    make_partitions,
    sources_of,
)
from fasthep_smk.plan.rules import Rule, Variation
from fasthep_smk.reuse import Reuse, asked, reuse_results
from fasthep_smk.reuse.store import seconds
from fasthep_smk.storage import layout
from fasthep_smk.storage.inputs import Inputs
from fasthep_smk.storage.observed import (
    Checks,
    Surroundings,
    keep_environment,
    start_environment,
    written,
)
from fasthep_smk.storage.outdir import build_folder
from fasthep_smk.translate.accepted import check_places, take_compiled
from fasthep_smk.translate.flights import Preflight
from fasthep_smk.translate.input_files import (
    entries_told,
    file_findings,
    hidden_columns,
)
from fasthep_smk.translate.placement import at_once, joined, settle_pilots, staffed, unsafe_path
from fasthep_smk.translate.placement import place as place_rules
from fasthep_smk.translate.profile import Placement
from fasthep_smk.translate.write import Written
from fasthep_smk.translate.write import write as write_files
from fasthep_smk.util import disk_full
from fasthep_smk.util.documents import YamlMapping
from fasthep_smk.util.errors import Doubt, Finding, Findings, WrongArgument, nearest, not_among
from fasthep_smk.util.yaml_values import as_yaml

if TYPE_CHECKING:
    from fasthep_smk.config.sizes import Size
    from fasthep_smk.plan.sample import Sampled


@dataclass(frozen=True, kw_only=True)
class Start:
    """What a run begins with; each step of it adds what it has made.

    Relative paths start in ``root``. FAST-HEP compiles into ``aside``, a new folder that is
    thrown away: a workflow that is refused changes no results. What is accepted goes below
    ``build``, which is the folder that the user has named, or an image of it.
    """

    settings: RunSettings
    root: Path
    build: Path
    aside: Path

    @property
    def shown(self) -> str:
        """The workflow file, as the user calls it."""
        return str(self.settings.workflow)

    @property
    def earlier(self) -> Path:
        """The build folder that the user has named: what earlier runs left there may count."""
        return build_folder(self.settings.outdir)


@dataclass(frozen=True, kw_only=True)
class Loaded(Start):
    """The workflow with its includes, where its stages may run, and sizes that were measured.

    ``digests`` are those of the files that the workflow is made of, by path.
    """

    document: YamlMapping
    digests: Mapping[str, str]
    execution: Execution
    sizes: Sequence[Size]


@dataclass(frozen=True, kw_only=True)
class Compiled(Loaded):
    """The plans of FAST-HEP's compiler: one, or one for each systematic variation."""

    plans: list[CompiledPlan]
    inputs: Inputs
    warnings: list[str]


@dataclass(frozen=True, kw_only=True)
class Planned(Compiled):
    """The plans cut into rules and their jobs. ``named`` finds files that parameters name.

    ``sample`` tells which partitions are left out because only some are wanted.
    """

    rules: list[Rule]
    variations: list[Variation]
    named: NamedFiles
    sample: Sampled | None

    @property
    def left_out(self) -> frozenset[Place]:
        """The partitions that results lack: not in the sample, or not to be had."""
        sample = self.sample.left_out if self.sample else frozenset()
        return sample | self.settings.without.keys()


@dataclass(frozen=True, kw_only=True)
class Placed(Planned):
    """Each rule sent to a pool of the site, and its jobs to bundles; nothing is written yet."""

    placement: Placement


@dataclass(frozen=True, kw_only=True)
class Reconciled(Placed):
    """``reuse`` tells which jobs are done already, and why the others are not."""

    reuse: Reuse


@dataclass(frozen=True, kw_only=True)
class Translation(Reconciled):
    """The Snakemake workflow, and where it was written."""

    written: Written


#: Where the input files and their trees are said: what is wrong there can make them wrong, too.
_OF_FILES = ("data", "sources", "use", "registry", "include")

_Made = TypeVar("_Made", bound=Start)


def _adding(kind: type[_Made], to: Start, **added: object) -> _Made:
    """Return what earlier steps have made, with what the next one adds or replaces."""
    return kind(**{**vars(to), **added})


def _inputs(start: Start) -> Inputs:
    known, kept = (folder / layout.INPUTS for folder in (start.earlier, start.build))
    return Inputs(start.root, known, keep_in=kept)


@quick_yaml()
def load(start: Start) -> Loaded:
    """Read the workflow, its profiles and the site.

    Raises:
        Findings: a file cannot be read, or something is wrong with what it says.
        DoesNotFit: the installed FAST-HEP is not one that can be used.
    """
    start_environment()  # before a module of the user's is imported
    note = release.check()
    settings = start.settings
    document, digests = load_with_digests(settings.workflow)
    # First: what else seems to be wrong may follow from what YAML does not read as it is written.
    _refuse(yaml_slips(map(Path, digests), workflow=settings.workflow, shown=start.shown))
    of_document = document_findings(document, workflow=start.shown)
    execution: Execution | None = None
    try:
        execution, of_execution = read_execution(
            document,
            profile_sections(document, settings.workflow, start.root),
            profile=settings.profile,
            workflow=start.shown,
            options=settings.site_options,
        )
    except Findings as error:
        of_execution = [] if of_document else error.findings
    findings = [
        *profile_findings(document, settings.workflow, start.root),
        *of_document,
        *schema.findings_of(document.get("smk"), "smk", file=start.shown, key="smk"),
        *_unsaid(of_execution, of_document),
    ]
    certain = [finding for finding in findings if not isinstance(finding, Doubt)]
    if certain and not any((finding.key or "").startswith(_OF_FILES) for finding in certain):
        findings += file_findings(document, _inputs(start), settings.workflow)
    notes = _refuse(findings, start, document)
    assert execution is not None, "without findings there is an execution"
    beside = settings.workflow.resolve().parent
    unsafe = unsafe_path(execution, start.earlier.absolute(), start.root, beside)
    _refuse([unsafe] if unsafe else [])
    site = execution.site
    execution.router.retries = site.settings.get("retries", sites.system(site.system).RETRIES)
    notes = [note, *notes] if note else notes
    execution = replace(execution, notices=(*notes, *execution.notices))
    sizes: list[Size] = []
    if settings.sizes:
        from fasthep_smk.config.sizes import read_sizes

        sizes = read_sizes(settings.sizes)
    return _adding(
        Loaded, start, document=document, digests=digests, execution=execution, sizes=sizes
    )


@quick_yaml()
def compile_plans(loaded: Loaded) -> Compiled:
    """Let FAST-HEP compile the workflow.

    Raises:
        Findings: it refuses the workflow, or a module or an input file is missing or wrong.
    """
    settings, document, aside = loaded.settings, loaded.document, loaded.aside.resolve()
    workflow, root = settings.workflow, loaded.root
    not_searched = find_local_modules(root, workflow, modules_of_entry(document.get("registry")))
    inputs = _inputs(loaded)
    findings = check.registry_findings(document, workflow=loaded.shown)
    findings += file_findings(document, inputs, workflow)
    _refuse(findings, loaded, document)
    source = workflow
    if not compilable(document):
        source = overlay(document, workflow, aside / layout.OVERLAY, loaded.execution.asked)
    try:
        with (
            disk_full.saying(aside.parent),
            naming(aside, loaded.earlier),
            entries_told(document, inputs, loaded.shown),
        ):
            compiled = compile_workflow(
                workflow, aside, chunk_size=settings.chunk_size, source=source
            )
        told_of_graph(aside, loaded.earlier)
    except Findings as error:
        # FAST-HEP stops at the first one, and names no key.
        findings = _unsaid(_of_operations(document, loaded), error.findings) or error.findings
        with contextlib.suppress(Findings):  # a profile is what is wrong
            ops = [str(stage.get("op")) for _, stage in stages_of(document)]
            registry = registry_of(document, workflow, root)
            unregistered = check.unregistered_finding(registry, ops, workflow=loaded.shown)
            findings = [unregistered] if unregistered else findings
        _refuse(findings, loaded)
    plans = _selected(compiled, settings.variation, loaded.shown)
    varied = [variant.plan for variant in plans]
    findings = [
        finding for plan in varied for finding in check.plan_findings(plan, workflow=loaded.shown)
    ]
    of_parameters: list[Finding] = []
    if not findings:  # what an unknown operation takes is not known
        for plan in varied:
            of_parameters += check.parameter_findings(plan, document, workflow=loaded.shown)
    findings += operation_findings(document, varied[0].registry, workflow=loaded.shown)
    if all(isinstance(finding, Doubt) for finding in findings):  # nor what it makes
        findings += meaning_findings(varied, document, workflow=loaded.shown)
    # A parameter that is misspelt is missing, too.
    stages = {_stage(finding) for finding in findings if not isinstance(finding, Doubt)}
    findings += [finding for finding in of_parameters if _stage(finding) not in stages]
    notes = _refuse(findings, loaded)
    compiler_said = [text for variant in plans for text in variant.warnings]
    warnings = [*loaded.execution.notices, *notes, *not_searched, *compiler_said]
    return _adding(Compiled, loaded, plans=plans, inputs=inputs, warnings=warnings)


def plan(compiled: Compiled) -> Planned:
    """Cut the plans into rules, and each rule into jobs with what identifies their results.

    Raises:
        Findings: something is wrong with input files, names or outputs.
    """
    settings, inputs, earlier = compiled.settings, compiled.inputs, compiled.earlier
    unknown = inputs.ask_servers(
        file for variant in compiled.plans for file in files_of(variant.plan)
    )
    named = NamedFiles(
        (compiled.root, settings.workflow.resolve().parent),
        ignored_reads(compiled.document),
        own=[compiled.build, earlier],
        made=written(earlier, compiled.root),
    )
    reruns = asked.tokens(earlier, settings.rerun)
    variations, warnings = _variations(compiled, named, reruns)
    nodes = [node for item in variations for node in item.graph.nodes.values()]
    stages = dict.fromkeys(
        str(node.meta["stage_id"]) for node in nodes if node.meta.get("stage_id")
    )
    problem, key = "the workflow has no such stage", "--rerun"
    unknown_stages = [
        not_among(name, stages, problem=problem, file=compiled.shown, key=key)
        for name in settings.rerun
        if name not in stages
    ]
    if unknown_stages:
        raise WrongArgument(unknown_stages)
    findings = name_findings(variations, workflow=compiled.shown)
    findings += output_findings(variations, workflow=compiled.shown)
    _refuse(findings, compiled)
    with Preflight(
        ()
        if settings.no_preflight or os.environ.get("FASTHEP_SMK_PREFLIGHT") == ""
        else variations,
        compiled.document,
        inputs,
        compiled.execution,
        workflow=compiled.shown,
        # Not where FAST-HEP compiles: what is there gets into the build folder.
        folder=compiled.aside.with_name("first_events"),
        without=settings.without,
        plots=settings.try_plots,
    ) as preflight:
        if unknown:
            more = f" and {len(unknown) - 1} more files" if len(unknown) > 1 else ""
            warnings.append(
                f"the size and time of {unknown[0]}{more} are not known, so fasthep-smk cannot see "
                "whether their content changes"
            )
        own = dict.fromkeys(
            name for variant in compiled.plans for name in own_modules_of(variant.plan)
        )
        if own:
            from fasthep_smk.flow.module_state import state_warnings

            warnings += state_warnings(own, compiled.root)
        inputs.forget_unused()
        sample = None
        if settings.sample is not None:
            from fasthep_smk.plan.sample import sampled

            graphs = (item.graph for item in variations)
            sample = sampled(variations, settings.sample, counting(graphs, inputs))
        rules = make_rules(
            variations,
            settings.granularity,
            identity=inputs.identity if settings.identity == "stat" else inputs.checksum,
            router=compiled.execution.router,
            without=settings.without,
            sample=sample,
            exports=exports_of(compiled.document),
        )
        findings, doubts = preflight.outcome()
    _refuse(findings, compiled)
    warnings += doubts
    warnings += [text for rule in rules for text in rule.warnings]
    return _adding(
        Planned,
        compiled,
        rules=rules,
        variations=variations,
        named=named,
        sample=sample,
        warnings=[*compiled.warnings, *warnings],
    )


def place(planned: Planned) -> Placed:
    """Send each rule to a pool of the site, and several of its partitions to one job.

    Raises:
        Findings: a stage has no pool, or asks for what there is not; or a size fits no rule or
            pool.
    """
    settings, earlier, execution = planned.settings, planned.earlier, planned.execution
    rules = planned.rules
    notes = settle_pilots(rules, execution)
    bundle(
        rules,
        settings.bundle,
        seconds=lambda rule: seconds(rule, earlier),
        events=counting((item.graph for item in planned.variations), planned.inputs),
        at_once=lambda rule: at_once(rule, execution, settings.jobs),
        apart=joined(rules, execution),
        without=planned.left_out,
    )
    placement, findings, more = place_rules(
        rules, execution, shrink=settings.shrink_to_fit, sizes=planned.sizes, build=earlier
    )
    findings += gpu_findings(planned.variations, execution)
    _refuse(findings, planned)
    placement, of_pilots = staffed(placement, rules)
    warnings = list(dict.fromkeys([*planned.warnings, *notes, *more, *of_pilots]))
    return _adding(Placed, planned, placement=placement, warnings=warnings)


def reconcile(placed: Placed) -> Reconciled:
    """Find what earlier runs have left that counts, and archive what does not.

    Here the build folder is written to for the first time: nothing refuses the workflow any more.
    """
    settings, build = placed.settings, placed.build
    check_places(placed.aside, placed.earlier, [*map(Path, placed.digests)])
    take_compiled(placed.aside, build)
    for item in placed.variations:
        prepare_build(item.graph.plan, build)
    named = placed.named
    surroundings = Surroundings(
        placed.root, keep_environment(build), named.ignored, named.roots[-1]
    )
    checks = Checks(build, surroundings, named)
    one_of_several = settings.variation is not None
    reuse = reuse_results(
        placed.rules, build, checks, partial=one_of_several, verify=settings.verify
    )
    if placed.sample is not None:
        unneeded = placed.sample.unneeded(placed.rules)
        reuse.reasons = {
            folder: why for folder, why in reuse.reasons.items() if folder not in unneeded
        }
    records = (placed.earlier / path.relative_to(build) for path in reuse.unreadable[:3])
    unreadable = (
        f"{path} is damaged, or another version of fasthep-smk wrote it: its job runs again"
        for path in records
    )
    warnings = [*placed.warnings, *unreadable, *reuse.damaged[:3]]
    return _adding(Reconciled, placed, reuse=reuse, warnings=warnings)


def write(reconciled: Reconciled) -> Translation:
    """Write Snakefile, task tables and profile."""
    written = write_files(
        reconciled.rules,
        reconciled.variations,
        reconciled.placement,
        reconciled.reuse,
        reconciled.settings,
        build=reconciled.build,
        root=reconciled.root,
        document=reconciled.document,
        ignored=reconciled.named.ignored,
        stat=reconciled.inputs.stat,
    )
    return _adding(Translation, reconciled, written=written)


def execution_of_site(profile: str | None) -> Execution:
    """Return where stages may run by a site alone: its pool profiles are the pools.

    Raises:
        Findings: something is wrong with the site.
    """
    site = load_site(profile, "default", workflow="")
    pools: dict[str, YamlMapping] = {name: {} for name in site.said.get("pool_profiles") or ()}
    document = {"execution": {"pools": pools}}
    execution, findings = read_execution(document, {}, profile=profile, workflow="")
    _refuse(findings)
    assert execution is not None, "without findings there is an execution"
    return execution


def _variations(
    compiled: Compiled, named: NamedFiles, reruns: Mapping[str, str]
) -> tuple[list[Variation], list[str]]:
    inputs, document, workflow = compiled.inputs, compiled.document, compiled.shown
    variations: list[Variation] = []
    findings: dict[object, Finding] = {}
    warnings: list[str] = []
    for variant in compiled.plans:
        graph = describe(variant.plan, named, reruns)
        sources = sources_of(graph.nodes.values())
        datasets = variant.plan.context.get("datasets") or {}
        wrong, lacks, warned = check_inputs(sources, datasets, inputs)
        if lacks:
            from fasthep_smk.flow.missing_branches import branch_findings

            readers = {
                column: [graph.nodes[node].stage for node in nodes if node in graph.nodes]
                for column, nodes in (variant.plan.data_flow.get("consumers") or {}).items()
            }
            wrong += branch_findings(lacks, variant.plan, document, readers, workflow=workflow)
        wrong += hidden_columns(variant.plan, sources, inputs, document, workflow=workflow)
        for finding in wrong:  # the same is mostly read in all variations
            findings.setdefault((finding.file, finding.key, finding.problem), finding)
        warnings += warned
        if not wrong:
            chunk_size = compiled.settings.chunk_size
            partitions = make_partitions(sources, datasets, chunk_size=chunk_size, inputs=inputs)
            variations.append(Variation(variant.variation, graph, tuple(partitions)))
    _refuse(findings.values(), compiled)
    return variations, list(dict.fromkeys(warnings))


def _selected(
    compiled: list[CompiledPlan], wanted: str | None, workflow: str
) -> list[CompiledPlan]:
    chosen = [variant for variant in compiled if wanted in (None, variant.variation)]
    if not chosen:
        names = [variant.variation for variant in compiled if variant.variation is not None]
        close = nearest(str(wanted), names)
        raise WrongArgument.one(
            "the workflow has no such variation",
            file=workflow,
            key="systematics.variations",
            value=as_yaml(wanted),
            expected=", ".join(names) or "no --variation (the workflow has no systematics)",
            hint=f"did you mean {close!r}?" if close else None,
        )
    return chosen


def _stage(finding: Finding) -> str:
    return (finding.key or "").partition(".params")[0]


def _unsaid(findings: Iterable[Finding], said: Iterable[Finding]) -> list[Finding]:
    """Return findings but for those on keys of which something is ``said``."""
    keys = {finding.key for finding in said} - {None}
    return [finding for finding in findings if finding.key not in keys]


def _of_operations(document: YamlMapping, start: Start) -> list[Finding]:
    """Return what is surely wrong with parameters of FAST-HEP's operations."""
    with contextlib.suppress(Findings):  # a profile is what is wrong
        registry = registry_of(document, start.settings.workflow, start.root)
        findings = operation_findings(document, registry, workflow=start.shown)
        return [finding for finding in findings if not isinstance(finding, Doubt)]
    return []


def _refuse(
    findings: Iterable[Finding], start: Start | None = None, document: YamlMapping | None = None
) -> list[str]:
    """Raise ``Findings``, each once, if something is wrong; return what may be right, in words.

    With ``start`` they are told with their lines, and those on operations of a ``document``, too.
    """
    findings = list(findings)
    certain = [finding for finding in findings if not isinstance(finding, Doubt)]
    if certain and start is not None and document is not None:
        certain += _unsaid(_of_operations(document, start), certain)
    told = certain or findings  # doubts, if nothing is certain
    if start is not None:
        told = located(told, start.settings.workflow, shown=start.shown)
    if certain:
        raise Findings(list({str(finding): finding for finding in told}.values()))
    return [f"{finding.at or finding.file}: {finding.key}: {finding.problem}" for finding in told]

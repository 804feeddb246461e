"""From a workflow file to a Snakemake workflow: the steps, each with what it adds."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
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
    pickles_of,
)
from fasthep_smk.plan.bundles import bundle
from fasthep_smk.plan.checks import name_findings, output_findings, shared_findings
from fasthep_smk.plan.jobs import make_rules
from fasthep_smk.plan.node_routes import gpu_findings
from fasthep_smk.plan.partitions import (
    Place,
    check_inputs,
    counting,
    make_partitions,
    sources_of,
)
from fasthep_smk.plan.rules import Rule, Variation
from fasthep_smk.plan.variations import unite_sources
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
    files_of_plan,
    hidden_columns,
)
from fasthep_smk.translate.placement import place as place_rules
from fasthep_smk.translate.placement import slots, staffed, unsafe_path
from fasthep_smk.translate.profile import Placement
from fasthep_smk.translate.write import Contents, Written, refuse_unseen
from fasthep_smk.translate.write import write as write_files
from fasthep_smk.util import disk_full
from fasthep_smk.util.documents import YamlMapping
from fasthep_smk.util.errors import Doubt, Finding, Findings, WrongArgument, nearest, not_among
from fasthep_smk.util.yaml_values import as_yaml

if TYPE_CHECKING:
    from fasthep_smk.config.sizes import Size
    from fasthep_smk.flow.missing_branches import Lack
    from fasthep_smk.flow.shapes import Plan
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
    before = {field.name: getattr(to, field.name) for field in fields(to)}
    return kind(**{**before, **added})


def _inputs(start: Start) -> Inputs:
    known, kept = (folder / layout.INPUTS for folder in (start.earlier, start.build))
    return Inputs(start.root, known, keep_in=kept)


def _and_operations(findings: list[Finding], document: YamlMapping, start: Start) -> list[Finding]:
    """Return findings, if there are any, with those about parameters of FAST-HEP's operations."""
    keys, more = {finding.key for finding in findings}, list[Finding]()
    if findings:
        with contextlib.suppress(Findings):  # a profile is what is wrong
            registry = registry_of(document, start.settings.workflow, start.root)
            more = operation_findings(document, registry, workflow=start.shown)
    return [
        *findings,
        *(other for other in more if other.key not in keys and not isinstance(other, Doubt)),
    ]


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
    _raise_if_any(yaml_slips(map(Path, digests), workflow=settings.workflow, shown=start.shown))
    of_document = document_findings(document, workflow=start.shown)
    execution: Execution | None = None
    try:
        execution, findings = _execution(document, settings, start.root)
    except Findings as error:
        findings = [] if of_document else error.findings
    keys = {finding.key for finding in of_document}
    wrong = [
        *profile_findings(document, settings.workflow, start.root),
        *of_document,
        *schema.findings_of(document.get("smk"), "smk", file=start.shown, key="smk"),
        *(finding for finding in findings if finding.key not in keys or finding.key is None),
    ]
    wrong, notes = _apart(wrong, start)
    if wrong and not any((finding.key or "").startswith(_OF_FILES) for finding in wrong):
        wrong += file_findings(document, _inputs(start), settings.workflow)
    _raise_if_any(_and_operations(wrong, document, start), start)
    assert execution is not None, "without findings there is an execution"
    unsafe = unsafe_path(execution, start.earlier.absolute(), start.root)
    _raise_if_any([unsafe] if unsafe else [])
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
    _raise_if_any(_and_operations(findings, document, loaded), loaded)
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
        findings = error.findings
        # FAST-HEP stops at the first one, and names no key.
        findings = _and_operations(findings, document, loaded)[len(findings) :] or findings
        with contextlib.suppress(Findings):  # a profile is what is wrong
            ops = [str(stage.get("op")) for _, stage in stages_of(document)]
            registry = registry_of(document, workflow, root)
            unregistered = check.unregistered_finding(registry, ops, workflow=loaded.shown)
            findings = [unregistered] if unregistered else findings
        raise Findings(located(findings, workflow, shown=loaded.shown)) from error
    plans = _selected(compiled, settings.variation, loaded.shown)
    findings = [
        item
        for variant in plans
        for item in check.plan_findings(variant.plan, workflow=loaded.shown)
    ]
    wrong: list[Finding] = []
    if not findings:  # what an unknown operation takes is not known
        for variant in plans:
            wrong += check.parameter_findings(variant.plan, document, workflow=loaded.shown)
    if plans:
        findings += operation_findings(document, plans[0].plan.registry, workflow=loaded.shown)
    findings, notes = _apart(findings, loaded)
    if plans and not findings:  # nor what it makes
        varied = [variant.plan for variant in plans]
        findings, more = _apart(meaning_findings(varied, document, workflow=loaded.shown), loaded)
        notes += more
    # A parameter that is misspelt is missing, too.
    stages = {(finding.key or "").partition(".params")[0] for finding in findings}
    findings += [
        finding for finding in wrong if (finding.key or "").partition(".params")[0] not in stages
    ]
    _raise_if_any(findings, loaded)
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
        file for variant in compiled.plans for file in files_of_plan(variant.plan)
    )
    named = NamedFiles(
        (compiled.root, settings.workflow.resolve().parent),
        ignored_reads(compiled.document),
        own=[compiled.build, earlier],
        made=written(earlier, compiled.root),
    )
    reruns = asked.tokens(earlier, settings.rerun)
    variations, warnings = _variations(compiled, named, reruns)
    if strange := _unknown_stages(settings, variations):
        raise WrongArgument(strange)
    findings = name_findings(variations, workflow=compiled.shown)
    for item in variations:
        findings += output_findings(item, workflow=compiled.shown)
    findings += shared_findings(variations, workflow=compiled.shown)
    _raise_if_any(findings, compiled)
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
        unite_sources({item.label: item.graph for item in variations})
        if unknown:
            warnings.append(_unknown_files(unknown))
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
            without=frozenset(settings.without),
            sample=sample,
            exports=exports_of(compiled.document),
        )
        findings, doubts = preflight.outcome()
    _raise_if_any(findings, compiled)
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
        Findings: a stage has no pool, or asks for what there is not; or a container cannot be shown
            a folder of that name; or a size fits no rule or pool.
    """
    settings, earlier = planned.settings, planned.earlier
    placement, findings, notes = place_rules(
        planned.rules,
        planned.execution,
        shrink=settings.shrink_to_fit,
        sizes=planned.sizes,
        build=earlier,
    )
    findings += gpu_findings(planned.variations, planned.execution)
    _raise_if_any(findings, planned)
    refuse_unseen(placement, (earlier, planned.root, settings.workflow.resolve().parent))
    bundle(
        planned.rules,
        settings.bundle,
        seconds=lambda rule: seconds(rule, earlier),
        events=counting((item.graph for item in planned.variations), planned.inputs),
        at_once=lambda rule: _at_once(placement, settings, rule),
        apart=placement.together,
        without=planned.left_out,
    )
    placement, more = staffed(placement, planned.rules)
    warnings = list(dict.fromkeys([*planned.warnings, *notes, *more]))
    return _adding(Placed, planned, placement=placement, warnings=warnings)


def _at_once(placement: Placement, settings: RunSettings, rule: Rule) -> int:
    """Return how many jobs of a rule, of one core each, can run at the same time.

    To submit a job to a batch system takes so long that its jobs are never cut for more at once;
    pilots have a number of them.
    """
    here = sites.system(placement.site.system).machine(placement.site)
    if here is not None:
        return settings.jobs or here.cpus
    count = slots(placement, rule)
    return min(count, settings.jobs or count)


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
    contents = Contents(
        rules=reconciled.rules,
        variations=reconciled.variations,
        build=reconciled.build,
        root=reconciled.root,
        placement=reconciled.placement,
        reuse=reconciled.reuse,
        settings=reconciled.settings,
        sample=reconciled.sample,
        ignore_reads=reconciled.named.ignored,
        pickles_of=pickles_of(reconciled.document),
        exports=exports_of(reconciled.document),
        stat=reconciled.inputs.stat,
    )
    return _adding(Translation, reconciled, written=write_files(contents))


def execution_of_site(profile: str | None) -> Execution:
    """Return where stages may run by a site alone: its pool profiles are the pools.

    Raises:
        Findings: something is wrong with the site.
    """
    site = load_site(profile, "default", workflow="")
    pools: dict[str, YamlMapping] = {name: {} for name in site.said.get("pool_profiles") or ()}
    document = {"execution": {"pools": pools}}
    execution, findings = read_execution(document, {}, profile=profile, workflow="")
    _raise_if_any(findings)
    assert execution is not None, "without findings there is an execution"
    return execution


def _execution(
    document: YamlMapping, settings: RunSettings, root: Path
) -> tuple[Execution | None, list[Finding]]:
    """Return where stages run, or what is wrong with what is said about it."""
    return read_execution(
        document,
        profile_sections(document, settings.workflow, root),
        profile=settings.profile,
        workflow=str(settings.workflow),
        options=settings.site_options,
    )


def _variations(
    compiled: Compiled, named: NamedFiles, reruns: Mapping[str, str]
) -> tuple[list[Variation], list[str]]:
    inputs, chunk_size = compiled.inputs, compiled.settings.chunk_size
    variations: list[Variation] = []
    findings: list[Finding] = []
    warnings: list[str] = []
    for variant in compiled.plans:
        graph = describe(variant.plan, named, reruns)
        sources = sources_of(graph.nodes.values())
        datasets = variant.plan.context.get("datasets") or {}
        flow = variant.plan.data_flow
        readers = {
            column: [graph.nodes[node].stage for node in nodes if node in graph.nodes]
            for column, nodes in (flow.get("consumers") or {}).items()
        }
        wrong, warned = check_inputs(
            sources,
            datasets,
            inputs,
            partial(_of_branches, compiled, variant.plan, readers),
        )
        # The same expression is mostly read in all variations.
        places = {item.key for item in findings}
        hidden = hidden_columns(
            variant.plan, sources, inputs, compiled.document, workflow=compiled.shown
        )
        wrong += [item for item in hidden if item.key not in places]
        present = {(item.key, item.problem) for item in findings}
        findings += [item for item in wrong if (item.key, item.problem) not in present]
        warnings += warned
        if wrong:
            continue
        partitions = make_partitions(sources, datasets, chunk_size=chunk_size, inputs=inputs)
        variations.append(Variation(variant.variation, graph, tuple(partitions)))
    _raise_if_any(findings, compiled)
    return variations, list(dict.fromkeys(warnings))


def _of_branches(
    compiled: Compiled, plan: Plan, readers: Mapping[str, Sequence[str]], lacks: Sequence[Lack]
) -> list[Finding]:
    from fasthep_smk.flow.missing_branches import branch_findings

    return branch_findings(lacks, plan, compiled.document, readers, workflow=compiled.shown)


def _unknown_stages(settings: RunSettings, variations: Iterable[Variation]) -> list[Finding]:
    nodes = [node for item in variations for node in item.graph.nodes.values()]
    stages = list(
        dict.fromkeys(str(node.meta["stage_id"]) for node in nodes if node.meta.get("stage_id"))
    )
    problem = "the workflow has no such stage"
    return [
        not_among(name, stages, problem=problem, file=str(settings.workflow), key="--rerun")
        for name in settings.rerun
        if name not in stages
    ]


def _selected(
    compiled: list[CompiledPlan], wanted: str | None, workflow: str
) -> list[CompiledPlan]:
    if wanted is None:
        return compiled
    names = [variant.variation for variant in compiled if variant.variation is not None]
    chosen = [variant for variant in compiled if variant.variation == wanted]
    if not chosen:
        close = nearest(wanted, names)
        raise WrongArgument.one(
            "the workflow has no such variation",
            file=workflow,
            key="systematics.variations",
            value=as_yaml(wanted),
            expected=", ".join(names) or "no --variation (the workflow has no systematics)",
            hint=f"did you mean {close!r}?" if close else None,
        )
    return chosen


def _unknown_files(paths: list[str]) -> str:
    more = f" and {len(paths) - 1} more files" if len(paths) > 1 else ""
    known = f"the size and time of {paths[0]}{more} are not known"
    return f"{known}, so fasthep-smk cannot see whether their content changes"


def _apart(findings: list[Finding], start: Start) -> tuple[list[Finding], list[str]]:
    """Return what is wrong, and what may be right, in words."""
    doubts = [finding for finding in findings if isinstance(finding, Doubt)]
    notes = [
        f"{finding.at or finding.file}: {finding.key}: {finding.problem}"
        for finding in located(doubts, start.settings.workflow, shown=start.shown)
    ]
    return [finding for finding in findings if not isinstance(finding, Doubt)], notes


def _raise_if_any(findings: list[Finding], start: Start | None = None) -> None:
    """Raise ``Findings``, each once; those about the workflow with their lines."""
    if findings and start is not None:
        findings = located(findings, start.settings.workflow, shown=start.shown)
    if findings:
        raise Findings(list({str(item): item for item in findings}.values()))

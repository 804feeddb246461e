"""A run for FAST-HEP: its plan says which workflow, its context where; the rest is our own run."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
import yaml

from fasthep_smk.backend.progress import Partitions
from fasthep_smk.backend.strategy import profile_of, validate_execution
from fasthep_smk.config.run_settings import RunSettings
from fasthep_smk.flow import summary, upstream
from fasthep_smk.plan.rules import NOMINAL
from fasthep_smk.reuse import note_rewritten
from fasthep_smk.run.whole_run import run_whole
from fasthep_smk.storage import layout
from fasthep_smk.util import disk_full
from fasthep_smk.util.errors import Findings, RunFailed, SmkError
from fasthep_smk.util.names import shell
from fasthep_smk.util.ownership import check_build, close_new_files
from fasthep_smk.util.yaml_values import as_yaml

if TYPE_CHECKING:
    from fasthep_smk.flow.shapes import Plan
    from fasthep_smk.run.pipeline import Concluded
    from fasthep_smk.translate.translation import Placed
    from fasthep_smk.util.documents import JsonObject, YamlMapping

#: In a plan's context: the workflow, as the command line has it.
_NAMED = "workflow_path"


def run(plan: Plan, ctx: YamlMapping, progress: Any) -> Any:
    """Run the workflow that a plan was compiled from; return FAST-HEP's result.

    Raises:
        RunFailed: the workflow is wrong, or jobs failed; the message is printed.
    """
    reporter = progress or upstream.ProgressReporter(plan.partitions)
    partitions = Partitions(reporter, plan.partitions)
    entries: JsonObject = {}

    def ended(concluded: Concluded) -> None:
        written, changed = summary.rewrite_as_named(plan, settings.outdir)
        note_rewritten(concluded.translation.rules, concluded.translation.build, changed)
        entries.update(written)

    with _told_once():
        settings = settings_of(plan, ctx)
        _check_build(settings.outdir)
        try:
            partitions.start()
            done = run_whole(
                settings,
                agree=lambda placed: _agree(placed, plan, ctx),
                screen=lambda translated: partitions.of(translated.rules, translated.reuse.valid),
                ended=ended,
            )
            partitions.end()
        except BaseException as error:
            partitions.fail(error)
            raise
        finally:
            unheard = reporter.close()
    translation = done.translation
    if done.incomplete:
        print(f"fasthep-smk: {done.incomplete}", file=sys.stderr)
    if len(translation.variations) > 1:
        others = ", ".join(variation.label for variation in translation.variations)
        print(f"fasthep-smk: the run included all variations: {others}", file=sys.stderr)
    for warning in unheard:
        print(f"fasthep-smk: warning: {warning.get('message')}", file=sys.stderr)
    return upstream.BackendResult(
        backend=entries.pop("backend"),
        strategy=entries.pop("strategy"),
        success=entries.pop("success"),
        outputs={"build": str(translation.build)},
        summary=entries,
    )


def _check_build(build: Path) -> None:
    was_closed = close_new_files()
    try:
        check_build(build, option="--outdir")
    except Findings as error:
        if was_closed:
            raise
        first = "FAST-HEP makes files before fasthep-smk starts: type 'umask 022', then"
        findings = [replace(finding, hint=f"{first} {finding.hint}") for finding in error.findings]
        raise Findings(findings) from None


def settings_of(plan: Plan, ctx: YamlMapping) -> RunSettings:
    """Return the settings of a run: what FAST-HEP was told, as far as a plan and its context say.

    The plan of the nominal variation stands for all: ``fasthep run`` hands over no other one.

    Raises:
        Findings: the plan does not say which workflow it is of, or paths start elsewhere.
    """
    execution = ctx.get("execution") or {}
    validate_execution(execution)
    root = Path(str(plan.provenance.get("root") or Path.cwd()))
    if root.resolve() != Path.cwd():
        raise Findings.one(
            "the backend snakemake runs jobs in the current folder, not in the project's root",
            value=str(root),
            expected=str(Path.cwd()),
            hint=f"{shell(['cd', root])}, and run fasthep there",
        )
    workflow, variation = _workflow(plan), _variation(plan)
    section = _said_of_execution(workflow)
    chunks = [node.partitioning.chunk_size for node in plan.nodes]
    return RunSettings(
        workflow=workflow,
        outdir=Path(ctx["build_paths"].root),
        chunk_size=next(filter(None, chunks), None),
        variation=None if variation == NOMINAL else variation,
        profile=profile_of(execution, section),
        jobs=_workers(execution, section),
    )


def _said_of_execution(workflow: Path) -> YamlMapping:
    """Return the section of a workflow; FAST-HEP adds to it what its command line says."""
    section = upstream.load_workflow_with_includes(str(workflow)).doc.get("execution")
    return section if isinstance(section, dict) else {}


def _workers(execution: YamlMapping, section: YamlMapping) -> int | None:
    """Return what ``--workers`` says; what the workflow says of Dask's is not meant for us."""
    wanted: int | None = (execution.get("config") or {}).get("n_workers")
    return None if wanted == (section.get("config") or {}).get("n_workers") else wanted


def _variation(plan: Plan) -> str | None:
    """Return which variation a plan is; ``None`` if the workflow has none."""
    named = plan.context.get("variation")
    return str(named["name"]) if named else None


def _workflow(plan: Plan) -> Path:
    """Return the workflow that a plan was compiled from, as FAST-HEP's compiler has noted it."""
    layers = plan.provenance.get("registry_layers") or []
    named = [layer.get("path") for layer in layers if layer.get("kind") == "workflow"]
    if not named or not named[0]:
        raise Findings.one(
            "this plan does not name the workflow that it was compiled from",
            hint="compile the workflow again: fasthep compile",
        )
    path = Path(str(named[0]))
    if path.name != Path(layout.OVERLAY).name:
        return path
    # What we gave the compiler in the workflow's place, which it includes.
    workflow = Path(yaml.safe_load(path.read_text(encoding="utf-8"))["include"][0])
    return workflow.relative_to(Path.cwd()) if Path.cwd() in workflow.parents else workflow


def _agree(placed: Placed, plan: Plan, ctx: YamlMapping) -> None:
    """Refuse a run of another plan than the one that FAST-HEP wants run.

    Raises:
        Findings: the workflow becomes another plan, or a part was asked for.
    """
    config = (ctx.get("execution") or {}).get("config") or {}
    stated = (placed.document.get("execution") or {}).get("config") or {}
    if config.get("scheduler") != stated.get("scheduler"):
        raise Findings.one(
            "has no effect: Snakemake schedules the jobs",
            key="--scheduler",
            value=as_yaml(config.get("scheduler")),
            hint="leave out --scheduler; --strategy chooses where jobs run",
        )
    wanted = _variation(plan)
    ours = next((planned.plan for planned in placed.plans if planned.variation == wanted), None)
    asked = [partition.id for partition in plan.partitions]
    whole = [partition.id for partition in ours.partitions] if ours is not None else []
    if asked != whole and set(asked) < set(whole):
        raise Findings.one(
            "the backend snakemake cannot run single partitions: it runs all partitions that are "
            "not done yet",
            key="--partition",
            value=f"{len(asked)} of {len(whole)} partitions",
            hint="leave out --partition; to run only a failed job, type the command in its error "
            "message",
        )
    if ours is None or _content(ours) != _content(plan):
        raise Findings.one(
            "does not fit the plan any more: somebody has edited the workflow or the plan",
            file=placed.shown,
            hint="compile the workflow again, with fasthep compile or fasthep run",
        )


def _content(plan: Plan) -> tuple[object, ...]:
    """Return what of a plan tells it from others: not where and how it runs."""
    document = plan.to_dict()
    context = {name: value for name, value in document["context"].items() if name != _NAMED}
    return document["nodes"], document["partitions"], context, document.get("reports")


@contextlib.contextmanager
def _told_once() -> Iterator[None]:
    """Print what went wrong in the block, and let the command ``fasthep`` end: with status 1.

    It knows no errors that are messages, and would show a traceback of FAST-HEP's and ours.
    """
    try:
        yield
    except (SmkError, OSError) as error:
        message = str(error) if isinstance(error, SmkError) else disk_full.told(error)
        print(f"fasthep-smk: {message}", file=sys.stderr)
        raise _Ended(message) from error
    except KeyboardInterrupt:
        print("fasthep-smk: stopped; finished jobs are kept, run again to resume", file=sys.stderr)
        raise


class _Ended(RunFailed, typer.Exit):
    """A run that has failed, and has said so: the command ``fasthep`` takes it for its own end."""

    def __init__(self, text: str) -> None:
        RuntimeError.__init__(self, text)
        self.exit_code = RunFailed.exit_code

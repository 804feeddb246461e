"""The steps of a run, in their order. A command is the steps up to one of them.

Each step takes what the earlier ones have made, and returns that with what it adds.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from fasthep_smk.reuse import archive_results, asked, overwritten
from fasthep_smk.run import credential_need, report_page
from fasthep_smk.storage import batch_jobs, failures, last_run
from fasthep_smk.storage.missing_report import reported, said_by_jobs
from fasthep_smk.translate.input_files import server_findings
from fasthep_smk.translate.placement import capped
from fasthep_smk.translate.translation import (
    Compiled,
    Loaded,
    Placed,
    Planned,
    Start,
    Translation,
    place,
    reconcile,
    write,
)
from fasthep_smk.translate.translation import compile_plans as compile_unexplained
from fasthep_smk.translate.translation import load as load_untold
from fasthep_smk.translate.translation import plan as plan_unexplained
from fasthep_smk.util.errors import Findings
from fasthep_smk.util.files import sha256_file
from fasthep_smk.util.masking import masked
from fasthep_smk.util.scratch import scratch

if TYPE_CHECKING:
    from fasthep_smk.config.site import Site
    from fasthep_smk.run.display import Screen
    from fasthep_smk.run.engine import JobsRun
    from fasthep_smk.run.prestart import Prestarted

__all__ = [
    "STEPS",
    "Concluded",
    "Finished",
    "RunSession",
    "accepted",
    "accepted_beside_jobs",
    "compile_plans",
    "conclude",
    "dry_run",
    "load",
    "look_at_site",
    "place",
    "placed",
    "plan",
    "reconcile",
    "run",
    "say_site",
    "warn",
    "write",
]


@dataclass(frozen=True)
class RunSession:
    """A translation that is to run, and what its run holds.

    ``held`` is the lock of the build folder, which Snakemake's process shares; ``prestarted`` are
    processes that were started for it while the workflow was compiled. ``screen`` makes what shows
    how a translation runs, if not the terminal does. ``page`` is that on the folder.
    """

    translation: Translation
    page: report_page.Page
    held: int | None = None
    prestarted: Prestarted | None = None
    screen: Callable[[Translation], Screen] | None = None


@dataclass(frozen=True)
class Finished:
    """A run that has succeeded: how many jobs were done, and the translation at the end."""

    translation: Translation
    page: report_page.Page
    done: int


@dataclass(frozen=True)
class Concluded(Finished):
    """``disk`` is a line on what the build folder takes; ``incomplete`` what is missing, if any."""

    disk: str
    incomplete: str | None


def load(start: Start) -> Loaded:
    """Read the workflow and the site; print the site if it is a default."""
    loaded = load_untold(start)
    if not start.settings.quiet:
        say_site(loaded.execution.site)
    return loaded


def say_site(site: Site) -> None:
    """Print the site of a run if neither the command line nor the workflow names it."""
    if site.origin == "default":
        print(f"fasthep-smk: site: {site.system} ({site.why})", file=sys.stderr)


def compile_plans(loaded: Loaded) -> Compiled:
    """Let FAST-HEP compile the workflow, which opens its input files."""
    with credential_need.explaining(loaded.execution.credentials):
        return compile_unexplained(loaded)


def plan(compiled: Compiled) -> Planned:
    """Cut the plans into rules and jobs, which asks servers for input files."""
    with credential_need.explaining(compiled.execution.credentials):
        return plan_unexplained(compiled)


def run(session: RunSession) -> Finished:
    """Run the jobs that have to run.

    Raises:
        Findings: a required credential is missing or does not last.
        RunFailed: jobs failed, and the run does not go on without them.
    """
    translation = session.translation
    settings, build = translation.settings, translation.build
    look_at_site(translation)
    asked.keep(build, settings.rerun)
    if _is_idle(translation):
        if session.prestarted is not None:
            session.prestarted.end()
        failures.forget(build)
        report_page.note_that_all_is_done(translation)
        return Finished(translation, session.page, 0)
    with report_page.noting(translation, session.page):
        finished = _run_jobs(session)
        report_page.note_end(finished.translation)
    return finished


def _run_jobs(session: RunSession) -> Finished:
    """Run the jobs that have to run, as ``run``."""
    translation = session.translation
    settings = translation.settings
    # Imported when needed: a run with nothing to do needs none of it.
    from fasthep_smk.run import engine, recovery

    warn(credential_need.warnings_of(translation, valid=translation.reuse.valid))
    _refuse_silent(translation)
    with contextlib.ExitStack() as until_the_end:
        travelling: list[str] = []
        if translation.placement.transfers:
            from fasthep_smk.transfer.setup import prepared

            tell = None if settings.quiet else sys.stderr
            travelling = until_the_end.enter_context(prepared(translation, tell=tell))
        run_jobs = partial(
            engine.run_jobs,
            translation,
            held=session.held,
            prestarted=session.prestarted,
            screen=session.screen(translation) if session.screen else None,
        )
        done, translation = recovery.run_to_the_end(
            translation,
            lambda written, more: run_jobs(written, [*more, *travelling]),
            translate_without=lambda without: _translate_again(translation, without),
        )
    return Finished(translation, session.page, done)


def _refuse_silent(translation: Translation) -> None:
    """Refuse a run that needs files of servers that do not answer.

    It is a warning where the jobs run elsewhere, or the run goes on without those that fail.
    """
    if not translation.inputs.silent:
        return
    datasets: dict[str, dict[str, None]] = {}
    for job in (job for rule in translation.rules for job in rule.jobs.values()):
        if job.folder not in translation.reuse.valid:
            datasets.setdefault(job.dataset or "", {}).update(dict.fromkeys(job.files))
    settings = translation.settings
    goes_on = settings.keep_going or settings.accept_missing is not None
    findings = server_findings(datasets, translation.inputs, translation.shown)
    if goes_on or translation.placement.site.system != "local":
        warn(f"{finding.problem} ({finding.value})" for finding in findings)
    elif findings:
        raise Findings(findings)


def look_at_site(translation: Translation) -> None:
    """Print the warnings of a translation, and what its site does not give it."""
    settings, placement = translation.settings, translation.placement
    warn(translation.warnings)
    if placement.site.system == "local" and settings.jobs:
        warn(capped(placement, settings.jobs))


def conclude(finished: Finished) -> Concluded:
    """Archive results that no job makes any more, make room as ``--keep`` says, write the page."""
    from fasthep_smk.run import cleanup

    translation = finished.translation
    settings, build = translation.settings, translation.build
    if settings.variation is None:
        archive_results(translation.rules, build)
    # What is missing is tried again by the next run, which needs the rest.
    keep = "all" if translation.left_out else settings.keep
    disk = cleanup.after_run(build, keep, shown=settings.outdir)
    if finished.done:
        warn(_edited(translation.digests))
        nodes = [node for item in translation.variations for node in item.graph.nodes.values()]
        own = {node.id for node in nodes if not node.published}
        warn(overwritten(translation.rules, build, own))
    warn(said_by_jobs(build))
    if last_run.is_unfinished(build):
        warn([f"{last_run.UNFINISHED}; other results are those of an earlier run"])
    incomplete = reported(build)  # since an earlier run, perhaps
    if translation.settings.without and settings.accept_missing is not None:
        from fasthep_smk.run import accept_missing

        incomplete = accept_missing.last_word(translation, settings.accept_missing)
    if finished.done or report_page.is_outdated(build):
        finished.page.write()
    return Concluded(translation, finished.page, finished.done, disk, incomplete)


#: All steps of a run, as docs/architecture.md shows them. `run_whole` stops twice: after ``place``
#: the run may be refused, and earlier batch jobs are settled; after ``write`` it makes a session.
STEPS = (load, compile_plans, plan, place, reconcile, write, run, conclude)


def placed(loaded: Loaded) -> Placed:
    """Take the steps after ``load`` up to ``place``, by which nothing changes."""
    return place(plan(compile_plans(loaded)))


def accepted(placed: Placed) -> Translation:
    """Take the steps after ``place`` up to ``write``, by which the build folder changes."""
    return write(reconcile(placed))


def accepted_beside_jobs(placed: Placed, *, cancel: bool = False) -> Translation:
    """Take the same steps where batch jobs of an earlier run may go on, or ``cancel`` those.

    Raises:
        RunFailed: the batch system does not answer, or does not end what is not wanted.
    """
    if not batch_jobs.read(placed.build):
        return accepted(placed)
    from fasthep_smk.run import earlier_jobs

    for line in earlier_jobs.settle(placed, cancel=cancel):
        print(line, file=sys.stderr)
    translation = accepted(placed)
    earlier_jobs.drop_done(placed.build)
    return translation


def _is_idle(translation: Translation) -> bool:
    """Whether Snakemake has nothing to do: all jobs stand, and no option is handed to it."""
    return not translation.reuse.reasons and not translation.settings.snakemake


def dry_run(translation: Translation) -> JobsRun:
    """Return which jobs would run; run nothing.

    Raises:
        RunFailed: Snakemake refuses the workflow.
    """
    from fasthep_smk.run import engine

    if _is_idle(translation):
        return engine.JobsRun({})
    return engine.dry_run(translation.written, extra=translation.settings.snakemake)


def warn(texts: Iterable[str]) -> None:
    """Print warnings to standard error."""
    for text in texts:
        print(f"fasthep-smk: warning: {masked(text)}", file=sys.stderr)


def _translate_again(
    translation: Translation, without: Mapping[tuple[str, str], str]
) -> Translation:
    """Translate once more in this process, with the user's modules as they are now."""
    from fasthep_smk.flow.compile import forget_modules

    forget_modules()
    # What earlier jobs left was read once: these rounds know the jobs that have run.
    settings = replace(
        translation.settings, without=without, verify=False, no_preflight=True, quiet=True
    )
    with scratch() as folder:
        start = Start(
            settings=settings,
            root=translation.root,
            build=translation.build,
            aside=folder / "aside",
        )
        return accepted(placed(load(start)))


def _edited(digests: Mapping[str, str]) -> Iterator[str]:
    """Yield a warning for each file of the workflow that was edited during the run."""
    for path, digest in digests.items():
        with contextlib.suppress(OSError):
            if sha256_file(Path(path)) == digest:
                continue
        yield (
            f"{path} was edited during the run: the results are those of the earlier version; "
            "run again for the edited one"
        )

"""The commands that run a workflow, or prepare that: ``run``, ``translate``, ``check``."""

from __future__ import annotations

import argparse
import importlib
import re
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from fasthep_smk.cli.parser import misplaced
from fasthep_smk.cli.values import settings_of
from fasthep_smk.run.whole_run import run_whole
from fasthep_smk.storage import last_run
from fasthep_smk.storage.missing_report import is_partial, is_sample, said_of_sample
from fasthep_smk.storage.outdir import build_folder, results_in
from fasthep_smk.util.errors import UsageError
from fasthep_smk.util.terminal import is_terminal

if TYPE_CHECKING:
    from fasthep_smk.run.pipeline import Concluded


def do_run(options: argparse.Namespace) -> int:
    """Run a workflow, or with ``--dry-run`` print what would run."""
    if close := misplaced(options.snakemake):
        raise UsageError(f"{close} belongs before --, because options after -- go to Snakemake")
    if any(re.match("-e|--exec", word) for word in options.snakemake):
        raise UsageError("remove --executor: the profile chooses it, as in --profile slurm")
    if options.dry_run:
        return _dry_run(options)
    build = build_folder(options.outdir)
    if is_terminal(sys.stdout) and not options.quiet:
        print(f"compiling {options.workflow}", flush=True)
    run_whole(
        settings_of(options),
        cancel=options.cancel,
        ended=partial(_print_end, build=build, quiet=options.quiet),
    )
    return 0


def ended_as(build: Path) -> str:
    """Return in a word what the results of a run that has ended well are."""
    if last_run.is_unfinished(build):
        return "unfinished"
    if is_partial(build):
        return "partial"
    return "sample" if is_sample(build) else "finished"


def _print_end(concluded: Concluded, *, build: Path, quiet: bool) -> None:
    """Print how a run has ended."""
    print(_last_line(concluded))
    if not quiet:
        print(results_in(build), end="")
        print(concluded.disk)
        if concluded.translation.sample is not None:
            forecast = importlib.import_module("fasthep_smk.contrib.measure.forecast")
            print(forecast.of_rest(concluded.translation))
    # Where both go to one file, an error is last.
    sys.stdout.flush()
    if concluded.incomplete:
        print(f"fasthep-smk: {concluded.incomplete}", file=sys.stderr)


def _last_line(concluded: Concluded) -> str:
    rest = "everything else" if concluded.translation.settings.without else "everything"
    counted = f"{concluded.done} {'job' if concluded.done == 1 else 'jobs'} done"
    done = counted if concluded.done else f"{rest} was up to date"
    translation = concluded.translation
    several = len([*translation.build.glob("reports/*/**/run_summary.yaml")]) > 1
    others = "; the results of other variations are unchanged"
    is_part = translation.settings.variation is not None and several
    return f"{done}; results in {translation.build}{others * is_part}"


def _dry_run(options: argparse.Namespace) -> int:
    from fasthep_smk import sites
    from fasthep_smk.cli import steps, why
    from fasthep_smk.run import pipeline

    with steps.imagined(options) as translation:
        sites.require_plugin(translation.placement.site.system)
        pipeline.look_at_site(translation)
        outcome = why.unbundled(pipeline.dry_run(translation), translation)
    print(why.as_text(outcome, translation), end="")
    return 0


def do_translate(options: argparse.Namespace) -> int:
    """Write the Snakemake workflow, and list its rules."""
    from fasthep_smk.cli import steps
    from fasthep_smk.reuse import asked
    from fasthep_smk.run import pipeline
    from fasthep_smk.run.lock import hold
    from fasthep_smk.util.scratch import scratch

    build = build_folder(options.outdir)
    with hold(build, options.outdir), scratch() as folder:
        loaded = pipeline.load(steps.begin(options, build, folder / "aside"))
        translation = pipeline.accepted_beside_jobs(pipeline.placed(loaded))
        asked.keep(translation.build, translation.settings.rerun)
    pipeline.warn(translation.warnings)
    written = translation.written
    if translation.sample is not None:
        print(f"sample:    {said_of_sample(translation.sample.as_data())}")
    print(f"Snakefile: {written.snakefile}")
    print(f"profile:   {written.profile}")
    print(f"tasks:     {written.snakefile.parent / 'tasks'}")
    for rule in translation.rules:
        print(f"    {len(rule.jobs):6d} x {rule.name}{f' ({rule.bundled})' * bool(rule.bundles)}")
    return 0


def do_check(options: argparse.Namespace) -> int:
    """Say whether a workflow could run."""
    from fasthep_smk.cli import steps
    from fasthep_smk.run import credential_need, pipeline

    with steps.placed(options) as placed:
        pipeline.warn([*placed.warnings, *credential_need.warnings_of(placed)])
    jobs = sum(len(rule.jobs) for rule in placed.rules)
    print(f"{options.workflow}: ready to run: {jobs} jobs in {len(placed.rules)} rules")
    return 0

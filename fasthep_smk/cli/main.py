"""The command line: ``fasthep-smk [COMMAND] workflow.yaml [options] [-- for snakemake]``."""

from __future__ import annotations

import argparse
import contextlib
import gc
import json
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from fasthep_smk.cli import console
from fasthep_smk.cli.parser import misplaced, parse
from fasthep_smk.storage import obstacles
from fasthep_smk.util import disk_full, system_errors
from fasthep_smk.util.errors import Findings, SmkError, UsageError, unsupported
from fasthep_smk.util.masking import masked
from fasthep_smk.util.names import shell

if TYPE_CHECKING:
    from fasthep_smk.run.engine import Outcome
    from fasthep_smk.run.prestart import Ahead
    from fasthep_smk.translate.translation import Options, Planned, Translation

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit status: 0, 1 (it failed) or 2 (wrong usage)."""
    if argv is not None:
        return _main(list(argv))
    console.open_streams()
    # A process of its own: what is imported and compiled stays; it is seldom searched for garbage.
    gc.set_threshold(50_000, 20, 100)
    try:
        return _main(sys.argv[1:])
    finally:
        gc.freeze()


def _main(arguments: list[str]) -> int:
    try:
        options, extra = parse(arguments)
        if options.command != "run" and extra:
            raise UsageError(
                f"{options.command} runs nothing: no use for {' '.join(extra)} after --"
            )
        _check_build(options)
        if options.command == "run":
            status = _run(options, extra)
        else:
            status = _RUN_NOTHING[options.command](options)
        if options.command in _ANSWERS or getattr(options, "dry_run", False):
            console.require_written()
        return status
    except SmkError as error:
        print(f"fasthep-smk: {error}", file=sys.stderr)
        return error.exit_code
    except ImportError as error:
        if not (error.name or "").startswith("hepflow"):
            raise
        print(f"fasthep-smk: {unsupported(error)}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("fasthep-smk: stopped; what finished is kept, run again to go on", file=sys.stderr)
        return 130
    except BrokenPipeError:
        return 1
    except OSError as error:
        print(f"fasthep-smk: {_refused(error)}", file=sys.stderr)
        return 1


def _check_build(options: argparse.Namespace) -> None:
    """Refuse a build folder that somebody else may have written, unless the user trusts it."""
    for name, shown in (("outdir", "--outdir"), ("build", "BUILD")):
        folder = getattr(options, name, None)
        if folder is not None and not options.trust_build:
            from fasthep_smk.util.ownership import check_build

            check_build(folder, option=shown)


def _refused(error: OSError) -> str:
    """Return what to say about an error of the system that nothing else has explained."""
    if disk_full.shown(error):
        return str(disk_full.finding(disk_full.temporary(), error))
    try:
        os.getcwd()  # noqa: PTH109
    except OSError:
        return (
            "the current folder was deleted, or cannot be entered\n"
            "    hint: change to a folder that exists, then run the same command again"
        )
    return str(Findings([system_errors.finding(error)]))


def _run(options: argparse.Namespace, extra: list[str]) -> int:
    from fasthep_smk.run.lock import hold
    from fasthep_smk.run.prestart import is_likely_idle, start_ahead
    from fasthep_smk.storage.outdir import made_build_folder

    build = made_build_folder(options.outdir)
    with hold(build) as held:
        here = options.profile in (None, "local")
        wanted = here and not options.dry_run and not is_likely_idle(options.workflow, build)
        with start_ahead(build, held, wanted=wanted) as ahead:
            return _run_held(options, extra, held, ahead)


def _run_held(
    options: argparse.Namespace, extra: list[str], held: int | None, ahead: Ahead | None
) -> int:
    from fasthep_smk import sites
    from fasthep_smk.cli.clean import after_run
    from fasthep_smk.reuse import asked, retire_results
    from fasthep_smk.run import accept_missing
    from fasthep_smk.run.credential_need import explaining
    from fasthep_smk.storage import failures
    from fasthep_smk.storage.outdir import results_in
    from fasthep_smk.translate.placement import capped

    if extra and (close := misplaced(extra)):
        raise UsageError(f"{close} belongs before --: what follows -- goes to Snakemake")
    with explaining(options.workflow, options.profile):
        translation = _translation(options)
    _warn(translation.warnings)
    placement = translation.placement
    sites.require_plugin(placement.site.system)
    if placement.site.system == "local" and options.jobs:
        _warn(capped(placement, options.jobs))
    if options.dry_run:
        from fasthep_smk.cli import why

        print(why.as_text(_dry_run(translation, extra), translation), end="")
        return 0
    asked.keep(translation.written.build, _options(options).rerun)
    done = 0
    if _is_idle(translation, extra):
        if ahead is not None:
            ahead.discard()
        failures.forget(translation.written.build)
    else:
        done, translation = _run_jobs(options, extra, translation, held, ahead)
    if options.variation is None:
        retire_results(translation.rules, translation.written.build)
    keep = options.keep
    if translation.without:
        keep = "all"  # what is missing is tried again by the next run, which needs the rest
    disk = after_run(translation.written.build, keep, shown=options.outdir)
    if done:
        _warn(_edited(translation))
    print(_last_line(done, translation))
    if not options.quiet:
        print(results_in(translation.written.build), end="")
        print(disk)
    if lacking := accept_missing.last_word(translation, options.accept_missing):
        sys.stdout.flush()  # where both go to one file, this is last
        print(f"fasthep-smk: {lacking}", file=sys.stderr)
    return 0


def _run_jobs(
    options: argparse.Namespace,
    extra: list[str],
    translation: Translation,
    held: int | None,
    ahead: Ahead | None,
) -> tuple[int, Translation]:
    """Run what there is to do; return how many jobs were done, and the translation at the end."""
    from fasthep_smk.flow import plan_files
    from fasthep_smk.run import engine, job_counts, stalled
    from fasthep_smk.run.recovery import run_to_the_end
    from fasthep_smk.transfer.setup import equipped

    placement = translation.placement
    obstacles.make_way(translation.written.build, obstacles.WRITTEN_BY_JOBS)
    _warn(_credentials(translation, options, translation.settled.standing))
    tell = None if options.quiet else sys.stderr
    with equipped(translation, tell=tell) as travelling:
        return run_to_the_end(
            translation,
            lambda written, more: engine.run(
                written,
                system=placement.site.system,
                jobs=options.jobs,
                keep_going=options.keep_going or options.accept_missing is not None,
                extra=[*more, *travelling, *extra],
                output=sys.stderr,
                quiet=options.quiet,
                verbose=options.verbose,
                facts=lambda: job_counts.facts(translation.rules, placement),
                reasons=lambda progress: stalled.reasons(progress, placement),
                patience=options.waiting or placement.site.waiting,
                keep_logs=placement.site.keep_logs,
                held=held,
                ahead=ahead,
                plots=any(plan_files.draws(one.graph.plan) for one in translation.variations),
            ),
            limit=options.accept_missing,
            translate_without=lambda without: _translation_again(options, without),
            output=sys.stderr,
        )


def _is_idle(translation: Translation, extra: list[str]) -> bool:
    """Tell whether Snakemake has nothing to do: all jobs stand, and nobody speaks to it."""
    return not translation.settled.reasons and not extra


def _dry_run(translation: Translation, extra: list[str]) -> Outcome:
    from fasthep_smk.cli import why
    from fasthep_smk.run import engine

    if _is_idle(translation, extra):
        return engine.Outcome({})
    return why.unbundled(engine.dry_run(translation.written, extra=extra), translation)


def _translate(options: argparse.Namespace) -> int:
    from fasthep_smk.reuse import asked
    from fasthep_smk.run.lock import hold
    from fasthep_smk.storage.outdir import made_build_folder

    with hold(made_build_folder(options.outdir)):
        translation = _translation(options)
        asked.keep(translation.written.build, _options(options).rerun)
    _warn(translation.warnings)
    written = translation.written
    print(f"Snakefile: {written.snakefile}")
    print(f"profile:   {written.profile}")
    print(f"tasks:     {written.snakefile.parent / 'tasks'}")
    for rule in translation.rules:
        print(f"    {len(rule.jobs):6d} x {rule.name}{f' ({rule.bundled})' * bool(rule.bundles)}")
    return 0


def _why(options: argparse.Namespace) -> int:
    from fasthep_smk.cli import why
    from fasthep_smk.run.lock import hold
    from fasthep_smk.storage.outdir import made_build_folder

    with hold(made_build_folder(options.outdir)):
        translation = _translation(options)
        outcome = _dry_run(translation, [])
    if options.json:
        print(json.dumps(why.as_data(outcome, translation), indent=1))
    else:
        print(why.as_text(outcome, translation, each=True), end="")
    return 0


def _explain(options: argparse.Namespace) -> int:
    from fasthep_smk.cli import explain
    from fasthep_smk.translate.translation import plan

    planned = plan(_options(options), root=Path.cwd())
    if options.json:
        print(json.dumps(explain.as_data(planned), indent=1))
    else:
        print(explain.as_text(planned), end="")
    return 0


def _check(options: argparse.Namespace) -> int:
    from fasthep_smk.run.credential_need import explaining
    from fasthep_smk.translate.translation import plan

    with explaining(options.workflow, options.profile):
        planned = plan(_options(options), root=Path.cwd())
    _warn([*planned.warnings, *_credentials(planned, options)])
    jobs = sum(len(rule.jobs) for rule in planned.rules)
    print(f"{options.workflow}: ready to run: {jobs} jobs in {len(planned.rules)} rules")
    return 0


def _credentials(
    planned: Translation | Planned,
    options: argparse.Namespace,
    standing: frozenset[str] = frozenset(),
) -> list[str]:
    from fasthep_smk.run.credential_need import concerns

    if not concerns(planned.variations, planned.placement):
        return []
    from fasthep_smk.run import credential_check

    return credential_check.check(
        planned.rules,
        planned.variations,
        planned.placement,
        standing=standing,
        at_a_time=getattr(options, "jobs", None),
        allow_expiring=options.allow_expiring,
    )


def _doctor(options: argparse.Namespace) -> int:
    from dataclasses import asdict

    from tabulate import tabulate

    from fasthep_smk.cli import doctor
    from fasthep_smk.translate.translation import execution_of

    execution = execution_of(options.workflow, options.profile, root=Path.cwd())
    checks = doctor.examine(
        execution, folder=Path.cwd(), timeout=options.timeout, workflow=options.workflow
    )
    if options.json:
        print(json.dumps([asdict(check) for check in checks], indent=1))
    else:
        rows = [[check.what, check.state, check.found, check.fix] for check in checks]
        widths = [None, None, 60, 40]
        print(tabulate(rows, headers=["what", "", "found", "fix"], maxcolwidths=widths))
    return int(any(check.state == "FAILED" for check in checks))


def _site(options: argparse.Namespace) -> int:
    from fasthep_smk.cli.site_init import init_site

    folder = options.folder or Path(f"site-{options.system}")
    for path in init_site(options.system, folder):
        print(f"written: {path}")
    print(f"adapt pools.yaml, then: fasthep-smk workflow.yaml --profile {shell([folder])}")
    return 0


def _status(options: argparse.Namespace) -> int:
    from fasthep_smk.report import status

    found = status.look(options.build, verify=options.verify)
    if options.json:
        print(json.dumps(status.as_data(found), indent=1))
    else:
        print(status.as_text(found), end="")
    return int(bool(found.damaged))


def _clean(options: argparse.Namespace) -> int:
    from fasthep_smk.cli import clean

    freed = clean.clean(options.build, everything=options.all, dry_run=options.dry_run)
    print(clean.as_text(freed, everything=options.all, dry_run=options.dry_run), end="")
    return 0


def _pack(options: argparse.Namespace) -> int:
    from fasthep_smk.transfer.environment.command import pack_environment

    print(pack_environment(options, root=Path.cwd()))
    return 0


_RUN_NOTHING: dict[str, Callable[[argparse.Namespace], int]] = {
    "translate": _translate,
    "why": _why,
    "explain": _explain,
    "check": _check,
    "doctor": _doctor,
    "site": _site,
    "status": _status,
    "clean": _clean,
    "pack": _pack,
}
#: Commands that are of no use if what they say cannot be written.
_ANSWERS = ("why", "explain", "doctor", "status", "pack")


def _options(
    options: argparse.Namespace, without: Mapping[tuple[str, str], str] | None = None
) -> Options:
    from fasthep_smk.translate.translation import Options

    return Options(
        workflow=options.workflow,
        outdir=options.outdir,
        chunk_size=options.chunk_size,
        granularity=options.granularity,
        variation=options.variation,
        profile=options.profile,
        shrink_to_fit=options.shrink_to_fit,
        identity=options.identity,
        bundle=options.bundle,
        # Once in a call: its later rounds know the jobs that have run.
        verify=without is None and getattr(options, "verify", False),
        without=without or {},
        rerun=dict.fromkeys(getattr(options, "rerun", None) or (), _token()),
    )


@cache
def _token() -> str:
    """Return what tells this call from others: the time in ns."""
    return str(time.time_ns())


def _translation(
    options: argparse.Namespace, without: Mapping[tuple[str, str], str] | None = None
) -> Translation:
    from fasthep_smk.translate.translation import translate

    return translate(_options(options, without), root=Path.cwd())


def _translation_again(
    options: argparse.Namespace, without: Mapping[tuple[str, str], str]
) -> Translation:
    """Translate once more in this process, with the user's modules as they are now."""
    from fasthep_smk.flow.compile import forget_modules

    forget_modules()
    return _translation(options, without)


def _edited(translation: Translation) -> Iterator[str]:
    """Yield a warning for each file of the workflow that was edited during the run."""
    from fasthep_smk.util.files import sha256_file

    for path, digest in translation.planned.documents.items():
        with contextlib.suppress(OSError):
            if sha256_file(Path(path)) == digest:
                continue
        yield (
            f"{path} was edited during the run: the results are those of the workflow as "
            "it was before; run again for the edited one"
        )


def _warn(texts: Iterable[str]) -> None:
    for text in texts:
        print(f"fasthep-smk: warning: {masked(text)}", file=sys.stderr)


def _last_line(done: int, translation: Translation) -> str:
    rest = "everything else" if translation.without else "everything"
    what = f"{done} {'job' if done == 1 else 'jobs'} done" if done else f"{rest} was up to date"
    return f"{what}; results in {translation.written.build}"

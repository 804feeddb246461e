"""The command line: ``fasthep-smk [COMMAND] workflow.yaml [options] [-- for snakemake]``."""

from __future__ import annotations

import argparse
import contextlib
import gc
import importlib
import json
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from fasthep_smk.cli import console
from fasthep_smk.cli.parser import make_parser, misplaced, parse
from fasthep_smk.util import disk_full
from fasthep_smk.util.errors import SmkError, UsageError
from fasthep_smk.util.names import shell
from fasthep_smk.util.ownership import check_build, close_new_files

if TYPE_CHECKING:
    from fasthep_smk.config.run_settings import RunSettings
    from fasthep_smk.run.notify import Status
    from fasthep_smk.run.pipeline import Concluded
    from fasthep_smk.translate.translation import Placed, Start, Translation

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
    # As of diff, 1 says that there are differences.
    trouble = 2 if arguments[:1] == ["compare"] else None
    try:
        options, extra = parse(arguments)
        if options.command != "run" and extra:
            raise UsageError(
                f"{options.command!r} does not start Snakemake: remove {' '.join(extra)} after --"
            )
        close_new_files()
        _check_build(options)
        if options.command == "run":
            status = _run(options, extra)
        else:
            status = _RUN_NOTHING[options.command](options)
        if options.command in _ANSWERING or getattr(options, "dry_run", False):
            console.require_written()
        return status
    except SmkError as error:
        print(f"fasthep-smk: {error}", file=sys.stderr)
        return trouble or error.exit_code
    except ImportError as error:
        if not (error.name or "").startswith("hepflow"):
            raise
        from fasthep_smk.flow import contract

        refusal = contract.refused(contract.differences() or [error])
        print(f"fasthep-smk: {refusal}", file=sys.stderr)
        return refusal.exit_code
    except KeyboardInterrupt:
        print("fasthep-smk: stopped; what finished is kept, run again to go on", file=sys.stderr)
        return 130
    except BrokenPipeError:
        return 1
    except OSError as error:
        print(f"fasthep-smk: {disk_full.told(error)}", file=sys.stderr)
        return trouble or 1


def _check_build(options: argparse.Namespace) -> None:
    """Refuse a build folder that somebody else may have written, unless the user trusts it."""
    for name, shown in (("outdir", "--outdir"), ("build", "BUILD"), ("other", "OTHER")):
        folder = getattr(options, name, None)
        if folder is not None and not options.trust_build:
            check_build(folder, option=shown)
    if (archives := getattr(options, "output", None)) and not options.trust_build:
        check_build(archives, option="--output", noun="folder")


def _run(options: argparse.Namespace, extra: list[str]) -> int:
    from fasthep_smk.run.notify import at_end
    from fasthep_smk.run.whole_run import run_whole
    from fasthep_smk.storage.outdir import build_folder
    from fasthep_smk.util.terminal import is_terminal

    if extra and (close := misplaced(extra)):
        raise UsageError(f"{close} belongs before --: what follows -- goes to Snakemake")
    if options.dry_run:
        return _dry_run(options, extra)
    build = build_folder(options.outdir)
    if is_terminal(sys.stdout) and not options.quiet:
        print(f"compiling {options.workflow}", flush=True)
    with at_end(options.notify, build) as notice:
        found = run_whole(
            _settings(options, extra),
            cancel=options.cancel,
            ended=partial(_print_end, build=build, quiet=options.quiet),
        )
        notice.status = _ended_as(build)
        notice.summary = found.incomplete or _last_line(found)
    return 0


def _ended_as(build: Path) -> Status:
    """Return in a word what the results of a run that has ended well are."""
    from fasthep_smk.storage.missing_report import is_partial, is_sample

    if is_partial(build):
        return "partial"
    return "sample" if is_sample(build) else "finished"


def _print_end(found: Concluded, *, build: Path, quiet: bool) -> None:
    """Print how a run has ended."""
    from fasthep_smk.storage.outdir import results_in

    print(_last_line(found))
    if not quiet:
        print(results_in(build), end="")
        print(found.disk)
        if found.translation.sample is not None:
            from fasthep_smk.cli import forecast
            from fasthep_smk.run.forecast import forecast_of, not_done

            rest = forecast_of(found.translation, not_done(found.translation))
            said = "forecast of the rest, without a sample:"
            print(forecast.line(rest).replace("forecast:", said, 1))
    # Now: who follows a run in the background looks until the folder is free; and where both go to
    # one file, an error is last.
    sys.stdout.flush()
    if found.incomplete:
        print(f"fasthep-smk: {found.incomplete}", file=sys.stderr)


def _dry_run(options: argparse.Namespace, extra: Sequence[str]) -> int:
    from fasthep_smk import sites
    from fasthep_smk.cli import why
    from fasthep_smk.run import pipeline

    with _imagined(options, extra) as translation:
        sites.require_plugin(translation.placement.site.system)
        pipeline.look_at_site(translation)
        outcome = why.unbundled(pipeline.dry_run(translation), translation)
    print(why.as_text(outcome, translation), end="")
    return 0


def _translate(options: argparse.Namespace) -> int:
    from fasthep_smk.reuse import asked
    from fasthep_smk.run import pipeline
    from fasthep_smk.run.lock import hold
    from fasthep_smk.storage.missing_report import said_of_sample
    from fasthep_smk.storage.outdir import build_folder
    from fasthep_smk.util.scratch import scratch

    build = build_folder(options.outdir)
    with hold(build, options.outdir), scratch() as folder:
        placed = pipeline.up_to(pipeline.place, _start(options, build, folder / "aside"))
        translation = pipeline.accepted_beside_jobs(placed)
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


def _why(options: argparse.Namespace) -> int:
    from fasthep_smk.cli import why
    from fasthep_smk.run import pipeline

    with _imagined(options) as translation:
        outcome = why.unbundled(pipeline.dry_run(translation), translation)
    if options.json:
        print(json.dumps(why.as_data(outcome, translation), indent=1))
    else:
        print(why.as_text(outcome, translation, each=True), end="")
    return 0


@contextlib.contextmanager
def _imagined(options: argparse.Namespace, extra: Iterable[str] = ()) -> Iterator[Translation]:
    """Translate in an image of the build folder, which lasts for the block."""
    from fasthep_smk.run import pipeline
    from fasthep_smk.run.lock import look
    from fasthep_smk.storage.image import make_image
    from fasthep_smk.storage.outdir import build_folder
    from fasthep_smk.util.scratch import scratch

    build = build_folder(options.outdir)
    look(build)
    with scratch() as folder:
        start = _start(options, folder / "build", folder / "aside", snakemake=extra)
        placed = pipeline.up_to(pipeline.place, start)
        make_image(build, placed.build)
        yield pipeline.accepted(placed)


@contextlib.contextmanager
def _placed(options: argparse.Namespace) -> Iterator[Placed]:
    """Take the steps before anything is written; leave no file behind."""
    from fasthep_smk.run import pipeline
    from fasthep_smk.util.scratch import scratch

    with scratch() as folder:
        start = _start(options, folder / "build", folder / "aside")
        yield pipeline.up_to(pipeline.place, start)


def _explain(options: argparse.Namespace) -> int:
    from fasthep_smk.cli import explain

    with _placed(options) as placed:
        if options.json:
            print(json.dumps(explain.as_data(placed), indent=1))
        else:
            print(explain.as_text(placed), end="")
    return 0


def _forecast(options: argparse.Namespace) -> int:
    from fasthep_smk.cli import forecast, why
    from fasthep_smk.run import pipeline
    from fasthep_smk.run.forecast import forecast_of, not_done
    from fasthep_smk.run.lock import Held

    try:
        with _imagined(options) as translation:
            outcome = why.unbundled(pipeline.dry_run(translation), translation)
            found = forecast_of(translation, outcome.folders)
    except Held:  # by a run, which has taken over what it could
        with _placed(options) as placed:
            found = forecast_of(placed, not_done(placed))
    if options.json:
        print(json.dumps(forecast.as_data(found), indent=1))
    else:
        print(forecast.as_text(found), end="")
    return 0


def _check(options: argparse.Namespace) -> int:
    from fasthep_smk.run import credential_need, pipeline

    with _placed(options) as placed:
        pipeline.warn([*placed.warnings, *credential_need.warnings_of(placed)])
    jobs = sum(len(rule.jobs) for rule in placed.rules)
    print(f"{options.workflow}: ready to run: {jobs} jobs in {len(placed.rules)} rules")
    return 0


def _doctor(options: argparse.Namespace) -> int:
    from dataclasses import asdict

    from tabulate import tabulate

    from fasthep_smk.cli import doctor
    from fasthep_smk.run import pipeline
    from fasthep_smk.translate.translation import execution_of_site
    from fasthep_smk.util.scratch import scratch

    examine = partial(doctor.examine, folder=Path.cwd(), timeout=options.timeout)
    if options.workflow is None:
        checks = examine(execution_of_site(options.profile))
    else:
        with scratch() as folder:
            start = _start(options, folder / "build", folder / "aside")
            loaded = pipeline.up_to(pipeline.load, start)
            place = partial(pipeline.up_to, pipeline.place, loaded, after=pipeline.load)
            checks = examine(loaded.execution, workflow=options.workflow, placing=place)
    if options.json:
        print(json.dumps([asdict(check) for check in checks], indent=1))
    else:
        rows = [[check.what, check.state, check.found, check.fix] for check in checks]
        widths = [None, None, 60, 40]
        print(tabulate(rows, headers=["what", "", "found", "fix"], maxcolwidths=widths))
    return int(any(check.state == "FAILED" for check in checks))


def _init(options: argparse.Namespace) -> int:
    from fasthep_smk.cli import init

    if options.from_root is not None:
        from fasthep_smk.cli.from_root import init_from_root

        found = init_from_root(options.from_root, options.folder, options.tree)
        print(found.as_text(), end="")
        written = found.written
    elif options.tree is not None:
        raise UsageError("--tree is for --from-root FILE: say which file")
    else:
        written = init.init_analysis(options.folder)
    print(init.as_text(options.folder, written), end="")
    return 0


def _ops(options: argparse.Namespace) -> int:
    from fasthep_smk.cli import ops

    found = ops.look_up(options.name, options.workflow)
    if options.json:
        print(json.dumps(ops.as_data(found), indent=1))
    else:
        print(ops.as_text(found, full=options.name is not None), end="")
    return 0


def _schema(_options: argparse.Namespace) -> int:
    from fasthep_smk.config.schema import bundled

    print(json.dumps(bundled(), indent=1))
    return 0


def _completion(options: argparse.Namespace) -> int:
    from fasthep_smk.cli.completion import script

    print(script(make_parser(), options.shell))
    return 0


def _site(options: argparse.Namespace) -> int:
    from fasthep_smk.cli.site_init import init_site

    folder = options.folder or Path(f"site-{options.system}")
    written, invented = init_site(options.system, folder)
    for path in written:
        print(f"written: {path}")
    for text in invented:
        print(f"example value: {text}")
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


def _report(options: argparse.Namespace) -> int:
    from fasthep_smk.cli import report

    print(report.told(options.build, text=options.text, as_json=options.json), end="")
    return 0


def _compare(options: argparse.Namespace) -> int:
    from fasthep_smk.cli import report

    text, status = report.compared([options.build, options.other], as_json=options.json)
    print(text, end="")
    return status


def _sizes(options: argparse.Namespace) -> int:
    from fasthep_smk.report import sizes
    from fasthep_smk.storage.jobs import find_build
    from fasthep_smk.storage.measured import taken

    found = sizes.evidence(taken(find_build(options.build)))
    if options.json:
        print(json.dumps(sizes.as_data(found), indent=1))
    else:
        print(sizes.as_yaml(found, options.build), end="")
    return 0


def _clean(options: argparse.Namespace) -> int:
    from fasthep_smk.cli import clean

    freed = clean.clean(options.build, everything=options.all, dry_run=options.dry_run)
    print(clean.as_text(freed, everything=options.all, dry_run=options.dry_run), end="")
    return 0


def _cancel(options: argparse.Namespace) -> int:
    from fasthep_smk.cli import background

    return background.cancel(options.build)


def _retry(options: argparse.Namespace) -> int:
    from fasthep_smk.cli import background

    return background.retry(options.job, options.build)


def _pack(options: argparse.Namespace) -> int:
    packed: int = importlib.import_module("fasthep_smk.contrib.pack.command").do_pack(options)
    return packed


def _export(options: argparse.Namespace) -> int:
    from fasthep_smk.run import pipeline
    from fasthep_smk.transfer import bundle
    from fasthep_smk.util.scratch import scratch

    bundle.require_new(options.out)
    options.outdir = options.out / bundle.BUILD
    build = options.outdir.absolute()
    with scratch() as folder:
        placed = pipeline.up_to(pipeline.place, _start(options, build, folder / "aside"))
        translation = pipeline.accepted(placed)
        pipeline.warn(translation.warnings)
        bundle.write_bundle(translation, options.out)
    print(f"bundle:  {options.out / bundle.MANIFEST}")
    return 0


def _enable(options: argparse.Namespace) -> int:
    from fasthep_smk.backend import project_profile

    found = project_profile.enable(options.folder)
    print(f"{'written' if found.written else 'there already'}: {found.path}")
    for name in found.apart:
        print(
            f"note: your profile {name} does not include registry: a workflow that uses it does "
            "not find the backend snakemake; add registry to its includes"
        )
    print("fasthep run workflow.yaml --outdir build --backend snakemake --strategy local")
    return 0


def _disable(options: argparse.Namespace) -> int:
    from fasthep_smk.backend import project_profile

    removed = project_profile.disable(options.folder)
    print("nothing to remove" if removed is None else f"removed: {removed}")
    return 0


#: Commands that are of no use if what they say cannot be written.
_ANSWERING: dict[str, Callable[[argparse.Namespace], int]] = {
    "why": _why,
    "explain": _explain,
    "forecast": _forecast,
    "doctor": _doctor,
    "status": _status,
    "report": _report,
    "compare": _compare,
    "sizes": _sizes,
    "pack": _pack,
    "ops": _ops,
    "schema": _schema,
    "completion": _completion,
}
#: All commands but ``run``, and ``help``, which the parser answers.
_RUN_NOTHING: dict[str, Callable[[argparse.Namespace], int]] = {
    **_ANSWERING,
    "init": _init,
    "translate": _translate,
    "check": _check,
    "site": _site,
    "clean": _clean,
    "cancel": _cancel,
    "retry": _retry,
    "export": _export,
    "enable": _enable,
    "disable": _disable,
}


def _start(
    options: argparse.Namespace, build: Path, aside: Path, *, snakemake: Iterable[str] = ()
) -> Start:
    """Return what a command begins with."""
    from fasthep_smk.translate.translation import Start

    settings = _settings(options, snakemake)
    return Start(settings=settings, root=Path.cwd(), build=build, aside=aside)


def _settings(options: argparse.Namespace, snakemake: Iterable[str] = ()) -> RunSettings:
    """Return the settings that a command has options for."""
    from fasthep_smk.config.run_settings import RunSettings

    known = {one.name for one in fields(RunSettings)}
    given = {name: value for name, value in vars(options).items() if name in known}
    some = (getattr(options, name, None) for name in ("sample", "partitions", "events"))
    given["sample"] = next((one for one in some if one is not None), None)
    # A token that is new every time.
    given["rerun"] = dict.fromkeys(given.get("rerun") or (), str(time.time_ns()))
    return RunSettings(**given, snakemake=tuple(snakemake))


def _last_line(found: Concluded) -> str:
    rest = "everything else" if found.translation.settings.without else "everything"
    what = f"{found.done} {'job' if found.done == 1 else 'jobs'} done"
    done = what if found.done else f"{rest} was up to date"
    return f"{done}; results in {found.translation.build}"

"""The command line: ``fasthep-smk [run|translate] workflow.yaml [options] [-- for snakemake]``."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from fasthep_smk import __version__
from fasthep_smk.errors import SmkError, UsageError

if TYPE_CHECKING:
    from fasthep_smk.engine import Outcome
    from fasthep_smk.translation import Translation

__all__ = ["main"]

_COMMANDS = ("run", "translate")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit status: 0, 1 (it failed) or 2 (wrong usage)."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    try:
        options, extra = _parse(arguments)
        if options.command == "translate" and extra:
            raise UsageError(f"translate runs nothing: no use for {' '.join(extra)} after --")
        return _translate(options) if options.command == "translate" else _run(options, extra)
    except SmkError as error:
        print(f"fasthep-smk: {error}", file=sys.stderr)
        return error.exit_code
    except ImportError as error:
        if not (error.name or "").startswith("hepflow"):
            raise
        print(f"fasthep-smk: {_unsupported(error)}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("fasthep-smk: stopped; what finished is kept, run again to go on", file=sys.stderr)
        return 130
    except BrokenPipeError:
        return 1


def _parse(arguments: list[str]) -> tuple[argparse.Namespace, list[str]]:
    extra: list[str] = []
    if "--" in arguments:
        cut = arguments.index("--")
        arguments, extra = arguments[:cut], arguments[cut + 1 :]
    if arguments and arguments[0] not in (*_COMMANDS, "-h", "--help", "--version"):
        # The short form: a workflow instead of a command.
        arguments = ["run", *arguments]
    return _parser().parse_args(arguments), extra


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="fasthep-smk",
        description="Run a FAST-HEP workflow as a Snakemake workflow. "
        "'fasthep-smk workflow.yaml' is short for 'fasthep-smk run workflow.yaml'.",
    )
    parser.add_argument("--version", action="version", version=f"fasthep-smk {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    run = commands.add_parser(
        "run",
        help="compile, translate and run a workflow",
        description="Compile, translate and run a workflow. What follows -- goes to Snakemake.",
    )
    translate = commands.add_parser(
        "translate",
        help="only write the Snakefile, profile and task tables",
        description="Write the Snakefile, profile and task tables below OUTDIR/smk; run nothing.",
    )
    for command in (run, translate):
        command.add_argument("workflow", type=Path, help="the workflow's YAML file")
        command.add_argument(
            "-o",
            "--outdir",
            type=_folder,
            default=Path("build"),
            metavar="FOLDER",
            help="build folder (default: build)",
        )
        command.add_argument(
            "--chunk-size",
            type=_positive,
            metavar="EVENTS",
            help="cut each file into partitions of at most this many events",
        )
        command.add_argument(
            "--granularity",
            choices=("auto", "stage"),
            default="auto",
            help="join stages that gain nothing from a file in between (auto, the default), or "
            "make one rule per stage (stage)",
        )
        command.add_argument(
            "--variation", metavar="NAME", help="only this systematic variation (default: all)"
        )
    run.add_argument(
        "-j", "--jobs", type=_positive, metavar="N", help="jobs at a time (default: all cores)"
    )
    run.add_argument("-n", "--dry-run", action="store_true", help="say what would run, run nothing")
    run.add_argument("-q", "--quiet", action="store_true", help="print errors only")
    return parser


def _folder(text: str) -> Path:
    if not text.strip():
        raise argparse.ArgumentTypeError("the name of the folder is empty")
    return Path(text)


def _positive(text: str) -> int:
    try:
        value = int(text)
    except ValueError:
        value = 0
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a positive whole number")
    return value


def _run(options: argparse.Namespace, extra: list[str]) -> int:
    from fasthep_smk import engine

    if extra and (close := _misplaced(extra)):
        raise UsageError(f"{close} belongs before --: what follows -- goes to Snakemake")
    translation = _translation(options)
    if options.dry_run:
        _print_plan(engine.dry_run(translation.written, extra=extra), translation)
        return 0
    with contextlib.ExitStack() as stack:
        output = stack.enter_context(Path(os.devnull).open("w")) if options.quiet else sys.stderr
        outcome = engine.run(translation.written, cores=options.jobs, extra=extra, output=output)
    if not options.quiet:
        _print_results(outcome, translation)
    return 0


def _translate(options: argparse.Namespace) -> int:
    translation = _translation(options)
    written = translation.written
    print(f"Snakefile: {written.snakefile}")
    print(f"profile:   {written.profile}")
    print(f"tasks:     {written.snakefile.parent / 'tasks'}")
    for rule in translation.rules:
        print(f"    {len(rule.jobs):6d} x {rule.name}")
    return 0


def _translation(options: argparse.Namespace) -> Translation:
    from fasthep_smk.translation import Options, translate

    translation = translate(
        Options(
            workflow=options.workflow,
            outdir=options.outdir,
            chunk_size=options.chunk_size,
            granularity=options.granularity,
            variation=options.variation,
        ),
        root=Path.cwd(),
    )
    for warning in translation.warnings:
        print(f"fasthep-smk: warning: {warning}", file=sys.stderr)
    return translation


def _print_plan(outcome: Outcome, translation: Translation) -> None:
    jobs = sum(len(rule.jobs) for rule in translation.rules)
    if outcome.total == 0:
        print(f"Nothing to do: all {jobs} jobs are up to date.")
        return
    print(f"{outcome.total} of {jobs} jobs would run:")
    for rule in translation.rules:
        if outcome.jobs.get(rule.name):
            stages = ", ".join(rule.stages)
            shown = stages if len(stages) <= 60 else f"{stages[:57]}..."
            print(f"    {outcome.jobs[rule.name]:6d} x {rule.name}  ({shown})")


def _print_results(outcome: Outcome, translation: Translation) -> None:
    build = translation.written.build
    done = f"{outcome.total} jobs done" if outcome.total else "everything was up to date"
    print(f"{done}; results in {build}")
    for title, pattern in (
        ("plots", "artifacts/**/plots/**/*.png"),
        ("tables", "artifacts/**/tables/**/*.csv"),
        ("histograms", "artifacts/**/histograms/*.pkl"),
        ("files", "artifacts/**/files/**/*.root"),
        ("summary", "run_summary.yaml"),
        ("summaries", "reports/*/run_summary.yaml"),
    ):
        found = sorted(build.glob(pattern))
        if found:
            names = [str(path.relative_to(build)) for path in found]
            more = f" and {len(names) - 4} more" if len(names) > 4 else ""
            print(f"    {title + ':':12s} {', '.join(names[:4])}{more}")


def _unsupported(error: ImportError) -> str:
    """Return what to do about a FAST-HEP release that lacks what we use of it."""
    from importlib import metadata

    wanted = [
        item for item in metadata.requires("fasthep-smk") or [] if item.startswith("fasthep-flow")
    ]
    try:
        found = metadata.version("fasthep-flow")
    except metadata.PackageNotFoundError:
        found = "none"
    return (
        f"the installed fasthep-flow does not fit: {error}\n"
        f"    found    fasthep-flow {found}\n"
        f"    expected {wanted[0] if wanted else 'a tested release'}\n"
        f"    hint     pip install '{wanted[0] if wanted else 'fasthep-flow'}'"
    )


def _misplaced(extra: list[str]) -> str | None:
    """Return an option of ours that was given after ``--`` by mistake."""
    ours = ("--outdir", "-o", "--chunk-size", "--granularity", "--variation")
    words = [word.partition("=")[0] for word in extra]
    return next((word for word in words if word in ours), None)

"""The command line: ``fasthep-smk [COMMAND] workflow.yaml [options] [-- for snakemake]``."""

from __future__ import annotations

import argparse
import gc
import importlib
import sys
from collections.abc import Sequence

from fasthep_smk.cli import console
from fasthep_smk.cli.parser import parse
from fasthep_smk.util import disk_full
from fasthep_smk.util.errors import SmkError, UsageError
from fasthep_smk.util.ownership import check_build, close_new_files

#: The module of each command, imported when the command is called: its ``do_COMMAND`` takes the
#: options and returns the exit status. The parser answers ``help``.
COMMANDS = {
    "cancel": "fasthep_smk.cli.background",
    "check": "fasthep_smk.cli.run",
    "clean": "fasthep_smk.cli.clean",
    "compare": "fasthep_smk.contrib.report.command",
    "completion": "fasthep_smk.cli.completion",
    "disable": "fasthep_smk.cli.init",
    "doctor": "fasthep_smk.cli.doctor",
    "enable": "fasthep_smk.cli.init",
    "explain": "fasthep_smk.cli.explain",
    "export": "fasthep_smk.contrib.export.bundle",
    "forecast": "fasthep_smk.contrib.measure.forecast",
    "init": "fasthep_smk.cli.init",
    "ops": "fasthep_smk.contrib.measure.ops",
    "pack": "fasthep_smk.contrib.pack.command",
    "report": "fasthep_smk.contrib.report.command",
    "retry": "fasthep_smk.cli.background",
    "run": "fasthep_smk.cli.run",
    "schema": "fasthep_smk.cli.completion",
    "site": "fasthep_smk.cli.site_init",
    "sizes": "fasthep_smk.contrib.measure.sizes",
    "status": "fasthep_smk.cli.status",
    "translate": "fasthep_smk.cli.run",
    "why": "fasthep_smk.cli.why",
}


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
        ours = arguments[: [*arguments, "--"].index("--")]
        if "--json" in ours and (ours[0] == "run" or ours[0] not in (*COMMANDS, "help")):
            from fasthep_smk.cli.last_line import with_last_line

            return with_last_line(arguments, _obey)
        return _obey(parse(arguments))
    except SmkError as error:
        print(f"fasthep-smk: {error}", file=sys.stderr)
        return trouble or error.exit_code
    except ImportError as error:
        if not (error.name or "").startswith("hepflow"):
            raise
        from fasthep_smk.flow import contract, release

        refusal = release.refused(contract.differences() or [error])
        print(f"fasthep-smk: {refusal}", file=sys.stderr)
        return refusal.exit_code
    except KeyboardInterrupt:
        print("fasthep-smk: stopped; finished jobs are kept, run again to resume", file=sys.stderr)
        return 130
    except BrokenPipeError:
        return 1
    except OSError as error:
        print(f"fasthep-smk: {disk_full.told(error)}", file=sys.stderr)
        return trouble or 1


def _obey(options: argparse.Namespace) -> int:
    if options.command != "run" and options.snakemake:
        words = " ".join(options.snakemake)
        raise UsageError(f"{options.command!r} does not start Snakemake: remove {words} after --")
    close_new_files()
    _check_build(options)
    module = importlib.import_module(COMMANDS[options.command])
    status: int = getattr(module, f"do_{options.command}")(options)
    if options.command != "run" or options.dry_run:  # what a run has made is there all the same
        console.require_written()
    return status


def _check_build(options: argparse.Namespace) -> None:
    """Refuse a build folder that somebody else may have written, unless the user trusts it."""
    for name, shown in (("outdir", "--outdir"), ("build", "BUILD"), ("other", "OTHER")):
        folder = getattr(options, name, None)
        if folder is not None:
            check_build(folder, option=shown, trusted=options.trust_build)
    if (archives := getattr(options, "output", None)) and not options.trust_build:
        check_build(archives, option="--output", noun="folder")

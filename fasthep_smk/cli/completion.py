"""Completion for shells, made from the parser of the command line."""

from __future__ import annotations

import argparse
import json
import logging

from fasthep_smk.cli.parser import SHELLS, make_parser
from fasthep_smk.cli.usage import subcommands
from fasthep_smk.config.schema import bundled

_FILES = ("workflow", "from_root", "sizes")
_FOLDERS = ("outdir", "build", "other", "folder", "out", "output", "profile")


def do_completion(options: argparse.Namespace) -> int:
    """Print a script for a shell."""
    print(script(make_parser(), options.shell))
    return 0


def do_schema(_options: argparse.Namespace) -> int:
    """Print the JSON schema of a workflow."""
    print(json.dumps(bundled(), indent=1))
    return 0


def script(parser: argparse.ArgumentParser, shell: str) -> str:
    """Return a script that completes commands, options, files and folders in a shell."""
    import shtab  # not for every command

    for command in (parser, *_below(parser)):
        for action in command._actions:
            if action.dest in _FILES:
                vars(action)["complete"] = shtab.FILE
            elif action.dest in _FOLDERS:
                vars(action)["complete"] = shtab.DIRECTORY
    # "fasthep-smk workflow.yaml --outdir" is short for "fasthep-smk run workflow.yaml --outdir".
    for action in subcommands(parser)["run"]._actions:
        if action.option_strings and action.dest != "help":
            parser._add_action(action)
    logging.getLogger("shtab").setLevel(logging.ERROR)
    text = str(shtab.complete(parser, shell))
    return f"# {SHELLS[shell]}\n{text}" if not text.startswith("#compdef") else text


def _below(parser: argparse.ArgumentParser) -> list[argparse.ArgumentParser]:
    parsers = []
    for command in subcommands(parser).values():
        parsers += [command, *_below(command)]
    return parsers

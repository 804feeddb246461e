"""What is wrong with a command line, in one message with the nearest right word."""

from __future__ import annotations

import argparse
import os
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NoReturn

from fasthep_smk.util.errors import UsageError, nearest
from fasthep_smk.util.names import printable, shell

_PROGRAM = "fasthep-smk"
_SUFFIXES = (".yaml", ".yml")


class Parser(argparse.ArgumentParser):
    """A parser that raises what is wrong, with the nearest of the words that it knows."""

    def error(self, message: str) -> NoReturn:
        """Refuse a command line.

        Raises:
            UsageError: always.
        """
        raise UsageError(f"{message}\n    hint: {_help_of(self)}")

    def _check_value(self, action: argparse.Action, value: object) -> None:
        choices = None if action.choices is None else [str(choice) for choice in action.choices]
        if choices is not None and value not in choices:
            close = nearest(str(value), choices)
            hint = f"; did you mean {close!r}?" if close else ""
            listed = ", ".join(choices)
            raise argparse.ArgumentError(
                action, f"invalid choice: {str(value)!r} (choose from {listed}){hint}"
            )


def subcommands(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    """Return the parsers of a parser's commands by their names."""
    actions = [
        action for action in parser._actions if isinstance(action, argparse._SubParsersAction)
    ]
    return dict(actions[0].choices) if actions else {}


def not_a_command(word: str, commands: Collection[str]) -> UsageError | None:
    """Return why the first word is neither a command nor a workflow; None if it may be one."""
    is_path = os.sep in word or word.endswith(_SUFFIXES) or os.path.lexists(word)
    if is_path or word.startswith("-"):
        return None
    close = nearest(word, commands, cutoff=0.6)
    files = [f"{word}{suffix}" for suffix in _SUFFIXES if Path(f"{word}{suffix}").is_file()]
    meant = [guess for guess in (*files, close) if guess][:1]
    lines = [
        f"there is neither a command nor a workflow file called {printable(word)!r}",
        *(f"did you mean {shell([_PROGRAM, guess])!r}?" for guess in meant),
        f"'{_PROGRAM} help' lists the commands",
    ]
    return UsageError("\n    hint: ".join(lines))


def unknown_words(
    parser: argparse.ArgumentParser, command: Iterable[str], words: Sequence[str]
) -> UsageError:
    """Return what to say about words that a command has no use for."""
    for name in command:
        parser = subcommands(parser)[name]
    option = next((word for word in words if word.startswith("-") and word != "-"), None)
    if option is None:
        problem = f"unexpected {printable(words[0])!r}: '{parser.prog}' takes {_taken(parser)}"
        return UsageError(f"{problem}\n    hint: {_help_of(parser)}")
    name = option.partition("=")[0]
    close = nearest(name, _long_options(parser), cutoff=0.6)
    lines = [f"'{parser.prog}' has no option {printable(name)}"]
    lines += [f"did you mean {close}?"] if close else []
    lines += ["put options of Snakemake after --"] if parser.prog == f"{_PROGRAM} run" else []
    return UsageError("\n    hint: ".join([*lines, _help_of(parser)]))


def _long_options(parser: argparse.ArgumentParser) -> Iterator[str]:
    for action in parser._actions:
        yield from (option for option in action.option_strings if option.startswith("--"))


def _taken(parser: argparse.ArgumentParser) -> str:
    names = [
        str(action.metavar or action.dest).upper()
        for action in parser._actions
        if not action.option_strings and action.help != argparse.SUPPRESS
    ]
    return " ".join(names) or "only options"


def _help_of(parser: argparse.ArgumentParser) -> str:
    words = parser.prog.removeprefix(_PROGRAM).split()
    return f"'{' '.join([_PROGRAM, 'help', *words])}' explains the arguments"

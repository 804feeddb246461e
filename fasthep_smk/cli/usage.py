"""What is wrong with a command line, in one message with the nearest right word."""

from __future__ import annotations

import argparse
import os
from collections.abc import Collection, Iterable, Sequence
from typing import Any, NoReturn

from fasthep_smk.util.errors import UsageError, nearest
from fasthep_smk.util.names import printable

_PROGRAM = "fasthep-smk"
_SUFFIXES = (".yaml", ".yml")


class Parser(argparse.ArgumentParser):
    """A parser that raises what is wrong, and takes no beginnings of options for them."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(allow_abbrev=False, **settings)

    def error(self, message: str) -> NoReturn:
        """Refuse a command line.

        Raises:
            UsageError: always.
        """
        raise UsageError(f"{message}\n    hint: {_help_of(self)}")


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
    lines = [
        f"there is neither a command nor a workflow file called {printable(word)!r}",
        *([f"did you mean '{_PROGRAM} {close}'?"] if close else []),
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
        return UsageError(
            f"'{parser.prog}' does not take {printable(words[0])!r}\n    hint: {_help_of(parser)}"
        )
    name = option.partition("=")[0]
    options = [text for action in parser._actions for text in action.option_strings]
    close = nearest(name, [text for text in options if text.startswith("--")], cutoff=0.6)
    lines = [f"'{parser.prog}' has no option {printable(name)}"]
    lines += [f"did you mean {close}?"] if close else []
    lines += ["put options of Snakemake after --"] if parser.prog == f"{_PROGRAM} run" else []
    return UsageError("\n    hint: ".join([*lines, _help_of(parser)]))


def _help_of(parser: argparse.ArgumentParser) -> str:
    words = parser.prog.removeprefix(_PROGRAM).split()
    return f"'{' '.join([_PROGRAM, 'help', *words])}' explains the arguments"

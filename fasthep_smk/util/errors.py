"""What a user can do wrong, in one family of exceptions.

Every message answers the same questions in the same order: which file, which key, which value,
what was expected, and what to do. Several findings are collected and raised together
(:class:`Findings`), so that a workflow is fixed in one round.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from fasthep_smk.util.masking import masked
from fasthep_smk.util.yaml_values import as_yaml

_Value = TypeVar("_Value")


def nearest(name: str, valid: Iterable[str], *, cutoff: float = 0.5) -> str | None:
    """Return the valid name that resembles ``name`` most, or ``None`` if none does.

    Names that resemble it by less than ``cutoff``, from 0 to 1, do not.
    """
    names = {str(item).lower(): str(item) for item in valid}
    wanted = str(name).lower()
    matches = difflib.get_close_matches(wanted, names, n=1, cutoff=cutoff)
    # Of two letters, exchanged ones count as one in common.
    matches += [word for word in names if sorted(word) == sorted(wanted)]
    return names[matches[0]] if matches else None


def is_slip(word: str, other: str) -> bool:
    """Whether one letter is missing, added or another, or two neighbours are exchanged."""
    short, long = sorted((word, other), key=len)
    first = next((n for n, letter in enumerate(short) if letter != long[n]), len(short))
    rest, wanted = short[first:], long[first:]
    return (
        rest[1:] == wanted[1:]
        or rest == wanted[1:]
        or (rest[1::-1] == wanted[:2] and rest[2:] == wanted[2:])
    )


def slips_among(names: Iterable[object], known: Iterable[str]) -> list[str]:
    """Return the names that are not known, and are meant to be.

    One that resembles a known name is a slip, unless the known one is named, too. Others may be
    left from elsewhere; but if not one name is known, all are wrong.
    """
    known = list(known)
    texts = [str(name).strip() for name in names if isinstance(name, str) and name.strip()]
    unknown = [name for name in texts if name not in known]
    if len(unknown) == len(texts):
        return unknown
    return [
        name
        for name in unknown
        if (close := nearest(name, known, cutoff=0.75)) is not None and close not in texts
    ]


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One thing that is wrong: where it stands, what was expected and how to fix it."""

    problem: str
    file: str | None = None
    key: str | None = None
    value: str | None = None
    expected: str | None = None
    hint: str | None = None
    #: File and line, where that is known.
    at: str | None = None
    #: What is wrong with another file than the workflow: the key of the workflow that leads to it.
    place: str | None = None

    def __str__(self) -> str:
        where = ": ".join(part for part in (self.file, self.key) if part)
        lines = [f"{where}: {self.problem}" if where else self.problem]
        details = (
            ("at", self.at),
            ("found", self.value),
            ("expected", self.expected),
            ("hint", self.hint),
        )
        lines += [f"    {label}: {text}" for label, text in details if text]
        return "\n".join(lines)


class Doubt(Finding):
    """What may be meant, or read by a newer release: told, and no reason to stop."""


def not_among(
    value: object, known: Iterable[str], *, problem: str, file: str | None, key: str | None
) -> Finding:
    """Return that a value is none of those that are known, with the nearest of them."""
    known = list(known)
    close = nearest(str(value), known)
    return Finding(
        file=file,
        key=key,
        problem=problem,
        value=as_yaml(value),
        expected=(" or " if len(known) == 2 else ", ").join(known),
        hint=f"did you mean {close!r}?" if close else None,
    )


def invalid(file: str | None, key: str | None, value: object, expected: object) -> Finding:
    """Return that a value cannot be read; ``expected`` is what can, or the error that says so."""
    return Finding(
        file=file,
        key=key,
        problem="is not a valid value",
        value=as_yaml(value),
        expected=str(expected),
    )


def read_value(
    parse: Callable[[object], _Value],
    value: object,
    findings: list[Finding],
    *,
    file: str | None,
    key: str | None,
) -> _Value | None:
    """Return a value as ``parse`` reads it, ``None`` for ``None``; add why it cannot be read."""
    try:
        return None if value is None else parse(value)
    except ValueError as error:
        findings.append(invalid(file, key, value, error))
        return None


def chain_of(error: BaseException) -> Iterator[BaseException]:
    """Yield an error and those that it came from."""
    left: BaseException | None = error
    seen: set[int] = set()
    while left is not None and id(left) not in seen:
        yield left
        seen.add(id(left))
        left = left.__cause__ or left.__context__


class SmkError(Exception):
    """Base of all errors that are shown as a message, never as a traceback.

    The message holds none of the secrets that what has failed may quote.
    """

    exit_code = 1

    def __str__(self) -> str:
        return masked(super().__str__())


class UsageError(SmkError):
    """The command line itself is wrong."""

    exit_code = 2


@dataclass(eq=False)
class Findings(SmkError):
    """All findings of one check, raised together."""

    findings: list[Finding] = field(default_factory=list)

    @classmethod
    def one(cls, problem: str, **details: str | None) -> Findings:
        """Return an error that holds a single finding."""
        return cls([Finding(problem=problem, **details)])

    def __str__(self) -> str:
        count = len(self.findings)
        title = "1 problem" if count == 1 else f"{count} problems"
        return masked("\n".join([f"{title}:", *(f"- {finding}" for finding in self.findings)]))


class WrongArgument(Findings):
    """What the command line names is not there, or is something else."""

    exit_code = 2


class RunFailed(SmkError):
    """Jobs ran and at least one of them failed; the message names them."""


class JobsFailed(RunFailed):
    """Jobs failed, and Snakemake ended the run in its own order.

    ``reasons`` says what went wrong with each in one line, by their logs (relative to the build
    folder), and ``done`` how many jobs succeeded.
    """

    def __init__(self, message: str, reasons: Mapping[str, str], done: int) -> None:
        super().__init__(message)
        self.reasons = reasons
        self.done = done


def refused_by_system(error: OSError) -> Findings:
    """Return what the system has said, and of which file."""
    name = error.filename2 or error.filename
    problem = error.strerror or str(error)
    return Findings.one(problem, file=None if name is None else os.fsdecode(name))

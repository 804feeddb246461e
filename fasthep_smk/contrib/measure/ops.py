"""``fasthep-smk ops``: what a workflow can use, all of it in one line each, or one in full."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from itertools import groupby
from pathlib import Path

from fasthep_smk.flow.registered import Component, registered
from fasthep_smk.util.errors import UsageError, nearest
from fasthep_smk.util.names import printable

__all__ = ["as_data", "as_text", "do_ops", "look_up"]

_TITLES = {
    "operation": "Operations (op: of a stage)",
    "source": "Sources (kind: of a source)",
    "writer": "Writers (kind: below write:)",
    "renderer": "Renderers (op: of a style)",
    "observer": "Observers (kind: below inspect: or observers:)",
    "modifier": "Modifiers (execution.modifiers of a stage)",
    "function": "Functions of expressions",
    "constant": "Constants of expressions",
    "hook": "Hooks (kind: below execution_hooks:)",
}


def do_ops(options: argparse.Namespace) -> int:
    """Print what a workflow can use, or one of those in full."""
    found = look_up(options.name, options.workflow)
    if options.json:
        print(json.dumps(as_data(found), indent=1))
    else:
        print(as_text(found, full=options.name is not None), end="")
    return 0


def look_up(name: str | None, workflow: Path | None) -> list[Component]:
    """Return everything that is registered, or what has this name.

    Raises:
        Findings: the workflow cannot be read.
        UsageError: nothing has this name.
    """
    found = registered(workflow, Path.cwd())
    if name is None:
        return found
    named = [one for one in found if one.name == name]
    if not named:
        lines = [f"nothing of this name: {printable(name)!r}"]
        if close := nearest(name, [one.name for one in found]):
            lines.append(f"did you mean {close!r}?")
        listing = "'fasthep-smk ops' lists all"
        more = "" if workflow else "; --workflow workflow.yaml shows your own, too"
        raise UsageError("\n    hint: ".join([*lines, listing + more]))
    return named


def as_text(found: Iterable[Component], *, full: bool) -> str:
    """Return components as lines for a person; in full, or one line each."""
    lines = _in_full(found) if full else _in_brief(found)
    return "\n".join(lines).rstrip("\n") + "\n"


def as_data(found: Iterable[Component]) -> list[dict[str, object]]:
    """Return components as plain values."""
    return [asdict(one) for one in found]


def _in_brief(found: Iterable[Component]) -> Iterator[str]:
    for kind, group in groupby(found, key=lambda one: one.kind):
        members = list(group)
        width = max(len(printable(one.name)) for one in members)
        yield _TITLES[kind]
        for one in members:
            what = _summary(one)
            mark = " (own)" if one.own else ""
            yield f"    {printable(one.name):{width}}{mark}  {what}".rstrip()
        yield ""
    yield "fasthep-smk ops NAME describes one"


def _summary(one: Component) -> str:
    if one.problem:
        return printable(one.problem)
    if one.kind == "function":
        return f"{printable(one.signature)}: {printable(one.summary)}"
    return printable(one.summary) or ("makes " + ", ".join(one.makes) if one.makes else "")


def _in_full(found: Iterable[Component]) -> Iterator[str]:
    for one in found:
        yield f"{printable(one.name)}: {one.kind}{', your own' if one.own else ''}"
        if one.problem:
            yield f"    {printable(one.problem)}"
        if one.signature:
            yield f"    {printable(one.signature)}"
        text = one.documentation or one.summary
        yield from (f"    {printable(line)}".rstrip() for line in text.splitlines())
        yield ""
        yield from _table(one)
        for what, values in (
            ("takes", (one.takes,) if one.takes else ()),
            ("reads", one.reads),
            ("provides", one.provides),
            ("makes", one.makes),
            ("implemented in", (one.implementation,)),
        ):
            for value in filter(None, values):
                yield f"{what:<15}{printable(value)}"
        yield ""


def _table(one: Component) -> Iterator[str]:
    if not one.parameters:
        return
    from tabulate import tabulate  # not for every command

    rows = [
        [
            printable(item.name),
            printable(item.kind),
            "yes" if item.required else "",
            printable(item.default or ""),
            printable(item.meaning + (f" ({', '.join(item.allowed)})" if item.allowed else "")),
        ]
        for item in one.parameters
    ]
    headers = ["parameter", "kind", "required", "default", "meaning"]
    yield tabulate(rows, headers=headers, disable_numparse=True)
    yield ""

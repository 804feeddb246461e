"""The commands ``report`` and ``compare``: what build folders say, on a page or in the terminal."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

from tabulate import tabulate

from fasthep_smk.contrib.report import compare, document, page
from fasthep_smk.contrib.report.facts import gather
from fasthep_smk.contrib.report.tables import Section, sections
from fasthep_smk.storage.jobs import find_build
from fasthep_smk.util import disk_full

#: Characters of a cell in the terminal, in a wide table and in one of few columns; rows of a table.
_WIDTH, _WIDE, _ROWS = 60, 120, 30


def do_report(options: argparse.Namespace) -> int:
    """Write the page on a build folder, or print the same as text or JSON."""
    print(told(options.build, text=options.text, as_json=options.json), end="")
    return 0


def do_compare(options: argparse.Namespace) -> int:
    """Print what differs between two build folders; return the exit status of ``diff``."""
    text, status = compared([options.build, options.other], as_json=options.json)
    print(text, end="")
    return status


def told(folder: Path, *, text: bool, as_json: bool) -> str:
    """Return the report on a build folder as text or JSON; or write the page, and say where.

    Raises:
        Findings: it is no build folder, or its task tables cannot be read.
        DiskFull: the page cannot be written for want of space.
    """
    build = find_build(folder)
    if not (text or as_json):
        with disk_full.saying(build):
            return f"{page.write(build)}\n"
    report = document.report_on(gather(build))
    return f"{json.dumps(document.as_data(report), indent=1)}\n" if as_json else as_text(report)


def compared(folders: Sequence[Path], *, as_json: bool) -> tuple[str, int]:
    """Return what differs between two build folders, and the exit status that ``diff`` would have.

    Raises:
        Findings: one is no build folder, or its task tables cannot be read.
    """
    comparison = compare.comparison(*map(find_build, folders))
    is_trouble = comparison.unread or not any(comparison.compared.values())
    status = 2 if is_trouble else int(not comparison.is_same)
    if as_json:
        return f"{json.dumps(compare.as_data(comparison), indent=1)}\n", status
    lines = [
        f"{name + ':':7} {build} ({verdict.state}: {verdict.text})"
        for name, build, verdict in zip(
            ("first", "second"), comparison.builds, comparison.verdicts, strict=True
        )
    ]
    lines += [f"cannot be read: {path}" for path in comparison.unread]
    parts = [
        "\n".join([*lines, compare.verdict(comparison)]),
        *map(_table, compare.sections(comparison)),
    ]
    return "\n\n".join(parts) + "\n", status


def as_text(report: document.Report) -> str:
    """Return the tables of a report as a terminal shows them."""
    parts = [f"{report.verdict.state}: {report.verdict.text}"]
    parts += [
        _blocks(section) if section.name == "failures" else _table(section)
        for section in sections(report)
    ]
    return "\n\n".join(parts) + "\n"


def _blocks(section: Section) -> str:
    """Return a row as lines: commands in it are there to be copied."""
    width = max(map(len, section.columns)) + 1
    blocks = [
        "\n".join(f"{header + ':':{width}} {cell}" for header, cell in row.items() if cell)
        for row in section.rows
    ]
    return "\n\n".join([section.title, *section.notes, *blocks])


def _table(section: Section) -> str:
    columns, first = section.columns, section.rows[:_ROWS]
    width = _WIDTH if len(columns) > 3 else _WIDE
    table = tabulate(
        [[_cut(row[header], width) for header in columns] for row in first],
        headers=list(columns),
        colalign=["right" if is_number else "left" for is_number in columns.values()],
        disable_numparse=True,
    )
    more = len(section.rows) - len(first)
    lines = [section.title, *section.notes, "", table, *([f"... and {more} more"] if more else [])]
    return "\n".join(lines)


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else f"{text[: width - 3]}..."

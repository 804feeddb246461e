"""The commands ``report`` and ``compare``: what build folders say, on a page or in the terminal."""

from __future__ import annotations

import argparse
import json

from tabulate import tabulate

from fasthep_smk.contrib.report import compare, document, page
from fasthep_smk.contrib.report.facts import gather
from fasthep_smk.contrib.report.tables import Section, sections
from fasthep_smk.storage.jobs import find_build
from fasthep_smk.util import disk_full

#: Characters of a cell in the terminal, in a wide table and in one of few columns; rows of a table.
_WIDTH, _WIDE, _ROWS = 60, 120, 30


def do_report(options: argparse.Namespace) -> int:
    """Write the page on a build folder and say where, or print the same as text or JSON.

    Raises:
        Findings: it is no build folder, or its task tables cannot be read.
        DiskFull: the page cannot be written for want of space.
    """
    build = find_build(options.build)
    if not (options.text or options.json):
        with disk_full.saying(build):
            print(page.write(build))
        return 0
    report = document.report_on(gather(build))
    print(json.dumps(document.as_data(report), indent=1) if options.json else as_text(report))
    return 0


def do_compare(options: argparse.Namespace) -> int:
    """Print what differs between two build folders; return the exit status of ``diff``.

    Raises:
        Findings: one is no build folder, or its task tables cannot be read.
    """
    comparison = compare.comparison(find_build(options.build), find_build(options.other))
    if options.json:
        print(json.dumps(compare.as_data(comparison), indent=1))
    else:
        pairs = zip(("first", "second"), comparison.builds, comparison.verdicts, strict=True)
        lines = [
            f"{name + ':':7} {build} ({verdict.state}: {verdict.text})"
            for name, build, verdict in pairs
        ]
        lines += [f"cannot be read: {path}" for path in comparison.unread]
        lines.append(compare.verdict(comparison))
        print("\n".join(lines), *map(_table, compare.sections(comparison)), sep="\n\n")
    if comparison.unread or not any(comparison.compared.values()):
        return 2
    return int(not comparison.is_same)


def as_text(report: document.Report) -> str:
    """Return the tables of a report as a terminal shows them."""
    parts = [f"{report.verdict.state}: {report.verdict.text}"]
    parts += [
        _blocks(section) if section.name == "failures" else _table(section)
        for section in sections(report)
    ]
    return "\n\n".join(parts)


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

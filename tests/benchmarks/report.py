"""What was measured, as Markdown: a table per case, and the facts of the machine."""

from __future__ import annotations

import math
import os
import platform
import statistics
from collections.abc import Iterable
from dataclasses import dataclass, field
from importlib import metadata

from .measure import Measured
from .steps import Pairs

__all__ = ["TABLES", "Figure", "Result", "Row", "document", "pairs", "text"]

#: The heading of the page from which on ``make bench`` writes it.
TABLES = "## The tables of make bench"

_PACKAGES = (
    "fasthep-flow", "fasthep-carpenter", "fasthep-render", "fasthep-distributed", "snakemake",
    "awkward", "uproot", "numpy", "pyarrow", "hist", "matplotlib",
)  # fmt: skip


@dataclass(frozen=True)
class Row:
    """A command and its runs; the runs of its reference, and the ratio to reach."""

    what: str
    runs: list[Measured]
    to: list[Measured] = field(default_factory=list)
    limit: float | None = None

    @property
    def wall(self) -> float:
        return statistics.median(run.wall for run in self.runs)

    @property
    def ratio(self) -> float | None:
        if not self.to:
            return None
        return self.wall / statistics.median(run.wall for run in self.to)


@dataclass(frozen=True)
class Figure:
    """A number that is no ratio of wall times, and the most that it may be."""

    what: str
    value: float
    limit: float
    unit: str = ""

    @property
    def met(self) -> bool:
        return self.value <= self.limit


@dataclass(frozen=True)
class Result:
    """What a case has measured."""

    name: str
    title: str
    rows: list[Row]
    figures: list[Figure] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def text(result: Result) -> str:
    """Return a case's table, its other figures, and its notes. A goal is shown if it is missed."""
    lines = [f"### {result.name}", "", result.title, ""]
    if result.rows:
        columns = ("command", "wall time, s", "CPU, s", "one process, MB", "all, MB", "ratio")
        lines += [f"| {' | '.join(columns)} |", "|---|--:|--:|--:|--:|--:|"]
        shown: list[list[Measured]] = []
        for row in result.rows:
            lines.append(_row(row, again=row.runs in shown))
            shown.append(row.runs)
        lines.append("")
    for item in result.figures:
        goal = "" if item.met else f" (goal: {_number(item.limit)}{item.unit})"
        lines.append(f"- {item.what}: {_number(item.value)}{item.unit}{goal}")
    lines += [f"- {note}" for note in result.notes]
    return "\n".join(lines).rstrip() + "\n"


def pairs(name: str, found: Pairs) -> str:
    """Return the ratios of this installation to another: medians of pairs, and their 95 % range.

    The range is that of the median by order statistics: it needs no shape of the distribution,
    and at least six pairs. On a machine with other users, the ratio of the least CPU of both says
    more: others only add to what a run takes.
    """
    lines = [
        f"### {name}: to the other installation",
        "",
        "| command | pairs | CPU, the other | CPU | ratio | of the least | wall time | ratio |",
        "|---|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for step, both in found.items():
        cpu, wall = ([(getattr(a, of), getattr(b, of)) for a, b in both] for of in ("cpu", "wall"))
        cells = [
            step,
            str(len(both)),
            f"{statistics.median(a for a, _ in cpu):.2f} s",
            f"{statistics.median(b for _, b in cpu):.2f} s",
            _ratio(cpu),
            f"{min(b for _, b in cpu) / min(a for a, _ in cpu):.3f}",
            f"{statistics.median(b for _, b in wall):.2f} s",
            _ratio(wall),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _ratio(both: list[tuple[float, float]]) -> str:
    ratios = sorted(b / a for a, b in both)
    middle = f"{statistics.median(ratios):.3f}"
    # The k-th smallest and k-th largest hold the median with a chance of 1 - 2 P(X < k).
    count, outside, k = len(ratios), 0.0, 0
    while (outside := outside + 2 * math.comb(count, k) / 2**count) <= 0.05:
        k += 1
    return f"{middle} ({ratios[k - 1]:.3f} – {ratios[-k]:.3f})" if k else middle


def document(results: Iterable[Result], *, repeats: int, page: str = "") -> str:
    """Return the page with these tables from its heading `TABLES` on."""
    versions = ", ".join(f"{name} {found}" for name in _PACKAGES if (found := _version(name)))
    head = (
        f"{page.partition(TABLES)[0]}{TABLES}\n\n"
        f"{os.cpu_count()} cores ({platform.machine()}), {_memory()}, "
        f"Python {platform.python_version()}, {versions}. "
        f"{repeats} repeat{'s' if repeats != 1 else ''}.\n"
    )
    return "\n".join([head, *map(text, results)])


def _row(row: Row, *, again: bool) -> str:
    """Return a row of a table; the runs of one that comes again are shown above."""
    walls = [run.wall for run in row.runs]
    cells = [
        f"{row.wall:.2f} ({min(walls):.2f}–{max(walls):.2f})",
        f"{statistics.median(run.cpu for run in row.runs):.2f}",
        f"{max(run.largest for run in row.runs) / 1e6:.0f}",
        f"{max(run.tree for run in row.runs) / 1e6:.0f}",
    ]
    return f"| {' | '.join([row.what, *([''] * 4 if again else cells), _judged(row)])} |"


def _judged(row: Row) -> str:
    if row.ratio is None:
        return ""
    missed = row.limit is not None and row.ratio > row.limit
    return f"{row.ratio:.2f} (goal: {row.limit:.2f})" if missed else f"{row.ratio:.2f}"


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.2f}"


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _memory() -> str:
    total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return f"{total / 1e9:.0f} GB of memory"

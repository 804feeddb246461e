"""A bar for each rule, in a terminal. The only module that imports ``rich``."""

from __future__ import annotations

from typing import TextIO

from rich.console import Console, Group
from rich.constrain import Constrain
from rich.live import Live
from rich.table import Table
from rich.text import Text

from fasthep_smk.run.job_counts import RuleTally, Tally

_PER_SECOND = 3
#: How jobs are counted: in which colour, by which sign of a bar, and from which width on.
_STATES = {
    "done": ("green", "━", 0),
    "failed": ("red", "╳", 0),
    "running": ("yellow", "╍", 42),
    "waiting": ("dim", "─", 42),
}
_NUMBERS = ("done", "running", "failed", "waiting")
#: Least widths of a terminal for what can be left out.
_WIDTH_FOR_POOL, _WIDTH_FOR_RATE, _WIDTH_FOR_BAR = 90, 76, 58
#: Lines for the header, the whole, the rules that are left out, and the cursor.
_OTHER_LINES = 4


class _Console(Console):
    """A console that never hides the cursor: there is nothing to restore if we are killed."""

    def show_cursor(self, show: bool = True) -> bool:  # noqa: ARG002
        return False


class Bars:
    """Bars below, lines above them. What was shown last stays."""

    def __init__(self, stream: TextIO, console: Console | None = None) -> None:
        self._console = console or _Console(
            file=stream, force_terminal=True, highlight=False, markup=False, emoji=False
        )
        self._tally: Tally | None = None
        self._live = Live(
            console=self._console,
            get_renderable=self.picture,
            refresh_per_second=_PER_SECOND,
            redirect_stdout=False,
            redirect_stderr=False,
        )

    def begin(self, tally: Tally) -> None:
        self._tally = tally
        self._live.start()

    def step(self) -> None:
        """Show nothing at once: the picture is drawn a few times a second."""

    def say(self, text: str) -> None:
        # Not wrapped: whoever copies a path or a command gets it whole.
        self._console.print(Text(text), soft_wrap=True)

    def problem(self, text: str) -> None:
        self.say(text)

    def close(self) -> None:
        self._live.stop()

    def picture(self) -> Constrain:
        """Return what is shown now, for a terminal of this size."""
        if self._tally is None:
            return Constrain("")
        width, height = self._console.size
        lines: list[Table | Text] = []
        rules = self._tally.rules
        room = height - _OTHER_LINES
        if room > 0:
            shown = rules if len(rules) <= room else _most_lively(rules, room)
            lines.append(self._table(self._tally, shown, width))
            if len(shown) < len(rules):
                lines.append(_line(f"... and {len(rules) - len(shown)} more rules", "dim"))
        lines.append(_line(self._tally.in_short()))
        return Constrain(Group(*lines), width - 1)

    def _table(self, tally: Tally, rules: dict[str, RuleTally], width: int) -> Table:
        numbers = [name for name in _NUMBERS if width >= _STATES[name][2]]
        has_pool = width >= _WIDTH_FOR_POOL
        has_rate = width >= _WIDTH_FOR_RATE and any(item.events for item in tally.rules.values())
        bar = min(width // 3, 30) if width >= _WIDTH_FOR_BAR else 0
        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="none")
        table.add_column("rule")
        if has_pool:
            table.add_column("pool", no_wrap=True)
        if bar:
            table.add_column(width=bar, no_wrap=True)
        for name in numbers:
            table.add_column(name, justify="right", no_wrap=True)
        if has_rate:
            table.add_column("events/s", justify="right", no_wrap=True)
        for rule, item in rules.items():
            counts = {name: getattr(item, name) for name in numbers}
            table.add_row(
                _line(rule),
                *([_line(tally.facts.pools.get(rule, ""), "cyan")] if has_pool else []),
                *([_bar(item, bar)] if bar else []),
                *(Text(str(n), _STATES[name][0] if n else "dim") for name, n in counts.items()),
                *([_short(item.rate)] if has_rate else []),
            )
        return table


def _line(text: str, style: str = "") -> Text:
    return Text(text, style, no_wrap=True, overflow="ellipsis")


def _bar(tally: RuleTally, width: int) -> Text:
    bar, passed, total = Text(), 0, max(tally.total, 1)
    for name, (style, sign, _) in _STATES.items():
        passed = min(passed + getattr(tally, name), total)
        bar.append(sign * (width * passed // total - len(bar)), style)
    return bar


def _most_lively(rules: dict[str, RuleTally], room: int) -> dict[str, RuleTally]:
    """Return the rules that something happens with, in their order; then those to come."""

    def dullness(rule: str) -> int:
        item = rules[rule]
        return 0 if item.running or item.failed else 1 if item.waiting else 2

    chosen = set(sorted(rules, key=dullness)[:room])
    return {rule: item for rule, item in rules.items() if rule in chosen}


def _short(number: float | None) -> str:
    if number is None:
        return ""
    for limit, sign in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= limit:
            return f"{number / limit:.3g} {sign}"
    return f"{number:.3g}"

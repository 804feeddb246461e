"""A bar for each rule, in a terminal. The only module that imports ``rich``."""

from __future__ import annotations

from typing import TextIO

from rich.console import Console
from rich.live import Live
from rich.text import Text

from fasthep_smk.run.job_counts import ProgressFacts, RuleTally, Tally

_PER_SECOND = 3
_NUMBERS = ("done", "running", "failed", "waiting")
_STYLES = {"done": "green", "running": "yellow", "failed": "red", "waiting": "dim"}
#: Least widths of a terminal for what can be left out; beside a rate, the pool needs more.
_WIDTH_FOR_RATE, _WIDTH_FOR_POOL, _WIDTH_FOR_BAR, _WIDTH_FOR_NUMBERS = 76, 70, 58, 42
_WIDTH_FOR_BOTH = 90
#: Lines for the header, a rule, and what stands below; a terminal of less shows the whole only.
_LEAST_HEIGHT = 5


class _Console(Console):
    """A console that never hides the cursor: there is nothing to restore if we are killed."""

    def show_cursor(self, show: bool = True) -> bool:  # noqa: ARG002
        return False


class Bars:
    """Bars below, lines above them. What was shown last stays."""

    def __init__(
        self, stream: TextIO, facts: ProgressFacts, console: Console | None = None
    ) -> None:
        self.facts = facts
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

    def step(self, done: int, total: int) -> None:
        """Show nothing at once: the picture is drawn a few times a second."""

    def say(self, text: str) -> None:
        # Not wrapped: whoever copies a path or a command gets it whole.
        self._console.print(Text(text), soft_wrap=True)

    def problem(self, text: str) -> None:
        self.say(text)

    def close(self) -> None:
        self._live.stop()

    def picture(self) -> Text:
        """Return what is shown now, for a terminal of this size."""
        if self._tally is None:
            return Text("")
        width, height = self._console.size
        tally = self._tally
        whole = Text(tally.in_short(tally.done, tally.total), no_wrap=True)
        if height < _LEAST_HEIGHT:
            whole.truncate(width - 1, overflow="crop")
            return whole
        columns = _Columns(self._tally, self.facts, width - 1, self._console.encoding)
        rules = self._tally.rules
        room = max(height - 4, 1)
        shown = [*rules] if len(rules) <= room else _most_lively(rules, room - 1)
        lines = [columns.header(), *(columns.line(rule, rules[rule]) for rule in shown)]
        if len(shown) < len(rules):
            lines.append(Text(f"... and {len(rules) - len(shown)} more rules", style="dim"))
        lines.append(whole)
        for line in lines:
            line.truncate(width - 1, overflow="ellipsis" if columns.unicode else "crop")
        picture = Text("\n", no_wrap=True, overflow="crop").join(lines)
        picture.no_wrap = True
        return picture


class _Columns:
    """The columns that there is room for, and how wide they are."""

    def __init__(self, tally: Tally, facts: ProgressFacts, width: int, encoding: str) -> None:
        self.unicode = encoding.lower().startswith("utf")
        self._facts = facts
        rules = tally.rules
        self._rated = width >= _WIDTH_FOR_RATE and any(item.events for item in rules.values())
        names = _NUMBERS if width >= _WIDTH_FOR_NUMBERS else ("done", "failed")
        self._numbers = {name: max(len(name), len(str(tally.total))) for name in names}
        left = width - sum(self._numbers.values()) - 2 * len(names) - (11 if self._rated else 0)
        pools = [len(facts.pools.get(rule, "")) for rule in rules]
        pool = max(max(pools, default=0), len("pool")) if any(pools) else 0
        enough = _WIDTH_FOR_BOTH if self._rated else _WIDTH_FOR_POOL
        self._pool = min(pool, 14) if width >= enough else 0
        left -= self._pool + 2 if self._pool else 0
        longest = max(max(map(len, rules), default=0), len("rule"))
        self._bar = max(min(left - longest - 2, 30), 10) if width >= _WIDTH_FOR_BAR else 0
        left -= self._bar + 2 if self._bar else 0
        self._name = max(min(longest, left), 4)

    def header(self) -> Text:
        words = [name.rjust(size) for name, size in self._numbers.items()]
        strip = Text(" " * self._bar)
        return self._line("rule", "pool", strip, [*map(Text, words)], "events/s")

    def line(self, rule: str, tally: RuleTally) -> Text:
        numbers = []
        for name, size in self._numbers.items():
            number = getattr(tally, name)
            numbers.append(Text(str(number).rjust(size), style=_STYLES[name] if number else "dim"))
        rate = "" if tally.rate is None else _short(tally.rate)
        pool = self._facts.pools.get(rule, "")
        return self._line(rule, pool, self._strip(tally), numbers, rate)

    def _line(self, rule: str, pool: str, strip: Text, numbers: list[Text], rate: str) -> Text:
        parts = [Text(_fit(rule, self._name, self.unicode))]
        if self._pool:
            parts.append(Text(_fit(pool, self._pool, self.unicode), style="cyan"))
        if self._bar:
            parts.append(strip)
        parts += numbers
        if self._rated:
            parts.append(Text(rate.rjust(9)))
        return Text("  ").join(parts)

    def _strip(self, tally: RuleTally) -> Text:
        signs = ("━", "╳", "╍", "─") if self.unicode else ("#", "x", "=", "-")
        total = max(tally.total, 1)
        strip, passed, drawn = Text(), 0, 0
        for name, sign in zip(("done", "failed", "running"), signs, strict=False):
            passed = min(passed + getattr(tally, name), total)
            reached = self._bar * passed // total
            strip.append(sign * (reached - drawn), style=_STYLES[name])
            drawn = reached
        strip.append(signs[3] * (self._bar - drawn), style="dim")
        return strip


def _most_lively(rules: dict[str, RuleTally], room: int) -> list[str]:
    """Return the rules that something happens with, in their order; then those to come."""

    def dullness(rule: str) -> int:
        item = rules[rule]
        return 0 if item.running or item.failed else 1 if item.waiting else 2

    chosen = set(sorted(rules, key=dullness)[: max(room, 1)])
    return [rule for rule in rules if rule in chosen]


def _fit(text: str, width: int, unicode: bool) -> str:
    if len(text) > width:
        text = text[: width - 1] + ("…" if unicode else "~")
    return text.ljust(width)


def _short(number: float) -> str:
    for limit, sign in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= limit:
            return f"{number / limit:.3g} {sign}"
    return f"{number:.3g}"

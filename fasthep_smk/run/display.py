"""Where a run shows how it goes: lines, bars in a terminal, or problems only."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol, TextIO

from fasthep_smk.run.job_counts import Tally
from fasthep_smk.util.terminal import is_terminal

#: Runs of more jobs do not say each of them.
_EACH = 25
_SHARE = 0.05
_SECONDS = 10.0


class Screen(Protocol):
    """What a run is shown on."""

    def begin(self, tally: Tally) -> None:
        """Show which jobs there are; ``tally`` is kept up to date from now on."""

    def step(self) -> None:
        """Show how many jobs are done: one more."""

    def say(self, text: str) -> None:
        """Show a line about the run."""

    def problem(self, text: str) -> None:
        """Show a line about something that went wrong."""

    def close(self) -> None:
        """End what is drawn again and again; lines can still be shown."""


class Lines:
    """A line for each finished job; for each twentieth, or every ten seconds, of many.

    It says which rule and dataset the job that ended last was of.
    """

    def __init__(self, stream: TextIO, clock: Callable[[], float] = time.monotonic) -> None:
        self._stream = stream
        self._clock = clock
        self._said = 0
        self._time = clock()
        self._tally = Tally()

    def begin(self, tally: Tally) -> None:
        total = tally.total
        parts = ", ".join(
            f"{item.total} x {rule}" + f" in {item.bundles} bundles" * bool(item.bundles)
            for rule, item in tally.rules.items()
        )
        self.say(f"{total} job{'s' if total != 1 else ''} to run: {parts}")
        self._said, self._time, self._tally = 0, self._clock(), tally

    def step(self) -> None:
        tally, done, total = self._tally, self._tally.done, self._tally.total
        few = total <= _EACH or done == total or done - self._said >= _SHARE * total
        if few or self._clock() - self._time >= _SECONDS:
            self._said, self._time = done, self._clock()
            self.say(tally.in_short() + (f": {tally.latest}" if tally.latest else ""))

    def say(self, text: str) -> None:
        print(text, file=self._stream, flush=True)

    def problem(self, text: str) -> None:
        print(text, file=self._stream, flush=True)

    def close(self) -> None:
        """Nothing is drawn again."""


class Problems(Lines):
    """Nothing but problems."""

    def step(self) -> None:
        """Show nothing."""

    def say(self, text: str) -> None:
        """Show nothing."""


def screen(stream: TextIO, *, quiet: bool = False) -> Screen:
    """Return what shows a run on ``stream``."""
    if quiet:
        return Problems(stream)
    if not is_terminal(stream) or "utf" not in (stream.encoding or "utf-8").lower():
        return Lines(stream)  # bars have signs that other terminals lack
    from fasthep_smk.run.progress_bars import Bars  # it imports rich

    return Bars(stream)

"""How a run is shown: lines, problems only, or bars; and the numbers behind them."""

from __future__ import annotations

import io
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator

import pytest
from rich.console import Console
from rich.text import Text

from fasthep_smk.executors.job_events import (
    Event,
    JobFailed,
    JobFinished,
    JobRetried,
    JobsPlanned,
    JobStarted,
    to_line,
)
from fasthep_smk.run import display
from fasthep_smk.run.display import Lines, Problems, Screen
from fasthep_smk.run.job_counts import ProgressFacts, Tally
from fasthep_smk.run.progress_bars import Bars
from fasthep_smk.run.snakemake_output import Reader
from tests.support.terminal import Terminal

FACTS = ProgressFacts({"stage_A": "large", "finish": "default"}, {"smk/work/stage_A/dy/1": 500})


class Clock:
    """A clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def table(**jobs: int) -> list[Event]:
    return [JobsPlanned({**jobs, "all": 1})]


def started(number: int, rule: str = "stage_A") -> list[Event]:
    folder = f"smk/work/{rule}/dy/{number}"
    return [JobStarted(str(number), rule, [f"{folder}/record.json", f"{folder}/products.zip"])]


def finished(number: int) -> list[Event]:
    return [JobFinished(str(number))]


def failed(number: int, rule: str = "stage_A") -> list[Event]:
    return [JobFailed(str(number), rule, [f"logs/{number}.log"], "None")]


def follow(reader: Reader, events: Iterable[Event]) -> Reader:
    for event in events:
        reader.event(event)
    return reader


def many(number: int) -> Iterator[Event]:
    """Return what Snakemake reports of so many jobs and a last one, two at a time."""
    yield from table(stage_A=number, finish=1)
    for job in range(1, number + 1):
        yield from started(job)
        if job > 1:
            yield from finished(job - 1)
    yield from finished(number)
    yield from started(number + 1, "finish")
    yield from finished(number + 1)


def shown_as_lines(events: Iterable[Event], clock: Clock) -> list[str]:
    stream = io.StringIO()
    follow(Reader(Lines(stream, clock)), events)
    return stream.getvalue().splitlines()


def test_few_jobs_have_a_line_each() -> None:
    assert shown_as_lines(many(3), Clock()) == [
        "4 jobs to run: 3 x stage_A, 1 x finish",
        *(f"[{number}/4] jobs done, 0:00 so far: stage_A dy/{number}" for number in range(1, 4)),
        "[4/4] jobs done in 0:00: finish dy/4",
    ]


def test_each_job_of_a_bundle_counts() -> None:
    """As it does for ``check``, ``status`` and the report."""
    markers = [f"smk/bundles/stage_A/dy/bundle_{number}.json" for number in range(2)]
    bundles = {"stage_A": {markers[0]: ["a", "b", "c"], markers[1]: ["d"]}}
    clock, stream = Clock(), io.StringIO()
    reader = Reader(Lines(stream, clock), bundles=bundles)
    follow(reader, table(stage_A=2, finish=1))
    for number, marker in enumerate(markers):
        follow(reader, [JobStarted(str(number), "stage_A", [marker])])
    item = reader.tally.rules["stage_A"]
    assert (item.running, item.waiting) == (2, 2)
    follow(reader, [*finished(0), *finished(1)])
    assert stream.getvalue().splitlines() == [
        "5 jobs to run: 4 x stage_A in 2 bundles, 1 x finish",
        "[3/5] jobs done, 0:00 so far: stage_A dy/bundle_0",
        "[4/5] jobs done, 0:00 so far: stage_A dy/bundle_1",
    ]
    assert (reader.tally.done, reader.jobs) == (4, {"stage_A": 4, "finish": 1})


def test_many_jobs_have_a_line_for_each_twentieth() -> None:
    said = shown_as_lines(many(2999), Clock())
    wanted = [f"[{number}/3000] jobs done" for number in range(150, 3001, 150)]
    assert [line.partition(",")[0].partition(" in")[0] for line in said[1:]] == wanted


def test_slow_jobs_have_a_line_at_least_every_ten_seconds() -> None:
    clock = Clock()
    stream = io.StringIO()
    reader = Reader(Lines(stream, clock))
    follow(reader, table(stage_A=3000))
    for number in range(1, 31):
        clock.now += 4
        follow(reader, [*started(number), *finished(number)])
    said = [line.partition(",")[0] for line in stream.getvalue().splitlines()[1:]]
    assert said == [f"[{number}/3000] jobs done" for number in range(3, 31, 3)]


def test_quiet_shows_problems_only() -> None:
    stream = io.StringIO()
    reader = Reader(Problems(stream))
    follow(reader, [*table(stage_A=2), *started(1), *started(2), *finished(1), *failed(2)])
    reader.say("what jobs wait for")
    assert stream.getvalue() == "failed: stage_A\n"


def tally_of(clock: Clock) -> Tally:
    tally = Tally(FACTS, clock)
    tally.begin({"stage_A": 4, "finish": 1}, {})
    return tally


def test_each_job_is_in_one_state() -> None:
    reader = Reader(None)
    follow(reader, [*table(stage_A=5, finish=1), *started(1), *started(2), *started(3)])
    follow(reader, [*finished(1), *failed(2), *started(1, "all")])
    item = reader.tally.rules["stage_A"]
    assert (item.done, item.running, item.failed, item.waiting) == (1, 1, 1, 2)
    assert set(reader.tally.rules) == {"stage_A", "finish"}
    assert reader.tally.running == {"3": "stage_A"}
    follow(reader, [JobRetried("2"), *started(2)])
    assert (item.done, item.running, item.failed, item.waiting) == (1, 2, 0, 2)


def test_a_job_that_is_handed_back_is_not_under_way() -> None:
    """It may be held until a credential is renewed."""
    reader = Reader(None)
    follow(reader, [*table(stage_A=2), *started(1), JobRetried("1")])
    item = reader.tally.rules["stage_A"]
    assert (item.running, item.failed, item.waiting) == (0, 0, 2)
    follow(reader, started(1))
    assert (item.running, item.waiting) == (1, 1)


def test_events_per_second_and_what_is_left() -> None:
    clock = Clock()
    tally = tally_of(clock)
    tally.started("1", "stage_A", "smk/work/stage_A/dy/1")
    tally.started("2", "stage_A", "smk/work/stage_A/dy/2")
    assert tally.rules["stage_A"].rate is None
    clock.now += 10
    tally.finished("1")
    assert tally.rules["stage_A"].rate == 50
    assert tally.seconds_left() is None, "one job says little"
    tally.started("3", "stage_A", "smk/work/stage_A/dy/3")
    clock.now += 10
    tally.finished("2")
    # Jobs took 10 and 20 seconds: 15 for the one that waits and for the last one, and 5 for the
    # one that has run for 10; two run at a time, as another takes the place of the one that ended.
    assert tally.seconds_left() == (15 + 15 + 5) / 2
    clock.now += 2
    assert tally.seconds_left() == (15 + 15 + 3) / 2, "it moves between the ends of jobs"
    clock.now += 60
    assert tally.seconds_left() == (15 + 15 + 1.5) / 2, "a job is not done before it ends"


def test_what_ends_with_a_run_that_is_stopped_has_not_failed() -> None:
    stream = io.StringIO()
    reader = Reader(Lines(stream, Clock()))
    follow(reader, [*table(stage_A=4), *started(1), *started(2), *finished(1)])
    reader.stop()
    follow(reader, failed(2))
    item = reader.tally.rules["stage_A"]
    assert (item.done, item.running, item.failed, item.waiting) == (1, 0, 0, 3)
    assert "failed" not in stream.getvalue()
    assert reader.tally.in_short() == "[1/4] jobs done, stopped after 0:00"


def bars(width: int, stream: io.StringIO | None = None, height: int = 24) -> Bars:
    console = Console(
        file=stream or io.StringIO(),
        force_terminal=True,
        width=width,
        height=height,
        color_system="standard",
        highlight=False,
        markup=False,
        legacy_windows=False,
    )
    console.show_cursor = lambda _show=True: False  # type: ignore[method-assign]
    return Bars(stream or io.StringIO(), console)


def picture(screen: Bars) -> str:
    """What a screen shows now."""
    with screen._console.capture() as shown:
        screen._console.print(screen.picture())
    return Text.from_ansi(shown.get()).plain


def reader_of(screen: Screen) -> Reader:
    reader = Reader(screen, facts=FACTS)
    follow(reader, [*table(stage_A=10, finish=1), *started(1), *started(2), *started(3)])
    follow(reader, [*finished(1), *failed(2)])
    return reader


def test_a_bar_says_rule_pool_and_numbers() -> None:
    screen = bars(100)
    reader_of(screen)
    screen.close()
    header, first, second, whole = picture(screen).splitlines()
    assert header.split() == ["rule", "pool", *["done", "running", "failed", "waiting", "events/s"]]
    assert first.split()[:2] == ["stage_A", "large"]
    assert first.split()[3:7] == ["1", "1", "1", "7"]
    strip = first.split()[2]
    assert (strip.count("━"), strip.count("╳"), strip.count("╍")) == (3, 3, 3)
    assert len(strip) == 30
    assert second.split()[:2] == ["finish", "default"]
    assert whole == "[1/11] jobs done, 0:00 so far"


#: What screens of these sizes show of the same run.
SCREENS = {
    (160, 50): """\
rule     pool     {bar}  done  running  failed  waiting  events/s
stage_A  large    {some}     2        1       0        1        25
finish   default  {none}     0        0       0        1
[2/5] jobs done, 0:20 so far, about 0:10 left""",
    (80, 24): """\
rule     {bar26}  done  running  failed  waiting  events/s
stage_A  {some26}     2        1       0        1        25
finish   {none26}     0        0       0        1
[2/5] jobs done, 0:20 so far, about 0:10 left""",
    (40, 20): """\
rule     done  failed
stage_A     2       0
finish      0       0
[2/5] jobs done, 0:20 so far, about 0:…""",
}


@pytest.mark.parametrize("size", SCREENS, ids=str)
def test_a_screen_shows_what_it_has_room_for(size: tuple[int, int]) -> None:
    """Four jobs of a rule: two have ended, and one is under way."""
    clock = Clock()
    tally = tally_of(clock)
    screen = bars(size[0], height=size[1])
    screen.begin(tally)
    for number in (1, 2, 3):
        tally.started(str(number), "stage_A", f"smk/work/stage_A/dy/{number}")
    clock.now += 10
    tally.finished("1")
    clock.now += 10
    tally.finished("2")
    screen.close()
    shown = picture(screen)
    signs = {"bar": " " * 30, "some": "━" * 15 + "╍" * 7 + "─" * 8, "none": "─" * 30}
    signs |= {"bar26": " " * 26, "some26": "━" * 13 + "╍" * 6 + "─" * 7, "none26": "─" * 26}
    wanted = SCREENS[size].format(**signs)
    assert [line.rstrip() for line in shown.splitlines()] == wanted.splitlines()


@pytest.mark.parametrize("width", (20, 41, 42, 57, 58, 76, 77, 90, 91, 130))
@pytest.mark.parametrize("height", [3, 5, 40])
def test_no_line_is_wider_or_picture_higher_than_the_terminal(width: int, height: int) -> None:
    screen = bars(width, height=height)
    reader = Reader(screen)
    follow(reader, table(**{f"stage_with_a_long_name_{number}": 1000 for number in range(12)}))
    screen.close()
    lines = picture(screen).splitlines()
    assert all(len(line) < width for line in lines)
    assert len(lines) < height
    assert lines[-1].startswith("[0/12000] jobs")
    if height > 3:
        assert any(line.startswith("sta") for line in lines)


def test_what_is_said_stands_above_the_bars() -> None:
    stream = io.StringIO()
    screen = bars(60, stream)
    reader = reader_of(screen)
    long = "a message of [more] than a terminal's width: " + "word " * 30 + "end"
    reader.say(long)
    screen.close()
    reader.say("after the bars")
    terminal = Terminal()
    terminal.feed(stream.getvalue())
    lines = terminal.lines
    assert lines[0] == "failed: stage_A"
    assert lines[1] == long
    assert lines[2].startswith("rule ")
    assert lines[-2:] == ["after the bars", ""]
    assert sum(line.startswith("rule ") for line in lines) == 1
    assert terminal.other == []


def test_bars_for_terminals_only(monkeypatch: pytest.MonkeyPatch) -> None:
    class Tty(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setenv("TERM", "xterm")
    assert isinstance(display.screen(Tty()), Bars)
    assert isinstance(display.screen(Tty(), quiet=True), Problems)
    assert isinstance(display.screen(io.StringIO()), Lines)
    monkeypatch.setenv("TERM", "dumb")
    assert isinstance(display.screen(Tty()), Lines)


def test_rich_is_imported_for_bars_only() -> None:
    program = "import sys, fasthep_smk.run.engine; sys.exit('rich' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program]).returncode == 0


def test_following_three_thousand_jobs_costs_next_to_nothing() -> None:
    lines = [*map(to_line, many(3000))]
    used = []
    for _ in range(3):
        screen = bars(100)
        before = time.process_time()
        reader = Reader(screen)
        for line in lines:
            reader.event_line(line)
        used.append(time.process_time() - before)
        screen.close()
    assert min(used) < 0.5

"""A forecast for people, and as plain data."""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import asdict

from tabulate import tabulate

from fasthep_smk.cli.steps import imagined, placed
from fasthep_smk.cli.why import unbundled
from fasthep_smk.plan.forecast import Forecast
from fasthep_smk.run import pipeline
from fasthep_smk.run.forecast import forecast_of, not_done
from fasthep_smk.run.lock import Held
from fasthep_smk.util.documents import JsonObject
from fasthep_smk.util.units import about_bytes, format_duration

__all__ = ["as_data", "as_text", "do_forecast", "line"]

_HOUR = 3600


def do_forecast(options: argparse.Namespace) -> int:
    """Print what the rest of a run will take."""
    try:
        with imagined(options) as translation:
            outcome = unbundled(pipeline.dry_run(translation), translation)
            forecast = forecast_of(translation, outcome.folders)
    except Held:  # by a run, which has taken over what it could
        with placed(options) as translated:
            forecast = forecast_of(translated, not_done(translated))
    if options.json:
        print(json.dumps(as_data(forecast), indent=1))
    else:
        print(as_text(forecast), end="")
    return 0


def as_data(found: Forecast) -> JsonObject:
    """Return the forecast as plain data: seconds and bytes."""
    return asdict(found)


def as_text(found: Forecast) -> str:
    """Return the forecast as tables."""
    left = [one for one in found.rules if one.to_do]
    if not left:
        return "everything is done: there is nothing to forecast\n"
    rules = [
        [
            one.rule,
            one.done,
            one.to_do,
            "?" if one.seconds is None else _seconds(one.seconds / one.to_do),
            "?" if one.seconds is None else _hours(one.core_seconds),
            "?" if one.memory is None else about_bytes(one.memory),
            "?" if one.disk is None else about_bytes(int(one.disk)),
        ]
        for one in left
    ]
    pools = [
        [
            one.pool,
            one.jobs,
            "any" if one.at_a_time is None else one.at_a_time,
            "-" if one.rounds is None else one.rounds,
            "?" if one.memory is None else about_bytes(one.memory),
            "?" if one.together is None else about_bytes(one.together),
        ]
        for one in found.pools
        if one.jobs
    ]
    right = ("left", *["right"] * 6)
    sections = [
        tabulate(
            rules,
            headers=["rule", "done", "to do", "each", "core-hours", "memory", "disk"],
            colalign=right,
            disable_numparse=True,
        ),
        tabulate(
            pools,
            headers=["pool", "jobs", "at a time", "rounds", "memory of a job", "of all at a time"],
            colalign=right[:-1],
            disable_numparse=True,
        ),
        line(found),
    ]
    return "\n\n".join(sections) + "\n"


def line(found: Forecast) -> str:
    """Return the forecast in a sentence, or two."""
    end = time.strftime("%a %d %b, %H:%M", time.localtime(time.time() + found.seconds))
    jobs = sum(one.jobs for one in found.pools)
    text = (
        f"forecast: {jobs} jobs, {_hours(found.core_seconds)} core-hours, "
        f"{about_bytes(int(found.disk))} on disk; it takes {_seconds(found.seconds)}: "
        f"started now, it ends at {end}"
    )
    if found.unknown:
        text += f"\nnot counted, as no such job is done: {', '.join(found.unknown)}"
    return text


def _hours(seconds: float) -> str:
    return f"{seconds / _HOUR:.3g}"


def _seconds(seconds: float) -> str:
    return f"{seconds:.2g} s" if seconds < 60 else format_duration(round(seconds))

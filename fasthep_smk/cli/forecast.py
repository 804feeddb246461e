"""A forecast for people, and as plain data."""

from __future__ import annotations

import time
from dataclasses import asdict

from tabulate import tabulate

from fasthep_smk.plan.forecast import Expected, Forecast
from fasthep_smk.util.documents import JsonObject
from fasthep_smk.util.units import about_bytes, format_duration

__all__ = ["as_data", "as_text", "line"]

_HOUR = 3600


def as_data(found: Forecast) -> JsonObject:
    """Return the forecast as plain data: seconds and bytes, each with by how much it may be off."""
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
            "?" if one.seconds is None else _seconds(one.seconds.times(1 / one.to_do).value),
            "?" if one.seconds is None else _off(one.core_seconds, _hours),
            "?" if one.memory is None else about_bytes(one.memory),
            "?" if one.disk is None else _off(one.disk, lambda size: about_bytes(int(size))),
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
    end = time.strftime("%a %d %b, %H:%M", time.localtime(time.time() + found.seconds.value))
    jobs = sum(one.jobs for one in found.pools)
    text = (
        f"forecast: {jobs} jobs, {_off(found.core_seconds, _hours)} core-hours, "
        f"{_off(found.disk, lambda size: about_bytes(int(size)))} on disk; it takes "
        f"{_off(found.seconds, _seconds)}: started now, it ends at {end}"
    )
    if found.unknown:
        text += f"\nnot counted, as no such job is done: {', '.join(found.unknown)}"
    return text


def _off(one: Expected, shown: object) -> str:
    assert callable(shown)
    return f"{shown(one.value)} ± {shown(one.off)}"


def _hours(seconds: float) -> str:
    return f"{seconds / _HOUR:.3g}"


def _seconds(seconds: float) -> str:
    return f"{seconds:.2g} s" if seconds < 60 else format_duration(round(seconds))

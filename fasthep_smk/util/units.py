"""Amounts as FAST-HEP's documentation writes them: ``128GB``, ``128GiB``, ``04:00:00``.

One parser for each kind. Everything is kept exactly, in bytes and seconds; only what a batch system
counts in larger units is rounded, upwards, where it is handed over (:func:`whole_mb`,
:func:`whole_minutes`). All functions raise ``ValueError`` with what was expected.
"""

from __future__ import annotations

import math
import re
from fractions import Fraction

#: Decimal units as in SI, binary ones as in IEC 80000-13; FAST-HEP's own (Dask) reads them alike.
_UNITS = {
    "b": 1,
    **{f"{letter}b": 1000 ** (power + 1) for power, letter in enumerate("kmgtp")},
    **{f"{letter}ib": 1024 ** (power + 1) for power, letter in enumerate("kmgtp")},
}
_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]+)\s*", re.ASCII)
_CLOCK = re.compile(r"\s*(?:(\d+)-)?(\d+):([0-5]\d):([0-5]\d)\s*", re.ASCII)
_PARTS = re.compile(r"\s*(?:(\d+)d)?\s*(?:(\d+)h)?\s*(?:(\d+)m(?:in)?)?\s*(?:(\d+)s)?\s*", re.ASCII)


_LONGEST = 100 * 365 * 24 * 3600  # seconds; the system's own timers count no further


def parse_bytes(value: object) -> int:
    """Return an amount of memory or disk in bytes: ``4GB`` is 4·10⁹, ``4GiB`` is 4·2³⁰."""
    expected = "a number with a unit, such as 4GB or 4GiB"
    match = _SIZE.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        raise ValueError(expected)
    unit = _UNITS.get(match[2].lower())
    if unit is None:
        raise ValueError(f"{expected}; the units are B, kB, MB, GB, TB, PB and KiB, MiB, GiB, ...")
    amount = Fraction(match[1]) * unit
    if amount.denominator != 1:
        raise ValueError("a whole number of bytes")
    if amount < 1:
        raise ValueError("more than zero")
    return int(amount)


def parse_duration(value: object) -> int:
    """Return a time in seconds: ``HH:MM:SS``, ``D-HH:MM:SS``, ``2h30m``, or a number of seconds."""
    expected = "a time such as '04:00:00', '2-00:00:00', '90m' or a whole number of seconds"
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise ValueError(expected)
    if isinstance(value, int):
        seconds = value
    elif value.strip().isascii() and value.strip().isdigit():
        seconds = int(value)
    elif value.strip() and (match := _CLOCK.fullmatch(value) or _PARTS.fullmatch(value)):
        days, hours, minutes, rest = (int(part or 0) for part in match.groups())
        seconds = ((days * 24 + hours) * 60 + minutes) * 60 + rest
    else:
        raise ValueError(expected)
    if seconds < 1:
        raise ValueError("more than zero")
    if seconds > _LONGEST:
        raise ValueError("less than a hundred years")
    return seconds


def parse_count(value: object, *, least: int = 1) -> int:
    """Return a number of cpus, GPUs, workers or retries, at least ``least``."""
    text = value.strip() if isinstance(value, str) else value
    if isinstance(text, str) and text.isascii() and text.isdigit():
        text = int(text)
    if isinstance(text, bool) or not isinstance(text, int) or text < least:
        raise ValueError(f"a whole number, {least} or more")
    return text


def whole_mb(amount: int) -> int:
    """Return bytes in units of 10⁶, rounded up: what Snakemake's ``mem_mb`` counts."""
    return math.ceil(Fraction(amount, 1000**2))


def whole_mib(amount: int) -> int:
    """Return bytes in units of 2²⁰, rounded up: what Slurm and HTCondor call a megabyte."""
    return math.ceil(Fraction(amount, 1024**2))


def whole_minutes(seconds: int) -> int:
    """Return seconds in minutes, rounded up: what Snakemake's ``runtime`` counts."""
    return math.ceil(Fraction(seconds, 60))


def format_bytes(amount: int) -> str:
    """Return bytes in the unit that shows them exactly with the fewest digits: ``128 GB``."""
    texts: list[str] = []
    for base, names in (
        (1000, ("B", "kB", "MB", "GB", "TB", "PB")),
        (1024, ("B", "KiB", "MiB", "GiB", "TiB", "PiB")),
    ):
        power = 0
        while power + 1 < len(names) and amount and amount % base ** (power + 1) == 0:
            power += 1
        texts.append(f"{amount // base**power} {names[power]}")
    return min(texts, key=lambda text: len(text.split()[0]))


def about_bytes(amount: float) -> str:
    """Return bytes as a person reads them, with two or three digits: ``1.2 GB``, ``345 kB``."""
    value, names = float(amount), ["B", "kB", "MB", "GB", "TB", "PB"]
    while value >= 999.5 and len(names) > 1:
        value, names = value / 1000, names[1:]
    exact = names[0] == "B" or value >= 9.95
    return f"{value:.0f} {names[0]}" if exact else f"{value:.1f} {names[0]}"


def format_duration(seconds: int) -> str:
    """Return seconds as ``HH:MM:SS`` or ``D-HH:MM:SS``."""
    minutes, rest = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    clock = f"{hours:02d}:{minutes:02d}:{rest:02d}"
    return f"{days}-{clock}" if days else clock

"""Numbers of the report as people read them; what is not known is a dash."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from functools import wraps

from fasthep_smk.util.units import about_bytes


class Number(str):
    """A number as people read it: in a table, it stands on the right."""

    __slots__ = ()


def _number(show: Callable[[float], str]) -> Callable[[float | None], Number]:
    @wraps(show)
    def shown(value: float | None) -> Number:
        return Number("–" if value is None else show(value))

    return shown


def when(seconds: float) -> str:
    """Return a moment as people read it, in UTC."""
    return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(seconds))


@_number
def duration(seconds: float) -> str:
    """Return a time as people read it: ``0.25 s``, ``12.3 s``, ``4 min 05 s``, ``2 h 30 min``."""
    if seconds < 59.95:
        return f"{seconds:.2f} s" if seconds < 9.995 else f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02d} s"
    return f"{minutes // 60} h {minutes % 60:02d} min"


@_number
def percent(share: float) -> str:
    """Return a share in percent, with four digits at most; what is not all is not shown as all."""
    return "> 99.99 %" if 0.99995 <= share < 1 else f"{share * 100:.4g} %"


def change(before: float | None, after: float | None) -> Number:
    """Return by how much a number has changed, as a share of what it was."""
    if not before or after is None or not math.isfinite(before + after):
        return Number("–")
    percents = (after / before - 1) * 100
    return Number(f"{percents:+.{0 if abs(percents) >= 10 else 2}f} %" if percents else "0 %")


@_number
def amount(value: float) -> str:
    """Return a number with spaces between thousands."""
    return f"{value:,.0f}".replace(",", "\u202f")


@_number
def decimal(value: float) -> str:
    """Return a number with two digits behind the point, or a large one with six digits."""
    return f"{value:,.2f}".replace(",", "\u202f") if abs(value) < 1e9 else f"{value:.6g}"


#: A number of bytes.
size = _number(about_bytes)

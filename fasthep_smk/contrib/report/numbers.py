"""Numbers of the report as people read them."""

from __future__ import annotations

import math
import time

from fasthep_smk.util.units import about_bytes

__all__ = ["amount", "decimal", "duration", "efficiency", "percent", "size", "when"]


def when(seconds: float) -> str:
    """Return a moment as people read it, in UTC."""
    return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(seconds))


def duration(seconds: float | None) -> str:
    """Return a time as people read it: ``0.25 s``, ``12.3 s``, ``4 min 05 s``, ``2 h 30 min``."""
    if seconds is None:
        return "–"
    if seconds < 9.995:
        return f"{seconds:.2f} s"
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02d} s"
    return f"{minutes // 60} h {minutes % 60:02d} min"


def percent(share: float | None) -> str:
    """Return a share as people read it; what is not all or nothing is not shown as that."""
    if share is None:
        return "–"
    if 0 < share < 0.001 or 0.995 <= share < 1:
        return "< 0.1 %" if share < 0.001 else f"{math.floor(share * 1000) / 10:.1f} %"
    return f"{share * 100:.1f} %" if 0 < abs(share) < 0.0995 else f"{share * 100:.0f} %"


def efficiency(share: float | None) -> str:
    """Return what a cut keeps in three digits, and more where next to nothing is lost."""
    if share is None or share in (0, 1):
        return percent(share)
    if share >= 0.995:
        return f"{share * 100:.2f} %" if share < 0.99995 else "> 99.99 %"
    return f"{share * 100:#.3g} %"


def amount(value: float | None) -> str:
    """Return a number with spaces between thousands."""
    return "–" if value is None else f"{value:,.0f}".replace(",", "\u202f")


def decimal(value: float | None) -> str:
    if value is None:
        return "–"
    return f"{value:,.2f}".replace(",", "\u202f") if abs(value) < 1e9 else f"{value:.6g}"


def size(value: int | None) -> str:
    return "–" if value is None else about_bytes(value)

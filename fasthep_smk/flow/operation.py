"""Which operation runs now in this process, for messages."""

from __future__ import annotations

__all__ = ["current_operation", "enter_operation"]

_current = "an own module"


def enter_operation(name: str) -> None:
    """Note that an operation begins."""
    global _current
    _current = name


def current_operation() -> str:
    """Return the operation that began last."""
    return _current

"""Which operation runs now in this process, for messages."""

from __future__ import annotations

from fasthep_smk.util import last_words

_current = "an own module"


def enter_operation(name: str, stage: str) -> None:
    """Note that an operation begins, also for who asks when this process has died."""
    global _current
    _current = name
    last_words.say(stage=stage, op=name)


def current_operation() -> str:
    """Return the operation that began last."""
    return _current

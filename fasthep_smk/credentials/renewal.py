"""Wait while a required credential has ended, until it is renewed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping

from fasthep_smk.credentials.checks import lack
from fasthep_smk.credentials.found import NAMES, Credential, moment
from fasthep_smk.credentials.looking import look
from fasthep_smk.credentials.mends import renewal
from fasthep_smk.describe.credentials import Kind, Requirement

__all__ = ["PAUSE", "lacking", "renewed", "waiting"]

#: Seconds between two looks at a credential that jobs wait for.
PAUSE = 2.0

Look = Callable[[Iterable[Kind]], Mapping[Kind, Credential]]


def lacking(
    required: Iterable[Requirement], *, now: float | None = None, looked: Look = look
) -> dict[Kind, str]:
    """Return which required credentials jobs have to wait for, each with why and what to do."""
    required = list(required)
    found = looked(one.kind for one in required)
    now = time.time() if now is None else now
    missing: dict[Kind, str] = {}
    for one in required:
        known = found.get(one.kind)
        if why := lack(one, known, now=now):
            missing[one.kind] = f"{why}; renew it: {renewal(one, known)}"
    return missing


def waiting(why: str) -> str:
    """Return the line that says that jobs wait."""
    text, _, mend = why.partition("; renew it: ")
    return f"{text}: jobs wait; renew it: {mend}"


def renewed(kinds: Iterable[Kind], *, looked: Look = look) -> list[str]:
    """Return lines that say of which credentials jobs do not wait any more."""
    found = looked(kinds)
    return [
        f"the {NAMES[kind]} was renewed"
        + (f", until {moment(one.end)}" if one.end is not None else "")
        + ": jobs go on"
        for kind, one in found.items()
    ]

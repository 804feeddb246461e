"""What a job asks for at an attempt: decided here, when a workflow is translated and in a run.

An attempt's ``request`` is what its pool, stage, dataset and file of sizes say, the later ones
overriding the earlier. A translation does not know yet why an attempt will fail, so the next one
asks for more of everything (`planned`); a run knows it (`amounts`):

- the first attempt asks for what is said, or for what other jobs of its rule took;
- the next one asks for more of what the one before it lacked, and for as much of everything else;
- in another pool, a job asks for what is said there, and for more of what it lacked;
- if it lacked an amount that is measured, the final attempt asks for at least what is said, however
  little other jobs took.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from fasthep_smk.config.requests import GROWS_TO, Attempt, leaf_of

#: The amounts that may differ from one attempt to the next, and how a job says that it lacked them.
GROWING = {"memory": "memory", "walltime": "time"}
#: A job was killed and nothing says why: only for its final attempt it is taken to have lacked
#: something.
_KILLED = "killed"
#: Nobody knows yet why it will fail: it may lack anything.
_ANYTHING = "anything"
#: A job that lacked time asks for this many times what it had. One that lacked anything asks for at
#: least this many times the most that another job took.
_TIME_GROWTH, _THAN_OTHERS = 2.0, 1.5
#: What people read is rounded up to whole units of this: bytes, seconds.
_UNITS = {"memory": 10**7, "disk": 10**7, "walltime": 60}


@dataclass(frozen=True)
class Known:
    """What is known of an amount by the jobs of a rule that are done in a pool.

    ``first``: what another one asks for at first, ``None``: too little is known. ``most``: what one
    of them took at most. Bytes or seconds. ``why`` is in words where that comes from.
    """

    first: int | None = None
    most: float = 0.0
    why: str = ""


#: What tells what is known in a pool of an amount.
KnownOf = Callable[[str, str], Known]


@dataclass(frozen=True)
class Past:
    """An attempt that has failed, with what it had as its request, and the ``kinds`` of failure.

    A bundle of jobs may have several.
    """

    had: Attempt
    kinds: Collection[str]

    def lacked(self, name: str, *, last: bool) -> bool:
        """Whether an amount was too small, as far as is known; ``last``: no try comes after."""
        if _ANYTHING in self.kinds or GROWING[name] in self.kinds:
            return True
        return last and _KILLED in self.kinds


def amounts(
    stated: Sequence[Attempt],
    number: int,
    past: Past | None = None,
    known: KnownOf | None = None,
) -> Attempt:
    """Return an attempt, the ``number``-th from 1, with the memory and time that it asks for.

    ``stated`` is what is said of each attempt; a number beyond is that of the last one. ``past`` is
    the attempt before, ``known`` tells what the finished jobs of a pool say about an amount.
    """
    now, last = stated[min(number, len(stated)) - 1], number >= len(stated)
    request, origins = now.request, dict(now.origins)
    for name in GROWING:
        measured = known(now.pool, name) if known and name in now.measured else Known()
        requested = first = getattr(now.request, name)
        if measured.first is not None:
            first, origins[leaf_of(name)] = measured.first, measured.why
        wanted, most = first, now.most.get(name)
        if past is not None:
            had, is_here = getattr(past.had.request, name), past.had.pool == now.pool
            if had is None or not past.lacked(name, last=last):
                wanted = had if is_here else first
            elif first is None or (name == "walltime" and _ANYTHING in past.kinds):
                wanted = most  # all that there is
            elif is_here or most is not None or _ANYTHING not in past.kinds:
                more = grown(had, measured.most, now.growth if name == "memory" else _TIME_GROWTH)
                wanted = max(whole(more, name) if name in now.measured else more, first)
                if last and name in now.measured:
                    wanted = max(wanted, requested or 0)  # what a worker has
        if wanted is not None and most is not None:
            wanted = min(wanted, most)
        if wanted != first and GROWS_TO in origins and name == "memory":
            origins[leaf_of(name)] = origins[GROWS_TO]
        request = replace(request, **{name: wanted})
    return replace(now, request=request, origins=origins)


def saying(
    attempt: Attempt,
    said: Mapping[str, int | None],
    why: Mapping[str, str],
    most: Mapping[str, int],
) -> Attempt:
    """Return an attempt of which amounts are ``said``, and ``why``: other jobs do not change them.

    ``most`` is up to how much they may grow.
    """
    amounts: Any = said
    return replace(
        attempt,
        request=replace(attempt.request, **amounts),
        origins={**attempt.origins, **{leaf_of(name): where for name, where in why.items()}},
        measured=tuple(name for name in attempt.measured if name not in said),
        most=most,
    )


def planned(stated: Sequence[Attempt], known: KnownOf | None = None) -> tuple[Attempt, ...]:
    """Return what the attempts of a job ask for, if each of them may have lacked anything."""
    attempts: list[Attempt] = []
    for number in range(1, len(stated) + 1):
        past = Past(attempts[-1], (_ANYTHING,)) if attempts else None
        attempts.append(amounts(stated, number, past, known))
    return tuple(attempts)


def grown(had: float, most: float, growth: float = 2.0) -> int:
    """Return what a job asks for that has lacked what it ``had``, where others took ``most``."""
    return math.ceil(max(Fraction(str(growth)) * Fraction(had), Fraction(_THAN_OTHERS * most)))


def whole(wanted: float, amount: str) -> int:
    """Return an amount rounded up, so that what hardly differs is the same."""
    return math.ceil(wanted / _UNITS[amount]) * _UNITS[amount]

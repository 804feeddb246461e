"""Partitions of Slurm, flavours of HTCondor: the smallest that suffices for what a job asks for.

A site names them with what each gives, as ``slurm: {partitions: ...}`` and ``htcondor: {flavours:
...}``. They stand in a file, so that no run depends on an answer of the batch system.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from fasthep_smk.config.requests import AMOUNTS, Attempt, ResourceRequest, leaf_of
from fasthep_smk.util.errors import Finding

#: What stands for no limit of time.
UNLIMITED = "unlimited"
#: What stands for all of CERN's flavours (batchdocs.web.cern.ch, "Job flavours").
CERN = "cern"
_CERN: Mapping[str, object] = {
    "espresso": "20m",
    "microcentury": "1h",
    "longlunch": "2h",
    "workday": "8h",
    "tomorrow": "1d",
    "testmatch": "3d",
    "nextweek": "7d",
}
_SETS: Mapping[object, Mapping[str, object]] = {CERN: _CERN}


@dataclass(frozen=True)
class Queue:
    """What a job gets at most in a partition or flavour: bytes, seconds, numbers.

    What is not among the ``limits`` has none. Cpus, memory and GPUs are those of its largest node.
    """

    name: str
    limits: Mapping[str, int]

    def shown(self) -> str:
        """Return the name with all limits, for people."""
        request = ResourceRequest(**self.limits)
        limits = (f"{name} {request.shown(name)}" for name in AMOUNTS if name in self.limits)
        return ", ".join([self.name, *limits])


def queues_of(said: object) -> list[Queue]:
    """Return the partitions or flavours that a setting names, in its order.

    Raises:
        ValueError: an amount is none; the message says where, and what was expected.
    """
    content = _SETS.get(said) if isinstance(said, str) else said
    if not isinstance(content, Mapping):
        return []
    return [_queue(str(name), own) for name, own in content.items()]


def _queue(name: str, own: object) -> Queue:
    said = dict(own) if isinstance(own, Mapping) else {"walltime": own}
    if said.get("walltime") == UNLIMITED:
        del said["walltime"]
    limited = [amount for amount in AMOUNTS if said.get(amount) is not None]
    try:
        return Queue(name, {amount: AMOUNTS[amount](said[amount]) for amount in limited})
    except ValueError as error:
        raise ValueError(f"for {name}: {error}") from error


def _suffices(queue: Queue, request: ResourceRequest) -> bool:
    """Whether a job that asks for so much can run there."""
    return all((getattr(request, name) or 0) <= limit for name, limit in queue.limits.items())


def chosen(said: object, request: ResourceRequest) -> str | None:
    """Return the name of the partition or flavour of a job; ``None``: none is large enough.

    That is the one with the smallest limit of time, or with the largest where the job says no time:
    how long it takes is unknown. A bundle that may take longer than any goes to the longest. GPUs
    are left to jobs that ask for them, if others suffice.
    """
    queues = queues_of(said)
    queue = _choice(queues, request) or _choice(queues, replace(request, walltime=None))
    return queue.name if queue else None


def _choice(queues: Sequence[Queue], request: ResourceRequest) -> Queue | None:
    fitting = [queue for queue in queues if _suffices(queue, request)]
    if not request.gpus:
        fitting = [queue for queue in fitting if not queue.limits.get("gpus")] or fitting
    if not fitting:
        return None
    pick = min if request.walltime is not None else max
    return pick(fitting, key=lambda queue: queue.limits.get("walltime", math.inf))


def longest(queues: Sequence[Queue], request: ResourceRequest) -> int | None:
    """Return for how many seconds a job may last in any of them that is large enough for it."""
    times = [queue.limits.get("walltime") for queue in queues if _suffices(queue, request)]
    return max((time for time in times if time is not None), default=None) if all(times) else None


def most_memory(
    queues: Sequence[Queue], request: ResourceRequest, nodes: Mapping[str, int]
) -> int | None:
    """Return the most memory that a job may ask for so that it goes where there is as much.

    ``nodes`` says what the nodes of each have, in bytes, as far as that is known. ``None``: there
    is no limit, or it is not known.
    """
    memories = {queue.name: [queue.limits.get("memory"), nodes.get(queue.name)] for queue in queues}
    limits = {
        name: min((memory for memory in pair if memory), default=None)
        for name, pair in memories.items()
    }

    def place(memory: int) -> Queue | None:
        asked = replace(request, memory=memory)
        return _choice(queues, asked) or _choice(queues, replace(asked, walltime=None))

    amounts = sorted({limit for limit in limits.values() if limit is not None}, reverse=True)
    beyond = place(amounts[0] + 1) if amounts else None
    if beyond is not None and limits[beyond.name] is None:
        return None
    for amount in amounts:
        queue = place(amount)
        if queue is not None and amount <= (limits[queue.name] or amount):
            return amount
    return None


def too_large(
    attempt: Attempt, system: str, option: str, *, unless: Sequence[str]
) -> Finding | None:
    """Return what is wrong with an attempt that is larger than all partitions or flavours.

    ``option`` names these in its options of a ``system``; with one of ``unless`` its pool says
    itself where its jobs go.
    """
    options = attempt.options.get(system, {})
    queues = queues_of(options.get(option))
    asked = attempt.request
    is_said = any(options.get(key) for key in unless)
    if not queues or is_said or _choice(queues, asked) is not None:
        return None
    kind = option.removesuffix("s")
    requested = ", ".join(
        f"{amount} {asked.shown(amount)}" for amount in AMOUNTS if getattr(asked, amount)
    )
    return Finding(
        key=attempt.place("config.walltime"),
        problem=f"pool {attempt.pool!r} asks for more than any single {kind} has",
        value=requested,
        expected=f"at most what one of these has: {'; '.join(map(Queue.shown, queues))}",
        hint=f"ask for less, or add a larger {kind} to config.{system}.{option}",
    )


def larger_than(attempt: Attempt, name: str, most: int, what: str, hint: str) -> Finding:
    """Return that an attempt asks for more of an amount than the ``most`` that something has."""
    return Finding(
        key=attempt.place(leaf_of(name)),
        problem=f"pool {attempt.pool!r} asks for more than {what} has",
        value=f"{name}: {attempt.request.shown(name)}",
        expected=f"at most {ResourceRequest(**{name: most}).shown(name)}",
        hint=hint,
    )

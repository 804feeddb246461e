"""What merged layers say of a pool or stage, read: amounts as numbers, options by system."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar

from fasthep_smk.config.layers import Layer, Merged, merge
from fasthep_smk.config.requests import AMOUNTS, SYSTEMS, Pilot, ResourceRequest, leaf_of
from fasthep_smk.util import units
from fasthep_smk.util.documents import YamlMapping
from fasthep_smk.util.errors import Finding, read_value

#: The settings that ``execution.config``, a free mapping of FAST-HEP's, gives to every pool.
CONFIG_KEYS = (
    "walltime", "retries", "memory_growth", "sizes", "partitions_per_job", "pilot", "queue",
    "account", *SYSTEMS, "executor",
)  # fmt: skip
#: What FAST-HEP's words are in each batch system's; any other executor's job has them as resources.
_WORDS = {
    "queue": {"slurm": "partition", "htcondor": "job_flavour", "executor": "queue"},
    "account": {"slurm": "account", "htcondor": "accounting_group", "executor": "account"},
}
#: What ``sizes`` says: whether jobs ask for what earlier ones took.
_MEASURED = {"auto": True, "fixed": False}
#: The options of each batch system, and those of any other executor.
_OPTIONS = (*SYSTEMS, "executor")

_Value = TypeVar("_Value")


@dataclass(frozen=True)
class Settings:
    """What merged layers say. ``retries`` is ``None`` where the site decides.

    ``growth``: with how much more memory a job is tried again, as a factor. ``measured``: jobs ask
    for what earlier ones took; ``None`` if that is not said. ``fallback_after``: how many seconds a
    job waits in the queue before it goes to its fallback.
    """

    workers: int | None = None
    request: ResourceRequest = field(default_factory=ResourceRequest)
    retries: int | None = None
    growth: float = 2.0
    measured: bool | None = None
    partitions_per_job: int = 1
    pilot: Pilot | None = None
    fallback_after: int | None = None
    options: Mapping[str, YamlMapping] = field(default_factory=dict)
    origins: Mapping[str, str] = field(default_factory=dict)


def settings_of(layers: Iterable[Layer]) -> tuple[Settings, list[Finding]]:
    """Return what layers say, merged and read, with what cannot be read."""
    merged = merge(own for layer in layers for own in _in_each_systems_words(layer))
    read = _Reader(merged)
    amounts = {name: read(parse, *leaf_of(name).split(".")) for name, parse in AMOUNTS.items()}
    request = ResourceRequest(**{name: n for name, n in amounts.items() if n is not None})
    read(_words, "config", "slurm", "extra")
    read(units.parse_duration, "config", "htcondor", "max_runtime")
    read(_queues, "config", "slurm", "partitions")
    read(_queues, "config", "htcondor", "flavours")
    settings = Settings(
        workers=read(units.parse_count, "workers"),
        request=request,
        retries=merged.get("config", "retries"),
        growth=float(merged.get("config", "memory_growth") or 2),
        measured=_MEASURED.get(merged.get("config", "sizes")),
        partitions_per_job=merged.get("config", "partitions_per_job") or 1,
        pilot=_pilot(read, merged.get("config", "pilot")),
        fallback_after=read(units.parse_duration, "fallback_after"),
        options={system: dict(merged.get("config", system) or {}) for system in _OPTIONS},
        origins={".".join(leaf): layer.place(leaf) for leaf, layer in merged.origins.items()},
    )
    return settings, read.findings


def _in_each_systems_words(layer: Layer) -> Iterator[Layer]:
    """Yield a layer with FAST-HEP's ``queue`` and ``account`` as options of each batch system."""
    config = layer.content.get("config") or {}
    rest = {key: value for key, value in config.items() if key not in _WORDS}
    if len(rest) == len(config):
        yield layer
        return
    yield replace(layer, content={**layer.content, "config": rest})
    words: dict[str, dict[str, object]] = {}
    renamed: dict[tuple[str, ...], tuple[str, ...]] = {}
    for word in (word for word in _WORDS if word in config):
        for system, option in _WORDS[word].items():
            if option not in (config.get(system) or {}):  # the system's own word wins
                words.setdefault(system, {})[option] = config[word]
                renamed["config", system, option] = ("config", word)
    yield Layer(layer.file, layer.key, {"config": words}, renamed)


class _Reader:
    def __init__(self, merged: Merged) -> None:
        self.findings: list[Finding] = []
        self._merged = merged

    def __call__(self, parse: Callable[[object], _Value], *path: str) -> _Value | None:
        layer = self._merged.origin(*path)
        file, key = (layer.file, layer.key_at(path)) if layer else (None, None)
        return read_value(parse, self._merged.get(*path), self.findings, file=file, key=key)


def _queues(value: object) -> object:
    from fasthep_smk.config.queues import queues_of  # few say so

    return queues_of(value)


def _pilot(read: _Reader, value: object) -> Pilot | None:
    if not isinstance(value, Mapping):
        return Pilot() if value else None
    walltime = read(units.parse_duration, "config", "pilot", "walltime")
    return Pilot(tasks=value.get("tasks") or 1, walltime=walltime)


def _words(value: object) -> list[str]:
    try:
        return shlex.split(value) if isinstance(value, str) else []
    except ValueError as error:
        raise ValueError(
            "words as in a shell, with all quotation marks closed and no backslash at the end"
        ) from error

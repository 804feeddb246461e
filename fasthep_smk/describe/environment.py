"""``execution.environment``: with which environment jobs are to run on workers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from fasthep_smk.errors import Finding, nearest, not_among

__all__ = ["PACKED", "TYPES", "Environment", "read_environment"]

PACKED = ("packed-venv", "packed-conda", "packed-pixi")
TYPES = ("shared-prefix", *PACKED)
#: The keys of each type. Of ``packed-pixi``, some name files of FAST-HEP's own backend.
_KEYS = {
    "shared-prefix": ("type", "prefix", "mode"),
    "packed-venv": ("type",),
    "packed-conda": ("type",),
    "packed-pixi": ("type", "mode", "source", "environment", "archive_path", "worker_env_dir"),
}
_MODES = {"shared-prefix": ("shared",), "packed-pixi": ("self-extracting", "prefix")}


@dataclass(frozen=True)
class Environment:
    """The environment of jobs. ``file`` is where it is asked for.

    ``prefix`` is a folder that all machines see, or ``current``: the one that runs this.
    """

    type: str
    prefix: str = "current"
    file: str = ""

    @property
    def is_packed(self) -> bool:
        """Tell whether it is to travel with the jobs."""
        return self.type in PACKED


def read_environment(
    said: Iterable[tuple[str, str, Mapping[str, Any] | None]],
) -> tuple[Environment | None, list[Finding]]:
    """Return the environment that is asked for last, and what is wrong with any of them.

    ``said`` are files, the keys in them and what stands there, of the right shape. One replaces
    another as a whole: their keys depend on the type.
    """
    environment = None
    findings: list[Finding] = []
    for file, key, section in said:
        if not section:
            continue
        wrong = list(_findings(section, file, key))
        findings += wrong
        if not wrong:
            prefix = str(section.get("prefix") or "current").strip()
            environment = Environment(str(section["type"]), prefix, file)
    return environment, findings


def _findings(section: Mapping[str, Any], file: str, key: str) -> Iterator[Finding]:
    kind = section.get("type")
    if kind not in TYPES:
        close = nearest(str(kind), TYPES) if kind is not None else None
        yield Finding(
            file=file,
            key=f"{key}.type",
            problem="is missing" if kind is None else "no such environment",
            value=None if kind is None else repr(kind),
            expected=", ".join(TYPES),
            hint=f"did you mean {close!r}?" if close else None,
        )
        return
    for name in section:
        if name not in _KEYS[str(kind)]:
            yield Finding(
                file=file,
                key=f"{key}.{name}",
                problem=f"means nothing for {kind}",
                expected=", ".join(_KEYS[str(kind)]),
            )
    modes = _MODES.get(str(kind), ())
    mode = section.get("mode")
    if mode is not None and modes and mode not in modes:
        yield not_among(mode, modes, problem="no such mode", file=file, key=f"{key}.mode")
    prefix = section.get("prefix")
    if prefix is not None and prefix.strip() != "current" and not prefix.strip().startswith("/"):
        yield Finding(
            file=file,
            key=f"{key}.prefix",
            problem="is not what belongs here",
            value=repr(prefix),
            expected="current, or the absolute path of an environment that all workers see",
        )
    source = section.get("source")
    if source is not None and source.strip() != "current":
        yield Finding(
            file=file,
            key=f"{key}.source",
            problem="is not what belongs here",
            value=repr(source),
            expected="current: the environment in which fasthep-smk runs",
        )

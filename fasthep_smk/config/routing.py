"""Stages and pools brought together: where each stage goes, at which attempt, asking for what."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from fasthep_smk.config import schema
from fasthep_smk.config.layers import Layer
from fasthep_smk.config.pools import DEFAULT_POOL, Pool, Pools
from fasthep_smk.config.requests import (
    AMOUNTS,
    GROWS_TO,
    Attempt,
    ResourceRequest,
    Route,
    leaf_of,
)
from fasthep_smk.config.settings import Settings, settings_of
from fasthep_smk.util import units
from fasthep_smk.util.documents import YamlMapping
from fasthep_smk.util.errors import Finding, not_among, read_value
from fasthep_smk.util.yaml_values import as_yaml, key_of

#: Options of sbatch, and commands of HTCondor, that say how much memory a job gets: a pattern.
MEMORY_OPTIONS = r"--mem\b|--mem-per|--exclusive\b|request_memory"


@dataclass(frozen=True)
class StageNeeds:
    """What a stage says under ``execution``. ``timeout`` and ``fallback_after`` are in seconds.

    ``own`` is what it sets itself, over what its pool says.
    """

    layer: Layer
    own: Layer
    require: str | None = None
    prefer: str | None = None
    fallback: str | None = None
    timeout: int | None = None
    fallback_after: int | None = None

    @property
    def time_limit(self) -> int | None:
        """The ``timeout`` of a stage that does not set the walltime of its jobs."""
        return None if (self.own.content.get("config") or {}).get("walltime") else self.timeout


def stage_needs(
    document: YamlMapping, *, workflow: str
) -> tuple[dict[str, StageNeeds], list[Finding]]:
    """Return what each stage of a workflow needs, by its id, and what is wrong with it."""
    analysis = document.get("analysis")
    stages = analysis.get("stages") if isinstance(analysis, dict) else None
    needs: dict[str, StageNeeds] = {}
    findings: list[Finding] = []
    for number, stage in enumerate(stages if isinstance(stages, list) else []):
        content = stage.get("execution") if isinstance(stage, dict) else None
        if content is None:
            continue
        name = str(stage.get("id"))
        place = repr(name) if stage.get("id") else number
        key = f"analysis.stages[{place}].execution"
        wrong = schema.findings_of(content, "stage_execution", file=workflow, key=key)
        if not wrong and content.get("require") and content.get("prefer"):
            expected = "require (only that pool) or prefer (that pool first)"
            problem = "has both require and prefer"
            wrong = [Finding(file=workflow, key=key, problem=problem, expected=expected)]
        times = {}
        for word in ("timeout", "fallback_after") if not wrong else ():
            value, at = content.get(word), f"{key}.{word}"
            times[word] = read_value(units.parse_duration, value, wrong, file=workflow, key=at)
        if not wrong:
            own = {word: content[word] for word in ("resources", "config") if word in content}
            needs[name] = StageNeeds(
                layer=Layer(workflow, key, content),
                own=Layer(workflow, key, own),
                require=_text(content.get("require")),
                prefer=_text(content.get("prefer")),
                fallback=_text(content.get("fallback")),
                **times,
            )
        findings += wrong
    return needs, findings


@dataclass
class Router:
    """Routes stages. ``retries`` is how often the site tries again a stage that does not say.

    ``defaults`` are the pools of stages that name none, for ``cpu`` and ``gpu``, and who says so.
    ``learns``: where no memory is given, jobs ask for what earlier ones took.
    """

    pools: Pools
    needs: Mapping[str, StageNeeds]
    workflow: str
    defaults: Mapping[str, tuple[str, Layer]] = field(default_factory=dict)
    retries: int = 0
    learns: bool = False

    def findings(self) -> list[Finding]:
        """Return names that no pool has, or else what stages ask for that no pool has."""
        named = [
            *(
                (layer, ("default_pools", kind), label)
                for kind, (label, layer) in self.defaults.items()
            ),
            *(
                (needs.layer, (word,), label)
                for needs in self.needs.values()
                for word in ("require", "prefer", "fallback")
                if (label := getattr(needs, word))
            ),
        ]
        unknown = [
            self._unknown(layer, path, label)
            for layer, path, label in named
            if self.pools.named(label) is None
        ]
        return unknown or [finding for stage in self.needs for finding in self._impossible(stage)]

    def without_gpu(self, stages: Iterable[str]) -> Iterable[Finding]:
        """Yield which of ``stages``, all of which need a GPU, go to a pool that has none."""
        for stage in stages:
            first, last, why = self._choose(stage, needs_gpu=True)
            for pool, how in ((first, why), (last, "fallback")):
                settings = self._settings(pool, stage) if pool else None
                # A batch system may be asked in its own words.
                if settings is None or settings.request.gpus or "gpu" in repr(settings.options):
                    continue
                yield Finding(
                    file=self.workflow,
                    key=f"analysis.stages[{stage!r}].execution",
                    problem="the stage needs a GPU, but its pool has none",
                    value=f"pool {pool.name!r} ({how})" if pool else None,
                    expected="a pool with resources: {gpus: 1}",
                    hint="add the name of such a pool under 'require' in this stage, or under "
                    "'default_pools.gpu' for all GPU stages",
                )

    def measures(self, pool: str, stages: Iterable[str]) -> tuple[str, ...]:
        """Return which amounts jobs of ``stages`` ask for in a pool as earlier ones took them.

        What a stage itself says stays; without a time limit none is asked for.
        """
        leader = self._leader(stages)
        settings = self._settings(self.pools.by_name[pool], leader)
        if settings.measured is None and self.learns and not _says_memory(settings):
            return ("memory",)
        if not settings.measured:
            return ()
        needs = self.needs.get(leader or "")
        own = needs.own.content if needs else {}
        memory = (own.get("resources") or {}).get("memory")
        timed = (own.get("config") or {}).get("walltime") or (needs and needs.timeout)
        has_time = settings.request.walltime is not None and not timed
        return tuple(
            name for name, is_free in (("memory", not memory), ("walltime", has_time)) if is_free
        )

    def _leader(self, stages: Iterable[str]) -> str | None:
        """Return the stage that says where a job goes that runs ``stages``."""
        return next((stage for stage in stages if stage in self.needs), None)

    def key(self, stage: str | None, *, needs_gpu: bool = False) -> str:
        """Return what tells whether two stages may share a job: equal keys may."""
        first, last, _ = self._choose(stage, needs_gpu=needs_gpu)
        needs = self.needs.get(stage or "")
        own = {**needs.own.content, "timeout": needs.timeout} if needs else {"timeout": None}
        after = self._fallback_after(stage, first, last)
        return json.dumps([first.name, last.name if last else None, after, own], sort_keys=True)

    def route(self, stages: Iterable[str], *, needs_gpu: bool = False) -> Route:
        """Return the route of a job that runs ``stages``, which have equal keys."""
        stages = list(stages)
        leader = self._leader(stages)
        first, last, why = self._choose(leader, needs_gpu=needs_gpu)
        timeouts = [self.needs[stage].timeout for stage in stages if stage in self.needs]
        limit = sum(timeout for timeout in timeouts if timeout) or None
        head = self._settings(first, leader)
        tries = head.retries if head.retries is not None else self.retries
        pools = [first] * (tries + 1)
        if last is not None and last is not first:
            # A fallback needs a last attempt of its own, even where nothing is tried again.
            pools = [*(pools[:-1] or pools), last]
        attempts = [self._attempt(pool, leader, limit) for pool in pools]
        fixed = head.retries is not None or attempts[-1].pool != attempts[0].pool
        after = self._fallback_after(leader, first, last)
        if after is not None:
            why += f" (at the last attempt, or after {units.format_duration(after)} in the queue)"
        return Route(tuple(attempts), why, fixed, head.origins, after)

    def _attempt(self, pool: Pool, stage: str | None, limit: int | None) -> Attempt:
        """Return what is said of a job's attempt on a pool: up to how much it may grow, too."""
        settings = self._settings(pool, stage)
        request = settings.request
        origins = dict(settings.origins)
        needs = self.needs.get(stage or "")
        if limit is not None and limit < (request.walltime or math.inf):
            request = replace(request, walltime=limit)
            if needs is not None:
                origins["config.walltime"] = needs.layer.place(("timeout",))
        most = {"memory": request.memory, "walltime": request.walltime}
        size = pool.settings.request.memory
        if request.memory is not None and size is not None and request.memory < size:
            # The stage asks for less than that: its pool is what lets it grow.
            most["memory"] = size
            origins[GROWS_TO] = pool.settings.origins["resources.memory"]
        return Attempt(
            pool.name,
            request,
            settings.options,
            origins,
            settings.pilot,
            most={name: value for name, value in most.items() if value is not None},
            growth=settings.growth,
        )

    def _fallback_after(self, stage: str | None, first: Pool, last: Pool | None) -> int | None:
        """Return after how many seconds in the queue a stage's jobs go to their fallback."""
        if last is None or last is first:
            return None
        needs = self.needs.get(stage or "")
        if needs is not None and "fallback_after" in needs.layer.content:
            return needs.fallback_after  # null takes back what the pool says
        return first.settings.fallback_after

    def _settings(self, pool: Pool, stage: str | None) -> Settings:
        needs = self.needs.get(stage or "")
        if needs is None or not needs.own.content:
            return pool.settings
        return settings_of((*pool.layers, needs.own))[0]

    def _choose(
        self, stage: str | None, *, needs_gpu: bool = False
    ) -> tuple[Pool, Pool | None, str]:
        needs = self.needs.get(stage or "")
        label = needs and (needs.require or needs.prefer)
        if needs is not None and label:
            why = f"{'require' if needs.require else 'prefer'}: {label}"
        elif needs_gpu and self.defaults.get("gpu"):
            label, why = self.defaults["gpu"][0], "the stage needs a GPU (see default_pools.gpu)"
        elif self.defaults.get("cpu"):
            label, why = self.defaults["cpu"][0], "the stage names no pool (see default_pools.cpu)"
        else:
            label, why = DEFAULT_POOL, "the stage names no pool"
        last = None
        if needs is not None and needs.fallback:
            last = self.pools.named(needs.fallback)
            why += f", then fallback: {needs.fallback}"
        first = self.pools.named(label)
        assert first is not None, "names are checked by findings()"
        return first, last, why

    def _unknown(self, layer: Layer, path: tuple[str, ...], label: str) -> Finding:
        pool = key_of("execution.pools", [label])
        finding = not_among(
            label,
            dict.fromkeys([*self.pools.by_name, *self.pools.offered]),
            problem="no pool or resource class of this name",
            file=layer.file,
            key=layer.key_at(path),
        )
        hint = f"add {pool} to the workflow, or a pool profile {label!r} to the site's pools.yaml"
        return replace(finding, hint=finding.hint or hint)

    def _impossible(self, stage: str) -> Iterator[Finding]:
        """Yield what a stage asks for that its pools do not have."""
        needs = self.needs[stage]
        first, last, _ = self._choose(stage)
        if needs.fallback_after is not None and last in (None, first):
            yield Finding(
                file=needs.layer.file,
                key=needs.layer.key_at(("fallback_after",)),
                problem="there is no fallback: jobs would have no other pool to go to",
                value=as_yaml(needs.layer.content["fallback_after"]),
                expected="next to this key, the key fallback with another pool",
            )
        for pool in [first] if last is None else [first, last]:
            settings, findings = settings_of((*pool.layers, needs.own))
            yield from findings
            limit = needs.time_limit
            asked = replace(settings.request, walltime=limit or settings.request.walltime)
            for name in AMOUNTS:
                path: tuple[str, ...] = ("resources", name)
                if name == "walltime":
                    path = ("timeout",) if limit else ("config", "walltime")
                elif name not in (needs.own.content.get("resources") or {}):
                    continue
                key = needs.layer.key_at(path)
                yield from more_than_a_worker(pool, name, asked, self.workflow, key)


def more_than_a_worker(
    pool: Pool, name: str, asked: ResourceRequest, file: str | None, key: str, where: str = ""
) -> Iterable[Finding]:
    """Yield that more is asked for of an amount than a worker of a pool has, if it is."""
    value, limit = getattr(asked, name), _size(pool, name)
    if value is not None and limit is not None and value > limit:
        origin = pool.settings.origins.get(leaf_of(name))
        yield Finding(
            file=file,
            key=key,
            problem=f"asks for more than a worker of pool {pool.name!r} has{where}",
            value=asked.shown(name),
            expected=f"at most {pool.settings.request.shown(name)}"
            + (f" ({origin})" if origin else ""),
            hint=f"ask for less, or give pool {pool.name!r} larger workers",
        )


def _size(pool: Pool, name: str) -> int | None:
    """Return how much of something a worker of a pool has; ``None`` if it is not given."""
    stated = pool.settings.origins
    if name == "gpus" and any(leaf.startswith("resources.") for leaf in stated):
        return pool.settings.request.gpus  # a worker that is described, without GPUs
    value: int | None = getattr(pool.settings.request, name)
    return value if leaf_of(name) in stated else None


def _says_memory(settings: Settings) -> bool:
    """Whether something says how much memory jobs get, also in the batch system's own words."""
    return settings.request.memory is not None or bool(
        re.search(MEMORY_OPTIONS, repr(settings.options))
    )


def _text(value: object) -> str | None:
    return None if value is None else str(value).strip()

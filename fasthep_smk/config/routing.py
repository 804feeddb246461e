"""Stages and pools brought together: where each stage goes, at which attempt, asking for what."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from fasthep_smk.config import schema
from fasthep_smk.config.layers import Layer
from fasthep_smk.config.pools import DEFAULT_POOL, Pool, Pools
from fasthep_smk.config.requests import GROWS_TO, Attempt, ResourceRequest, Route, leaf_of
from fasthep_smk.config.settings import Settings, settings_of
from fasthep_smk.util import units
from fasthep_smk.util.documents import YamlMapping
from fasthep_smk.util.errors import Finding, nearest, read_value
from fasthep_smk.util.yaml_values import as_yaml, key_of

#: Options of sbatch, and commands of HTCondor, that say how much memory a job gets: a pattern.
MEMORY_OPTIONS = r"--mem\b|--mem-per|--exclusive\b|request_memory"


@dataclass(frozen=True)
class StageNeeds:
    """What a stage says under ``execution``. ``timeout`` and ``fallback_after`` are in seconds."""

    stage: str
    layer: Layer
    require: str | None = None
    prefer: str | None = None
    fallback: str | None = None
    timeout: int | None = None
    fallback_after: int | None = None

    @property
    def own(self) -> YamlMapping:
        """What the stage sets itself, over what its pool says."""
        content = self.layer.content
        return {key: content[key] for key in ("resources", "config") if key in content}

    @property
    def own_layer(self) -> Layer:
        """The same as the strongest layer of settings."""
        return Layer(self.layer.file, self.layer.key, self.own)


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
        wrong = schema.findings_of(content, "stage", file=workflow, key=key)
        if not wrong and content.get("require") and content.get("prefer"):
            wrong = [
                Finding(
                    file=workflow,
                    key=key,
                    problem="has both require and prefer",
                    value=f"require: {content['require']}, prefer: {content['prefer']}",
                    expected="require (only that pool) or prefer (that pool first)",
                )
            ]
        times = {}
        for word in ("timeout", "fallback_after") if not wrong else ():
            value, at = content.get(word), f"{key}.{word}"
            times[word] = read_value(units.parse_duration, value, wrong, file=workflow, key=at)
        if wrong:
            findings += wrong
            continue
        needs[name] = StageNeeds(
            stage=name,
            layer=Layer(workflow, key, content),
            require=_text(content.get("require")),
            prefer=_text(content.get("prefer")),
            fallback=_text(content.get("fallback")),
            **times,
        )
    return needs, findings


@dataclass
class Router:
    """Routes stages. ``retries`` is how often the site tries again a stage that does not say.

    ``learns``: where no memory is given, jobs ask for what earlier ones took.
    """

    pools: Pools
    needs: Mapping[str, StageNeeds]
    workflow: str
    defaults: Mapping[str, tuple[str, Layer]] = field(default_factory=dict)
    retries: int = 0
    learns: bool = False

    def findings(self) -> list[Finding]:
        """Return names that no pool has, and stages that ask for more than their pool has."""
        findings = [*self._default_findings()]
        for needs in self.needs.values():
            for word in ("require", "prefer", "fallback"):
                label = getattr(needs, word)
                if label and self.pools.named(label) is None:
                    findings.append(self._unknown(needs.layer, word, label))
        if not findings:
            for stage in self.needs:
                findings += self._too_much(stage)
            findings += self._nowhere_to_go()
        return findings

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

    def warnings(self) -> list[str]:
        """Return what is odd about what stages ask for themselves."""
        return [text for needs in self.needs.values() for text in settings_of([needs.own_layer])[2]]

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
        own = needs.own if needs else {}
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
        own = {**needs.own, "timeout": needs.timeout} if needs else {"timeout": None}
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
        if needs is None or not needs.own:
            return pool.settings
        return settings_of((*pool.layers, needs.own_layer))[0]

    def _choose(
        self, stage: str | None, *, needs_gpu: bool = False
    ) -> tuple[Pool, Pool | None, str]:
        needs = self.needs.get(stage or "")
        label = needs and (needs.require or needs.prefer)
        if needs is not None and label:
            why = f"{'require' if needs.require else 'prefer'}: {label}"
            others = self.pools.also(label)
            if others:
                why += f" (also in {', '.join(others)})"
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

    def _default_findings(self) -> Iterable[Finding]:
        for kind, (label, layer) in self.defaults.items():
            pool = self.pools.named(label)
            if pool is None:
                yield self._unknown(layer, kind, label)
                continue
            gpus = pool.settings.request.gpus
            if (kind == "gpu") == bool(gpus):
                continue
            problem, expected = {
                "gpu": ("this pool has no GPU", "a pool with resources: {gpus: 1}"),
                "cpu": (
                    "this pool's workers have GPUs, which jobs that use only CPUs would block",
                    "a pool without gpus",
                ),
            }[kind]
            yield Finding(
                file=layer.file,
                key=layer.key_at((kind,)),
                problem=problem,
                value=as_yaml(label),
                expected=expected,
            )

    def _unknown(self, layer: Layer, word: str, label: str) -> Finding:
        names = list(self.pools.by_name)
        classes = [name for name in self.pools.classes if name not in names]
        profiles = [name for name in self.pools.profiles if name not in names]
        offered = [name for name in self.pools.site_profiles if name not in [*names, *classes]]
        pool = key_of("execution.pools", [label])
        hint = f"add {pool} to the workflow, or a pool profile {label!r} to the site's pools.yaml"
        problem = "no pool or resource class of this name"
        if label in self.pools.classes:
            problem = "no pool provides this resource class"
            hint = f"add {pool}: {{resources: {label}}}"
        elif label in profiles:
            hint = f"add {pool}: {{use: {label}}}"
        elif close := nearest(label, [*names, *classes, *profiles]):
            hint = f"did you mean {close!r}?"
        return Finding(
            file=layer.file,
            key=layer.key_at((word,)),
            problem=problem,
            value=as_yaml(label),
            expected=f"one of the pools: {', '.join(map(_shown, names))}"
            if label in self.pools.classes
            else ", ".join(map(_shown, [*names, *classes, *offered])),
            hint=hint,
        )

    def _nowhere_to_go(self) -> Iterable[Finding]:
        """Yield what says how long jobs wait for a pool that have no other to go to."""
        routes = [(needs, *self._choose(needs.stage)[:2]) for needs in self.needs.values()]
        for needs, first, last in routes:
            if needs.fallback_after is not None and last in (None, first):
                fallback = needs.layer.key_at(("fallback",))
                yield _no_fallback(needs.layer, f"add {fallback}: the pool that jobs then go to")
        used = [first for _, first, _ in routes] + [self._choose(None)[0]]
        left = {first.name for _, first, last in routes if last not in (None, first)}
        for pool in {pool.name: pool for pool in used if pool.name not in left}.values():
            layers = [layer for layer in pool.layers if "fallback_after" in layer.content]
            if pool.settings.fallback_after is not None and layers:
                hint = f"add 'fallback: POOL' to 'execution' of a stage that uses {pool.name!r}"
                yield _no_fallback(layers[-1], hint)

    def _too_much(self, stage: str) -> list[Finding]:
        needs = self.needs[stage]
        first, last, _ = self._choose(stage)
        findings: list[Finding] = []
        for pool in [first, *([last] if last else [])]:
            asked = ResourceRequest()
            if needs.own:
                settings, wrong, _ = settings_of((*pool.layers, needs.own_layer))
                findings += wrong
                asked = settings.request
            if needs.timeout is not None and not (needs.own.get("config") or {}).get("walltime"):
                asked = replace(asked, walltime=needs.timeout)
            findings += self._exceeds(needs, pool, asked)
        return list({str(item): item for item in findings}.values())

    def _exceeds(self, needs: StageNeeds, pool: Pool, asked: ResourceRequest) -> Iterable[Finding]:
        resources = needs.own.get("resources") or {}
        for name in ("cpus", "memory", "disk", "gpus", "walltime"):
            if name != "walltime" and name not in resources:
                continue
            path: tuple[str, ...] = ("resources", name)
            if name == "walltime":
                by_timeout = needs.timeout is not None and asked.walltime == needs.timeout
                path = ("timeout",) if by_timeout else ("config", "walltime")
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


def _no_fallback(layer: Layer, hint: str) -> Finding:
    return Finding(
        file=layer.file,
        key=layer.key_at(("fallback_after",)),
        problem="there is no fallback: jobs would have no other pool to go to",
        value=as_yaml(layer.content["fallback_after"]),
        expected="a fallback to another pool next to this key",
        hint=hint,
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


def _shown(name: str) -> str:
    """Return a name as it is, or in quotes if it could be misread."""
    return name if name.isidentifier() else repr(name)


def _text(value: object) -> str | None:
    return None if value is None else str(value).strip()

"""The pools of a run: what the workflow, its profiles and the site say, merged.

Weakest first: the site's default, the workflow's ``execution.config``, the pool profile, the pool
in the workflow, the stage. Mappings merge key by key, lists replace, ``null`` removes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from fasthep_smk.config.layers import Layer, entries
from fasthep_smk.config.settings import CONFIG_KEYS, Settings, settings_of
from fasthep_smk.config.site import Site
from fasthep_smk.util.errors import Finding, not_among

DEFAULT_POOL = "default"


@dataclass(frozen=True)
class Pool:
    """A group of workers. ``provides`` is the resource class that it stands for."""

    name: str
    layers: tuple[Layer, ...]
    settings: Settings
    provides: str | None = None
    profile: str | None = None


@dataclass(frozen=True)
class Pools:
    """All pools by name; what is ``offered`` becomes a pool as soon as a stage asks for it."""

    by_name: Mapping[str, Pool] = field(default_factory=dict)
    offered: tuple[str, ...] = ()

    def named(self, label: str) -> Pool | None:
        """Return the pool that ``require: label`` means: of that name, or providing that class."""
        if label in self.by_name:
            return self.by_name[label]
        return next((pool for pool in self.by_name.values() if label == pool.provides), None)


def make_pools(
    layers: list[Layer], site: Site, wanted: Iterable[str]
) -> tuple[Pools, list[Finding]]:
    """Return the pools of a run, and what is wrong with them.

    ``layers`` are the ``execution`` sections of FAST-HEP's profiles and, last, of the workflow;
    ``wanted`` are the names that stages ask for.
    """
    maker = _Maker(layers, site)
    pools = maker.make(wanted)
    return pools, list({str(finding): finding for finding in maker.findings}.values())


class _Maker:
    def __init__(self, layers: list[Layer], site: Site) -> None:
        self.findings: list[Finding] = []
        self._layers = layers
        self._site = site
        self._own = entries(layers, "pools")
        # What has a kind is an input file of FAST-HEP's, not a class.
        self._classes = {
            name: list(map(_as_resources, items))
            for name, items in entries(layers, "resources").items()
            if not any("kind" in item.content for item in items)
        }
        self._profiles = entries(layers, "pool_profiles")
        self._of_site = entries([Layer(site.file, "", site.said)], "pool_profiles")

    def make(self, wanted: Iterable[str]) -> Pools:
        offered = (*self._classes, *self._of_site)
        named = [_class_of(layer) for layers in self._own.values() for layer in layers]
        implied = [name for name in wanted if name in offered and name not in named]
        names = dict.fromkeys([*self._own, *implied, DEFAULT_POOL])
        pools = Pools({name: self._pool(name) for name in names}, offered)
        # Unused ones are read too: a mistake in them would show only when a pool uses them.
        unused = [*self._classes.values(), *self._profiles.values(), *self._of_site.values()]
        for layers in unused:
            self._settings(layers)
        return pools

    def _pool(self, name: str) -> Pool:
        own = self._own.get(name, [])
        using = next((layer for layer in reversed(own) if "use" in layer.content), None)
        layers = [
            Layer(self._site.file, "default", self._site.said.get("default") or {}),
            *(_config_of(layer, name) for layer in self._layers),
            *self._profile(name, using),
            *(_without(layer, "use") for layer in own),
            *([] if own else self._classes.get(name, [])),
        ]
        resolved, settings = self._settings(layers)
        named = [label for layer in layers if (label := _class_of(layer)) in self._classes]
        use = using.content["use"] if using else None
        return Pool(name, resolved, settings, named[-1] if named else None, use)

    def _settings(self, layers: Iterable[Layer]) -> tuple[tuple[Layer, ...], Settings]:
        """Return layers with their classes in place of the names of these, and what they say."""
        resolved = tuple(part for layer in layers for part in self._resolved(layer))
        settings, findings = settings_of(resolved)
        self.findings += findings
        return resolved, settings

    def _profile(self, name: str, using: Layer | None) -> list[Layer]:
        use = using.content["use"] if using else None
        layers = self._of_site.get(use or name, []) or self._profiles.get(use or "", [])
        if use and using and not layers:
            otherwise = f"a profile in {self._site.file} or in execution.pool_profiles"
            profiles = [*self._of_site, *self._profiles]
            self._no_such("pool profile", using, "use", profiles, otherwise)
        return layers

    def _resolved(self, layer: Layer) -> list[Layer]:
        label = _class_of(layer)
        if label is None:
            return [layer]
        rest = _without(layer, "resources")
        if label not in self._classes:
            otherwise = (
                "a class in execution.resources, or the amounts themselves (cpus, memory, disk, "
                "gpus)"
            )
            self._no_such("resource class", layer, "resources", self._classes, otherwise)
            return [rest]
        # A name is no mapping: it replaces what weaker layers said.
        emptied = Layer(layer.file, layer.key, {"resources": None})
        return [emptied, *self._classes[label], rest]

    def _no_such(
        self, what: str, layer: Layer, word: str, known: Iterable[str], otherwise: str
    ) -> None:
        """Note that a layer names something that does not exist."""
        value, key = layer.content[word], layer.key_at((word,))
        problem = f"no {what} of this name"
        finding = not_among(value, known, problem=problem, file=layer.file, key=key)
        self.findings.append(replace(finding, expected=finding.expected or otherwise))


def _class_of(layer: Layer) -> str | None:
    """Return the resource class that a layer names, if it does."""
    resources = layer.content.get("resources")
    return resources if isinstance(resources, str) else None


def _as_resources(layer: Layer) -> Layer:
    """Return a class as it stands among the settings of a pool."""
    renamed: dict[tuple[str, ...], tuple[str, ...]] = {
        ("resources", name): (name,) for name in layer.content
    }
    return Layer(layer.file, layer.key, {"resources": layer.content}, renamed)


def _config_of(layer: Layer, pool: str) -> Layer:
    """Return what ``execution.config`` says of a pool."""
    config = layer.content.get("config") or {}
    said: dict[str, object] = {"config": {key: config[key] for key in CONFIG_KEYS if key in config}}
    word = next((word for word in ("workers", "n_workers") if word in config), None)
    # FAST-HEP gives these to its only pool if the workflow names none.
    if word is None or pool != DEFAULT_POOL or layer.content.get("pools"):
        return Layer(layer.file, layer.key, said)
    said["workers"] = config[word]
    return Layer(layer.file, layer.key, said, {("workers",): ("config", word)})


def _without(layer: Layer, key: str) -> Layer:
    content = {name: value for name, value in layer.content.items() if name != key}
    return replace(layer, content=content)

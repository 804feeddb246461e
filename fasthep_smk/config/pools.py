"""The pools of a run: what the workflow, its profiles and the site say, merged.

Weakest first: the site's default, the workflow's ``execution.config``, the pool profile, the pool
in the workflow, the stage. Mappings merge key by key, lists replace, ``null`` removes.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from fasthep_smk.config.layers import Layer, merge
from fasthep_smk.config.settings import CONFIG_KEYS, Settings, settings_of
from fasthep_smk.config.site import Site
from fasthep_smk.util.documents import YamlMapping
from fasthep_smk.util.errors import Finding, invalid, not_among
from fasthep_smk.util.yaml_values import as_yaml, key_of

DEFAULT_POOL = "default"


@dataclass(frozen=True)
class Pool:
    """A group of workers. ``provides`` are the resource classes that it stands for."""

    name: str
    layers: tuple[Layer, ...]
    settings: Settings
    provides: tuple[str, ...] = ()
    profile: str | None = None


@dataclass
class Pools:
    """All pools by name, with what was found while they were made.

    ``profiles`` are all pool profiles; those of the site are pools as soon as a stage asks for one.
    """

    by_name: dict[str, Pool] = field(default_factory=dict)
    classes: tuple[str, ...] = ()
    profiles: tuple[str, ...] = ()
    site_profiles: tuple[str, ...] = ()
    findings: list[Finding] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def named(self, label: str) -> Pool | None:
        """Return the pool that ``require: label`` means: of that name, or providing that class."""
        if label in self.by_name:
            return self.by_name[label]
        return next((pool for pool in self.by_name.values() if label in pool.provides), None)

    def also(self, label: str) -> list[str]:
        """Return the other pools that provide a class."""
        chosen = self.named(label)
        return [
            pool.name
            for pool in self.by_name.values()
            if label in pool.provides and pool is not chosen
        ]


def make_pools(layers: list[Layer], site: Site, wanted: Iterable[str]) -> Pools:
    """Return the pools of a run.

    ``layers`` are the ``execution`` sections of FAST-HEP's profiles and, last, of the workflow;
    ``wanted`` are the names that stages ask for.
    """
    return _Maker(layers, site).make(list(wanted))


class _Maker:
    def __init__(self, layers: list[Layer], site: Site) -> None:
        self._layers = layers
        self._site = site
        self._classes = _by_name(layers, "resources")
        #: What has a kind is an input file of FAST-HEP's, not a class.
        self._inputs = {
            name: self._classes.pop(name)
            for name, entries in list(self._classes.items())
            if any("kind" in layer.content["resources"] for layer in entries)
        }
        self._profiles = _by_name(layers, "pool_profiles")
        self._site_profiles = _by_name([Layer(site.file, "", site.said)], "pool_profiles")
        profiles = [*self._site_profiles, *self._profiles]
        self.pools = Pools(
            classes=tuple(self._classes),
            profiles=tuple(dict.fromkeys(profiles)),
            site_profiles=tuple(self._site_profiles),
        )

    def make(self, wanted: list[str]) -> Pools:
        declared = self._declared()
        names = list(declared)
        for name in wanted:
            # Without any pool in the workflow, each class that a stage asks for is one.
            implied = name in self._classes and not declared
            provided = any(name in self._provided(pool) for pool in names)
            if name not in names and not provided and (implied or name in self._site_profiles):
                names.append(name)
        if DEFAULT_POOL not in names:
            names.append(DEFAULT_POOL)
        for name in names:
            if name != name.strip() or not name:
                file = declared[name].file if name in declared else None
                expected = "a name without spaces before or after it"
                key = key_of("execution.pools", [name])
                self.pools.findings.append(invalid(file, key, name, expected))
            self.pools.by_name[name.strip()] = self._pool(name)
        # Unused ones are read too: a mistake in them would show only when a pool uses them.
        unused = [*self._classes.values(), *self._profiles.values(), *self._site_profiles.values()]
        for layers in unused:
            resolved = [part for layer in layers for part in self._resolve(layer, [])]
            self.pools.findings += settings_of(resolved)[1]
        self.pools.findings = list({str(item): item for item in self.pools.findings}.values())
        return self.pools

    def _declared(self) -> dict[str, Layer]:
        """Return the pools by name; one that a later layer sets to null is taken back."""
        declared: dict[str, Layer] = {}
        for layer in self._layers:
            for name, content in (layer.content.get("pools") or {}).items():
                if content is None and name in declared:
                    del declared[name]
                else:
                    declared.setdefault(name, layer)
        return declared

    def _provided(self, pool: str) -> list[str]:
        contents = [(layer.content.get("pools") or {}).get(pool) for layer in self._layers]
        return [
            item["resources"]
            for item in contents
            if isinstance(item, dict) and isinstance(item.get("resources"), str)
        ]

    def _pool(self, name: str) -> Pool:
        own = _by_name(self._layers, "pools").get(name, [])
        using = next((layer for layer in reversed(own) if "use" in layer.content), None)
        layers = [
            Layer(self._site.file, "default", self._site.said.get("default") or {}),
            *(part for layer in self._layers for part in _config_layers(layer, name)),
            *self._profile(name, using),
            *(Layer(item.file, item.key, _without(item.content, "use")) for item in own),
        ]
        if not own:
            layers += self._classes.get(name, [])
        resolved: list[Layer] = []
        provides: list[str] = []
        for layer in layers:
            resolved += self._resolve(layer, provides)
        settings, findings, warnings = settings_of(resolved)
        self.pools.findings += findings
        self.pools.warnings += warnings
        use = using.content["use"] if using else None
        return Pool(name, tuple(resolved), settings, tuple(provides[-1:]), use)

    def _profile(self, name: str, using: Layer | None) -> list[Layer]:
        use = using.content["use"] if using else None
        wanted = use or name
        layers = self._site_profiles.get(wanted) or (self._profiles.get(wanted) if use else None)
        if layers is not None:
            return layers
        if use and using:
            otherwise = f"a profile in {self._site.file} or in execution.pool_profiles"
            self._no_such("pool profile", using, "use", self.pools.profiles, otherwise)
        return []

    def _resolve(self, layer: Layer, provides: list[str]) -> list[Layer]:
        """Put the class that ``resources`` names in the place of its name."""
        label = layer.content.get("resources")
        if not isinstance(label, str):
            return [layer]
        rest = Layer(layer.file, layer.key, _without(layer.content, "resources"), layer.wrapped)
        if label in self._inputs:
            self._no_class(label, layer)
            return [rest]
        if label not in self._classes:
            otherwise = (
                "a class in execution.resources, or the amounts themselves (cpus, memory, disk, "
                "gpus)"
            )
            self._no_such("resource class", layer, "resources", self._classes, otherwise)
            return [rest]
        provides.append(label)
        # A name is no mapping: it replaces what weaker layers said.
        emptied = Layer(layer.file, layer.key, {"resources": None})
        return [emptied, *self._classes[label], rest]

    def _no_such(
        self, what: str, layer: Layer, word: str, known: Iterable[str], otherwise: str
    ) -> None:
        """Note that a layer names something that does not exist."""
        finding = not_among(
            layer.content[word],
            known,
            problem=f"no {what} of this name",
            file=layer.file,
            key=layer.key_at((word,)),
        )
        self.pools.findings.append(replace(finding, expected=finding.expected or otherwise))

    def _no_class(self, label: str, user: Layer) -> None:
        """Note that what is named as a class is an input file, as it has a kind."""
        taken_by = user.key_at(("resources",))
        layer = next(layer for layer in self._inputs[label] if "kind" in layer.content["resources"])
        self.pools.findings.append(
            Finding(
                file=layer.file,
                key=layer.key_at(("resources", "kind")),
                problem=f"makes {label!r} an input file, but {taken_by} uses {label!r} as a "
                "resource class",
                value=as_yaml(layer.content["resources"]["kind"]),
                expected="cpus, memory, disk or gpus, but no kind",
            )
        )


def _by_name(layers: Iterable[Layer], section: str) -> dict[str, list[Layer]]:
    """Return the entries of a section of each layer by their names, weakest first."""
    by_name: dict[str, list[Layer]] = {}
    wrapped = section == "resources"
    for layer in layers:
        start = key_of(layer.key, [section])
        for name, content in (layer.content.get(section) or {}).items():
            inner = {"resources": content or {}} if wrapped else content or {}
            entry = Layer(layer.file, key_of(start, [name]), inner, int(wrapped))
            by_name.setdefault(name, []).append(entry)
    return by_name


def _config_layers(layer: Layer, pool: str) -> list[Layer]:
    """Return what ``execution.config`` says of a pool."""
    config = layer.content.get("config") or {}
    content = {"config": {key: config[key] for key in CONFIG_KEYS if key in config}}
    layers = [Layer(layer.file, key_of(layer.key, ["config"]), content, 1)]
    # FAST-HEP gives these to its only pool if the workflow names none.
    if pool == DEFAULT_POOL and not layer.content.get("pools"):
        word = next((word for word in ("workers", "n_workers") if word in config), None)
        if word is not None:
            key = key_of(layer.key, ["config", word])
            layers.append(Layer(layer.file, key, {"workers": config[word]}, 1))
    return layers


def _without(content: YamlMapping, key: str) -> dict[str, object]:
    return {name: value for name, value in content.items() if name != key}


def merged_defaults(layers: Iterable[Layer]) -> dict[str, tuple[str, Layer]]:
    """Return ``default_pools`` of all layers: for ``cpu`` and ``gpu`` a pool and who says so."""
    parts = [
        Layer(
            layer.file,
            key_of(layer.key, ["default_pools"]),
            layer.content.get("default_pools") or {},
        )
        for layer in layers
    ]
    merged = merge(parts)
    return {
        kind: (str(name), merged.origins[(kind,)])
        for kind, name in merged.values.items()
        if not kind.startswith("x-")
    }

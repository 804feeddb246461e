"""Layers of settings, merged by one rule, with where each value came from.

The rule, the same everywhere: a later layer wins; mappings merge key by key; anything else,
lists included, replaces what was there; ``null`` removes it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from fasthep_smk.util.documents import YamlMapping
from fasthep_smk.util.yaml_values import key_of

Path = tuple[str, ...]


@dataclass(frozen=True)
class Layer:
    """Settings that stand at ``key`` of ``file``.

    ``renamed`` has the path in the file of a value whose path in ``content`` is another.
    """

    file: str
    key: str
    content: YamlMapping
    renamed: Mapping[Path, Path] = field(default_factory=dict)

    def place(self, path: Path = ()) -> str:
        """Return where a value stands, for people: ``workflow.yaml: execution.pools.gpu``."""
        return f"{self.file}: {self.key_at(path)}"

    def key_at(self, path: Path = ()) -> str:
        """Return the key of a value in its file."""
        return key_of(self.key, self.renamed.get(path, path))


@dataclass(frozen=True)
class Merged:
    """The result; ``origins`` holds the layer that each leaf came from, by its path of keys."""

    values: dict[str, object] = field(default_factory=dict)
    origins: dict[Path, Layer] = field(default_factory=dict)

    def get(self, *path: str) -> Any:
        """Return the value at a path of keys, ``None`` if there is none."""
        value: object = self.values
        for key in path:
            value = value.get(key) if isinstance(value, dict) else None
        return value

    def origin(self, *path: str) -> Layer | None:
        """Return the layer of the value at ``path``; of a mapping, that of its first leaf."""
        layers = [layer for leaf, layer in self.origins.items() if leaf[: len(path)] == path]
        return layers[0] if layers else None


def merge(layers: Iterable[Layer]) -> Merged:
    """Merge layers, weakest first."""
    merged = Merged()
    for layer in layers:
        _lay(merged, merged.values, (), layer.content, layer)
    return merged


def _lay(
    merged: Merged, onto: dict[str, object], path: Path, content: YamlMapping, layer: Layer
) -> None:
    for key, value in content.items():
        here = (*path, key)
        there = onto.get(key)
        if isinstance(value, Mapping) and isinstance(there, dict):
            _lay(merged, there, here, value, layer)
            continue
        for leaf in [leaf for leaf in merged.origins if leaf[: len(here)] == here]:
            del merged.origins[leaf]
        onto.pop(key, None)
        if isinstance(value, Mapping):
            inner: dict[str, object] = {}
            onto[key] = inner
            _lay(merged, inner, here, value, layer)
        elif value is not None:
            onto[key] = list(value) if isinstance(value, list) else value
            merged.origins[here] = layer


def entries(layers: Iterable[Layer], section: str) -> dict[str, list[Layer]]:
    """Return the entries of a section by their names, each with its layers, weakest first.

    A ``null`` takes weaker ones away; where there are none, it is an entry that says nothing.
    """
    by_name: dict[str, list[Layer]] = {}
    for layer in layers:
        for name, content in (layer.content.get(section) or {}).items():
            if content is None and name in by_name:
                del by_name[name]
            else:
                entry = Layer(layer.file, layer.key_at((section, name)), content or {})
                by_name.setdefault(name, []).append(entry)
    return by_name

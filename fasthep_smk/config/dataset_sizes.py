"""What the jobs of one dataset, or of some of its files, ask for: ``execution.sizes.by_dataset``.

Layers merge as those of pools do: the workflow's over those of FAST-HEP's profiles, key by key.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase

from fasthep_smk.config.layers import Layer, merge
from fasthep_smk.util import units
from fasthep_smk.util.errors import Finding, not_among, read_value

_PARSED: Mapping[str, Callable[[object], int]] = {
    "memory": units.parse_bytes,
    "disk": units.parse_bytes,
    "walltime": units.parse_duration,
}
#: What makes a name a pattern of files.
_PATTERN = frozenset("*?[/.")


@dataclass(frozen=True, kw_only=True)
class DatasetSize:
    """What jobs of the dataset ``name``, or of files that match it, ask for: bytes and seconds.

    What is not among the ``amounts`` is as for others of their rule. ``layer`` is where the name
    stands, ``layers`` are where the amounts stand.
    """

    name: str
    layer: Layer
    layers: Mapping[str, Layer]
    amounts: Mapping[str, int]

    def key(self, *leaf: str) -> str:
        """Return the key of an amount, or of all of them, in its file."""
        layer = self.layers[leaf[0]] if leaf else self.layer
        return layer.key_at((self.name, *leaf))

    def place(self, leaf: str) -> str:
        """Return where an amount stands, for people."""
        return self.layers[leaf].place((self.name, leaf))

    def means(self, dataset: str, file: str, datasets: Iterable[str]) -> bool:
        """Whether a file of a dataset is meant; a name of one of the ``datasets`` is no pattern."""
        if self.name in datasets:
            return self.name == dataset
        return file == self.name or (
            bool(_PATTERN & set(self.name)) and fnmatchcase(file, self.name)
        )


def of_datasets(
    sections: Iterable[tuple[str, Mapping[str, object]]],
) -> tuple[list[DatasetSize], list[Finding]]:
    """Return what ``execution`` sections, weakest first, each with its file, say of datasets.

    Also those of which no amount is said: their names may be wrong. And which amounts cannot be
    read.
    """
    said_in = [
        Layer(file, "execution.sizes.by_dataset", content)
        for file, section in sections
        if (content := _by_dataset(section)) is not None
    ]
    merged = merge(said_in)
    sizes: list[DatasetSize] = []
    findings: list[Finding] = []
    for name, named_in in _names(said_in).items():
        layers: dict[str, Layer] = {}
        amounts: dict[str, int] = {}
        for leaf, parse in _PARSED.items():
            if (layer := merged.origins.get((name, leaf))) is None:
                continue
            key, said = layer.key_at((name, leaf)), merged.get(name, leaf)
            value = read_value(parse, said, findings, file=layer.file, key=key)
            if value is not None:
                amounts[leaf], layers[leaf] = value, layer
        sizes.append(DatasetSize(name=name, layer=named_in, layers=layers, amounts=amounts))
    return sizes, findings


def _names(layers: Iterable[Layer]) -> dict[str, Layer]:
    """Return the names in layers, weakest first, but for those that a stronger one takes away."""
    names: dict[str, Layer] = {}
    for layer in layers:
        for name, content in layer.content.items():
            if content is None and name in names:
                del names[name]
            else:
                names[name] = layer
    return names


def _by_dataset(section: Mapping[str, object]) -> Mapping[str, object] | None:
    sizes = section.get("sizes")
    by_dataset = sizes.get("by_dataset") if isinstance(sizes, Mapping) else None
    return by_dataset if isinstance(by_dataset, Mapping) else None


def unknown_datasets(
    sizes: Iterable[DatasetSize], files: Iterable[tuple[str, str]]
) -> Iterator[Finding]:
    """Yield names that no dataset has and no file matches; ``files`` follow their datasets."""
    files = list(files)
    datasets = list(dict.fromkeys(dataset for dataset, _ in files))
    for size in sizes:
        if any(size.means(dataset, file, datasets) for dataset, file in files):
            continue
        yield not_among(
            size.name,
            datasets,
            problem="the workflow has no dataset of this name, and no file that matches this "
            "pattern",
            file=size.layer.file,
            key=size.key(),
        )

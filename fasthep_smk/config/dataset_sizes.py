"""What the jobs of one dataset, or of some of its files, ask for: ``execution.sizes.by_dataset``.

Layers merge as those of pools do: the workflow's over those of FAST-HEP's profiles, key by key.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase

from fasthep_smk.config.layers import Layer, entries, merge
from fasthep_smk.config.requests import AMOUNTS
from fasthep_smk.util.errors import Finding, not_among, read_value

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

    def key(self, leaf: str) -> str:
        """Return the key of an amount in its file."""
        return self.layers[leaf].key_at((leaf,))

    def place(self, leaf: str) -> str:
        """Return where an amount stands, for people."""
        return self.layers[leaf].place((leaf,))

    def means(self, dataset: str, file: str, datasets: Iterable[str]) -> bool:
        """Whether a file of a dataset is meant; a name of one of the ``datasets`` is no pattern."""
        if self.name in datasets:
            return self.name == dataset
        return file == self.name or (
            bool(_PATTERN & set(self.name)) and fnmatchcase(file, self.name)
        )


def of_datasets(layers: Iterable[Layer]) -> tuple[list[DatasetSize], list[Finding]]:
    """Return what ``execution`` sections, weakest first, say of datasets.

    Also those of which no amount is said: their names may be wrong. And which amounts cannot be
    read.
    """
    said_in = [
        Layer(layer.file, layer.key_at(("sizes",)), layer.content.get("sizes") or {})
        for layer in layers
    ]
    sizes: list[DatasetSize] = []
    findings: list[Finding] = []
    for name, named_in in entries(said_in, "by_dataset").items():
        merged = merge(named_in)
        stated: dict[str, Layer] = {}
        amounts: dict[str, int] = {}
        for leaf, parse in AMOUNTS.items():
            if (layer := merged.origins.get((leaf,))) is None:
                continue
            file, key = layer.file, layer.key_at((leaf,))
            amount = read_value(parse, merged.get(leaf), findings, file=file, key=key)
            if amount is not None:
                amounts[leaf], stated[leaf] = amount, layer
        sizes.append(DatasetSize(name=name, layer=named_in[-1], layers=stated, amounts=amounts))
    return sizes, findings


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
            key=size.layer.key,
        )

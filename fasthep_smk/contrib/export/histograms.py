"""Histograms in formats that others read, beside FAST-HEP's own: ``smk: {export: [root, uhi]}``.

ROOT has no axis of texts and three dimensions at most. A histogram with such an axis becomes one
for each category, in a folder of that name. Its other axes, bins for under- and overflow, sums of
weights and of their squares are the same; an axis of integers that has grown with what was filled
gets a bin for each integer from the smallest to the largest.
"""

from __future__ import annotations

import itertools
import json
import pickle
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from fasthep_smk.storage.layout import EXPORTED
from fasthep_smk.util import files
from fasthep_smk.util.errors import SmkError
from fasthep_smk.util.names import encode

if TYPE_CHECKING:
    import hist

#: ROOT has TH1, TH2 and TH3.
_MOST_AXES = 3
#: An axis of integers with more bins is no axis of numbers.
_MOST_INTEGERS = 100_000
#: Holds what is of none of the categories. No category is called so.
_OTHER = "_other"


def export_histograms(folder: Path, formats: Sequence[str]) -> None:
    """Write each histogram below ``folder`` once more in each of the formats, beside itself.

    Raises:
        SmkError: ROOT cannot hold one of them; its name is told.
    """
    for path in sorted(folder.glob("artifacts/**/histograms/*.pkl")):
        histogram = pickle.loads(path.read_bytes())  # this job has just written it
        name = path.name.removesuffix(".pkl")
        for kind in formats:
            with files.atomic_path(path.with_name(f"{name}{EXPORTED[kind]}")) as temporary:
                {"root": _write_root, "uhi": _write_uhi}[kind](histogram, name, temporary)


def _write_uhi(histogram: hist.BaseHist, name: str, path: Path) -> None:
    import uhi.io.json

    try:
        text = json.dumps(histogram, default=uhi.io.json.default)
    except TypeError as error:
        raise SmkError(
            f"smk.export: histogram {name!r} cannot be written as UHI: {error}"
        ) from error
    path.write_text(f"{text}\n", encoding="utf-8")


def _write_root(histogram: hist.BaseHist, name: str, path: Path) -> None:
    import uproot

    with uproot.recreate(path) as file:
        for place, part in for_root(histogram, name):
            file[place] = part


def for_root(whole: hist.BaseHist, name: str) -> Iterator[tuple[str, hist.BaseHist]]:
    """Yield what stands for a histogram in a ROOT file: places there, and histograms.

    Raises:
        SmkError: ROOT cannot hold it.
    """
    import hist

    if whole.kind != "COUNT":
        raise SmkError(_refused(name, "holds means, not counts"))
    split = [at for at, axis in enumerate(whole.axes) if isinstance(axis, hist.axis.StrCategory)]
    if len(split) == len(whole.axes):
        split.pop()  # a labelled axis is better than no axis
    left = len(whole.axes) - len(split)
    if left > _MOST_AXES:
        raise SmkError(
            _refused(name, f"has {left} axes that are not categories; at most 3 are possible")
        )
    choices = [[*enumerate(map(encode, whole.axes[at])), *_other(whole.axes[at])] for at in split]
    for chosen in itertools.product(*choices):
        bins = dict(zip(split, (number for number, _ in chosen), strict=True))
        part = _plain(whole, bins, name)
        empty = _OTHER in [label for _, label in chosen] and not part.values(flow=True).any()
        if not empty:
            yield "/".join([*(label for _, label in chosen), encode(name)]), part


def _other(axis: hist.axis.StrCategory) -> list[tuple[int, str]]:
    return [(len(axis), _OTHER)] if axis.traits.overflow else []


def _plain(whole: hist.BaseHist, bins: dict[int, int], name: str) -> hist.BaseHist:
    """Return one category of each text axis, in axes with under- and overflow throughout."""
    import boost_histogram as bh
    import hist
    import numpy as np

    kept = [axis for at, axis in enumerate(whole.axes) if at not in bins]
    view = whole.view(flow=True)[tuple(bins.get(at, slice(None)) for at in range(len(whole.axes)))]
    axes, places = zip(*(_numbers(axis, name) for axis in kept), strict=True)
    weighted = whole.storage_type is bh.storage.Weight
    plain = hist.Hist(*axes, storage=bh.storage.Weight() if weighted else bh.storage.Double())
    plain.view(flow=True)[np.ix_(*places)] = view
    return plain


def _numbers(axis: hist.axis.AxesMixin, name: str) -> tuple[hist.axis.AxesMixin, list[int]]:
    """Return an axis with under- and overflow, and where the bins of ``axis`` are in it."""
    import hist

    labels = {"name": axis.name, "label": axis.label}
    before, after = axis.traits.underflow, axis.traits.overflow
    if isinstance(axis, hist.axis.StrCategory):
        new_axis = hist.axis.Regular(max(len(axis), 1), 0, max(len(axis), 1), **labels)
        return new_axis, [*range(1, len(axis) + 1), *([new_axis.extent - 1] if after else [])]
    if isinstance(axis, hist.axis.IntCategory):
        values = [int(value) for value in axis] or [0]
        low, high = min(values), max(values) + 1
        if high - low > _MOST_INTEGERS:
            problem = f"has an axis with too many integers, from {low} to {high - 1}"
            raise SmkError(_refused(name, problem))
        new_axis = hist.axis.Regular(high - low, low, high, **labels)
        where = [int(value) - low + 1 for value in axis]
        return new_axis, [*where, *([new_axis.extent - 1] if after else [])]
    regular = isinstance(axis, hist.axis.Regular | hist.axis.Integer | hist.axis.Boolean)
    if regular and getattr(axis, "transform", None) is None:
        new_axis = hist.axis.Regular(len(axis), axis.edges[0], axis.edges[-1], **labels)
    else:
        new_axis = hist.axis.Variable(axis.edges, **labels)
    first = 0 if before else 1
    return new_axis, list(range(first, len(axis) + 1 + bool(after)))


def _refused(name: str, problem: str) -> str:
    return (
        f"smk.export: histogram {name!r} cannot be written as ROOT: it {problem}; "
        "export: [uhi] can write it"
    )

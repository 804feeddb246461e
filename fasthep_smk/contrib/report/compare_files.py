"""Which plots, skims and other files of two build folders differ, by what people see in them.

Plots are compared by their pixels; skims by their events, whatever files these lie in, since these
follow from how the work was cut; all others by their bytes.
"""

from __future__ import annotations

import math
import re
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from io import BytesIO
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar

from fasthep_smk.contrib.report import results
from fasthep_smk.contrib.report.numbers import percent
from fasthep_smk.storage import layout
from fasthep_smk.util import files

_K = TypeVar("_K", bound=Hashable)
_V = TypeVar("_V")

#: Colours that differ by less, of 255, come from rounding at the edge of a line.
_COLOUR = 8
_PIXELS = (".png", ".jpg", ".gif")
#: What those who draw vector graphics write of themselves: when, and names that they have drawn.
_SAID = {
    ".svg": rb"<dc:date>[^<]*</dc:date>|(?<=[\"#])[a-z][0-9a-f]{10}(?=[\")])",
    ".pdf": rb"/(Creation|Mod)Date \(D:[^)]*\)",
    ".eps": rb"%%CreationDate: [^\n]*",
}
#: Sums of weights that differ by less than this part are the same: they were added in another
#: order.
SAME = 1e-9
_WORD = re.compile(r"[\s,;|&:]+")
_TEXTS = (".csv", ".txt", ".json", ".yaml", ".md", ".tex")
#: How many columns of a skim are named.
_COLUMNS = 5


@dataclass(frozen=True)
class Difference:
    """What differs between two build folders.

    ``name`` is that of a cutflow, a histogram or a skim, or a file; ``where`` in it is a cut, a
    bin, or entries. ``values`` are numbers of the first and the second, if it is a number.
    """

    name: str
    dataset: str
    where: str
    how: str
    values: tuple[float | None, float | None] = (None, None)


def pairs(
    first: Mapping[_K, _V], second: Mapping[_K, _V]
) -> Iterator[tuple[_K, _V | None, _V | None]]:
    """Yield the keys of two mappings with what both have there; ``None`` where one has nothing."""
    for key in {**first, **second}:
        yield key, first.get(key), second.get(key)


def only_in_one(first: object, second: object) -> str:
    """Return in which of two build folders something is, if not in both."""
    if first is not None and second is not None:
        return ""
    return f"only in the {'first' if second is None else 'second'}"


def is_same(first: object, second: object) -> bool:
    """Return whether two texts or numbers are the same; numbers as far as sums of weights are."""
    if str(first) == str(second):
        return True
    try:
        return math.isclose(float(str(first)), float(str(second)), rel_tol=SAME)
    except ValueError:
        return False


def differing_files(one: Path, other: Path) -> tuple[dict[str, int], list[Difference], list[str]]:
    """Return how many plots and other files were compared, which differ, and which are unreadable.

    Raises:
        OSError: a folder cannot be listed.
    """
    builds = (one, other)
    skims = {path for build in builds for row in results.skims(build) for path in row.files}
    listed = [
        {row.file: build / row.file for row in results.result_files(build)} for build in builds
    ]
    compared, differences, unread = {"plots": 0, "files": 0}, list[Difference](), list[str]()
    for name, first, second in sorted(pairs(*listed)):
        if name in skims or layout.FLAME_GRAPHS in Path(name).parts:
            continue
        suffix = Path(name).suffix.lower()
        compared["plots" if suffix in (*_PIXELS, *_SAID) else "files"] += 1
        problem = only_in_one(first, second)
        if first and second:
            try:
                problem = _differ(suffix, files.read_plain(first), files.read_plain(second))
            except OSError:
                unread.append(name)
        if problem:
            differences.append(Difference(name, "", "", problem))
    return compared, differences, unread


def _differ(suffix: str, first: bytes, second: bytes) -> str:
    """Return how two files of the same name differ; nothing if they do not."""
    if first == second:
        return ""
    if suffix in _PIXELS:
        return _pixels(first, second)
    if pattern := _SAID.get(suffix):
        same = re.sub(pattern, b"", first) == re.sub(pattern, b"", second)
        return "" if same else "the drawings differ"
    if suffix in _TEXTS:
        return _lines(first, second)
    return "their bytes differ"


def _lines(first: bytes, second: bytes) -> str:
    """Return the first line in which texts differ; numbers do as sums of weights do."""
    lines = [text.decode(errors="replace").splitlines() for text in (first, second)]
    for number, pair in enumerate(zip(*lines, strict=False), 1):
        words = [_WORD.split(line) for line in pair]
        if len(words[0]) != len(words[1]) or not all(map(is_same, *words)):
            return f"line {number} differs"
    many = [len(text) for text in lines]
    return "" if many[0] == many[1] else f"{many[0]} and {many[1]} lines"


def _pixels(one: bytes, other: bytes) -> str:
    try:
        # What draws plots brings it; where nothing is drawn, it may be missing.
        import numpy as np
        from PIL import Image

        first, second = (
            np.asarray(Image.open(BytesIO(content)).convert("RGB"), dtype=np.int16)
            for content in (one, other)
        )
    except Exception:  # whatever a damaged picture raises
        return "their bytes differ"
    if first.shape != second.shape:
        sizes = " and ".join(f"{shape[1]} × {shape[0]}" for shape in (first.shape, second.shape))
        return f"their sizes differ: {sizes} pixels"
    differ = (np.abs(first - second) > _COLOUR).any(axis=2)
    return f"{percent(float(differ.mean()))} of the pixels differ" if differ.any() else ""


def differing_skims(one: Path, other: Path) -> tuple[int, list[Difference], list[str]]:
    """Return how many skims were compared, which differ for which dataset, and what is unreadable.

    Events are compared one by one, in their order: that of partitions, which is that of the files.
    """
    rows = [
        {
            (row.name, row.dataset): [build / path for path in sorted(row.files, key=_order)]
            for row in results.skims(build)
        }
        for build in (one, other)
    ]
    differences, unread = list[Difference](), list[str]()
    for (name, dataset), first, second in pairs(*rows):
        problem = only_in_one(first, second)
        if first is not None and second is not None:
            try:
                problem = _events(first, second)
            except Exception:  # whatever a damaged file raises
                unread.append(f"skim {name} of {dataset}")
        if problem:
            differences.append(Difference(name, dataset, "", problem))
    return len({name for name, _ in chain(*rows)}), differences, unread


def _order(path: str) -> list[int]:
    """Return where the events of a file are: ``1_0.root`` has the first of the second input."""
    return [int(number) for number in re.findall(r"\d+", Path(path).stem)]


def _events(one: Sequence[Path], other: Sequence[Path]) -> str:
    """Return how the events in some files differ from those in others."""
    # Imported when needed: they take a moment.
    import awkward as ak

    with ExitStack() as opened:
        trees = [list(_trees(paths, opened)) for paths in (one, other)]
        many = [sum(tree.num_entries for tree in of) for of in trees]
        if many[0] != many[1]:
            return f"{many[0]} and {many[1]} events"
        columns = [dict.fromkeys(chain(*(tree.keys() for tree in of))) for of in trees]
        if alone := [*(columns[0].keys() ^ columns[1].keys())]:
            return f"only one of the skims has the columns {_named(sorted(alone))}"
        differ = []
        for name in columns[0]:
            first, second = (ak.concatenate([tree[name].array() for tree in of]) for of in trees)
            if not ak.array_equal(first, second, equal_nan=True, same_content_types=False):
                differ.append(name)
    return f"the values differ in {_named(differ)}" if differ else ""


class _Classes(dict[str, Any]):
    """Classes that uproot has. It would make others of what a file says of them: of text, as code.

    For that it asks for the values of all that there are.
    """

    def values(self) -> Any:
        raise ValueError("it contains objects that a comparison does not load")


def _trees(paths: Iterable[Path], opened: ExitStack) -> Iterator[Any]:
    """Yield what holds the events in each file: a tree or an ntuple."""
    import uproot

    for path in paths:
        classes = _Classes(uproot.classes)
        file = opened.enter_context(uproot.open(path, custom_classes=classes))
        yield from (file[name] for name in file.keys(cycle=False) if hasattr(file[name], "arrays"))


def _named(columns: Sequence[str]) -> str:
    more = len(columns) - _COLUMNS
    return ", ".join(columns[:_COLUMNS]) + (f" and {more} more" if more > 0 else "")

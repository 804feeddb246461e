"""Which plots, skims and other files of two build folders differ, by what people see in them.

Plots are compared by their pixels; skims by their events, whatever files these lie in, since these
follow from how the work was cut; all others by their bytes.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from io import BytesIO
from itertools import chain
from pathlib import Path
from typing import Any

from fasthep_smk.contrib.report import results
from fasthep_smk.contrib.report.numbers import percent
from fasthep_smk.util import files

__all__ = ["SAME", "FileDifference", "SkimDifference", "differing_files", "differing_skims"]

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
class FileDifference:
    """How a file differs."""

    file: str
    problem: str


@dataclass(frozen=True)
class SkimDifference:
    """How a skim differs for a dataset."""

    name: str
    dataset: str
    problem: str


def differing_files(
    one: Path, other: Path
) -> tuple[dict[str, int], list[FileDifference], list[str]]:
    """Return how many plots and other files were compared, which differ, and which are unreadable.

    Raises:
        OSError: a folder cannot be listed.
    """
    builds = (one, other)
    skims = {path for build in builds for row in results.skims(build) for path in row.files}
    listed = [{row.file for row in results.result_files(build)} - skims for build in builds]
    compared, found, unread = {"plots": 0, "files": 0}, list[FileDifference](), list[str]()
    for name in sorted(listed[0] | listed[1]):
        suffix = Path(name).suffix.lower()
        compared["plots" if suffix in (*_PIXELS, *_SAID) else "files"] += 1
        if not all(name in names for names in listed):
            found.append(FileDifference(name, _only(name in listed[0])))
            continue
        try:
            contents = [files.read_plain(build / name) for build in builds]
        except OSError:
            unread.append(name)
            continue
        if problem := _differ(suffix, *contents):
            found.append(FileDifference(name, problem))
    return compared, found, unread


def _only(in_first: bool) -> str:
    return f"only in the {'first' if in_first else 'second'}"


def _differ(suffix: str, one: bytes, other: bytes) -> str:
    """Return how two files of the same name differ; nothing if they do not."""
    if one == other:
        return ""
    if suffix in _PIXELS:
        return _pixels(one, other)
    if pattern := _SAID.get(suffix):
        same = re.sub(pattern, b"", one) == re.sub(pattern, b"", other)
        return "" if same else "what is drawn differs"
    if suffix in _TEXTS:
        return _lines(one, other)
    return "their bytes differ"


def _lines(one: bytes, other: bytes) -> str:
    """Return the first line in which texts differ; numbers do as sums of weights do."""
    lines = [text.decode(errors="replace").splitlines() for text in (one, other)]
    for number, (first, second) in enumerate(zip(*lines, strict=False), 1):
        words = [_WORD.split(line) for line in (first, second)]
        if len(words[0]) != len(words[1]) or not all(map(_is_same, *words)):
            return f"line {number} differs"
    if len(lines[0]) != len(lines[1]):
        return f"{len(lines[0])} lines and {len(lines[1])}"
    return ""


def _is_same(one: str, other: str) -> bool:
    if one == other:
        return True
    try:
        return math.isclose(float(one), float(other), rel_tol=SAME)
    except ValueError:
        return False


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
        return f"they have other sizes, {sizes} pixels"
    differ = (np.abs(first - second) > _COLOUR).any(axis=2)
    return f"{percent(float(differ.mean()))} of its pixels differ" if differ.any() else ""


def differing_skims(one: Path, other: Path) -> tuple[int, list[SkimDifference], list[str]]:
    """Return how many skims were compared, which differ for which dataset, and what is unreadable.

    Events are compared one by one, in their order: that of partitions, which is that of the files.
    """
    builds = (one, other)
    rows = [{(row.name, row.dataset): row for row in results.skims(build)} for build in builds]
    found, unread = list[SkimDifference](), list[str]()
    for place in dict.fromkeys([*rows[0], *rows[1]]):
        pair = [row.get(place) for row in rows]
        if None in pair:
            found.append(SkimDifference(*place, _only(pair[1] is None)))
            continue
        paths = [
            [build / path for path in sorted(row.files, key=_order)]
            for build, row in zip(builds, pair, strict=True)
            if row
        ]
        try:
            problem = _events(*paths)
        except Exception:  # whatever a damaged file raises
            unread.append(f"skim {place[0]} of {place[1]}")
            continue
        if problem:
            found.append(SkimDifference(*place, problem))
    return len({name for name, _ in (*rows[0], *rows[1])}), found, unread


def _order(path: str) -> list[int]:
    """Return where the events of a file are: ``1_0.root`` has the first of the second input."""
    return [int(number) for number in re.findall(r"\d+", Path(path).stem)]


def _events(one: Sequence[Path], other: Sequence[Path]) -> str:
    """Return how the events in some files differ from those in others."""
    # Imported when needed: they take a moment.
    import awkward as ak

    with ExitStack() as opened:
        trees = [list(_trees(paths, opened)) for paths in (one, other)]
        many = [sum(tree.num_entries for tree in found) for found in trees]
        if many[0] != many[1]:
            return f"{many[0]} events and {many[1]}"
        columns = [dict.fromkeys(chain(*(tree.keys() for tree in found))) for found in trees]
        if alone := [name for name in (*columns[0], *columns[1]) if not _in_both(name, columns)]:
            return f"only one of them has the columns {_named(alone)}"
        differ = []
        for name in columns[0]:
            first, second = (
                ak.concatenate([tree[name].array() for tree in found]) for found in trees
            )
            if not ak.array_equal(first, second, equal_nan=True, same_content_types=False):
                differ.append(name)
    return f"other values in {_named(differ)}" if differ else ""


class _Classes(dict[str, Any]):
    """Classes that uproot has. It would make others of what a file says of them: of text, as code.

    For that it asks for the values of all that there are.
    """

    def values(self) -> Any:
        raise ValueError("it holds objects of classes that are not made for a comparison")


def _trees(paths: Iterable[Path], opened: ExitStack) -> Iterator[Any]:
    """Yield what holds the events in each file: a tree or an ntuple."""
    import uproot

    for path in paths:
        known = _Classes(uproot.classes)
        file = opened.enter_context(uproot.open(path, custom_classes=known))
        yield from (file[name] for name in file.keys(cycle=False) if hasattr(file[name], "arrays"))


def _in_both(name: str, columns: Sequence[Mapping[str, None]]) -> bool:
    return all(name in found for found in columns)


def _named(columns: Sequence[str]) -> str:
    more = len(columns) - _COLUMNS
    return ", ".join(columns[:_COLUMNS]) + (f" and {more} more" if more > 0 else "")

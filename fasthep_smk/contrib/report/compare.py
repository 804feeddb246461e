"""What differs between the results of two build folders, by what people see in them.

Cutflows are compared cut by cut, histograms bin by bin, plots by their pixels; skims by their
events, whatever files these lie in, since these follow from how the work was cut; all other files
by their bytes.
"""

from __future__ import annotations

import math
import re
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from io import BytesIO
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar

from fasthep_smk.contrib.report import document, results
from fasthep_smk.contrib.report.document import Verdict
from fasthep_smk.contrib.report.facts import Facts, gather
from fasthep_smk.contrib.report.numbers import Number, percent
from fasthep_smk.contrib.report.tables import Section
from fasthep_smk.storage import failures, layout
from fasthep_smk.util import files
from fasthep_smk.util.documents import JsonObject

_K = TypeVar("_K", bound=Hashable)
_V = TypeVar("_V")
_Builds = tuple[Path, Path]

#: Sums of weights that differ by less than this part are the same: they were added in another
#: order. Of a histogram, such a part of its largest bin is nothing.
_SAME, _NOTHING = 1e-9, 1e-12
#: How many bins of a histogram, and of one dataset, are told; how many columns of a skim.
_BINS, _COLUMNS = 10, 5
#: What differs, and what the table of it calls the name and the place of each difference.
_KINDS = {
    "partitions": ("file", "entries"),
    "cutflows": ("cutflow", "cut"),
    "histograms": ("histogram", "where"),
    "bins": ("histogram", "bin"),
    "skims": ("skim", "where"),
    "plots": ("file", "where"),
    "files": ("file", "where"),
}
#: The numbers of a cut, in words.
_OF_A_CUT = {
    "before": "events before",
    "after": "events after",
    "weights": "sum of weights",
    "error": "± of the sum",
}
#: Colours that differ by less, of 255, come from rounding at the edge of a line.
_COLOUR = 8
_PIXELS = (".png", ".jpg", ".gif")
#: What those who draw vector graphics write of themselves: when, and names that they have drawn.
_SAID = {
    ".svg": rb"<dc:date>[^<]*</dc:date>|(?<=[\"#])[a-z][0-9a-f]{10}(?=[\")])",
    ".pdf": rb"/(Creation|Mod)Date \(D:[^)]*\)",
    ".eps": rb"%%CreationDate: [^\n]*",
}
_WORD = re.compile(r"[\s,;|&:]+")
_TEXTS = (".csv", ".txt", ".json", ".yaml", ".md", ".tex")


@dataclass(frozen=True)
class Difference:
    """What differs between two build folders, of a kind in ``_KINDS``.

    ``name`` is that of a cutflow, a histogram or a skim, or a file; ``where`` in it is a cut, a
    bin, or entries. ``values`` are numbers of the first and the second, if it is a number.
    """

    kind: str
    name: str
    how: str
    dataset: str = ""
    where: str = ""
    values: tuple[float | None, float | None] = (None, None)


@dataclass
class Comparison:
    """What differs between two build folders, as far as they are compared.

    ``compared`` is how many of each kind one of them has, ``unread`` is what cannot be read.
    """

    builds: Sequence[str]
    verdicts: Sequence[Verdict]
    differences: list[Difference] = field(default_factory=list)
    unread: list[str] = field(default_factory=list)
    compared: dict[str, int] = field(default_factory=dict)

    @property
    def is_same(self) -> bool:
        """Whether anything was compared, and nothing differs."""
        return any(self.compared.values()) and not self.differences


def comparison(one: Path, other: Path) -> Comparison:
    """Return what differs between two build folders.

    Raises:
        Findings: the task tables of one cannot be read.
        OSError: a folder cannot be listed.
    """
    builds, both = (one, other), (gather(one), gather(other))
    reports = [document.report_on(facts) for facts in both]
    found = Comparison(
        builds=[report.build for report in reports], verdicts=[report.verdict for report in reports]
    )
    _compare_partitions(both, found)
    _compare_cutflows(builds, found)
    _compare_histograms(builds, found)
    _compare_skims(builds, found)
    _compare_files(builds, found)
    return document.cleaned(found)


def as_data(comparison: Comparison) -> JsonObject:
    """Return a comparison as ``fasthep-smk compare --json`` prints it."""
    return {**asdict(comparison), "same": comparison.is_same}


def _pairs(both: Iterable[Mapping[_K, _V]]) -> Iterator[tuple[_K, _V | None, _V | None]]:
    """Yield the keys of two mappings with what both have there; ``None`` where one has nothing."""
    first, second = both
    for key in {**first, **second}:
        yield key, first.get(key), second.get(key)


def _only_in_one(first: object, second: object) -> str:
    """Return in which of two build folders something is, if not in both."""
    if first is not None and second is not None:
        return ""
    return f"only in the {'first' if second is None else 'second'}"


def _is_same(first: object, second: object) -> bool:
    """Return whether two texts or numbers are the same; numbers as far as sums of weights are."""
    if str(first) == str(second):
        return True
    try:
        return math.isclose(float(str(first)), float(str(second)), rel_tol=_SAME)
    except ValueError:
        return False


def _compare_partitions(both: tuple[Facts, Facts], found: Comparison) -> None:
    lacking = [facts.lacking for facts in both]
    for (dataset, file, start, stop), first, second in _pairs(lacking):
        if first is None or second is None:
            lacks = f"missing in the {'first' if second is None else 'second'}"
            where = failures.span(start, stop)
            found.differences.append(Difference("partitions", file, lacks, dataset, where))


def _compare_cutflows(builds: _Builds, found: Comparison) -> None:
    cuts = [
        {
            (cutflow.name, *place): row
            for cutflow in results.cutflows(build)
            for place, row in results.by_cut(cutflow).items()
        }
        for build in builds
    ]
    found.compared["cutflows"] = len({name for name, *_ in chain(*cuts)})
    for (name, _, cut, _, dataset), first, second in _pairs(cuts):
        for number, kind in _OF_A_CUT.items():
            values = getattr(first, number, None), getattr(second, number, None)
            if not _is_same(*values):
                found.differences.append(Difference("cutflows", name, kind, dataset, cut, values))


# --- histograms -----------------------------------------------------------------------------------


def _compare_histograms(builds: _Builds, found: Comparison) -> None:
    listed = [
        {
            results.title(stage, variation): path
            for stage, variation, path in results.listed(build, "histograms")
        }
        for build in builds
    ]
    found.compared["histograms"] = len({*chain(*listed)})
    for name, *paths in _pairs(listed):
        read = {path: results.histogram(path) for path in paths if path is not None}
        if damaged := [str(path) for path, histogram in read.items() if histogram is None]:
            found.unread += damaged
            continue
        try:
            found.differences += _of_histogram(name, *(path and read[path] for path in paths))
        except Exception:  # axes and annotations may be such as no run makes
            found.unread.append(f"histogram {name}")


def _of_histogram(name: str, first: Any, second: Any) -> list[Difference]:
    """Return for which datasets two histograms differ, how, and their bins that do."""
    if how := _only_in_one(first, second):
        return [Difference("histograms", name, how)]
    differences = []
    for dataset, *both in _pairs(map(results.by_dataset, (first, second))):
        bins = list[Difference]()
        if not (how := _only_in_one(*both)):
            how, bins = _of_bins(name, dataset, *both)
        if how:
            differences += [Difference("histograms", name, how, dataset), *bins]
    return differences


def _of_bins(name: str, dataset: str, first: Any, second: Any) -> tuple[str, list[Difference]]:
    """Return how two histograms differ, and the bins whose sums of weights or errors do most."""
    import numpy as np

    if first.axes != second.axes:
        return "the axes differ", []
    if first.storage_type != second.storage_type:
        return "only one of the histograms is weighted", []
    apart = list[tuple[float, Difference]]()
    places = set[tuple[int, ...]]()
    for method, kind in (("values", "sum of weights"), ("variances", "variance")):
        both = [getattr(histogram, method)(flow=True) for histogram in (first, second)]
        if both[0] is None:  # without weights, there is no other error
            continue
        nothing = _NOTHING * float(np.nanmax(np.abs(both), initial=0.0))
        same = np.isclose(both[0], both[1], rtol=_SAME, atol=nothing, equal_nan=True)
        for place in map(tuple, np.argwhere(~same)):
            here, there = float(both[0][place]), float(both[1][place])
            values = _finite(here), _finite(there)
            row = Difference("bins", name, kind, dataset, _bin(first, place), values)
            apart.append((abs(here - there), row))
            places.add(place)
    apart.sort(key=lambda pair: -pair[0])
    bins = math.prod(axis.extent for axis in first.axes)
    how = f"{len(places)} of {bins} bins differ" if places else ""
    return how, [row for _, row in apart[:_BINS]]


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _bin(histogram: Any, place: Iterable[int]) -> str:
    """Return how people call a bin: ``met 10 to 15``."""
    parts = []
    for axis, at in zip(histogram.axes, map(int, place), strict=True):
        number = at - (1 if axis.traits.underflow else 0)
        if not 0 <= number < len(axis):
            edge = "underflow" if number < 0 else "overflow"
        elif axis.traits.discrete:
            edge = str(axis.value(number))
        else:
            edge = " to ".join(f"{value:g}" for value in axis.bin(number))
        parts.append(f"{axis.name or axis.label or '?'} {edge}")
    return ", ".join(parts)


# --- plots and other files ------------------------------------------------------------------------


def _compare_files(builds: _Builds, found: Comparison) -> None:
    skims = {path for build in builds for row in results.skims(build) for path in row.files}
    listed = [
        {row.file: build / row.file for row in results.result_files(build)} for build in builds
    ]
    for name, first, second in sorted(_pairs(listed)):
        if name in skims or layout.FLAME_GRAPHS in Path(name).parts:
            continue
        suffix = Path(name).suffix.lower()
        kind = "plots" if suffix in (*_PIXELS, *_SAID) else "files"
        found.compared[kind] = found.compared.get(kind, 0) + 1
        how = _only_in_one(first, second)
        if first and second:
            try:
                how = _differ(suffix, files.read_plain(first), files.read_plain(second))
            except OSError:
                found.unread.append(name)
        if how:
            found.differences.append(Difference(kind, name, how))


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
        if len(words[0]) != len(words[1]) or not all(map(_is_same, *words)):
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


# --- skims ----------------------------------------------------------------------------------------


def _compare_skims(builds: _Builds, found: Comparison) -> None:
    """Compare events one by one, in their order: that of partitions, which is that of the files."""
    rows = [
        {
            (row.name, row.dataset): [build / path for path in sorted(row.files, key=_order)]
            for row in results.skims(build)
        }
        for build in builds
    ]
    found.compared["skims"] = len({name for name, _ in chain(*rows)})
    for (name, dataset), first, second in _pairs(rows):
        how = _only_in_one(first, second)
        if first is not None and second is not None:
            try:
                how = _events(first, second)
            except Exception:  # whatever a damaged file raises
                found.unread.append(f"skim {name} of {dataset}")
        if how:
            found.differences.append(Difference("skims", name, how, dataset))


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


# --- what people read -----------------------------------------------------------------------------


def verdict(comparison: Comparison) -> str:
    """Return in a sentence whether the results are the same."""
    compared = ", ".join(f"{kind}: {many}" for kind, many in comparison.compared.items() if many)
    if not compared:
        return "nothing can be compared: there are no results"
    if comparison.is_same:
        return f"the results are the same (compared: {compared})"
    kinds = dict.fromkeys(row.kind for row in comparison.differences if row.kind != "bins")
    return f"the results differ in {', '.join(kinds)} (compared: {compared})"


def sections(comparison: Comparison) -> list[Section]:
    """Return the tables on what differs; those that would be empty are left out."""
    largest = f"For each histogram and dataset, the {_BINS} bins that differ most are listed."
    tables = []
    for kind, (name, where) in _KINDS.items():
        rows = [
            {
                name: row.name,
                "dataset": row.dataset,
                where: row.where,
                "how": row.how,
                "first": _number(row.values[0]),
                "second": _number(row.values[1]),
            }
            for row in comparison.differences
            if row.kind == kind
        ]
        if rows:
            notes = [largest] if kind == "bins" else []
            tables.append(Section(kind, f"{kind.capitalize()} that differ", rows, notes))
    return tables


def _number(value: float | None) -> Number:
    return Number("–" if value is None else f"{value:.12g}")

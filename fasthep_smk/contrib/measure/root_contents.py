"""What a ROOT file holds: its trees, with their branches; values of one, as far as it is needed."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, cast

from fasthep_smk.storage.root_files import look_into
from fasthep_smk.util.errors import Findings, nearest
from fasthep_smk.util.remote import local_path
from fasthep_smk.util.yaml_values import as_yaml

__all__ = ["Branch", "Tree", "chosen", "sample", "trees_in"]

#: Types of C++ that are a number or a yes and no, also ROOT's own.
_VALUE = (
    r"(?:(?:std::)?u?int\d+_t|(?:unsigned )?(?:int|char|long|short)|float|double|Float16_t"
    r"|Double32_t|bool)"
)
_FLAT = re.compile(rf"({_VALUE})")
#: One after the other: float[], float[3], std::vector<float>.
_SERIES = re.compile(
    rf"({_VALUE})\[\d*\]"
    rf"|std::(?:vector|array)<({_VALUE})(?:, *\d+)?>"
    rf"|ROOT::VecOps::RVec<({_VALUE})>"
)
_FLOATS = ("float", "double", "Float16_t", "Double32_t")
_TREES = re.compile(r"TTree|TNtupleD?|ROOT::(?:Experimental::)?RNTuple")


@dataclass(frozen=True)
class Branch:
    """A branch with its type in C++. ``shape`` is flat (one value for each entry), jagged (a list
    of values) or other; ``value`` is the type of a value of the first two.
    """

    name: str
    typename: str
    shape: str = "other"
    value: str | None = None

    @property
    def is_number(self) -> bool:
        return self.value not in (None, "bool")

    @property
    def is_float(self) -> bool:
        return self.value in _FLOATS


@dataclass(frozen=True)
class Tree:
    """A tree, or an RNTuple, and its branches in the order of the file."""

    name: str
    entries: int
    branches: tuple[Branch, ...]


class _Field(Protocol):
    @property
    def typename(self) -> str: ...


class _Stored(Protocol):
    """What uproot's trees and RNTuples have in common."""

    num_entries: int

    def keys(self) -> list[str]: ...
    def __getitem__(self, name: str) -> _Field: ...


class _Directory(Protocol):
    def classnames(self, *, recursive: bool, cycle: bool) -> Mapping[str, str]: ...
    def __getitem__(self, name: str) -> _Stored: ...


def trees_in(file: str, root: Path) -> list[Tree]:
    """Return the trees of a file, the one with most entries first.

    Raises:
        Findings: it cannot be read, or there is no tree in it.
    """
    if problem := look_into([file], [], root)[file].problem:
        raise Findings.one(problem, file=file)
    import uproot

    try:
        with uproot.open(_location(file, root)) as opened:
            found = list(_trees(cast("_Directory", opened)))
            others = sorted(set(opened.classnames(recursive=True, cycle=False).values()))
    except Exception as error:  # whatever uproot meets in a damaged file
        first = next(iter(str(error).strip().splitlines()), "")
        problem = f"its trees cannot be read ({type(error).__name__}: {first})"
        raise Findings.one(problem, file=file) from error
    if not found:
        held = f"it holds {', '.join(others)}" if others else "it holds nothing"
        raise Findings.one("there is no tree in it", file=file, value=held)
    return sorted(found, key=lambda tree: -tree.entries)


def chosen(trees: list[Tree], name: str | None, *, file: str) -> Tree:
    """Return the tree of this name; without one, the first.

    Raises:
        Findings: there is none of this name.
    """
    names = [tree.name for tree in trees]
    if name is None or name in names:
        return trees[names.index(name) if name else 0]
    close = nearest(name, names)
    raise Findings.one(
        "there is no tree of this name in it",
        file=file,
        key="--tree",
        value=as_yaml(name),
        expected=", ".join(names),
        hint=f"did you mean {close!r}?" if close else None,
    )


def sample(file: str, root: Path, tree: Tree, branch: Branch, *, entries: int) -> list[float]:
    """Return the finite values of a branch in the first entries; none if they cannot be read."""
    import awkward as ak
    import numpy as np
    import uproot

    try:
        with uproot.open(_location(file, root)) as opened:
            column = opened[tree.name][branch.name].array(entry_stop=entries)
        values = ak.to_numpy(ak.flatten(column, axis=None)).astype(float)
    except Exception:  # of no use for a histogram, whatever it is
        return []
    return [float(one) for one in values[np.isfinite(values)]]


def _location(file: str, root: Path) -> str | Path:
    path = local_path(file)
    return file if path is None else root / path


def _trees(opened: _Directory) -> Iterator[Tree]:
    for name, kind in opened.classnames(recursive=True, cycle=False).items():
        if _TREES.fullmatch(kind):
            stored = opened[name]
            branches = tuple(_branch(key, stored[key]) for key in _leaves(stored))
            yield Tree(name, int(stored.num_entries), branches)


def _leaves(stored: _Stored) -> list[str]:
    """Return the names of what holds values: not of branches that only group others."""
    names = list(stored.keys())
    groups = {name.rpartition("/")[0] for name in names} | {
        name.rpartition(".")[0] for name in names if "Model_ROOT" in type(stored).__name__
    }
    return [name for name in names if name not in groups]


def _branch(name: str, field: _Field) -> Branch:
    typename = str(field.typename)
    if flat := _FLAT.fullmatch(typename):
        return Branch(name, typename, "flat", flat[1].removeprefix("std::"))
    if series := _SERIES.fullmatch(typename):
        value = next(one for one in series.groups() if one)
        return Branch(name, typename, "jagged", value.removeprefix("std::"))
    return Branch(name, typename)

"""A first workflow for a ROOT file that is there: its branches, and a histogram of one of them."""

from __future__ import annotations

import keyword
import math
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fasthep_smk.cli.init import SCHEMA, write_new
from fasthep_smk.storage.root_files import look_into
from fasthep_smk.util.errors import WrongArgument, not_among
from fasthep_smk.util.names import encode, printable
from fasthep_smk.util.remote import local_path
from fasthep_smk.util.yaml_values import as_yaml

if TYPE_CHECKING:
    import numpy as np

#: So many entries say over which range a histogram goes, in about so many bins.
_SAMPLE, _BINS = 20_000, 50
_FLOATS = ("float", "double", "Float16_t", "Double32_t")
#: Types of C++ that are a number or a yes and no, also ROOT's own; and those of several of them:
#: float[], float[3], std::vector<float>.
_VALUES = re.compile(
    r"(?:(?:std::vector|std::array|ROOT::VecOps::RVec)<)?(?:std::)?"
    rf"(u?int\d+_t|(?:unsigned )?(?:int|char|long|short)|bool|{'|'.join(_FLOATS)})"
    r"(?:\[\d*\]|(?:, *\d+)?>)?"
)
_TREES = re.compile(r"TTree|TNtupleD?|ROOT::(?:Experimental::)?RNTuple")

#: An axis cannot have these names: FAST-HEP's own axes, and arguments of a histogram's ``fill``.
_TAKEN = ("dataset", "dataset_name", "events", "sample", "threads", "weight")
_WORKFLOW = """\
# yaml-language-server: $schema={schema}
# The line above lets an editor complete and check this file.
#     fasthep-smk workflow.yaml    run it; the plot is build/artifacts/plots/first.png
#     fasthep-smk ops              the operations that a stage can use
version: '1.0'
use: {{profiles: [hep]}}

# Paths start from the folder that you run in. eventtype is data or mc.
data:
  datasets:
    - {{name: {dataset}, eventtype: mc, files: [{file}]}}

# Branches to read. Other branches that stages use are read, too.
sources:
  events: {{kind: root_tree, tree: {tree}, branches: [{branch}]}}
{fields}
# A histogram and its plot. If an entry of the tree has several values, the histogram has them all.
analysis:
  stages:
    - id: First
      op: hep.hist
      params:
        dataset_axis: true
        axes:
          - {{name: {name}, source: {name}, type: regular, bins: {bins}}}
      render: {{style: first, when: final, out: first}}
styles:
  first:
    op: hep.render.hist1d
    axes:
      x: {{name: {name}, label: {label}}}
      y: {{name: events, label: Entries}}
    style: {{experiment: ROOT}}
"""
_FIELDS = """
# Expressions accept only valid Python names: this name stands for the branch.
fields:
  {name}: {{stream: events, branch: {branch}}}
"""


@dataclass(frozen=True)
class Tree:
    """A tree, or an RNTuple: its branches in the order of the file, with their types in C++."""

    name: str
    entries: int
    branches: Mapping[str, str]


def init_from_root(file: str, folder: Path, name: str | None) -> tuple[str, list[Path]]:
    """Write a workflow that reads a file, with a first histogram, into a folder.

    It is of the tree of this ``name``, or of the one with most entries. Return what is in the file,
    as people read it, and which files were written.

    Raises:
        WrongArgument: the file cannot be read, or nothing in it can be drawn.
        UsageError: a file is in the way.
    """
    trees = trees_in(file)
    tree = next((tree for tree in trees if name in (None, tree.name)), None)
    if tree is None:
        names = [tree.name for tree in trees]
        problem = "the file has no tree of this name"
        raise WrongArgument([not_among(name, names, problem=problem, file=file, key="--tree")])
    branch = first_branch(file, tree)
    values = sample(file, tree.name, branch)
    path = local_path(file)
    shown = file
    if path is not None and not Path(path).is_absolute():
        shown = os.path.relpath(Path(path).parent.resolve() / Path(path).name, folder.resolve())

    def write(stage: Path) -> None:
        text = workflow_text(shown, tree.name, branch, tree.branches[branch], values)
        (stage / "workflow.yaml").write_text(text, encoding="utf-8")

    written = write_new(folder, ["workflow.yaml"], write)
    lines = [
        f"tree {printable(one.name)}: {one.entries} entries, {len(one.branches)} branches"
        f"{', used' if one is tree else ''}"
        for one in trees
    ]
    width = max(len(printable(branch)) for branch in tree.branches)
    lines += [
        f"    {printable(branch):{width}}  {printable(kind)}"
        for branch, kind in tree.branches.items()
    ]
    return "\n".join([*lines, f"first histogram: {printable(branch)}\n\n"]), written


def trees_in(file: str) -> list[Tree]:
    """Return the trees of a file, the one with most entries first.

    Raises:
        WrongArgument: it cannot be read, or it has no tree.
    """
    if problem := look_into([file], [], Path.cwd())[file].problem:
        raise WrongArgument.one(problem, file=file)
    import uproot

    try:
        with uproot.open(_location(file)) as opened:
            kinds = opened.classnames(recursive=True, cycle=False)
            trees = [_tree(name, opened[name]) for name in kinds if _TREES.fullmatch(kinds[name])]
    except Exception as error:  # whatever uproot meets in a damaged file
        problem = f"the trees of this file cannot be read ({type(error).__name__}: {error})"
        raise WrongArgument.one(problem, file=file) from error
    if not trees:
        held = f"objects of these types: {', '.join(sorted({*kinds.values()})) or 'none'}"
        raise WrongArgument.one("the file has no tree", file=file, value=held)
    return sorted(trees, key=lambda tree: -tree.entries)


def _location(file: str) -> str | Path:
    path = local_path(file)
    return file if path is None else Path(path)


def _tree(name: str, stored: Any) -> Tree:
    """Return a tree of uproot's as ours, without branches that only group others."""
    names = list(stored.keys())
    groups = {key.rpartition("/")[0] for key in names}
    if "Model_ROOT" in type(stored).__name__:  # an RNTuple
        groups |= {key.rpartition(".")[0] for key in names}
    leaves = {key: str(stored[key].typename) for key in names if key not in groups}
    return Tree(name, int(stored.num_entries), leaves)


def value_of(kind: str) -> str | None:
    """Return the type of one value of a branch, if its values are numbers, or yes and no."""
    match = _VALUES.fullmatch(kind)
    return match[1] if match else None


def first_branch(file: str, tree: Tree) -> str:
    """Return the branch for the first histogram: one number per entry, of floating point, if any.

    Raises:
        WrongArgument: there is none that is numbers.
    """
    values = {branch: value_of(kind) for branch, kind in tree.branches.items()}
    numbers = [branch for branch, value in values.items() if value not in (None, "bool")]
    if not numbers:
        types = ", ".join(map(printable, tree.branches.values())) or "no branches"
        problem = "no branch of the tree holds numbers or arrays of numbers"
        raise WrongArgument.one(problem, file=file, key=tree.name, value=types)

    def rank(branch: str) -> tuple[bool, bool]:
        is_flat = tree.branches[branch].removeprefix("std::") == values[branch]
        return not is_flat, values[branch] not in _FLOATS

    return min(numbers, key=rank)


def sample(file: str, tree: str, branch: str) -> np.ndarray:
    """Return the values of a branch in the first entries; none if they cannot be read."""
    import awkward as ak
    import numpy as np
    import uproot

    try:
        with uproot.open(_location(file)) as opened:
            column = opened[tree][branch].array(entry_stop=_SAMPLE)
        values = ak.to_numpy(ak.flatten(column, axis=None)).astype(float)
    except Exception:  # of no use for a histogram, whatever it is
        return np.empty(0)
    kept: np.ndarray = values[np.abs(values) < 1e300]  # no range is told of more, or of no number
    return kept


def workflow_text(file: str, tree: str, branch: str, kind: str, values: np.ndarray) -> str:
    """Return a workflow that fills one histogram; ``values`` say over which range."""
    written, name = partial(as_yaml, longest=10**6), branch
    taken = keyword.iskeyword(name) or name in _TAKEN
    if taken or name.startswith("_") or not (name.isidentifier() and name.isascii()):
        name = f"branch_{encode(name)}"
    of_branch = {"branch": written(branch), "name": written(name)}
    return _WORKFLOW.format(
        schema=SCHEMA,
        dataset=written(encode(Path(file).stem)),
        file=written(file),
        tree=written(tree),
        fields="" if name == branch else _FIELDS.format(**of_branch),
        bins=written(_bins(values, whole=value_of(kind) not in _FLOATS)),
        # A dollar sign would begin a formula.
        label=written(printable(branch).replace("$", r"\$")),
        **of_branch,
    )


def _bins(values: np.ndarray, *, whole: bool) -> dict[str, float]:
    """Return round edges around most of the values."""
    import numpy as np
    from matplotlib.ticker import MaxNLocator

    low, high = 0.0, 1.0
    if len(values):
        low = float(np.quantile(values, 0.005, method="lower"))
        high = float(np.quantile(values, 0.995, method="higher"))
    if low == high:
        low, high = low - 0.5, high + 0.5
    elif whole and high - low <= 2 * _BINS:
        low, high = math.floor(low) - 0.5, math.ceil(high) + 0.5
        return {"low": low, "high": high, "nbins": round(high - low)}
    edges = MaxNLocator(_BINS, steps=[1, 2, 2.5, 5, 10]).tick_values(low, high)
    first, *_, last = (float(f"{edge:.14g}") for edge in edges)
    return {"low": first, "high": last, "nbins": len(edges) - 1}

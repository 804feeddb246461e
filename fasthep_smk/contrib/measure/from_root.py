"""A first workflow for a ROOT file that is there: its branches, and a histogram of one of them."""

from __future__ import annotations

import keyword
import math
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import yaml

from fasthep_smk.cli.init import SCHEMA, write_new
from fasthep_smk.contrib.measure.root_contents import Branch, Tree, chosen, sample, trees_in
from fasthep_smk.util.errors import Findings, UsageError
from fasthep_smk.util.names import encode, printable
from fasthep_smk.util.remote import local_path

__all__ = ["FromRoot", "init_from_root"]

_SAMPLE = 20_000
_BINS = 50
#: Further branches are named in comments, to be taken up; a file may have thousands.
_SHOWN = 60
#: What people plot first, and what only numbers entries or weighs them.
_WANTED = re.compile(r"(?:^|_)(?:m|mass|pt|met|px|e|energy|eta)$|^(?:met|mass|pt)", re.IGNORECASE)
_UNWANTED = re.compile(
    r"(?:^|_)(?:run|lumi\w*|event|evt|entry|index|idx|id|n|bx|orbit|time\w*)$"
    r"|weight|number|^n[A-Z]|bunch|run|luminosity",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class FromRoot:
    """What was found in a file, and which files were written."""

    trees: list[Tree]
    tree: Tree
    branch: Branch
    written: list[Path]

    def as_text(self) -> str:
        """Return the trees of the file, and the branches of the one that was chosen."""
        from tabulate import tabulate  # not for every command

        rows = [
            [printable(one.name), one.entries, len(one.branches), "*" if one is self.tree else ""]
            for one in self.trees
        ]
        trees = tabulate(rows, headers=["tree", "entries", "branches", "used"])
        branches = [
            [printable(one.name), one.shape, printable(one.typename)] for one in self.tree.branches
        ]
        listed = tabulate(branches, headers=["branch", "shape", "type"], disable_numparse=True)
        first = f"first histogram: {printable(self.branch.name)}"
        return f"{trees}\n\n{listed}\n\n{first}\n\n"


def init_from_root(file: str, folder: Path, tree: str | None) -> FromRoot:
    """Write a workflow that reads a file, with a first histogram, into a folder.

    Raises:
        UsageError: the file cannot be read, nothing in it can be drawn, or a file is in the way.
    """
    root = Path.cwd()
    try:
        trees = trees_in(file, root)
        used = chosen(trees, tree, file=file)
        branch, values = _first_branch(file, root, used)
        shown = _path_from(file, folder)
    except Findings as error:
        raise UsageError(str(error)) from error
    text = workflow_text(shown, used, branch, values)

    def write(stage: Path) -> None:
        (stage / "workflow.yaml").write_text(text, encoding="utf-8")

    return FromRoot(trees, used, branch, write_new(folder, ["workflow.yaml"], write))


def workflow_text(file: str, tree: Tree, branch: Branch, values: list[float]) -> str:
    """Return a workflow that fills one histogram; ``values`` say over which range."""
    alias = _alias(branch.name)
    dataset = encode(Path(file).stem)
    axis = {
        "name": alias,
        "source": alias,
        "type": "regular",
        "bins": _bins(values, whole=not branch.is_float),
    }
    stage = {
        "id": "First",
        "op": "hep.hist",
        "params": {"dataset_axis": True, "axes": [axis]},
        "render": {"style": "first", "when": "final", "out": "first"},
    }
    style = {
        "op": "hep.render.hist1d",
        "axes": {
            "x": {"name": alias, "label": _plain(branch.name)},
            "y": {"name": "events", "label": "Events" if branch.shape == "flat" else "Entries"},
        },
        "style": {"experiment": "ROOT"},
    }
    parts = [
        f"# yaml-language-server: $schema={SCHEMA}",
        "# The line above lets an editor complete and check this file.",
        "#     fasthep-smk workflow.yaml    run it; the plot is build/artifacts/plots/first.png",
        "#     fasthep-smk ops              the operations that a stage can use",
        _dumped({"version": "1.0", "use": {"profiles": ["hep"]}}),
        "# Paths start from the folder that you run in. eventtype is data or mc.",
        _dumped({"data": {"datasets": [{"name": dataset, "eventtype": "mc", "files": [file]}]}}),
        "# Which branches are read. Those that stages name are added.",
        _dumped({"sources": {"events": {"kind": "root_tree", "tree": tree.name}}}).rstrip("\n"),
        "    branches:",
        *_branch_lines(tree, branch),
        "",
    ]
    if alias != branch.name:
        parts += [
            "# Expressions need names like those of Python.",
            _dumped({"fields": {alias: {"stream": "events", "branch": branch.name}}}),
        ]
    parts += [
        "# What workers there are; here, they are this machine.",
        _dumped({"execution": {"pools": {"default": {"resources": {"cpus": 1, "memory": "2GB"}}}}}),
        "# A histogram, and a plot of it." + _of_jagged(branch),
        _dumped({"analysis": {"stages": [stage]}}),
        _dumped({"styles": {"first": style}}).rstrip("\n"),
    ]
    return "\n".join(parts) + "\n"


def _first_branch(file: str, root: Path, tree: Tree) -> tuple[Branch, list[float]]:
    """Return the branch for the first histogram, and some of its values.

    Raises:
        Findings: there is none that is numbers.
    """
    numbers = [one for one in tree.branches if one.is_number and _is_text(one.name)]
    ranked = sorted(numbers, key=_rank)
    for branch in ranked:
        values = sample(file, root, tree, branch, entries=_SAMPLE)
        if values and min(values) < max(values):
            return branch, values
    if not ranked:
        raise Findings.one(
            "no branch of the tree is numbers, flat or jagged",
            file=file,
            key=tree.name,
            value=", ".join(printable(one.typename) for one in tree.branches[:8]) or "no branches",
        )
    return ranked[0], sample(file, root, tree, ranked[0], entries=_SAMPLE)


def _rank(branch: Branch) -> tuple[bool, bool, bool, bool]:
    leaf = re.split(r"[./]", branch.name)[-1]
    return (
        bool(_UNWANTED.search(leaf)),
        branch.shape == "jagged",
        not branch.is_float,
        not _WANTED.search(leaf),
    )


def _path_from(file: str, folder: Path) -> str:
    """Return how a workflow in a folder names a file that was named from here.

    Raises:
        Findings: its path is no text that a workflow could hold.
    """
    if not _is_text(file):
        raise Findings.one("the path is not UTF-8 text, which YAML cannot hold", file=ascii(file))
    here = local_path(file)
    if here is None or Path(here).is_absolute():
        return file
    path = Path(here).parent.resolve() / Path(here).name
    return os.path.relpath(path, folder.resolve())


def _alias(name: str) -> str:
    """Return a name that expressions and axes can use."""
    taken = keyword.iskeyword(name) or name in ("dataset", "dataset_name", "events")
    if name.isidentifier() and name.isascii() and not name.startswith("_") and not taken:
        return name
    return f"branch_{encode(name)}"


def _branch_lines(tree: Tree, used: Branch) -> Iterable[str]:
    yield f"      - {_scalar(used.name)}"
    others = [one for one in tree.branches if one is not used and _is_text(one.name)]
    for one in others[:_SHOWN]:
        yield f"      # - {_scalar(one.name)}  # {one.shape}, {printable(one.typename)}"
    if len(others) > _SHOWN:
        yield f"      # and {len(others) - _SHOWN} more"


def _of_jagged(branch: Branch) -> str:
    several = "\n# An entry of the tree may have several values: all of them are filled."
    return several if branch.shape == "jagged" else ""


def _bins(values: list[float], *, whole: bool) -> dict[str, float | int]:
    """Return round edges around most of the values."""
    ordered = sorted(values) or [0.0, 1.0]
    cut = len(ordered) // 200
    low, high = ordered[cut], ordered[-1 - cut]
    if low == high:
        low, high = ordered[0], ordered[-1]
    if low == high:
        wide = max(0.5, abs(low) * 1e-6)  # 0.5 more is nothing to a large number
        low, high = low - wide, high + wide
    if not math.isfinite(high - low):
        low, high = low / 4, high / 4
    if whole and high - low <= 2 * _BINS:
        low, high = math.floor(low) - 0.5, math.ceil(high) + 0.5
        return {"low": low, "high": high, "nbins": round(high - low)}
    digits = math.floor(math.log10((high - low) / _BINS))
    steps = (factor * 10.0**digits for factor in (1, 2, 2.5, 5, 10))
    step = next(one for one in steps if one * _BINS >= (high - low) * 0.999)
    first, last = math.floor(low / step), math.ceil(high / step)
    return {
        "low": _round(first * step, digits),
        "high": _round(last * step, digits),
        "nbins": last - first,
    }


def _round(value: float, digits: int) -> float | int:
    rounded = round(value, max(1 - digits, 0))
    return int(rounded) if rounded.is_integer() and abs(rounded) < 1e15 else rounded


def _plain(text: str) -> str:
    """Return text for a label: a dollar sign would begin a formula."""
    return printable(text).replace("$", r"\$")


def _is_text(name: str) -> bool:
    try:
        name.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _dumped(content: dict[str, object]) -> str:
    return str(yaml.safe_dump(content, sort_keys=False, allow_unicode=True, width=100))


def _scalar(text: str) -> str:
    """Return text as YAML in one line."""
    width = float("inf")
    for style in (None, '"'):
        made = yaml.safe_dump([text], allow_unicode=True, width=width, default_style=style)
        if made.count("\n") == 1:
            break
    return str(made).removeprefix("- ").rstrip("\n")

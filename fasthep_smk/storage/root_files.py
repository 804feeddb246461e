"""Look into ROOT files: which of the trees that a workflow reads they hold, how many entries."""

from __future__ import annotations

import contextlib
import os
import re
import signal
from collections.abc import Collection, Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from functools import cache, partial
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING

from fasthep_smk.util.errors import nearest
from fasthep_smk.util.remote import is_remote, local_path, within

if TYPE_CHECKING:
    import uproot

#: Reading which branches a tree has takes 4 ms of Python, its entries alone a quarter of one. For
#: so many files it is worth it to start processes, and each gets so many of them at a time.
MANY, _AT_A_TIME = 1000, 50
_MOST_PROCESSES = 8
_TREE_IN_NAME = "contains a tree's name, which belongs in sources: leave out ':{}'"


@dataclass(frozen=True)
class RootFile:
    """Entries and branch names of the trees of one file; ``problem`` if it could not be read.

    ``branches`` lacks trees of which only the entries were looked at.
    """

    entries: Mapping[str, int] = field(default_factory=dict)
    branches: Mapping[str, frozenset[str]] = field(default_factory=dict)
    problem: str | None = None


def look_into(
    paths: Sequence[str], trees: Iterable[str], root: Path, *, in_brief: Collection[str] = ()
) -> dict[str, RootFile]:
    """Return what each file holds of ``trees``; relative paths start from ``root``.

    Of those ``in_brief``, only the entries are looked at where that takes less time.
    """
    look = partial(_look, trees=tuple(trees), root=root)
    briefly = [path in in_brief for path in paths]
    # A remote file's time is its server's.
    if sum(not is_remote(path) for path in paths) >= MANY:
        with (
            contextlib.suppress(BrokenProcessPool, OSError),  # there is no room for them
            ProcessPoolExecutor(
                min(os.cpu_count() or 1, _MOST_PROCESSES),
                mp_context=get_context("spawn"),
                # Ctrl-C ends them, without a traceback of each.
                initializer=signal.signal,
                initargs=(signal.SIGINT, signal.SIG_DFL),
            ) as pool,
        ):
            contents = pool.map(look, paths, briefly, chunksize=_AT_A_TIME)
            return dict(zip(paths, contents, strict=True))
    with ThreadPoolExecutor(max_workers=8) as threads:
        return dict(zip(paths, threads.map(look, paths, briefly), strict=True))


def _look(path: str, briefly: bool, *, trees: Sequence[str], root: Path) -> RootFile:
    import uproot

    here, inside = local_path(path), within(path)
    location: str | Path = path if here is None else root / here
    if here is not None and (problem := _file_problem(root / here, here, root)):
        return RootFile(problem=problem)
    entries: dict[str, int] = {}
    branches: dict[str, frozenset[str]] = {}
    try:
        with uproot.open(location, custom_classes=_entries_only() if briefly else None) as opened:
            if isinstance(location, Path) and opened.file.fEND > location.stat().st_size:
                size = location.stat().st_size
                problem = f"is truncated: {size} of {opened.file.fEND} bytes are there"
                return RootFile(problem=problem)
            held = opened
            if here is not None and inside:
                held = opened.get(inside)
                if not hasattr(held, "classnames"):
                    nothing = f"contains no {inside!r}, the part of its name after ':'"
                    problem = nothing if held is None else _TREE_IN_NAME.format(inside)
                    return RootFile(problem=problem)
            for tree in trees:
                try:
                    opened_tree = held[tree]
                except KeyError:
                    return RootFile(problem=_no_tree(tree, held))
                if not hasattr(opened_tree, "num_entries"):  # no more of it was read
                    (entries[tree],) = opened_tree.member("fEntries")
                    continue
                entries[tree] = int(opened_tree.num_entries)
                branches[tree] = frozenset(_branch_names(opened_tree))
    except Exception as error:
        # Whatever uproot meets in a damaged file, the user needs the file's name.
        first_line = next(iter(str(error).strip().splitlines()), "")
        problem = f"is not a readable ROOT file ({type(error).__name__}: {first_line})"
        return RootFile(problem=problem)
    return RootFile(entries, branches)


@cache
def _entries_only() -> dict[str, type]:
    """Return uproot's classes, but of a tree no more than ``uproot.num_entries`` reads."""
    import uproot
    from uproot.models.TTree import Model_TTree_NumEntries

    return {**uproot.classes, "TTree": Model_TTree_NumEntries}


def _branch_names(tree: uproot.TTree) -> set[str]:
    names = set(tree.keys())
    names.update(name.rpartition("/")[2] for name in tuple(names))
    aliases = getattr(tree, "aliases", None)
    if aliases:
        names.update(aliases)
    return names


def _no_tree(tree: str, opened: uproot.ReadOnlyDirectory) -> str:
    names = sorted({key.partition(";")[0] for key in opened.keys(recursive=True)})
    close = nearest(tree, names)
    listed = ", ".join(names[:8]) or "nothing"
    return f"holds no tree {tree!r}" + (
        f"; did you mean {close!r}?" if close else f"; it holds {listed}"
    )


def _file_problem(location: Path, path: str, root: Path) -> str | None:
    """Return what is wrong with a local file before it is opened."""
    if location.is_dir():
        return "is a folder, not a ROOT file"
    if not location.exists():
        return _missing(path, root)
    if not location.is_file():
        return "is a pipe or a device, not a ROOT file"
    return "is empty (0 bytes)" if location.stat().st_size == 0 else None


def _missing(path: str, root: Path) -> str:
    folder = (root / path).parent
    parts = re.split(r"[\s,;]+", path.strip(" \t\n,;"))
    if all((root / part).is_file() for part in parts):
        if len(parts) == 1:
            return (
                f"does not exist; did you mean {parts[0]}, without {path.replace(parts[0], '')!r}?"
            )
        return "contains several file names: write each in quotes of its own, with commas between"
    file, _, tree = path.rpartition(":")
    if file and (root / file).is_file():
        return f"does not exist: {_TREE_IN_NAME.format(tree)}"
    if path.startswith("~") or "$" in path:
        return "does not exist: '~' and '$' are not expanded in the names of files"
    if not folder.is_dir():
        return f"does not exist (nor does its folder; relative paths start from {root})"
    if (root / path).is_symlink():
        goal = (root / path).readlink()
        return f"is a symbolic link to {goal}, which does not exist"
    if any(sign in Path(path).name for sign in "*?["):
        return "does not exist; patterns are not expanded: name each file"
    close = nearest(Path(path).name, [item.name for item in folder.iterdir()])
    return "does not exist" + (f"; did you mean {Path(path).parent / close}?" if close else "")

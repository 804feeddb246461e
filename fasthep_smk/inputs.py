"""What is in the input files: entries and branches of the trees that a workflow reads.

Files are looked at once, their checksums taken once; the answers are kept in the build folder and
belong to a file's path, size and modification time. Remote files (``root://``, ``https://`` …) are
opened only when an answer is needed to cut them into partitions.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fasthep_smk import files, remote
from fasthep_smk.errors import Finding, nearest

__all__ = [
    "FileFacts",
    "Inputs",
    "identity_of",
    "is_remote",
    "missing_branches",
    "problem_finding",
]

_REMOTE = re.compile(r"^[A-Za-z][A-Za-z0-9+.-]*:")


def is_remote(path: str) -> bool:
    """Tell whether FAST-HEP treats ``path`` as a URI instead of a file of this machine."""
    return bool(_REMOTE.match(path))


def identity_of(path: str, root: Path) -> str:
    """Return what makes an input file the same file: its name, size and modification time."""
    if is_remote(path):
        return path
    try:
        status = (root / path).stat()
    except OSError:
        return f"{path}|missing"
    return f"{path}|{status.st_size}|{status.st_mtime_ns}"


@dataclass(frozen=True)
class FileFacts:
    """Entries and branch names of the trees of one file; ``problem`` if it could not be read."""

    entries: Mapping[str, int]
    branches: Mapping[str, frozenset[str]]
    problem: str | None = None


class Inputs:
    """Looks into ROOT files and remembers.

    ``root`` is the folder that relative paths start from, ``cache`` the file that remembers.
    """

    def __init__(self, root: Path, cache: Path) -> None:
        self.root = root
        self._cache = cache
        self._known: dict[str, dict[str, Any]] = {}
        self._branch_lists: dict[str, list[str]] = {}
        self._used: set[str] = set()
        self._checksums: dict[str, str] = {}
        self._remote: dict[str, str] = {}
        try:
            stored = files.unseal(cache.read_bytes())
            self._known = dict(stored["files"])
            self._branch_lists = dict(stored["branches"])
            self._checksums = dict(stored["checksums"])
            self._remote = dict(stored["remote"])
        except (OSError, files.Altered, KeyError):
            pass  # none, altered or another version's: it is made anew

    def identity(self, path: str) -> str:
        """Return what makes an input file the same file: its name, size and modification time.

        A remote file is known by what its server said when it was asked last.
        """
        said = self._remote.get(path)
        return identity_of(path, self.root) if said is None else f"{path}|{said}"

    def ask_servers(self, paths: Iterable[str]) -> list[str]:
        """Ask for the remote ones among ``paths``; return those that no server ever knew."""
        wanted = [path for path in dict.fromkeys(paths) if is_remote(path)]
        answers = remote.ask(wanted)
        if answers:
            self._remote.update(answers)
            self._store()
        return [path for path in wanted if path not in self._remote]

    def checksum(self, path: str) -> str:
        """Return what makes an input file the same file: its name and the SHA-256 of its content.

        A remote file is known by what its server says, as in :meth:`identity`.
        """
        stat = self.identity(path)
        if is_remote(path) or not (self.root / path).is_file():
            return stat
        if stat not in self._checksums:
            self._checksums[stat] = files.sha256_file(self.root / path)
            self._store()
        return f"{path}|sha256:{self._checksums[stat]}"

    def look(self, paths: Iterable[str], trees: Iterable[str]) -> dict[str, FileFacts]:
        """Return the facts of each file about ``trees``."""
        wanted = list(dict.fromkeys(paths))
        trees = sorted(set(trees))
        keys = {path: f"{self.identity(path)}|{trees}" for path in wanted}
        self._used.update(keys.values())
        missing = [path for path in wanted if keys[path] not in self._known]
        if missing:
            with ThreadPoolExecutor(max_workers=8) as pool:
                for path, facts in zip(
                    missing, pool.map(lambda item: self._open(item, trees), missing), strict=True
                ):
                    self._remember(keys[path], facts)
            self._store()
        return {path: self._facts(self._known[keys[path]]) for path in wanted}

    def _open(self, path: str, trees: list[str]) -> FileFacts:
        import uproot

        location: str | Path = path if is_remote(path) else self.root / path
        if isinstance(location, Path) and (problem := _file_problem(location, path, self.root)):
            return FileFacts({}, {}, problem=problem)
        entries: dict[str, int] = {}
        branches: dict[str, frozenset[str]] = {}
        try:
            with uproot.open(location) as opened:
                if isinstance(location, Path) and opened.file.fEND > location.stat().st_size:
                    size = location.stat().st_size
                    problem = f"is truncated: {size} of {opened.file.fEND} bytes are there"
                    return FileFacts({}, {}, problem=problem)
                for tree in trees:
                    try:
                        found = opened[tree]
                    except KeyError:
                        return FileFacts({}, {}, problem=_no_tree(tree, opened))
                    entries[tree] = int(found.num_entries)
                    branches[tree] = frozenset(_branch_names(found))
        except Exception as error:
            # Whatever uproot meets in a damaged file, the user needs the file's name.
            first_line = next(iter(str(error).strip().splitlines()), "")
            return FileFacts(
                {},
                {},
                problem=f"is not a readable ROOT file ({type(error).__name__}: {first_line})",
            )
        return FileFacts(entries, branches)

    def _remember(self, key: str, facts: FileFacts) -> None:
        lists: dict[str, str] = {}
        for tree, names in facts.branches.items():
            ordered = sorted(names)
            lists[tree] = files.digest_of(ordered)
            self._branch_lists[lists[tree]] = ordered
        self._known[key] = {
            "entries": dict(facts.entries),
            "branches": lists,
            "problem": facts.problem,
        }

    def _facts(self, stored: Mapping[str, Any]) -> FileFacts:
        return FileFacts(
            stored["entries"],
            {
                tree: frozenset(self._branch_lists[digest])
                for tree, digest in stored["branches"].items()
            },
            stored["problem"],
        )

    def _is_sound(self, key: str) -> bool:
        return key in self._known and not self._known[key]["problem"]

    def _store(self) -> None:
        # A file with a problem is looked at again: it may have been mended without a new date.
        kept = {key: self._known[key] for key in sorted(self._used) if self._is_sound(key)}
        used = {digest for item in kept.values() for digest in item["branches"].values()}
        content = {
            "files": kept,
            "branches": {digest: self._branch_lists[digest] for digest in sorted(used)},
            "checksums": self._checksums,
            "remote": self._remote,
        }
        files.write_text(self._cache, files.seal(content, indent=None))


def missing_branches(
    wanted: Iterable[str], facts: FileFacts, tree: str
) -> list[tuple[str, str | None]]:
    """Return the branches that a tree lacks, each with the nearest one it has.

    Only plain names are judged: uproot takes expressions too.
    """
    available = facts.branches[tree]
    return [
        (name, nearest(name, available))
        for name in wanted
        if re.fullmatch(r"[A-Za-z_]\w*", name) and name not in available
    ]


def problem_finding(path: str, dataset: str, problem: str) -> Finding:
    """Return the finding for an input file of a dataset that cannot be used."""
    return Finding(file=path, key=f"dataset {dataset!r}", problem=problem)


def _branch_names(tree: Any) -> set[str]:
    names = set(tree.keys())
    names.update(name.rpartition("/")[2] for name in tuple(names))
    aliases = getattr(tree, "aliases", None)
    if aliases:
        names.update(aliases)
    return names


def _no_tree(tree: str, opened: Any) -> str:
    found = sorted({key.partition(";")[0] for key in opened.keys(recursive=True)})
    close = nearest(tree, found)
    listed = ", ".join(found[:8]) or "nothing"
    return f"holds no tree {tree!r}" + (
        f"; did you mean {close!r}?" if close else f"; it holds {listed}"
    )


def _file_problem(location: Path, path: str, root: Path) -> str | None:
    """Return what is wrong with a local file before it is opened."""
    if location.is_dir():
        return "is a folder, not a ROOT file"
    if not location.exists():
        return _missing(path, root)
    return "is empty (0 bytes)" if location.stat().st_size == 0 else None


def _missing(path: str, root: Path) -> str:
    folder = (root / path).parent
    if not folder.is_dir():
        return f"does not exist (nor does its folder; relative paths start from {root})"
    close = nearest(Path(path).name, [item.name for item in folder.iterdir()])
    return "does not exist" + (f"; did you mean {Path(path).parent / close}?" if close else "")

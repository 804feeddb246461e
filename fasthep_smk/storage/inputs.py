"""What is in the input files: entries and branches of the trees that a workflow reads.

Files are looked at once, their checksums taken once; the answers are kept in the build folder and
belong to a file's path, size, modification time and first bytes. These are read again only where
the inode or its time of change is another one. Remote files (``root://``, ``https://`` …) are
opened only when their entries are needed: by FAST-HEP's compiler for a dataset without ``nevents``,
or to cut them into partitions.
"""

from __future__ import annotations

import stat
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import msgspec

from fasthep_smk.storage.root_files import MANY, RootFile, look_into
from fasthep_smk.util import files
from fasthep_smk.util.remote import ask, is_remote, local_path, server_of, silent_servers, within
from fasthep_smk.util.shapes import ready


def identity_of(path: str, root: Path, heads: dict[str, str] | None = None) -> str:
    """Return what makes an input file the same file: its name, size, time and first bytes.

    ``heads`` are what was seen of first bytes, and are added to. A copy may have the size and time
    of another file, but no program can set the inode's time of change.
    """
    here = local_path(path)
    if here is None:
        return path
    try:
        status = (root / here).stat()
    except OSError:
        return f"{path}|missing"
    identity = f"{path}|{status.st_size}|{status.st_mtime_ns}"
    if not stat.S_ISREG(status.st_mode):
        return identity
    heads = {} if heads is None else heads
    at = f"{identity}|{status.st_ctime_ns}|{status.st_ino}"
    if at not in heads:
        heads[at] = files.head_of(root / here)
    return f"{identity}|{heads[at]}"


class _File(msgspec.Struct):
    """What is kept of a file: by tree its entries, and which list has the names of its branches."""

    entries: dict[str, int]
    branches: dict[str, int]


class _Kept(msgspec.Struct):
    """What is kept of files, but for ``branches`` and ``passed`` by what identifies them.

    ``heads`` are digests of first bytes: see :func:`identity_of`.
    """

    files: dict[str, _File] = {}
    branches: list[list[str]] = []
    checksums: dict[str, str] = {}
    heads: dict[str, str] = {}
    remote: dict[str, str] = {}
    passed: frozenset[str] = frozenset()


class Inputs:
    """Looks into ROOT files and remembers.

    ``root`` is the folder that relative paths start from, ``cache`` the file that remembers; what
    is new goes to ``keep_in``, if that is another one.
    """

    def __init__(self, root: Path, cache: Path, *, keep_in: Path | None = None) -> None:
        self.root = root
        self._cache = keep_in or cache
        try:
            kept = msgspec.convert(files.unseal(cache.read_bytes()), ready(_Kept))
        except (OSError, files.Altered, msgspec.ValidationError):
            kept = _Kept()  # none, altered or another version's: it is made again
        names = [frozenset(listed) for listed in kept.branches]
        self._known = {
            key: RootFile(file.entries, {tree: names[at] for tree, at in file.branches.items()})
            for key, file in kept.files.items()
        }
        self._checksums, self._remote = kept.checksums, kept.remote
        #: Of what has been tried with events of these files, and found right.
        self.passed = kept.passed
        self._kept_heads, self._heads = kept.heads, kept.heads.copy()
        self._used: set[str] = set()
        self._identities: dict[str, str] = {}
        #: What servers have said in this run of the remote files that were asked for.
        self._asked: dict[str, str | None] = {}
        #: Servers that did not answer, and what is wrong with them.
        self.silent: dict[str, str] = {}

    def identity(self, path: str) -> str:
        """Return what makes an input file the same file: its name, size, time and first bytes.

        A remote file is known by what its server said when it was asked last.
        """
        answer = self._remote.get(path)
        return self.stat(path) if answer is None else f"{path}|{answer}"

    def stat(self, path: str) -> str:
        """Return name, size, time and first bytes of a file as they were when first asked for.

        What is learnt of a file later is compared with this: it may be edited meanwhile.
        """
        if path not in self._identities:
            self._identities[path] = identity_of(path, self.root, self._heads)
        return self._identities[path]

    def changed(self) -> list[str]:
        """Return the files that are not what they were when they were first looked at."""
        before = self._identities.items()
        return [path for path, seen in before if identity_of(path, self.root, self._heads) != seen]

    def ask_servers(self, paths: Iterable[str]) -> list[str]:
        """Ask for the remote ones among ``paths``; return those that no server ever knew."""
        wanted = [path for path in dict.fromkeys(paths) if is_remote(path)]
        new = [path for path in wanted if path not in self._asked]
        self.silent |= silent_servers(new)
        answers = ask(path for path in new if server_of(path) not in self.silent)
        self._asked |= {path: answers.get(path) for path in new}
        if answers:
            self._remote.update(answers)
            self._store()
        return [path for path in wanted if path not in self._remote]

    def note_passed(self, digests: Iterable[str]) -> None:
        """Keep of what has been found right with events of these files, in place of earlier."""
        self.passed = frozenset(digests)
        self._store()

    def checksum(self, path: str) -> str:
        """Return what makes an input file the same file: its name and the SHA-256 of its content.

        A remote file is known by what its server says, as in :meth:`identity`. A checksum is kept
        for the inode and its time of change: what else is known of a file, another one may have.
        """
        identity, here = self.identity(path), local_path(path)
        if here is None or not (self.root / here).is_file():
            return identity
        status = (self.root / here).stat()
        at = f"{identity}|{status.st_ctime_ns}|{status.st_ino}"
        if at not in self._checksums:
            self._checksums[at] = files.sha256_file(self.root / here)
            self._store()
        return f"{path}|sha256:{self._checksums[at]}"

    def look(
        self, paths: Iterable[str], trees: Iterable[str], *, alike: Iterable[Sequence[str]] = ()
    ) -> dict[str, RootFile]:
        """Return the facts of each file about ``trees``.

        Groups of files that should be ``alike`` need not be looked at one by one: where there are
        very many new files, the branches of some of each group are, and the entries of all.
        """
        wanted = list(dict.fromkeys(paths))
        trees = sorted(set(trees))
        keys = {path: f"{self.identity(path)}|{trees}" for path in wanted}
        self._used.update(keys.values())
        missing = [path for path in wanted if keys[path] not in self._known]
        if missing:
            brief = _alike(missing, alike) if len(missing) > MANY else frozenset()
            looked = look_into(missing, trees, self.root, in_brief=brief)
            self._known |= {keys[path]: facts for path, facts in looked.items()}
            self._store()
        return {path: self._known[key] for path, key in keys.items()}

    def entries(
        self, paths: Sequence[str], trees: Sequence[str]
    ) -> dict[str, Mapping[str, int]] | None:
        """Return how many entries each tree of each file has; ``None`` if one cannot be told.

        That is so of a remote file whose server does not say when it was changed, and of a name
        that may be that of a file and of what is in it (``data.root:folder``).
        """
        self.ask_servers(paths)
        if not all(map(self._is_told_apart, paths)):
            return None
        facts = self.look(paths, trees)
        if any(file.problem for file in facts.values()):
            return None
        return {path: file.entries for path, file in facts.items()}

    def forget_unused(self) -> None:
        """Forget files that this object was not asked for: all that matter have been by now."""
        unused = self._known.keys() - self._used
        for key in unused:
            del self._known[key]
        used = set(self._identities.values())
        self._heads = {
            at: head for at, head in self._heads.items() if f"{at.rsplit('|', 2)[0]}|{head}" in used
        }
        if unused or self._heads != self._kept_heads:
            self._store()

    def _is_told_apart(self, path: str) -> bool:
        """Whether a file that was replaced is known to be another one."""
        here = local_path(path)
        if here is not None:
            return ":" not in here and not within(path)
        answer = self._asked[path]
        return answer is not None and not answer.endswith("|")

    def _store(self) -> None:
        lists: dict[frozenset[str], int] = {}
        kept = {
            key: {
                "entries": dict(facts.entries),
                "branches": {
                    tree: lists.setdefault(names, len(lists))
                    for tree, names in facts.branches.items()
                },
            }
            for key, facts in sorted(self._known.items())
            if not facts.problem  # or else it is looked at again: it may have been fixed
        }
        content = {
            "files": kept,
            "branches": [sorted(names) for names in lists],
            "checksums": self._checksums,
            "heads": self._heads,
            "remote": self._remote,
            "passed": sorted(self.passed),
        }
        files.write_text(self._cache, files.seal(content, indent=None))


def _alike(paths: Iterable[str], groups: Iterable[Sequence[str]]) -> frozenset[str]:
    """Return the paths of groups but for some ``MANY``: as many, and evenly, from each group."""
    new = frozenset(paths)
    listed = [of_group for group in groups if (of_group := [path for path in group if path in new])]
    room = max(1, MANY // max(1, len(listed)))
    chosen = (group[:: -(-len(group) // room)] for group in listed)
    return frozenset().union(*listed).difference(*chosen)


def missing_branches(wanted: Iterable[str], facts: RootFile, tree: str) -> list[str]:
    """Return the branches that a tree lacks.

    Only plain names are judged: uproot takes expressions too. Of a tree whose branches were not
    looked at, none are missing.
    """
    available = facts.branches.get(tree)
    if available is None:
        return []
    return [name for name in wanted if name.isidentifier() and name not in available]

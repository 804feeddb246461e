"""What is installed: distributions, what lies loose beside them, scripts."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from importlib.metadata import Distribution, distributions
from pathlib import Path

from fasthep_smk.contrib.pack.entries import Entry, is_skipped, text_entry, walk
from fasthep_smk.contrib.pack.snapshot import editable_names

#: What tells how a package came here, not what it is.
_HISTORY = ("INSTALLER", "REQUESTED", "direct_url.json")
_SHEBANG = re.compile(rb"^#![^\n]*python[0-9.]*([ \t][^\n]*)?\n|^#!/bin/sh\n'''exec' .*\n' '''\n")
#: The same line for the shell and Python: go on with the Python beside this script.
_RELOCATABLE = b"#!/bin/sh\n'''exec' \"${0%/*}/python\" \"$0\" \"$@\"\n' '''\n"


@dataclass
class Installed:
    """The folders of an environment. ``editable`` is where its editable installs lie.

    ``facts`` identify each distribution, ``claimed`` are their entries of each folder;
    ``scripts`` are the names in ``bin`` that came with them, ``beside`` files elsewhere, such as in
    ``share``.
    """

    folders: tuple[Path, ...]
    facts: list[list[str]] = field(default_factory=list)
    claimed: set[str] = field(default_factory=set)
    editable: dict[str, Path] = field(default_factory=dict)
    scripts: set[str] = field(default_factory=set)
    beside: set[str] = field(default_factory=set)
    dropped: set[str] = field(default_factory=set)

    def entries(self, site: str, without: Iterable[str] = ()) -> list[Entry]:
        """Return the files of all packages; ``without`` are packed from elsewhere."""
        left_out = {*without, *self.dropped}
        by_target: dict[str, Entry] = {}
        for folder in self.folders:
            for path in sorted(folder.iterdir()):
                if is_skipped(path.name) or path.name.partition(".")[0] in left_out:
                    continue
                for entry in _of(path, site):
                    by_target.setdefault(entry.target, entry)
        return list(by_target.values())

    def others(self, prefix: Path) -> Iterator[Entry]:
        """Yield the scripts, and what packages have put outside of their folder."""
        for name in sorted(self.scripts):
            path = prefix / "bin" / name
            if path.is_file() and not re.match(r"python[0-9.]*$", name):
                yield _script(path)
        for name in sorted(self.beside):
            yield from walk(prefix / name, name)

    def loose(self) -> dict[str, str]:
        """Return digests of what no distribution accounts for."""
        digests: dict[str, str] = {}
        for folder in self.folders:
            for path in sorted(folder.iterdir()):
                if path.name not in self.claimed and not is_skipped(path.name):
                    for entry in walk(path, path.name):
                        digests.setdefault(entry.target, entry.digest())
        return digests


def look() -> Installed:
    """Return what is installed in the environment that runs this.

    Raises:
        Findings: an editable install cannot be packed.
    """
    folders = [Path(path) for path in sys.path]
    names = ("site-packages", "dist-packages")
    installed = Installed(
        tuple(dict.fromkeys(p for p in folders if p.name in names and p.is_dir()))
    )
    for folder in installed.folders:
        for distribution in distributions(path=[str(folder)]):
            _add(distribution, folder, installed)
    installed.facts.sort()
    return installed


def _add(distribution: Distribution, folder: Path, installed: Installed) -> None:
    record = distribution.read_text("RECORD")
    if record is None:  # its files are digested one by one
        installed.facts.append([distribution.name, distribution.version, ""])
        return
    rows = [row for row in csv.reader(record.splitlines()) if row and "__pycache__/" not in row[0]]
    for row in rows:
        name, *parts = row[0].split("/")
        if name != "..":
            installed.claimed.add(name)
        elif row[0].startswith("../../../bin/") and len(parts) == 4:
            installed.scripts.add(parts[-1])
        elif row[0].startswith("../../../") and parts[2] != "include" and ".." not in parts[2:]:
            installed.beside.add("/".join(parts[2:]))
    installed.facts.append(
        [
            distribution.name,
            distribution.version,
            hashlib.sha256(
                "\n".join([*_lasting(rows), *_edited(folder, rows)]).encode()
            ).hexdigest(),
        ]
    )
    origin = json.loads(distribution.read_text("direct_url.json") or "{}")
    if origin.get("dir_info", {}).get("editable"):
        names = [row[0] for row in rows if row[0].endswith((".pth", "_finder.py"))]
        hooks = [folder / name for name in names if "/" not in name and (folder / name).is_file()]
        installed.editable |= editable_names(distribution.name, hooks)
        installed.dropped |= {hook.name.partition(".")[0] for hook in hooks}


def _edited(folder: Path, rows: list[list[str]]) -> list[str]:
    """Return digests of files that changed after they were installed: RECORD does not know."""
    files = {row[0]: folder / row[0] for row in rows if row}
    records = [path for name, path in files.items() if name.endswith(".dist-info/RECORD")]
    since = max((path.stat().st_mtime for path in records if path.is_file()), default=0.0)
    return [
        f"{name} {Entry(name, path).digest()}"
        for name, path in sorted(files.items())
        if not name.endswith(".pyc")
        and path.is_file()
        and path not in records
        and path.stat().st_mtime > since + 1
    ]


def _of(path: Path, site: str) -> Iterable[Entry]:
    """Return what is packed of an entry of a folder of packages."""
    target = f"{site}/{path.name}"
    if path.suffix == ".pth":
        return _paths(path, site)
    if path.suffix != ".dist-info":
        return walk(path, target)
    record = path / "RECORD"
    about = list(walk(path, target, skip=lambda inside: inside in (*_HISTORY, "RECORD")))
    if not record.is_file():
        return about
    kept = _lasting(csv.reader(record.read_text(encoding="utf-8").splitlines()))
    return [*about, text_entry(f"{target}/RECORD", "".join(f"{row}\n" for row in kept))]


def _lasting(rows: Iterable[list[str]]) -> list[str]:
    """Return the rows of a RECORD that are the same wherever, and by whatever, it was installed."""
    kept = io.StringIO()
    writer = csv.writer(kept, lineterminator="\n")
    for row in sorted(row for row in rows if row):
        # The first line of a script names the folder that it is in.
        passing = "__pycache__/" in row[0] or row[0].startswith("../../../bin/")
        if not passing and row[0].rpartition("/")[2] not in _HISTORY:
            writer.writerow(row)
    return kept.getvalue().splitlines()


def _paths(path: Path, site: str) -> list[Entry]:
    """Return a .pth file without the folders of this machine that it names."""
    lines = path.read_text(encoding="utf-8").splitlines()
    kept = [line for line in lines if not Path(line.strip()).is_absolute()]
    return [text_entry(f"{site}/{path.name}", "\n".join(kept) + "\n")] if any(kept) else []


def _script(path: Path) -> Entry:
    content = path.read_bytes()
    head = _SHEBANG.match(content)
    if head is None:
        return Entry(f"bin/{path.name}", path, executable=True)
    data = _RELOCATABLE + content[head.end() :]
    return Entry(f"bin/{path.name}", data=data, executable=True)

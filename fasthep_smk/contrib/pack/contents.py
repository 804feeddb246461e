"""What goes into the archive of the environment that runs this, and the key of it."""

from __future__ import annotations

import contextlib
import platform
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from fasthep_smk.contrib.pack import installed
from fasthep_smk.contrib.pack.archive import Parts
from fasthep_smk.contrib.pack.entries import Entry
from fasthep_smk.contrib.pack.interpreter import Interpreter, node_text
from fasthep_smk.contrib.pack.libraries import libraries_of
from fasthep_smk.contrib.pack.snapshot import own_entries
from fasthep_smk.util import files

__all__ = ["FORMAT", "KEY_LENGTH", "VenvContents", "node_texts", "own_digests"]

#: Goes up when archives of the same content are laid out otherwise.
FORMAT = 1
KEY_LENGTH = 20
_DECOMPRESSOR = "cramjam"


@dataclass(frozen=True)
class VenvContents:
    """The environment that runs this, and the ``modules`` that jobs import.

    ``kind`` is the type of the environment, as in ``execution.environment``.
    """

    kind: str
    modules: tuple[str, ...]

    @cached_property
    def interpreter(self) -> Interpreter:
        """The interpreter below the virtual environment."""
        return Interpreter.current()

    @cached_property
    def packages(self) -> installed.Installed:
        """What is installed."""
        return installed.look()

    @cached_property
    def own(self) -> dict[str, list[Entry]]:
        """What is imported from elsewhere, by package."""
        return own_entries(self.modules, self.packages.editable, self.interpreter.site)

    @cached_property
    def key(self) -> str:
        """The name of the content; two archives of one key hold the same.

        Raises:
            Findings: the environment cannot be packed.
        """
        return files.digest_of(
            {
                "format": FORMAT,
                "ours": node_texts(),
                "type": self.kind,
                "machine": platform.machine(),
                "interpreter": self.interpreter.facts(),
                "installed": self.packages.facts,
                "loose": self.packages.loose(),
                "own": own_digests(self.own),
            }
        )[:KEY_LENGTH]

    @contextlib.contextmanager
    def parts(self) -> Iterator[Parts]:
        """Yield all files of the archive.

        Raises:
            Findings: the environment cannot be packed.
        """
        site = self.interpreter.site
        packages = self.packages.entries(site, without=self.own)
        packages += [entry for group in self.own.values() for entry in group]
        packages += self.packages.others(Path(sys.prefix))
        first = self.interpreter.entries()
        decompressor = [
            item for item in packages if item.target.startswith(f"{site}/{_DECOMPRESSOR}")
        ]
        up = "../" * (len(Path("lib/fasthep-smk").parts))
        link = Entry(f"lib/fasthep-smk/{_DECOMPRESSOR}", link=f"{up}{site}/{_DECOMPRESSOR}")
        ready = {item.target for item in decompressor}
        # Also those of packages are in the first part: the decompressor may need them.
        first += self._libraries_of(packages)
        yield Parts(
            self.kind,
            self.key,
            platform.machine(),
            (*first, *decompressor, link),
            tuple(item for item in packages if item.target not in ready),
        )

    def _libraries_of(self, entries: Iterable[Entry]) -> list[Entry]:
        """Return the libraries of this machine that extensions of packages load."""
        binaries = [
            item.source for item in entries if item.source is not None and ".so" in item.source.name
        ]
        roots = [folder.resolve() for folder in self.packages.folders]
        needed = libraries_of(self.interpreter.libc, binaries)
        return [
            Entry(f"lib/{name}", path)
            for name, path in needed.items()
            if name not in self.interpreter.libraries
            and not any(path.resolve().is_relative_to(root) for root in roots)
        ]


def node_texts() -> list[str]:
    """Return what of ours runs on nodes."""
    return [node_text(name) for name in ("header.sh", "python.sh", "start.py")]


def own_digests(own: dict[str, list[Entry]]) -> dict[str, str]:
    """Return what identifies sources that are not installed."""
    return {entry.target: entry.digest() for group in own.values() for entry in group}

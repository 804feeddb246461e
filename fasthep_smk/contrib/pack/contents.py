"""What goes into the archive of the environment that runs this, and the key of it."""

from __future__ import annotations

import abc
import platform
import sys
from collections.abc import Iterable
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

#: Goes up when archives of the same content are laid out otherwise.
_FORMAT = 2
_KEY_LENGTH = 20
#: What of ours runs on nodes.
_NODE_TEXTS = ("header.sh", "python.sh", "start.py")


@dataclass(frozen=True)
class Packable(abc.ABC):
    """The environment that runs this, and the ``modules`` that jobs import.

    ``kind`` is the type of the environment, as in ``execution.environment``.
    """

    kind: str
    modules: tuple[str, ...]

    @cached_property
    def interpreter(self) -> Interpreter:
        """The interpreter, below a virtual environment."""
        return Interpreter.current()

    @cached_property
    def packages(self) -> installed.Installed:
        """What is installed, by whatever means."""
        return installed.look()

    @cached_property
    def own(self) -> dict[str, list[Entry]]:
        """What is imported from elsewhere, by package."""
        return own_entries(self.modules, self.packages.editable, self.interpreter.site)

    @cached_property
    def key(self) -> str:
        """The name of the content, known without packing it; two archives of one key hold the same.

        Raises:
            Findings: the environment cannot be packed.
        """
        facts = self.facts()
        entries = [entry for group in self.own.values() for entry in group]
        common = {
            "format": _FORMAT,
            "ours": [node_text(name) for name in _NODE_TEXTS],
            "type": self.kind,
            "machine": platform.machine(),
            "installed": self.packages.facts,
            "own": {entry.target: entry.digest() for entry in entries},
        }
        return files.digest_of({**common, **facts})[:_KEY_LENGTH]

    @abc.abstractmethod
    def facts(self) -> dict[str, object]:
        """Return what else tells the content from another one.

        Raises:
            Findings: the environment cannot be packed.
        """

    @abc.abstractmethod
    def parts(self) -> Parts:
        """Return all files of the archive.

        Raises:
            Findings: the environment cannot be packed.
        """


class VenvContents(Packable):
    """A virtual environment: its packages, the interpreter below it, and the libraries of both."""

    def facts(self) -> dict[str, object]:
        return {"interpreter": self.interpreter.facts(), "loose": self.packages.loose()}

    def parts(self) -> Parts:
        packages = self.packages.entries(self.interpreter.site, without=self.own)
        packages += [entry for group in self.own.values() for entry in group]
        packages += self.packages.others(Path(sys.prefix))
        packages += self._libraries_of(packages)
        first = tuple(self.interpreter.entries())
        return Parts(self.kind, self.key, platform.machine(), first, tuple(packages))

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

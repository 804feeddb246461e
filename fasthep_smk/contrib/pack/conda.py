"""A conda or pixi environment, made relocatable by conda-pack."""

from __future__ import annotations

import contextlib
import glob
import io
import platform
import sys
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import ModuleType

from fasthep_smk.contrib.pack import installed
from fasthep_smk.contrib.pack.archive import Parts
from fasthep_smk.contrib.pack.contents import FORMAT, KEY_LENGTH, node_texts, own_digests
from fasthep_smk.contrib.pack.entries import Entry, walk
from fasthep_smk.contrib.pack.interpreter import Interpreter
from fasthep_smk.contrib.pack.snapshot import own_entries
from fasthep_smk.util import files
from fasthep_smk.util.errors import Findings
from fasthep_smk.util.scratch import scratch

__all__ = ["CondaContents", "is_conda"]


def is_conda(prefix: Path) -> bool:
    """Whether a folder is an environment of conda's or pixi's."""
    return (prefix / "conda-meta").is_dir()


@dataclass(frozen=True)
class CondaContents:
    """The conda environment at ``prefix``, and the ``modules`` that jobs import.

    Everything is in the first part of the archive: conda's own Python runs on any machine, but its
    files name the folder that they lie in, and ``conda-unpack`` sets that right.
    """

    kind: str
    modules: tuple[str, ...]
    prefix: Path

    @cached_property
    def packages(self) -> installed.Installed:
        """What is installed, by whatever means."""
        return installed.look()

    @cached_property
    def own(self) -> dict[str, list[Entry]]:
        """What is imported from elsewhere, by package."""
        return own_entries(self.modules, self.packages.editable, self._site)

    @cached_property
    def key(self) -> str:
        """The name of the content.

        Raises:
            Findings: the prefix is no environment of conda's, or cannot be packed.
        """
        if not is_conda(self.prefix):
            raise Findings.one(
                "this is not an environment of conda or pixi: there is no conda-meta in it",
                key=f"--environment {self.kind}",
                value=str(self.prefix),
                expected="fasthep-smk, installed in a conda or pixi environment",
                hint="for a virtual environment: --environment packed-venv",
            )
        meta = sorted((self.prefix / "conda-meta").glob("*.json"))
        return files.digest_of(
            {
                "format": FORMAT,
                "ours": node_texts(),
                "type": self.kind,
                "machine": platform.machine(),
                "packages": {path.name: files.sha256_file(path) for path in meta},
                "installed": self.packages.facts,
                "own": own_digests(self.own),
            }
        )[:KEY_LENGTH]

    @contextlib.contextmanager
    def parts(self) -> Iterator[Parts]:
        """Yield all files of the archive, which lie in a temporary folder.

        Raises:
            Findings: conda-pack is missing, or refuses the environment.
        """
        with scratch("conda-") as folder:
            copy = folder / "prefix"
            self._pack(copy)
            entries = [entry for item in sorted(copy.iterdir()) for entry in walk(item, item.name)]
            entries += [entry for group in self.own.values() for entry in group]
            after = (("bin/python", "bin/conda-unpack"),)
            yield Parts(self.kind, self.key, platform.machine(), tuple(entries), (), after)

    @cached_property
    def _site(self) -> str:
        return Interpreter.current().site

    def _pack(self, target: Path) -> None:
        conda_pack = _conda_pack()
        # Also out of conda-unpack's list of files: what is packed from elsewhere.
        left_out = [("exclude", "*/__pycache__/*")]
        left_out += [
            ("exclude", f"{self._site}/{glob.escape(name)}{rest}")
            for name in sorted({*self.own, *self.packages.dropped})
            for rest in ("", ".*", "/*")
        ]
        try:
            with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
                # That packages are not in conda's cache any more is no concern of the user's.
                warnings.simplefilter("ignore")
                conda_pack.pack(
                    prefix=str(self.prefix),
                    output=str(target),
                    format="no-archive",
                    ignore_editable_packages=True,
                    filters=left_out,
                )
        except conda_pack.CondaPackException as error:
            raise Findings.one(f"conda-pack refuses it: {error}", key=str(self.prefix)) from error


def _conda_pack() -> ModuleType:
    try:
        import conda_pack
    except ImportError:
        raise Findings.one(
            "conda-pack is not installed",
            key="the package conda-pack",
            hint=f"{sys.executable} -m pip install conda-pack",
        ) from None
    found: ModuleType = conda_pack
    return found

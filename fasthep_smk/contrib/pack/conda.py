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
from pathlib import Path

from fasthep_smk.contrib.pack.archive import Parts
from fasthep_smk.contrib.pack.contents import Packable
from fasthep_smk.contrib.pack.entries import walk
from fasthep_smk.util import files
from fasthep_smk.util.errors import Findings
from fasthep_smk.util.scratch import scratch

__all__ = ["CondaContents", "is_conda"]


def is_conda(prefix: Path) -> bool:
    """Whether a folder is an environment of conda's or pixi's."""
    return (prefix / "conda-meta").is_dir()


@dataclass(frozen=True)
class CondaContents(Packable):
    """The conda environment at ``prefix``.

    Everything is in the first part of the archive: conda's own Python runs on any machine, but its
    files name the folder that they lie in, and ``conda-unpack`` sets that right.
    """

    prefix: Path

    def facts(self) -> dict[str, object]:
        if not is_conda(self.prefix):
            raise Findings.one(
                "this is not an environment of conda or pixi: there is no conda-meta in it",
                key=f"--environment {self.kind}",
                value=str(self.prefix),
                expected="fasthep-smk, installed in a conda or pixi environment",
                hint="for a virtual environment: --environment packed-venv",
            )
        meta = sorted((self.prefix / "conda-meta").glob("*.json"))
        return {"packages": {path.name: files.sha256_file(path) for path in meta}}

    @contextlib.contextmanager
    def parts(self) -> Iterator[Parts]:
        with scratch("conda-") as folder:
            copy = folder / "prefix"
            self._pack(copy)
            entries = [entry for item in sorted(copy.iterdir()) for entry in walk(item, item.name)]
            entries += [entry for group in self.own.values() for entry in group]
            after = (("bin/python", "bin/conda-unpack"),)
            yield Parts(self.kind, self.key, platform.machine(), tuple(entries), (), after)

    def _pack(self, target: Path) -> None:
        try:
            import conda_pack
        except ImportError:
            raise Findings.one(
                "conda-pack is not installed",
                key="the package conda-pack",
                hint=f"{sys.executable} -m pip install conda-pack",
            ) from None
        # Also out of conda-unpack's list of files: what is packed from elsewhere.
        left_out = [("exclude", "*/__pycache__/*")]
        left_out += [
            ("exclude", f"{self.interpreter.site}/{glob.escape(name)}{rest}")
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

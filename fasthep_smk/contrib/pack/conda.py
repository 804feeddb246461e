"""A conda or pixi environment, made relocatable by conda-pack."""

from __future__ import annotations

import contextlib
import glob
import io
import json
import os
import platform
import re
import sys
import warnings
from dataclasses import dataclass
from pathlib import Path

from fasthep_smk.contrib.pack.archive import Parts
from fasthep_smk.contrib.pack.contents import Packable
from fasthep_smk.contrib.pack.entries import Entry, walk
from fasthep_smk.util.errors import Findings

#: What conda notes of its packages, the environment's variables, and what `conda activate` runs.
_OF_CONDA = ("conda-meta", "etc/conda")


def is_conda(prefix: Path) -> bool:
    """Whether a folder is an environment of conda's or pixi's."""
    return (prefix / "conda-meta").is_dir()


@dataclass(frozen=True)
class CondaContents(Packable):
    """The conda environment at ``prefix``.

    Its own Python runs on any machine, and unpacks the packages. Files name the folder that they
    lie in, which ``conda-unpack`` then sets right.
    """

    prefix: Path

    def facts(self) -> dict[str, object]:
        if not is_conda(self.prefix):
            raise Findings.one(
                "this is not a conda or pixi environment: it has no conda-meta folder",
                key=f"--environment {self.kind}",
                value=str(self.prefix),
                expected="fasthep-smk, installed in a conda or pixi environment",
                hint="use --environment packed-venv for a virtual environment",
            )
        entries = [entry for name in _OF_CONDA for entry in walk(self.prefix / name, name)]
        packages = {entry.target: entry.digest() for entry in entries}
        return {"packages": packages, "loose": self.packages.loose()}

    def parts(self) -> Parts:
        with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
            # Packages that are not in conda's cache any more are read from the environment.
            warnings.simplefilter("ignore")
            entries = self._pack()
        entries += [entry for group in self.own.values() for entry in group]
        site = f"{self.interpreter.site}/"
        first = tuple(entry for entry in entries if not entry.target.startswith(site))
        rest = tuple(entry for entry in entries if entry.target.startswith(site))
        return Parts(self.kind, self.key, platform.machine(), first, rest)

    def _pack(self) -> list[Entry]:
        try:
            from conda_pack import CondaEnv, CondaPackException
            from conda_pack.core import Packer
        except ImportError:
            raise Findings.one(
                "conda-pack is not installed",
                key="the package conda-pack",
                hint=f"{sys.executable} -m pip install conda-pack",
            ) from None
        try:
            environment = CondaEnv.from_prefix(str(self.prefix), ignore_editable_packages=True)
        except CondaPackException as error:
            problem = f"conda-pack refuses this environment: {error}"
            raise Findings.one(problem, key=str(self.prefix)) from error
        # Also out of conda-unpack's list of files: what is packed from elsewhere.
        environment = environment.exclude("*/__pycache__/*")
        for name in sorted({*self.own, *self.packages.dropped}):
            for rest in ("", ".*", "/*"):
                environment = environment.exclude(
                    f"{self.interpreter.site}/{glob.escape(name)}{rest}"
                )
        placeholders = _placeholders(self.prefix)
        taken = _Taken({file.target for file in environment})
        packer = Packer(environment.prefix, taken)
        for file in environment:
            placeholder = placeholders.get(file.target)
            if file.file_mode == "unknown" and file.is_conda and placeholder is not None:
                data = _widened(Path(file.source).read_bytes(), environment.prefix, placeholder)
                taken.add_bytes(file.source, data, file.target)
                packer.prefixes.append((file.target, placeholder, "binary"))
            else:
                packer.add(file)
        packer.finish()
        return taken.entries


class _Taken:
    """Takes what conda-pack would write into an archive.

    Its own archives would be a second copy of everything. A folder is no way out: it is filled with
    hard links, which no user can make to files of another one, and errors are not told.
    """

    def __init__(self, lasting: set[str]) -> None:
        self.entries: list[Entry] = []
        self._lasting = lasting  # all others are temporary files

    def add(self, source: str, target: str) -> None:
        """Take a file or a link; a link that leads out of the environment becomes a copy."""
        path = Path(source)
        link = path.readlink() if path.is_symlink() else None
        if link and not os.path.normpath(Path(target).parent / link).startswith(("/", "..")):
            self.entries.append(Entry(target, link=str(link)))
        elif target in self._lasting:
            self.entries += walk(path, target)
        else:
            self.add_bytes(source, path.read_bytes(), target)

    def add_bytes(self, source: str, data: bytes, target: str) -> None:
        """Take a file whose content may be another one now."""
        if target in self._lasting and Path(source).read_bytes() == data:
            self.entries += walk(Path(source), target)
        else:
            self.entries.append(Entry(target, data=data, executable=os.access(source, os.X_OK)))


def _placeholders(prefix: Path) -> dict[str, str]:
    """Return what stood for the folder of the environment in binaries, by their paths."""
    placeholders = {}
    for path in (prefix / "conda-meta").glob("*.json"):
        about = json.loads(path.read_text(encoding="utf-8"))
        for item in about.get("paths_data", {}).get("paths", ()):
            if item.get("file_mode") == "binary":
                placeholders[item["_path"]] = item["prefix_placeholder"]
    return placeholders


def _widened(data: bytes, prefix: str, placeholder: str) -> bytes:
    """Return an installed binary as it was in its package, with room for any other prefix.

    The installer has put the prefix in the place of the longer placeholder, and zeros behind the
    text for what was left.
    """
    long = os.fsencode(placeholder)
    short = re.escape(os.fsencode(prefix)) + rb"(?=[/:\0])"  # not the beginning of another name

    def widen(match: re.Match[bytes]) -> bytes:
        text, size = re.sub(short, lambda _: long, match[0]), len(match[0])
        return text[:size] if not text[size - 1 :].strip(b"\0") else match[0]

    return re.sub(short + rb"[^\0]*\0+", widen, data)

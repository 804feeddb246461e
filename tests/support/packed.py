"""Small archives, of which Python is the one that runs the tests: only how they unpack is real."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

from fasthep_smk.contrib.pack.archive import Parts, write_archive
from fasthep_smk.contrib.pack.entries import Entry, text_entry
from fasthep_smk.util.names import shell

__all__ = ["Node", "small_archive", "small_parts"]


def small_archive(folder: Path, key: str = "0123456789abcdef0123", size: int = 0) -> Path:
    """Write an archive that unpacks ``size`` bytes (of noise) besides a few small files."""
    path = folder / f"packed-venv-{key}.run"
    write_archive(small_parts(key, size), path)
    return path


def small_parts(key: str, size: int = 0) -> Parts:
    """Return what :func:`small_archive` packs."""
    starter = f'#!/bin/sh\nexec {shell([sys.executable])} "$@"\n'
    first = (text_entry("bin/python", starter, executable=True),)
    rest = (
        text_entry("share/hello", "hello"),
        *(Entry(f"share/noise{n}", data=os.urandom(1_000_000)) for n in range(size // 1_000_000)),
    )
    return Parts("packed-venv", key, platform.machine(), first, rest)


@dataclass
class Node:
    """A machine with a cache of its own, on which archives are started with no environment."""

    folder: Path
    path: str = "/usr/local/bin:/usr/bin:/bin"
    options: list[str] = field(default_factory=list)

    @property
    def cache(self) -> Path:
        return self.folder / "cache"

    def command(self, archive: Path, *arguments: str) -> list[str]:
        return ["sh", str(archive), "--cache", str(self.cache), *self.options, "--", *arguments]

    @property
    def variables(self) -> dict[str, str]:
        return {"PATH": self.path, "HOME": "/nonexistent"}

    def run(self, archive: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Start Python of the archive; by default it says hello from what was unpacked."""
        root = self.cache / archive.stem.removeprefix("packed-venv-")
        hello = f"print(open({str(root / 'share/hello')!r}).read())"
        return subprocess.run(
            self.command(archive, *(arguments or ("-c", hello))),
            env=self.variables,
            capture_output=True,
            text=True,
            timeout=60,
        )

    def start(self, archive: Path, *arguments: str) -> subprocess.Popen[str]:
        """Start Python of the archive and go on."""
        return subprocess.Popen(
            self.command(archive, *arguments),
            env=self.variables,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def log(self) -> list[str]:
        """What the log says of each start: extracted or found."""
        lines = (self.cache / "log").read_text().splitlines()
        return [word for line in lines if (word := line.split()[3]) in ("extracted", "found")]

    def without(self, *commands: str) -> Node:
        """Return the same node on which there are no such commands."""
        tools = self.folder / "tools"
        tools.mkdir(exist_ok=True)
        for folder in ("/usr/bin", "/bin"):
            for path in Path(folder).iterdir():
                link = tools / path.name
                if path.name not in commands and not link.is_symlink():
                    link.symlink_to(path)
        return Node(self.folder, str(tools), self.options)

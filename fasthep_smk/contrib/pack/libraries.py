"""Which shared libraries an interpreter and its extensions take from this machine."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from fasthep_smk.util.errors import Findings

_LINE = re.compile(r"^\s*(\S+) => (/.+) \(0x[0-9a-f]+\)$", re.MULTILINE)
_LOADER = re.compile(r"^\s*(/\S*/ld-\S+) \(0x[0-9a-f]+\)$", re.MULTILINE)
#: The parts of the C library: they fit each other and their loader, and nothing else.
_OF_LIBC = re.compile(
    r"^(ld-linux.*|lib(c|m|dl|pthread|rt|util|resolv|anl|mvec|nss_\w+|BrokenLocale|thread_db))\.so"
)
#: Drivers fit the kernel module of their machine.
_OF_DRIVERS = re.compile(r"^lib(cuda|nvidia|nvcuvid|OpenCL|GLX?_nvidia)")
#: The first C library whose loader can say under which name a program was started.
_FIRST = 33


@dataclass(frozen=True)
class CLibrary:
    """The C library of this machine: its loader, and 36 for version 2.36."""

    loader: Path
    minor: int

    def parts(self) -> dict[str, Path]:
        """Return its files by name."""
        folder = _loaded(self, Path("/bin/sh"))["libc.so.6"].parent
        parts = {self.loader.name: self.loader}
        for path in sorted(folder.iterdir()):
            if _OF_LIBC.match(path.name) and re.search(r"\.so\.\d+$", path.name):
                parts[path.name] = path
        return parts


def c_library(program: Path) -> CLibrary:
    """Return the C library that a program runs with.

    Raises:
        Findings: it is none that can be packed.
    """
    loader = _LOADER.search(_traced([str(program), "-V"]))
    try:
        version = os.confstr("CS_GNU_LIBC_VERSION") or ""
    except (ValueError, OSError):
        version = ""
    minor = re.fullmatch(r"glibc 2\.(\d+)", version)
    if loader is None or minor is None or int(minor[1]) < _FIRST:
        raise Findings.one(
            "the interpreter cannot be packed here: its C library is too old, or is not glibc",
            value=version or "not glibc",
            expected=f"a dynamic executable, and glibc 2.{_FIRST} or newer",
            hint="pack on a newer machine; the archive itself runs on older machines, too",
        )
    return CLibrary(Path(loader[1]), int(minor[1]))


def libraries_of(libc: CLibrary, binaries: Iterable[Path]) -> dict[str, Path]:
    """Return the libraries that programs or libraries load at their start, by name.

    Those of the C library and of drivers are left out.
    """
    by_name: dict[str, Path] = {}
    with ThreadPoolExecutor(max_workers=4) as pool:
        for libraries in pool.map(partial(_loaded, libc), binaries):
            by_name = {**libraries, **by_name}
    return {name: path for name, path in sorted(by_name.items()) if not is_of_libc(name)}


def _loaded(libc: CLibrary, binary: Path) -> dict[str, Path]:
    text = _traced([str(libc.loader), str(binary)])
    return {name: Path(path) for name, path in _LINE.findall(text)}


def is_of_libc(name: str) -> bool:
    """Whether a library of this name is a part of the C library, or of a driver."""
    return bool(_OF_LIBC.match(name) or _OF_DRIVERS.match(name))


def _traced(command: list[str]) -> str:
    """Return what the loader would load for a program, which is not run (as ``ldd`` does)."""
    environment = {**os.environ, "LD_TRACE_LOADED_OBJECTS": "1"}
    done = subprocess.run(
        command, capture_output=True, text=True, env=environment, stdin=subprocess.DEVNULL
    )
    return done.stdout

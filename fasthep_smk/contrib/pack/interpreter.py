"""The interpreter and its standard library, with the shared libraries of this machine."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
import sysconfig
from dataclasses import dataclass
from functools import cached_property
from importlib import resources
from pathlib import Path

from fasthep_smk.contrib.pack.entries import Entry, text_entry, walk
from fasthep_smk.contrib.pack.libraries import CLibrary, c_library, libraries_of

#: Of the standard library: its own tests, and what needs a screen or the package index.
_LEFT_OUT = re.compile(
    r"(site-packages|dist-packages|idlelib|tkinter|turtledemo|ensurepip|config-[^/]*)$"
    r"|(.*/)?tests?$|lib-dynload/(_tkinter|_test|_xx|xx)[^/]*$"
)
_BUILD_DATA = "_sysconfigdata"
#: What stands for the folder in which the interpreter was installed.
_NOWHERE = "/packed"


@dataclass(frozen=True)
class Interpreter:
    """The interpreter that a virtual environment stands on."""

    executable: Path
    prefix: Path

    @classmethod
    def current(cls) -> Interpreter:
        """Return the one that runs this."""
        executable = getattr(sys, "_base_executable", None) or sys.executable
        return cls(Path(executable).resolve(), Path(sys.base_prefix))

    @cached_property
    def libc(self) -> CLibrary:
        """The C library that it runs with."""
        return c_library(self.executable)

    @cached_property
    def site(self) -> str:
        """The folder, relative to a prefix, from which it imports what is installed."""
        question = "import site; print(site.getsitepackages(['/p'])[0])"
        command = [str(self.executable), "-I", "-S", "-c", question]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        return done.stdout.strip().removeprefix("/p/")

    @cached_property
    def libraries(self) -> dict[str, Path]:
        """The libraries that it and its extensions load, by name."""
        extensions = [
            entry.source
            for entry in self._standard_library()
            if entry.source is not None and ".so" in entry.source.name
        ]
        return libraries_of(self.libc, [self.executable, *extensions])

    def entries(self) -> list[Entry]:
        """Return its files: itself, its library, the shared libraries and the C library."""
        entries = [Entry("libexec/python", self.executable, executable=True)]
        entries += self._standard_library()
        entries += [Entry(f"lib/{name}", path) for name, path in self.libraries.items()]
        for name, path in self.libc.parts().items():
            entries.append(Entry(f"libc/{name}", path, executable=name == self.libc.loader.name))
        starter = (
            node_text("python.sh")
            .replace("@LOADER@", shlex.quote(str(self.libc.loader)))
            .replace("@NAME@", self.libc.loader.name)
            .replace("@MINOR@", str(self.libc.minor))
        )
        entries.append(text_entry("bin/python", starter, executable=True))
        version = f"python{sys.version_info.major}.{sys.version_info.minor}"
        return [*entries, *(Entry(f"bin/{name}", link="python") for name in ("python3", version))]

    def facts(self) -> dict[str, object]:
        """Return what tells this interpreter from another one."""
        parts = {**self.libraries, "python": self.executable, "libc": self.libc.loader}
        return {
            "version": sys.version,
            "libc": self.libc.minor,
            "files": {name: Entry(name, path).digest() for name, path in sorted(parts.items())},
        }

    def _standard_library(self) -> list[Entry]:
        names = ("base", "platbase", "installed_base", "installed_platbase")
        here = dict.fromkeys(names, str(self.prefix))
        by_target: dict[str, Entry] = {}
        for kind in ("stdlib", "platstdlib"):
            folder = Path(sysconfig.get_path(kind, vars=here))
            target = folder.relative_to(self.prefix).as_posix()
            for entry in walk(folder, target, skip=lambda name: bool(_LEFT_OUT.match(name))):
                by_target.setdefault(entry.target, self._without_prefix(entry))
        return list(by_target.values())

    def _without_prefix(self, entry: Entry) -> Entry:
        """Take the place where the interpreter was installed out of what it knows of its build."""
        if entry.source is None or not entry.source.name.startswith(_BUILD_DATA):
            return entry
        text = entry.source.read_text(encoding="utf-8")
        return text_entry(entry.target, text.replace(str(self.prefix), _NOWHERE))


def node_text(name: str) -> str:
    """Return a text that runs on nodes."""
    folder = resources.files("fasthep_smk.contrib.pack.node")
    return folder.joinpath(name).read_text(encoding="utf-8")

"""Which modules of the package the processes of a first local run load."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

__all__ = ["loaded_by_a_first_run"]

PACKAGE = Path(__file__).parents[2] / "fasthep_smk"
#: Runs first in each process: it writes down which modules are looked for, and who was forked.
_RECORDER = """
import os, sys

def note(*words):
    handle = os.open(os.environ["LOADED"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(handle, (" ".join(map(str, words)) + "\\n").encode())
    os.close(handle)

class Finder:
    def find_spec(name, path=None, target=None):
        if name.partition(".")[0] == "fasthep_smk":
            note(os.getpid(), "loads", name)

words = sys.orig_argv
name = words[words.index("-m") + 1] if "-m" in words else os.path.basename(words[-1])
note(os.getpid(), "is", name)
os.register_at_fork(after_in_child=lambda: note(os.getpid(), "forked", os.getppid()))
sys.meta_path.insert(0, Finder)
"""


def loaded_by_a_first_run() -> Mapping[str, set[Path]]:
    """Run the analysis that ``init`` writes; return the modules that its processes have loaded.

    The first is ``driver``, the others are named by the module that each runs; what was forked from
    one is told apart.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "sitecustomize.py").write_text(_RECORDER)
        command = [sys.executable, "-m", "fasthep_smk"]
        subprocess.run([*command, "init", folder / "first"], check=True, capture_output=True)
        path = os.pathsep.join(filter(None, [name, os.environ.get("PYTHONPATH")]))
        done = subprocess.run(
            [*command, "workflow.yaml", "-j", "2"],
            cwd=folder / "first",
            env={**os.environ, "PYTHONPATH": path, "LOADED": str(folder / "loaded")},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        return _read((folder / "loaded").read_text())


def _read(text: str) -> Mapping[str, set[Path]]:
    names: dict[str, str] = {}
    modules: dict[str, set[Path]] = defaultdict(set)
    for process, verb, word in (line.split(" ", 2) for line in text.splitlines()):
        if verb == "is":
            names[process] = word
        elif verb == "forked":
            names[process] = f"{names[word].removesuffix(', forked')}, forked"
            modules[process] |= modules[word]
        elif (found := _file_of(word)) is not None:
            modules[process].add(found)
    loaded: dict[str, set[Path]] = {}
    for number, (process, name) in enumerate(names.items()):
        title = "driver" if number == 0 else name
        loaded[title] = loaded.get(title, set()) | modules[process]
    return loaded


def _file_of(module: str) -> Path | None:
    """Return the file of a module; none if there is no such module."""
    place = PACKAGE.parent.joinpath(*module.split("."))
    choices = (place.with_suffix(".py"), place / "__init__.py")
    return next((one for one in choices if one.is_file()), None)

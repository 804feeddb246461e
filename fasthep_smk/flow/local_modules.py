"""Where a workflow's own modules lie: in the folder that a run is started in, and beside it.

What others may write there is not run in the user's name, and nothing there stands in for a
package: these folders are searched last, and only for what the plan names and for what such modules
import. What PYTHONPATH names is the user's own choice.

Who imports is seen by the frames of the caller: an import hook is told only a name. What else was
tried, and what it comes to, is in ``docs/how-it-works.md`` ("What is changed in other programs").
"""

from __future__ import annotations

import dis
import importlib.machinery
import importlib.util
import os
import stat
import sys
import threading
import warnings
from collections.abc import Iterable
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import FrameType, ModuleType

from fasthep_smk.flow import op_identity
from fasthep_smk.flow.distributions import is_installed_file
from fasthep_smk.util.errors import Finding, Findings
from fasthep_smk.util.names import shell
from fasthep_smk.util.ownership import problem_of

#: Folders of this process's workflow that are not searched, and why.
_left_out: dict[Path, str] = {}
#: Folders in which installed libraries find nothing of their own accord.
_own: set[str] = set()
#: Installed packages that the workflow names: they are the user's own.
_named: set[str] = set()
_IMPORT = dis.opmap["IMPORT_NAME"]
_IMPORTLIB = ("<frozen importlib", f"{os.path.dirname(importlib.__file__)}/")  # noqa: PTH120


def folders(root: Path, workflow: Path) -> tuple[list[str], dict[Path, str]]:
    """Return the folders that are searched for modules, and why others are not.

    ``root`` is the folder that the run is started in. The author of the workflow is trusted,
    and so are the modules of theirs that it names.
    """
    both = dict.fromkeys((root, workflow.resolve().parent))
    problems = {folder: problem_of(folder, workflow) for folder in both}
    left_out = {folder: problem for folder, problem in problems.items() if problem}
    return [str(folder) for folder in both if folder not in left_out], left_out


def find_local_modules(root: Path, workflow: Path, named: Iterable[str] = ()) -> list[str]:
    """Let a workflow's own modules be imported, and let those that it has ``named`` import others.

    Returns warnings.

    Raises:
        Findings: one has the name of a package of FAST-HEP's, which would be imported unasked.
    """
    places, left_out = folders(root, workflow)
    _left_out.clear()
    _left_out.update(left_out)
    _refuse_stand_ins([Path(folder) for folder in places if folder not in sys.path])
    search(places, (name.partition(".")[0] for name in named))
    return [
        f"modules in {folder} are not imported, since {problem}: {_fix(folder)}"
        for folder, problem in left_out.items()
    ]


def search(places: Iterable[str], named: Iterable[str] = ()) -> None:
    """Let own code import from these folders, and FAST-HEP what a plan names, in this process.

    Packages that the workflow has ``named`` are own code, wherever they are installed.
    """
    _named.update(named)
    added = [place for place in places if place not in sys.path]
    if added and _finder not in sys.path_hooks:
        sys.path_hooks.insert(0, _finder)
    for place in added:
        sys.path_importer_cache.pop(place, None)
    _own.update(added)
    sys.path.extend(added)


class Finder(importlib.machinery.FileFinder):
    """Finds the modules of one folder, those of the user's own for own code only."""

    def find_spec(self, fullname: str, target: ModuleType | None = None) -> ModuleSpec | None:
        """Return what is imported under a name, ``None`` if nothing is."""
        spec = super().find_spec(fullname, target)
        if spec is None or self.path not in _own:
            return spec
        importer = _uninvited(fullname, sys._getframe(1))
        if importer is None:
            return spec
        file = spec.origin or f"{self.path}/{fullname}"
        message = f"{importer} imports the module {fullname!r}, but {file} is not imported"
        fix = f"If this is the right file, add its folder to PYTHONPATH: {shell([self.path])}"
        warnings.warn(f"{message}, because no workflow names this module. {fix}", stacklevel=2)
        return None


def loaders(source: type) -> tuple[tuple[type, list[str]], ...]:
    """Return how a finder loads files: Python ``source`` by this loader, others as usual."""
    machinery = importlib.machinery
    return (
        (machinery.ExtensionFileLoader, machinery.EXTENSION_SUFFIXES),
        (source, machinery.SOURCE_SUFFIXES),
        (machinery.SourcelessFileLoader, machinery.BYTECODE_SUFFIXES),
    )


def _finder(place: str) -> Finder:
    if place not in _own or not Path(place).is_dir():
        raise ImportError
    return Finder(place, *loaders(importlib.machinery.SourceFileLoader))


def _uninvited(name: str, frame: FrameType | None) -> str | None:
    """Return the library that imports ``name`` of its own accord; ``None`` if it was told to.

    It imports of its own accord what an import statement of it names, or a text in its code. What
    it was told by a pickle, a plan, or an argument of own code is for own code.
    """
    while frame is not None and frame.f_code.co_filename.startswith("<frozen importlib._boot"):
        frame = frame.f_back
    is_statement = frame is not None and frame.f_code.co_code[frame.f_lasti] == _IMPORT
    while frame is not None and frame.f_code.co_filename.startswith(_IMPORTLIB):
        frame = frame.f_back
    while frame is not None and _is_made(frame):
        frame = frame.f_back
    if frame is None or _is_own(frame):
        return None
    library = _module(frame)
    if is_statement or _stands_in(frame, name):
        return library
    if _is_published(library):
        return None  # by a name from the plan
    while frame is not None:
        if _is_own(frame):
            return None
        if frame.f_code.co_filename.startswith("<frozen importlib._boot"):
            return library  # while it is imported itself
        frame = frame.f_back
    # A thread that takes in what other processes say has no caller that has told it to.
    return library if threading.current_thread() is threading.main_thread() else None


def _is_own(frame: FrameType) -> bool:
    module = _module(frame)
    if module.partition(".")[0] in _named:
        return True
    installed = _is_published(module) or is_installed_file(frame.f_code.co_filename)
    return not (installed or _is_made(frame))


def _module(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__"))


def _is_published(module: str) -> bool:
    """Whether a module is FAST-HEP's or of this package, also where these are not installed."""
    return op_identity.is_published(module) or module.partition(".")[0] == "fasthep_smk"


def _is_made(frame: FrameType) -> bool:
    """Whether code was made from a text by its caller."""
    return frame.f_code.co_filename.startswith("<") and not is_installed_file(
        frame.f_code.co_filename
    )


def _stands_in(frame: FrameType, name: str) -> bool:
    """Whether the code of a function, or a constant of its module, is the name of a module."""
    constants = (value for key, value in frame.f_globals.items() if not key.startswith("__"))
    texts: list[object] = [*frame.f_code.co_consts, *constants]
    texts += [part for text in texts if isinstance(text, tuple) for part in text]
    return any(isinstance(text, str) and text.partition(".")[0] == name for text in texts)


def why_not_found(module: str) -> str:
    """Return what to do about a module that is not found, or is there and not imported."""
    for folder, problem in _left_out.items():
        if file := _file(folder, module.partition(".")[0]):
            return f"{file} is not read, since {problem}: {_fix(folder)}"
    return "install the package, or put the module beside the workflow or on PYTHONPATH"


def _fix(folder: Path) -> str:
    own = folder.stat().st_uid == os.geteuid() and not folder.stat().st_mode & stat.S_ISVTX
    return shell(["chmod", "go-w", folder]) if own else "use a folder of your own"


def _file(folder: Path, name: str) -> Path | None:
    """Return what would be imported under a name, a folder without Python files too."""
    for place in (folder / name, *sorted(folder.glob(f"{name}.*"))):
        if place.is_dir() or place.suffix in (".py", ".pyc", ".so"):
            return place
    return None


def _refuse_stand_ins(searched: list[Path]) -> None:
    """Refuse modules with the names of FAST-HEP's packages: it imports those that it can find."""
    findings = [
        Finding(
            file=str(file),
            problem=f"has the name of FAST-HEP's package {name}, which is not installed",
            expected="another name, because FAST-HEP would import this module instead of its own "
            "package",
            hint="rename it, or install FAST-HEP's package; if this is FAST-HEP's package, put its "
            "folder on PYTHONPATH",
        )
        for folder in searched
        for name in op_identity.PUBLISHED
        if (file := _file(folder, name)) and importlib.util.find_spec(name) is None
    ]
    if findings:
        raise Findings(findings)

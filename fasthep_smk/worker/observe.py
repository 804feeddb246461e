"""Note what a user's own code reads while a job runs: files, modules, packages, variables.

An audit hook (https://docs.python.org/3/library/audit_events.html) sees each file that is opened
and each folder that is listed. One counts if the user's own code asked for it: it opened the file
itself, or called a library with its name. What a library looks up for itself (fonts, locale, its
configuration) does not count. Limits: files that compiled code opens under a name that stands
neither in own code nor in the workflow, and what processes read that are not forked from the job.

Who asked is seen by the frames of the caller: an audit hook is told only a path. What else was
tried, and what it comes to, is in ``docs/how-it-works.md`` ("What is changed in other programs").
"""

from __future__ import annotations

import contextlib
import importlib.machinery
import importlib.util
import json
import os
import re
import stat
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from types import CodeType, FrameType, ModuleType
from typing import Any

from fasthep_smk.flow import patches
from fasthep_smk.flow.distributions import NOT_INSTALLED, is_installed_file, package_identity
from fasthep_smk.flow.local_modules import Finder, loaders
from fasthep_smk.flow.named_files import NamedFiles, file_identity
from fasthep_smk.flow.op_identity import is_published, module_file
from fasthep_smk.flow.own_modules import imported
from fasthep_smk.storage.observed import Observation, Surroundings, machine, of_session
from fasthep_smk.util.files import sha256_bytes
from fasthep_smk.worker.call_names import is_called_with

__all__ = ["Observer", "observing"]

#: Below these folders lies nothing that a result may depend on.
_OF_SYSTEM = ("/proc/", "/sys/", "/dev/")
#: Credentials are renewed while a run goes on, and no result follows from them.
_OF_CREDENTIALS = ("X509_USER_PROXY", "X509_USER_CERT", "X509_USER_KEY", "BEARER_TOKEN_FILE",
                   "KRB5CCNAME")  # fmt: skip
_CREDENTIAL = re.compile(r"/(x509up_u\w+|bt_u\w+|krb5cc\w*|\.globus/[^/]+)$")
#: An import statement, whatever it opens: the loader notes modules of the user's.
_IMPORTS = ("_find_and_load", "_handle_fromlist")
#: What a program is started with by own code: these frames stand between.
_STARTERS = ("/subprocess.py", "<frozen os>", "/os.py")
_INTERPRETERS = (None, "/bin/sh", sys.executable)  # others on another machine
_BETWEEN_WORDS = re.compile(r"[\s=;|&<>()'\"]+")
_OF_THREADS = re.compile(r"/(threading\.py|concurrent/futures/|multiprocessing/|asyncio/)")
#: The methods that read all variables one after the other, to copy them.
_COPIES = ("ItemsView.__iter__", "ValuesView.__iter__", "_Environ.copy")
#: Size and modification time of a file, the identity of a folder.
_Seen = tuple[int, int] | str | None

_active: Observer | None = None
_hooked = False


@contextlib.contextmanager
def observing(observer: Observer) -> Iterator[None]:
    """Let ``observer`` see what this process reads, until the block ends."""
    global _active, _hooked
    if not _hooked:  # an audit hook cannot be taken away again
        sys.addaudithook(_hook)
        for variables in (os.environ, os.environb):
            patches.ENVIRONMENT.make(variables, __class__=_Environment)
        sys.path_hooks.insert(0, _finder)
        for place in [p for p in sys.path_importer_cache if not is_installed_file(f"{p}/")]:
            del sys.path_importer_cache[place]
        _hooked = True
    _active = observer
    try:
        yield
    finally:
        _active = None


class Observer:
    """Collects the observations of one job.

    ``operation`` tells which operation runs, ``own`` are top-level packages of the user's, and
    ``named`` texts that may be names of files, with the sources in which they stand. Files of the
    ``build`` folder and those in ``known`` are not noted.
    """

    def __init__(
        self,
        build: Path,
        surroundings: Surroundings,
        *,
        files: NamedFiles,
        operation: Callable[[], str],
        own: Iterable[str] = (),
        named: Iterable[tuple[str, str]] = (),
        known: Iterable[str] = (),
    ) -> None:
        self._surroundings = surroundings
        self._files = files
        self._operation = operation
        self._own = frozenset(own)
        said = (os.environ.get(name, "") for name in _OF_CREDENTIALS)
        self._credentials = {_place(path.removeprefix("FILE:")) for path in said if path}
        self._own_places = tuple(
            f"{file.parent}/" for name in own if (file := module_file(name)) is not None
        )
        self._own_code: dict[CodeType, bool] = {}
        self._ours = tuple(f"{place}/" for place in {str(build), os.path.realpath(build)})
        self._known = {os.path.abspath(path) for path in known}  # noqa: PTH100
        self._process = os.getpid()
        self._began = time.time_ns()
        # Processes that the job forks tell here what they read.
        self._told = os.memfd_create("observed")
        #: By path: the operation that asked for it, and what the file was then.
        self.read: dict[str, tuple[str, _Seen]] = {}
        #: By path: the operation and the module of the user's that have written it.
        self.written: dict[str, list[str]] = {}
        #: Handed to a program or database, which may write them, and what they were then: a change
        #: is no edit.
        self._handed_on: dict[str, tuple[_Seen, list[str]]] = {}
        self.variables: dict[str, str] = {}
        #: By name: path, digest of the source that was run, and operation.
        self.modules: dict[str, tuple[str, str, str]] = {}
        #: By real path: digests of the sources that were run, complete when the job has ended.
        self.sources: dict[str, str] = {}
        self._iterated = (0, -1)
        self._imported_before = frozenset(sys.modules)
        self._named = {
            (path, source): _seen(path)
            for text, source in named
            for path in self._candidates(text, source)
            if not files.is_ignored(path)
        }

    # --- while the job runs ---------------------------------------------------------------------

    def opened(self, path: object, flags: object, frame: FrameType) -> None:
        """Note a file that is opened, by the code in ``frame``."""
        flags = flags if isinstance(flags, int) else os.O_RDONLY
        access = flags & os.O_ACCMODE
        if access == os.O_RDWR and not flags & (os.O_CREAT | os.O_TRUNC):
            self.lent(path, frame)  # as numpy.memmap does, also if it is only read
        elif access != os.O_RDONLY:
            self.wrote(path, frame)
        elif (place := _place(path)) not in self.read and place not in self._known:
            self.asked(path, frame)

    def wrote(self, path: object, frame: FrameType | None) -> None:
        """Note a file that is written: what a job has made itself is no input of it."""
        if (place := _place(path)) is not None and place not in self.written:
            self.written[place] = self._by(frame)
            self._tell("written", [place, self.written[place]])

    def asked(self, path: object, frame: FrameType | None) -> None:
        """Note a folder that is listed, a library that is loaded, or the like."""
        place = _place(path)
        if place is None or place in self.read or self._is_passed_over(place):
            return
        if self._is_asked_for(place, frame):
            self._note(place)

    def started(self, arguments: Any, folder: Any, frame: FrameType | None) -> None:
        """Note files that another program is started with, in a ``folder``."""
        words = [arguments] if isinstance(arguments, str | bytes | os.PathLike) else arguments or ()
        while frame is not None and frame.f_code.co_filename.endswith(_STARTERS):
            frame = frame.f_back
        for word in map(os.fsdecode, words):
            for part in dict.fromkeys([word, *_BETWEEN_WORDS.split(word)]):
                place = _place(os.path.join(os.fsdecode(folder or ""), part)) if part else None  # noqa: PTH118
                if place in _INTERPRETERS or place is None:
                    continue
                if os.path.isfile(place):  # noqa: PTH113
                    self.lent(place, frame)
                elif not os.path.lexists(place):
                    self._hand_on(place, None, frame)  # the program may make it

    def lent(self, path: object, frame: FrameType | None) -> None:
        """Note a file that is read, and may be written: a database, an argument of a program."""
        if (place := _place(path)) is not None:
            self._hand_on(place, _seen(place), frame)
            self.asked(path, frame)

    def _hand_on(self, place: str, seen: _Seen, frame: FrameType | None) -> None:
        if place not in self._handed_on:
            self._handed_on[place] = seen, self._by(frame)
            self._tell("lent", [place, *self._handed_on[place]])

    def _by(self, frame: FrameType | None) -> list[str]:
        """Return the operation that runs, and the user's module that the call comes from."""
        return [self._operation(), self._module(frame)]

    def variable(self, name: object, frame: FrameType) -> None:
        """Note an environment variable."""
        name = os.fsdecode(name) if isinstance(name, bytes) else name
        if not isinstance(name, str) or name in self.variables or of_session(name):
            return
        if (id(frame), frame.f_lasti) == self._iterated or frame.f_code.co_qualname in _COPIES:
            return
        if self._is_asked_for(name, frame):
            self.variables[name] = self._operation()
            self._tell("variable", [name, self.variables[name]])

    def iterates(self, frame: FrameType | None) -> None:
        """Note that all variables are about to be read, to be copied."""
        while frame is not None and not self._is_own(frame):
            frame = frame.f_back
        self._iterated = (id(frame), frame.f_lasti if frame is not None else -1)

    def imported(self, name: str, path: str, source: bytes) -> None:
        """Note a module of the user's, with the text that is run."""
        if not path.startswith(_OURS):
            known = (path, sha256_bytes(source)[:16], self._module(sys._getframe(2)))
            self.modules.setdefault(name, known)
            self._tell("module", [name, *known])

    def _module(self, frame: FrameType | None) -> str:
        """Return the name of the user's module that a call comes from."""
        while frame is not None and not self._is_own(frame):
            frame = frame.f_back
        return str(frame.f_globals.get("__name__")) if frame is not None else "the workflow"

    # --- when it has ended ----------------------------------------------------------------------

    def observations(self) -> tuple[list[Observation], list[str]]:
        """Return what the job was observed to read, and the files that have changed meanwhile."""
        self._hear()
        found: list[Observation] = []
        changed: list[str] = []
        for path, by, before, now in self._inputs():
            if now == before:
                found.append(self._of_file(path, by))
            elif path not in self._handed_on and (now or not self._is_recent(before)):
                changed.append(path)
        run = {path: name for name, (path, _, _) in self.modules.items()}
        for (path, source), before in self._named.items():
            others = self.read.keys() | self.written.keys()
            if source in run and path not in others and _seen(path) == before:
                by = run[source]
                found.append(self._of_file(path, by))
        for name, by in self.variables.items():
            # What counts is the environment that the run was started with.
            one = Observation("variable", name, by, None)
            found.append(Observation("variable", name, by, self._surroundings.identity(one)))
        modules, packages = self._all_modules()
        for name, (path, digest, by) in modules.items():
            self.sources[os.path.realpath(path)] = digest
            place = self._surroundings.name_of(path)
            found.append(Observation("module", name, by, digest, place))
        for name in packages:
            version = package_identity(name)
            known = None if version == NOT_INSTALLED else version
            found.append(Observation("package", name, "an own module", known, sys.prefix))
        return found, changed

    def made(self) -> list[Observation]:
        """Return the files that the job, or a program that it started, has written and left."""
        self._hear()
        handed_on = self._handed_on.items()
        changed = {path: by for path, (seen, by) in handed_on if _seen(path) != seen}
        return [
            Observation("written", self._name_of(path), one, file_identity(path))
            for path, by in sorted({**changed, **self.written}.items())
            if os.path.isfile(path) and not self._is_passed_over(path)  # noqa: PTH113
            for one in dict.fromkeys(by)
        ]

    def close(self) -> None:
        """Forget what forked processes have told; an open file would end the job's process."""
        os.close(self._told)

    def edited(self) -> list[str]:
        """Return the files that were written since the job began.

        A job that fails may have read half of one.
        """
        self._hear()
        return [
            path
            for path, _, before, now in self._inputs()
            if path not in self._handed_on and (now != before or self._is_recent(now))
        ]

    def _inputs(self) -> Iterator[tuple[str, str, _Seen, _Seen]]:
        """Yield what was read and not written: path, operation, what it was then and is now."""
        for path, (by, before) in self.read.items():
            if path in self.written or self._files.is_ignored(path):
                continue
            if any(str(folder) in self.written for folder in Path(path).parents):
                continue  # in a folder that the job has made, by another program perhaps
            now = _seen(path)
            if isinstance(now, str) and any(Path(one).parent == Path(path) for one in self.written):
                continue  # a folder that the job writes to
            yield path, by, before, now

    def _is_recent(self, seen: _Seen) -> bool:
        """Whether a file was written since the job began; one that is gone was temporary then."""
        return isinstance(seen, tuple) and seen[1] >= self._began

    def _all_modules(self) -> tuple[dict[str, tuple[str, str, str]], set[str]]:
        """Return the user's modules that were imported, and installed packages besides them."""
        modules, packages = dict(self.modules), set()
        for name in sys.modules.keys() - self._imported_before:
            file = getattr(sys.modules[name], "__file__", None)
            if file and not os.path.exists(file):  # noqa: PTH110 (in a ZIP file, perhaps)
                file = next((str(one) for one in Path(file).parents if one.is_file()), file)
            top = name.partition(".")[0]
            if not file or name in modules or top in ("fasthep_smk", "__mp_main__"):
                continue
            if is_installed_file(file) and top not in self._own:
                package = _package_of(file) or top
                known = package in sys.stdlib_module_names or is_published(package)
                if not known and package not in self._imported_before:
                    packages.add(package)
            elif (digest := file_identity(file)) is not None:
                modules[name] = (file, digest, "an own module")
        return modules, packages

    # --- whether the user's own code asked for something ----------------------------------------

    def _note(self, place: str) -> None:
        self.read[place] = (self._operation(), None)  # to look at a folder is to list it
        self.read[place] = (self.read[place][0], _seen(place))
        self._tell("read", [place, *self.read[place]])

    def _is_passed_over(self, place: str) -> bool:
        return (
            (place.startswith((*_OF_SYSTEM, *self._ours)) and not place.startswith("/dev/shm/"))
            or place.endswith(".pyc")
            or place in self._credentials
            or _CREDENTIAL.search(place) is not None
            or (is_installed_file(place) and not place.startswith(self._own_places))
        )

    def _is_asked_for(self, name: str, frame: FrameType | None) -> bool:
        """Whether own code is the next caller, or called a library with this name."""
        library: list[FrameType] = []
        while frame is not None:
            if frame.f_code.co_name in _IMPORTS and _is_frozen(frame):
                return False
            if frame.f_code is _Loader.get_code.__code__:
                return False
            if self._is_own(frame):
                return not library or is_called_with(library[-1], name)
            if _is_frozen(frame) or not frame.f_code.co_filename.startswith("<"):
                library.append(frame)  # else it was made by exec, and belongs to its maker
            frame = frame.f_back
        if threading.current_thread() is threading.main_thread():
            return False
        for one in reversed(library):  # own code has handed the call to a thread
            if is_called_with(one, name):
                return True
            if not _OF_THREADS.search(one.f_code.co_filename):
                return False
        return False

    def _is_own(self, frame: FrameType) -> bool:
        code = frame.f_code
        if code not in self._own_code:
            file = code.co_filename
            if file.startswith("<"):  # made by exec: it belongs to its maker
                file = str(frame.f_globals.get("__file__") or file)
            package = str(frame.f_globals.get("__name__") or "").partition(".")[0]
            outside = not is_installed_file(file) and not file.startswith(("<", *_OURS))
            self._own_code[code] = package in self._own or outside
        return self._own_code[code]

    def _of_file(self, path: str, by: str) -> Observation:
        name = self._name_of(path)
        place = machine() if name.startswith("/") else ""
        return Observation("file", name, by, file_identity(path), place)

    def _name_of(self, path: str) -> str:
        """Return a name of a file that holds on other machines; by a module's folder if need be."""
        name = self._surroundings.name_of(path)
        if name.startswith("/"):
            tops = {one.partition(".")[0] for one in self.modules} | self._own
            for top in sorted(tops):
                file = module_file(top)
                if file is not None and path.startswith(f"{file.parent}/"):
                    return f"{top}:{path[len(str(file.parent)) + 1 :]}"
        return name

    def _candidates(self, text: str, source: str) -> set[str]:
        places = [*map(str, self._files.roots), os.path.dirname(source)]  # noqa: PTH120
        plain = os.path.expanduser(text)  # noqa: PTH111
        return {os.path.normpath(os.path.join(place, plain)) for place in places}  # noqa: PTH118

    # --- processes that the job forks -----------------------------------------------------------

    def _tell(self, kind: str, what: object) -> None:
        if os.getpid() != self._process:
            os.write(self._told, f"{json.dumps([kind, what])}\n".encode())

    def _hear(self) -> None:
        with os.fdopen(os.dup(self._told), "rb") as stream:
            stream.seek(0)
            for line in stream.read().splitlines():
                kind, what = json.loads(line)
                if kind == "written":
                    self.written.setdefault(*what)
                elif kind == "lent":
                    path, seen, by = what
                    self._handed_on.setdefault(path, (_untold(seen), by))
                elif kind == "read":
                    path, by, seen = what
                    self.read.setdefault(path, (by, _untold(seen)))
                elif kind == "module":
                    name, *known = what
                    self.modules.setdefault(name, tuple(known))
                else:
                    self.variables.setdefault(*what)


#: Where this package and FAST-HEP's lie, if they are not installed but developed.
_OURS = tuple(
    f"{file.parent}/"
    for file in map(
        module_file,
        ("fasthep_smk", "hepflow", "fasthep_carpenter", "fasthep_curator", "fasthep_render"),
    )
    if file is not None
)


def _package_of(file: str) -> str | None:
    """Return the top-level package or module that an installed file came with.

    A library may have modules of its own under other names, which are found only once it has run.
    """
    parts = file.split("/")
    places = [at for at, part in enumerate(parts) if part in ("site-packages", "dist-packages")]
    return parts[places[-1] + 1].partition(".")[0] if places else None


def _place(path: Any) -> str | None:
    """Return the absolute path of a file, ``None`` for what has no name."""
    try:
        return os.path.abspath(os.fsdecode(path))  # noqa: PTH100
    except (TypeError, ValueError, OSError):
        return None  # a descriptor


def _seen(path: str) -> _Seen:
    try:
        status = os.stat(path)  # noqa: PTH116
    except (OSError, ValueError):
        return None
    if stat.S_ISDIR(status.st_mode):  # its time changes with any file that comes or goes
        return file_identity(path)
    return status.st_size, status.st_mtime_ns


def _untold(seen: Any) -> _Seen:
    """Return what was seen of a file, as it was before it was written as JSON."""
    return (int(seen[0]), int(seen[1])) if isinstance(seen, list) else seen


def _is_frozen(frame: FrameType) -> bool:
    return frame.f_code.co_filename.startswith("<frozen")


class _Environment(os._Environ):  # type: ignore[type-arg]
    """The environment, which tells the active observer what is read of it."""

    def __getitem__(self, key: str | bytes) -> str:
        if _active is not None:
            with contextlib.suppress(Exception):
                _active.variable(key, sys._getframe(1))
        value: str = super().__getitem__(key)
        return value

    def __iter__(self) -> Iterator[str]:
        if _active is not None:
            with contextlib.suppress(Exception):
                _active.iterates(sys._getframe(1))
        return super().__iter__()


class _Loader(importlib.machinery.SourceFileLoader):
    """Loads a module of the user's, and tells the observer which text it runs.

    Python trusts a compiled file if size and time, in whole seconds, of the source are right. One
    written within that second, or before the time was set, may be of an earlier text: the source is
    compiled again.
    """

    def get_code(self, fullname: str) -> CodeType | None:
        path = self.get_filename(fullname)
        source = self.get_data(path)
        if _active is not None:
            _active.imported(fullname, path, source)
        if _is_compiled_in_time(path):
            return super().get_code(fullname)
        return self.source_to_code(source, path)

    def exec_module(self, module: ModuleType) -> None:
        super().exec_module(module)
        imported(module)


def _is_compiled_in_time(path: str) -> bool:
    """Whether the compiled file was written after the source's last change, even of its time."""
    try:
        compiled = os.stat(importlib.util.cache_from_source(path))  # noqa: PTH116
        source = os.stat(path)  # noqa: PTH116
        return compiled.st_mtime >= max(int(source.st_mtime) + 1, source.st_ctime)
    except (OSError, NotImplementedError):
        return True


def _finder(place: str) -> Finder:
    if is_installed_file(f"{place}/") or not os.path.isdir(place or "."):  # noqa: PTH112
        raise ImportError
    return Finder(place, *loaders(_Loader))


#: What goes with an audit event: its arguments are those of the function that is called.
_Given = tuple[Any, ...]


def _hook(event: str, arguments: _Given) -> None:
    if _active is None or event not in _EVENTS:
        return
    with contextlib.suppress(Exception):  # a job does not fail because it is observed
        _EVENTS[event](_active, arguments, sys._getframe(1))


def _lists(observer: Observer, given: _Given, frame: FrameType) -> None:
    observer.asked("." if given[0] is None else given[0], frame)


def _names_file(observer: Observer, given: _Given, frame: FrameType) -> None:
    if given[0]:
        observer.asked(given[0], frame)


def _makes(observer: Observer, given: _Given, frame: FrameType) -> None:
    observer.wrote(given[1], frame)


def _makes_folder(observer: Observer, given: _Given, frame: FrameType) -> None:
    if not os.path.isdir(given[0]):  # noqa: PTH112 (told before it is tried)
        observer.wrote(given[0], frame)


_EVENTS: Mapping[str, Callable[[Observer, _Given, FrameType], None]] = {
    "open": lambda observer, given, frame: observer.opened(given[0], given[2], frame),
    "os.listdir": _lists,
    "os.scandir": _lists,
    "ctypes.dlopen": _names_file,
    "sqlite3.connect": lambda observer, given, frame: observer.lent(given[0], frame),
    "subprocess.Popen": lambda observer, given, frame: observer.started(given[1], given[2], frame),
    "os.posix_spawn": lambda observer, given, frame: observer.started(given[1], None, frame),
    "os.system": lambda observer, given, frame: observer.started(given[0], None, frame),
    "os.mkdir": _makes_folder,
    "os.rename": _makes,
    "os.link": _makes,
    "os.symlink": _makes,
}

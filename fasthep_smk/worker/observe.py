"""Note what a user's own code reads while a job runs: files, modules, packages, variables.

An audit hook (https://docs.python.org/3/library/audit_events.html) sees each file that is opened
and each folder that is listed. One counts if the user's own code asked for it: it opened the file
itself, or called a library with its name. What a library looks up for itself (fonts, locale, its
configuration) does not count, nor what the job has made. A name that the job gives to something
that was there, by a link or another name, stands for what it was before. Limits: files that
compiled code opens under a name that stands neither in own code nor in the workflow, and what
processes read that are not forked from the job.

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
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from types import CodeType, FrameType, ModuleType
from typing import Any
from urllib.parse import unquote, urlsplit

from msgspec.structs import replace

from fasthep_smk.flow import patches
from fasthep_smk.flow.distributions import (
    NOT_INSTALLED,
    is_installed_file,
    package_identity,
    package_of,
)
from fasthep_smk.flow.local_modules import Finder, loaders
from fasthep_smk.flow.named_files import NamedFiles, file_identity
from fasthep_smk.flow.op_identity import PUBLISHED, is_published, module_file
from fasthep_smk.storage.observed import ALL, Observation, Surroundings, machine, of_session
from fasthep_smk.util.files import sha256_bytes
from fasthep_smk.util.remote import local_path
from fasthep_smk.worker.call_names import (
    in_folder,
    is_called_with,
    makes_mapping,
    paths_below_open_folders,
    paths_in,
    place_of,
    starts_shell,
    variables_in,
)

#: Below these folders lies nothing that a result may depend on.
_OF_SYSTEM = ("/proc/", "/sys/", "/dev/")
#: Credentials are renewed while a run goes on, and no result follows from them.
_OF_CREDENTIALS = ("X509_USER_PROXY", "X509_USER_CERT", "X509_USER_KEY", "BEARER_TOKEN_FILE",
                   "KRB5CCNAME")  # fmt: skip
_CREDENTIAL = re.compile(r"/(x509up_u\w+|bt_u\w+|krb5cc\w*|\.globus/[^/]+)$")
#: An import statement, whatever it opens: the loader notes modules of the user's.
_IMPORTS = ("_find_and_load", "_handle_fromlist")
#: What a program is started with by own code: these frames stand between.
_STARTERS = re.compile(r"/(subprocess|os|pty)\.py$|^<frozen os>$|/asyncio/")
#: Programs that are others on another machine.
_PROGRAMS = ("/bin/", "/usr/bin/", "/usr/local/bin/", sys.executable)
_OF_THREADS = re.compile(r"/(threading\.py|concurrent/futures/|multiprocessing/|asyncio/)")
#: ``size|modification time in ns`` of a file, the identity of a folder.
_Seen = str | None

_active: Observer | None = None
_hooked = False
#: What this thread looks at while it notes something is no input.
_noting = threading.local()


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
        paths = (os.environ.get(name, "") for name in _OF_CREDENTIALS)
        self._credentials = {place_of(path.removeprefix("FILE:")) for path in paths if path}
        self._own_places = tuple(
            f"{file.parent}/" for name in own if (file := module_file(name)) is not None
        )
        self._own_code: dict[CodeType, bool] = {}
        self._ours = tuple(f"{place}/" for place in {str(build), os.path.realpath(build)})
        self._known = {os.path.abspath(local_path(path) or path) for path in known}  # noqa: PTH100
        self._process = os.getpid()
        self._began = time.time_ns()
        # Processes that the job forks tell here what they note.
        self._told = os.memfd_create("observed")
        #: By path: the operation that asked for it, what the file was then, and the user's module.
        self.read: dict[str, list[Any]] = {}
        #: By path: the operation and the module of the user's that have written it.
        self.written: dict[str, list[str]] = {}
        #: Handed to a program or database, which may write them, and what they were then: a change
        #: is no edit.
        self._handed_on: dict[str, list[Any]] = {}
        #: By a name that the job has given to a file or folder, the one that it had before.
        self._stands_for: dict[str, str] = {}
        #: By name: the operation that asked for it.
        self.variables: dict[str, str] = {}
        #: By name: path, digest of the source that was run, and operation.
        self.modules: dict[str, list[str]] = {}
        #: By real path: digests of the sources that were run, complete when the job has ended.
        self.sources: dict[str, str] = {}
        self._copied = (0, -1)
        self._imported_before = frozenset(sys.modules)
        self._named = {
            (path, source): _seen(path)
            for text, source in named
            for path in self._candidates(text, source)
        }

    # --- while the job runs ---------------------------------------------------------------------

    def opened(self, path: Any, mode: object, flags: object, frame: FrameType) -> None:
        """Note a file that is opened, by the code in ``frame``."""
        flags = flags if isinstance(flags, int) else os.O_RDONLY
        access = flags & os.O_ACCMODE
        # A call of os.open has no mode, and may have a folder's descriptor, which nobody is told.
        for place in paths_below_open_folders(path) if mode is None else (path,):
            if access == os.O_RDONLY:
                self.asked(place, frame)
            elif os.path.isdir(place):  # noqa: PTH112
                continue  # a temporary file will be opened in it
            elif access == os.O_RDWR and not flags & (os.O_EXCL | os.O_TRUNC):
                self.lent(place, frame)  # as numpy.memmap does, also if it is only read
            else:
                self.wrote(place, frame)

    def wrote(self, path: object, frame: FrameType, *, itself: bool = False) -> None:
        """Note a file that is written, or with ``itself`` made or removed, even if it is a link."""
        place = place_of(path)
        if place and not (itself and self._stands_for.pop(place, "")):
            self._keep("written", self._before(place), self._makers(frame))

    def named(self, path: object, new: object, frame: FrameType, *, moved: bool) -> None:
        """Note that something gets a ``new`` name, by a link or as it is ``moved``."""
        old, place = place_of(path), place_of(new)
        if old is None or place is None or os.path.lexists(old if moved else place) != moved:
            return  # it will fail
        before = self._before(old)
        if moved:
            self._stands_for.pop(old, None)
            self._hand_on(before, _seen(old), frame)
        self._stands_for.pop(place, None)
        if before != place:  # else it gets its own name back
            self.wrote(place, frame)
            self._stands_for[place] = before

    def asked(self, path: object, frame: FrameType | None) -> None:
        """Note a file that is opened, a folder that is listed, or the like."""
        if (place := place_of(path)) is None:
            return
        before = self._before(place)
        if before in self.read or before in self._known or self._is_passed_over(before):
            return
        if _nearest(before, self.written) is None and self._is_asked_for(place, frame):
            self._keep("read", before, [self._operation(), _seen(place), self._module(frame)])

    def started(
        self, args: Iterable[Any], frame: FrameType | None, *, folder: Any = None, env: Any = None
    ) -> None:
        """Note files that another program is started with, in a ``folder``."""
        while frame is not None and _STARTERS.search(frame.f_code.co_filename):
            frame = frame.f_back
        words = list(dict.fromkeys(os.fsdecode(word) for word in args if word))
        shell, folder = starts_shell(words), os.fsdecode(folder or "")
        for word in words:
            for name in variables_in(word):
                self.variable(name, frame)
            paths = paths_in(word, folder, env or os.environ, self._files, shell=shell)
            for path in (path for path in paths if not path.startswith(_PROGRAMS)):
                if os.path.lexists(path):
                    self.lent(path, frame)
                elif place := place_of(path):
                    self._hand_on(place, None, frame)  # the program may make it

    def lent(self, path: object, frame: FrameType | None) -> None:
        """Note a file that is read, and may be written: a database, an argument of a program."""
        if place := place_of(path):
            self._hand_on(self._before(place), _seen(place), frame)
            self.asked(path, frame)

    def _before(self, place: str) -> str:
        """Return the name that a file had before the job gave it another one."""
        new = _nearest(place, self._stands_for)
        return place if new is None else self._stands_for[new] + place[len(new) :]

    def _hand_on(self, place: str, seen: _Seen, frame: FrameType | None) -> None:
        self._keep("_handed_on", place, [seen, self._makers(frame)])

    def variable(self, name: object, frame: FrameType | None) -> None:
        """Note an environment variable; ``ALL``: that own code goes through all of them."""
        name = os.fsdecode(name) if isinstance(name, bytes) else name
        if not isinstance(name, str) or name in self.variables or of_session(name):
            return
        # Each variable of a loop, or of a copy, is asked for by Python.
        if frame is None or "View." in frame.f_code.co_qualname:
            return
        if (id(frame), frame.f_lasti) != self._copied and self._is_asked_for(name, frame):
            self._keep("variables", name, self._operation())

    def iterates(self, frame: FrameType | None) -> None:
        """Note that all variables are about to be read, unless they are only copied."""
        while frame is not None and frame.f_globals.get("__name__") in ("os", "collections.abc"):
            if frame.f_code.co_name in ("copy", "__or__", "__ror__"):
                return
            frame = frame.f_back
        if frame is not None and self._is_own(frame):
            if not makes_mapping(frame):
                self.variable(ALL, frame)
            self._copied = (id(frame), frame.f_lasti)

    def imported(self, name: str, path: str, source: bytes) -> None:
        """Note a module of the user's, with the text that is run."""
        if not path.startswith(_OURS):
            module = [path, sha256_bytes(source)[:16], self._module(sys._getframe(2))]
            self._keep("modules", name, module)

    def _makers(self, frame: FrameType | None) -> list[str]:
        """Return the operation that runs, and the user's module that a call comes from."""
        return [self._operation(), self._module(frame)]

    def _module(self, frame: FrameType | None) -> str:
        """Return the name of the user's module that a call comes from."""
        while frame is not None and not self._is_own(frame):
            frame = frame.f_back
        return str(frame.f_globals.get("__name__")) if frame is not None else "the workflow"

    # --- when it has ended ----------------------------------------------------------------------

    def observations(self) -> tuple[list[Observation], list[str]]:
        """Return what the job was observed to read, and the files that have changed meanwhile."""
        self._hear()
        modules, packages = self._all_modules()
        starts = self._starts(modules) if self.read or self._named else set()
        reads: list[Observation] = []
        changed: list[str] = []
        for path, by, before, now in self._inputs():
            if now == before:
                reads += self._of_file(path, by, starts | {self.read[path][2]}, modules)
            elif path not in self._handed_on and (now or not self._is_recent(before)):
                changed.append(path)
        run = {path: name for name, (path, _, _) in self.modules.items()}
        ignored = {self._files.ignored_by(path): by for path, (by, *_) in self.read.items()}
        for (path, source), before in self._named.items():
            others = self.read.keys() | self.written.keys()
            if source in run and path not in others and _seen(path) == before:
                if not self._files.is_ignored(path):
                    reads += self._of_file(path, run[source], starts, modules)
                ignored.setdefault(self._files.ignored_by(path), run[source])
        reads += [Observation("ignored", one, by, "ignored") for one, by in ignored.items() if one]
        # What counts is the environment that the run was started with.
        variables = (Observation("variable", *item, None) for item in self.variables.items())
        reads += [replace(read, identity=self._surroundings.identity(read)) for read in variables]
        for name, (path, digest, by) in modules.items():
            self.sources[os.path.realpath(path)] = digest
            place = self._surroundings.name_of(path)
            reads.append(Observation("module", name, by, digest, place))
        for name in packages:
            version = package_identity(name)
            identity = None if version == NOT_INSTALLED else version
            reads.append(Observation("package", name, "an own module", identity, sys.prefix))
        return reads, changed

    def made(self) -> list[Observation]:
        """Return the files that the job, or a program that it started, has written and left."""
        self._hear()
        handed_on = self._handed_on.items()
        changed = {path: by for path, (seen, by) in handed_on if _seen(path) != seen}
        return [
            Observation("written", self._name_of(path), operation, file_identity(path))
            for path, by in sorted({**changed, **self.written}.items())
            if os.path.isfile(path) and not self._is_passed_over(path)  # noqa: PTH113
            for operation in dict.fromkeys(by)
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
        """Yield what was there and is not written: path, operation, what it was then and is now."""
        folders = {str(Path(path).parent) for path in self.written if "__pycache__" not in path}
        for path, (by, before, _) in self.read.items():
            # Of what another process of the job has made, this one hears at the end.
            nearest = _nearest(path, self.written)
            if self._files.is_ignored(path) or path in folders or nearest not in (None, path):
                continue
            now = _seen(path)
            if nearest is None or (now == before and not self._is_recent(before)):
                yield path, by, before, now

    def _is_recent(self, seen: _Seen) -> bool:
        """Whether a file was written since the job began; one that is gone was temporary then."""
        time = (seen or "").rpartition("|")[2]
        return time.isdigit() and int(time) >= self._began

    def _all_modules(self) -> tuple[dict[str, list[str]], set[str]]:
        """Return the user's modules that were imported, and installed packages besides them."""
        modules, packages = dict(self.modules), set()
        for name in sys.modules.keys() - self._imported_before:
            try:
                file = getattr(sys.modules[name], "__file__", None)
            except Exception:  # something else in the place of a module
                continue
            if file and not os.path.exists(file):  # noqa: PTH110 (in a ZIP file, perhaps)
                file = next((str(above) for above in Path(file).parents if above.is_file()), file)
            top = name.partition(".")[0]
            if not file or name in modules or top in ("fasthep_smk", "__mp_main__"):
                continue
            if is_installed_file(file) and top not in self._own:
                package = package_of(file) or top
                known = package in sys.stdlib_module_names or is_published(package)
                if not known and package not in self._imported_before:
                    packages.add(package)
            elif (digest := file_identity(file)) is not None:
                modules[name] = [file, digest, "an own module"]
        return modules, packages

    # --- whether the user's own code asked for something ----------------------------------------

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
            is_frozen = frame.f_code.co_filename.startswith("<frozen")
            if is_frozen and frame.f_code.co_name in _IMPORTS:
                return False
            if frame.f_code is _Loader.get_code.__code__:
                return False
            if self._is_own(frame):
                return not library or _is_handed(library, name)
            if is_frozen or not frame.f_code.co_filename.startswith("<"):
                library.append(frame)  # else it was made by exec, and belongs to its maker
            frame = frame.f_back
        is_main = threading.current_thread() is threading.main_thread()
        return not (is_main and os.getpid() == self._process) and _is_handed(library, name)

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

    def _of_file(
        self, path: str, by: str, starts: set[str], modules: Mapping[str, list[str]]
    ) -> Iterator[Observation]:
        """Yield what is noted of a file, also by the ways to it from the modules in ``starts``."""
        name, identity = self._name_of(path), file_identity(path)
        yield Observation("file", name, by, identity, machine() if name.startswith("/") else "")
        for module in sorted(starts & (modules.keys() | {""})):
            if (way := self._surroundings.way_to(path, module)) is not None:
                place = self._surroundings.name_of(modules[module][0]) if module else ""
                yield Observation("near", way, by, identity, place)

    def _starts(self, modules: Mapping[str, list[str]]) -> set[str]:
        """Return modules at the top; with ``""``, the workflow, if code looks up its path."""
        own = [name for name, (path, *_) in modules.items() if not is_installed_file(path)]
        tops = {name: name.partition(".")[0] for name in own}
        starts = {top if top in modules else name for name, top in tops.items()}
        with contextlib.suppress(OSError):
            if any(b"workflow_path" in Path(path).read_bytes() for path, _, _ in modules.values()):
                starts.add("")
        return starts

    def _name_of(self, path: str) -> str:
        """Return a name of a file that holds on other machines; by a module's folder if need be."""
        name = self._surroundings.name_of(path)
        if name.startswith("/"):
            tops = {module.partition(".")[0] for module in self.modules} | self._own
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

    def _keep(self, where: str, name: str, note: object) -> None:
        if getattr(self, where).setdefault(name, note) is note and os.getpid() != self._process:
            os.write(self._told, f"{json.dumps([where, name, note])}\n".encode())

    def _hear(self) -> None:
        with os.fdopen(os.dup(self._told), "rb") as stream:
            stream.seek(0)
            for line in stream.read().splitlines():
                where, name, note = json.loads(line)
                getattr(self, where).setdefault(name, note)


#: Where this package and FAST-HEP's lie, if they are not installed but developed.
_OURS = tuple(
    f"{file.parent}/"
    for name in ("fasthep_smk", *PUBLISHED)
    if (file := module_file(name)) is not None
)


def _seen(path: str) -> _Seen:
    try:
        status = os.stat(path)  # noqa: PTH116
    except (OSError, ValueError):
        return None
    if stat.S_ISDIR(status.st_mode):  # its time changes with any file that comes or goes
        return file_identity(path)
    return f"{status.st_size}|{status.st_mtime_ns}"


def _nearest(place: str, places: Collection[str]) -> str | None:
    """Return a path itself or the nearest folder that it is in, of those that are known."""
    while place and places:
        if place in places:
            return place
        place = place.rpartition("/")[0]
    return None


def _is_handed(library: list[FrameType], name: str) -> bool:
    """Whether own code called a library with a name, or handed it to a thread or process.

    ``library`` are the frames of libraries down to that of own code, or to the end of the thread.
    """
    of_threads = list[FrameType]()
    while library and _OF_THREADS.search(library[-1].f_code.co_filename):
        of_threads.append(library.pop())
    if library:
        return is_called_with(library[-1], name)
    return is_called_with(of_threads[-1], name, depth=4)  # with a built-in function, and arguments


class _Environment(os._Environ):  # type: ignore[type-arg]
    """The environment, which tells the active observer what is read of it."""

    def __getitem__(self, key: str | bytes) -> str:
        _quietly(Observer.variable, key, sys._getframe(1))
        value: str = super().__getitem__(key)
        return value

    def __iter__(self) -> Iterator[str]:
        _quietly(Observer.iterates, sys._getframe(1))
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
        # Not imported here: with NumPy come threads, which keep a process from being forked.
        watch = getattr(sys.modules.get("fasthep_smk.flow.own_modules"), "importing", None)
        if watch is None or module.__name__.startswith("fasthep_smk."):
            super().exec_module(module)
            return
        with watch(module):
            super().exec_module(module)


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
    if event in _EVENTS:
        _quietly(_EVENTS[event], arguments, sys._getframe(1))


def _quietly(call: Callable[..., None], *arguments: object) -> None:
    if _active is None or getattr(_noting, "now", False):
        return
    _noting.now = True
    with contextlib.suppress(Exception):  # a job does not fail because it is observed
        call(_active, *arguments)
    _noting.now = False


def _lists(observer: Observer, args: _Given, frame: FrameType) -> None:
    observer.asked("." if args[0] is None else args[0], frame)


def _changes(observer: Observer, args: _Given, frame: FrameType, *, exists: bool = True) -> None:
    path = in_folder(args[0], args[-1])
    if os.path.lexists(path) == exists:  # else it will fail
        observer.wrote(path, frame, itself=True)


def _names(observer: Observer, args: _Given, frame: FrameType, *, moved: bool = False) -> None:
    old, new, *folders = args
    new = in_folder(new, folders[-1])
    if len(folders) == 2:
        old = in_folder(old, folders[0])
    else:  # what a symbolic link says starts where it is
        old = os.path.join(os.path.dirname(new), os.fsdecode(old))  # noqa: PTH118, PTH120
    observer.named(old, new, frame, moved=moved)


def _connects(observer: Observer, args: _Given, frame: FrameType) -> None:
    path = os.fsdecode(args[0])
    if path in ("", ":memory:"):
        return
    if path.startswith("file:") and not os.path.exists(path):  # noqa: PTH110
        path = unquote(urlsplit(path).path)
    observer.lent(path, frame)


def _starts(observer: Observer, args: _Given, frame: FrameType) -> None:
    program, arguments, *folder, env = args
    observer.started([program, *arguments], frame, folder=next(iter(folder), None), env=env)


_EVENTS: Mapping[str, Callable[[Observer, _Given, FrameType], None]] = {
    "open": lambda observer, args, frame: observer.opened(args[0], args[1], args[2], frame),
    "os.listdir": _lists,
    "os.scandir": _lists,
    "ctypes.dlopen": lambda observer, args, frame: observer.asked(args[0], frame),
    "sqlite3.connect": _connects,
    "subprocess.Popen": _starts,
    "os.exec": _starts,
    "os.posix_spawn": _starts,
    "os.system": lambda observer, args, frame: observer.started(args, frame),
    "os.mkdir": partial(_changes, exists=False),
    "os.rename": partial(_names, moved=True),
    "os.link": _names,
    "os.symlink": _names,
    "os.remove": _changes,
    "os.rmdir": _changes,
    "os.truncate": lambda observer, args, frame: observer.wrote(args[0], frame),
}

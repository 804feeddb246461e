"""Modules that wait until they are used: compiling draws nothing, but imports all that could.

``importlib.util.LazyLoader`` runs a module when it is imported for a second time, and at
``from module import name``; these wait on.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterable
from importlib import import_module
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import module_from_spec
from types import ModuleType


class _Unused(ModuleType):
    """A module that has not run yet. Whatever is wanted of it but its place makes it run."""

    def __getattr__(self, name: str) -> object:
        if name == "__path__" and self.__package__ != self.__name__:
            raise AttributeError(name)  # no package: the import machinery asks
        return getattr(_run(self), name)


class _UnusedFunctions(_Unused):
    """A module from which ``callers`` only take what they call: a call makes it run."""

    #: Whether callers are being imported: who takes something later may do more than call it.
    lends = False

    def __getattr__(self, name: str) -> object:
        if name.startswith("__") or not _UnusedFunctions.lends:
            return super().__getattr__(name)
        return _called_late(self, name)


def import_late(
    modules: Iterable[str], functions: Iterable[str] = (), callers: Iterable[str] = ()
) -> None:
    """Let modules run when they are used first, or never; only one thread may use them.

    ``from module import name`` is a use. Of ``functions``, it is none in the modules ``callers``,
    which are imported here: they call what they take, and do nothing else with it. A module that
    is there already, or that is not installed, is left as it is. In the register: LATE_IMPORTS.
    """
    for names, kind in ((modules, _Unused), (functions, _UnusedFunctions)):
        for name in names:
            spec = None if name in sys.modules else spec_of(name)
            if spec is None or spec.loader is None:
                continue
            module = module_from_spec(spec)
            # A submodule that is imported makes its package run, as usual.
            module.__dict__.pop("__path__", None)
            module.__class__ = kind
            sys.modules[name] = module
            package, _, short = name.rpartition(".")
            if package in sys.modules:
                setattr(sys.modules[package], short, module)
    _UnusedFunctions.lends = True
    try:
        for name in callers:
            with contextlib.suppress(ImportError):  # who needs it says so
                import_module(name)
    finally:
        _UnusedFunctions.lends = False


def spec_of(name: str) -> ModuleSpec | None:
    """Return where a module is, without importing its package."""
    package = name.rpartition(".")[0]
    path = None
    if package:
        above = spec_of(package)
        path = None if above is None else above.submodule_search_locations
        if path is None:
            return None
    return PathFinder.find_spec(name, path)


def _run(module: ModuleType) -> ModuleType:
    """Run a module, after its package."""
    package = sys.modules.get(module.__name__.rpartition(".")[0])
    if isinstance(package, _Unused):
        _run(package)
    spec = module.__spec__
    if isinstance(module, _Unused) and spec is not None and spec.loader is not None:
        kind = type(module)
        module.__class__ = ModuleType  # type: ignore[assignment]
        if spec.submodule_search_locations is not None:
            module.__path__ = spec.submodule_search_locations
        try:
            spec.loader.exec_module(module)
        except BaseException:
            module.__class__ = kind  # the next use says the same
            raise
    return module


def _called_late(module: ModuleType, name: str) -> Callable[..., object]:
    def call(*arguments: object, **options: object) -> object:
        return getattr(_run(module), name)(*arguments, **options)

    call.__name__ = call.__qualname__ = name
    call.__module__ = module.__name__
    return call

"""Parsl for processes on other machines: importing one module of it imports all that it has."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from importlib.util import module_from_spec
from types import ModuleType

from fasthep_smk.flow.patches.late import import_late, spec_of

__all__ = ["import_bare", "import_bare_parsl"]

#: Packages of Parsl's that import far more than that.
_PARSL = ("parsl", "parsl.executors", "parsl.monitoring")
#: What they import, and do not use: it asks a server in the internet for the machine's address.
_UNUSED = ("requests",)


def import_bare_parsl() -> None:
    """Let this process import modules of Parsl alone; before it has imported any."""
    import_bare(_PARSL)
    import_late(_UNUSED)


def import_bare(packages: Iterable[str]) -> None:
    """Let the modules of packages be imported without what these import themselves.

    A package must come after the one that it is in. In the register: BARE_PARSL.
    """
    for name in packages:
        spec = None if name in sys.modules else spec_of(name)
        if spec is not None and spec.submodule_search_locations is not None:
            module = module_from_spec(spec)
            module.__class__ = _Bare
            sys.modules[name] = module


class _Bare(ModuleType):
    """A package that has not run. What is in it but a module makes it run."""

    def __getattr__(self, name: str) -> object:
        spec = self.__spec__
        if name.startswith("__") or spec is None or spec.loader is None:
            raise AttributeError(name)
        if spec_of(f"{self.__name__}.{name}") is not None:
            raise AttributeError(name)  # the import machinery imports it then
        self.__class__ = ModuleType  # type: ignore[assignment]
        spec.loader.exec_module(self)
        return getattr(self, name)

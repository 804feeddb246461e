"""Public functions of the package that have the names of rooms: ``fasthep_smk.run(...)``.

Python puts a room in the place of such a function when one of its modules is imported. The room is
called like the function, then.
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType


class _Room(ModuleType):
    def __call__(self, *arguments: object, **keywords: object) -> object:
        module, name = self._called_as
        return getattr(importlib.import_module(module), name)(*arguments, **keywords)


def is_called_as(room: str, module: str, name: str) -> None:
    """Let a call of a room, by its name in ``sys.modules``, be one of a function in a module."""
    package = sys.modules[room]
    package._called_as = (module, name)  # type: ignore[attr-defined]
    package.__class__ = _Room

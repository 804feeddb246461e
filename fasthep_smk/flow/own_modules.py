"""What an operation leaves in the user's own modules, and in the process, is taken back.

A process of its own imports the modules anew: with ``--granularity stage`` no stage sees what
another has left in them. So that it sees it with no granularity, they are as they were when they
were imported whenever an operation begins.
"""

from __future__ import annotations

import os
import pickle
import random
import sys
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from importlib import import_module
from itertools import zip_longest
from types import CellType, FunctionType, ModuleType
from typing import Any, NamedTuple

import numpy as np

from fasthep_smk.flow import op_identity
from fasthep_smk.flow.distributions import is_installed_file

__all__ = ["OwnModules", "RandomState", "imported", "random_state"]

#: Bytes of an array of a module above which its content is not looked at, and items of a list or
#: mapping above which only these are, and nothing that they hold.
_LARGE, _LONG = 10_000_000, 2_000
#: What cannot be changed, nor hold what can.
_PLAIN = (type(None), bool, int, float, complex, str, bytes)


#: What is told of own modules that an operation imports while it runs.
_watching: OwnModules | None = None


class OwnModules:
    """What the user's own modules hold, to be as it was before an operation.

    What ``functools.cache`` keeps stays, and so does what is inside objects of libraries.
    ``unseeded`` is the state of random numbers before any of them was imported.
    """

    def __init__(self, named: Collection[str], unseeded: RandomState) -> None:
        self._named = {name.partition(".")[0] for name in named}
        self._examined: set[str] = set()
        self._own: set[str] = set()
        #: What they hold. It stays true: whatever is changed is taken back.
        self._held: list[_Held] = []
        self._seen: dict[int, object] = {}
        self._place, self._variables = "", dict(os.environ)
        self._unseeded, self._before = unseeded, unseeded

    def enter(self, module: str | None) -> None:
        """Import a module, and look at what is held by those that were imported since."""
        global _watching
        if module is not None:
            with suppress(Exception):  # FAST-HEP says what is wrong with it
                import_module(module)
        new = sys.modules.keys() - self._examined
        self._examined |= new
        self._own.update(name for name in new if self._is_own(name, sys.modules[name]))
        if self._own & new:  # which may have told others of themselves
            self._held, self._seen = [], {}
            for name in sorted(self._own & sys.modules.keys()):
                self.look_at(sys.modules[name])
        self._place, self._variables = os.getcwd(), dict(os.environ)  # noqa: PTH109
        self._before = random_state()
        _watching = self

    def leave(self) -> list[str]:
        """Let the modules hold what they held, and the process be as it was."""
        global _watching
        _watching = None
        changes = [text for held in self._held if (text := held.take_back())]
        if dict(os.environ) != self._variables:
            os.environ.clear()
            os.environ.update(self._variables)
        os.chdir(self._place)
        if random_state() != self._before:
            random.seed()
            np.random.seed()
            if self._before != self._unseeded:  # by a module: so begins each stage of its own
                of_python, *of_numpy = self._before
                random.setstate(of_python)
                np.random.set_state(tuple(of_numpy))
        return changes

    def look_at(self, module: ModuleType) -> None:
        """Note what a module holds that has just been imported."""
        self._own.add(module.__name__)
        self._examined.add(module.__name__)
        self._held += _held(module, module.__name__, self._own, self._seen)

    def _is_own(self, name: str, module: object) -> bool:
        top, file = name.partition(".")[0], getattr(module, "__file__", None)
        if not isinstance(module, ModuleType) or op_identity.is_published(name):
            return False
        outside = bool(file) and top != "fasthep_smk" and not is_installed_file(str(file))
        return top in self._named or outside


def imported(module: ModuleType) -> None:
    """Note a module of the user's that has been imported, perhaps while an operation runs."""
    if _watching is not None:
        _watching.look_at(module)


#: The state of the random numbers that Python's module and NumPy's keep.
RandomState = tuple[Any, ...]


def random_state() -> RandomState:
    """Return the state of the random numbers that Python's module and NumPy's keep."""
    name, key, *more = np.random.get_state()
    return (random.getstate(), name, tuple(key), *more)


class _Held(NamedTuple):
    """A value that can be changed, and what it held: objects, or as bytes a state.

    ``name`` is the module's variable that it belongs to.
    """

    value: Any
    name: str
    write: Callable[[Any, Any], None]
    read: Callable[[Any], list[Any] | bytes]
    before: list[Any] | bytes

    def take_back(self) -> str:
        """Give it back what it held; return what had changed, nothing if nothing had."""
        now, before = self.read(self.value), self.before
        if isinstance(now, bytes):
            changed = now != before
        else:
            changed = any(
                one is not other for one, other in zip_longest(now, before, fillvalue=self)
            )
        if not changed:
            return ""
        self.write(self.value, before)
        if isinstance(self.value, ModuleType):
            return f"{', '.join(_others(now, before))} of {self.name}"
        return self.name


def _others(now: Any, before: Any) -> list[str]:
    """Return the names that do not stand for the same object; of both, names and values in turn."""
    was, are = (dict(zip(one[::2], one[1::2], strict=True)) for one in (before, now))
    return [name for name in {**was, **are} if was.get(name, was) is not are.get(name, are)]


def _held(value: Any, name: str, own: Collection[str], seen: dict[int, object]) -> Iterator[_Held]:
    """Yield what can be changed of a value that an own module holds, and of what that holds."""
    if id(value) in seen:
        return
    seen[id(value)] = value
    inner: list[Any] = []
    if isinstance(value, (staticmethod, classmethod)):
        inner = [value.__func__]
    elif isinstance(value, (tuple, frozenset)):
        inner = list(value)
    else:
        kind = next((kind for kind in _CHANGEABLE if isinstance(value, kind)), None)
        is_own = isinstance(value, ModuleType) or _home(value) in own
        if kind is None and not (is_own and hasattr(value, "__dict__")):
            return
        read, write = _CHANGEABLE[kind] if kind is not None else (_names, _rename)
        before = read(value)
        yield _Held(value, name, write, read, before)
        inner = before if isinstance(before, list) and (kind is None or len(before) < _LONG) else []
        if isinstance(value, FunctionType):
            inner = [*inner, value.__defaults__, value.__kwdefaults__, *(value.__closure__ or ())]
    for number, item in enumerate(inner):
        if type(item) in _PLAIN:
            continue
        is_variable = isinstance(value, ModuleType) and number % 2
        yield from _held(item, f"{inner[number - 1]} of {name}" if is_variable else name, own, seen)


def _home(value: object) -> str:
    """Return the module of a class or function, or of the class of an object."""
    return str(getattr(value, "__module__", ""))


def _names(value: object) -> list[Any]:
    """Return names and values of a module, class, function or object, one after the other."""
    pairs = [pair for pair in vars(value).items() if not isinstance(pair[1], ModuleType)]
    return [item for pair in pairs if not pair[0].startswith("__") for item in pair]


def _rename(value: object, before: list[Any]) -> None:
    names = dict(zip(before[::2], before[1::2], strict=True))
    for name in _others(_names(value), before):
        if name in names:
            setattr(value, name, names[name])
        else:
            delattr(value, name)


def _refill(value: Any, before: list[Any]) -> None:
    value.clear()
    if isinstance(value, dict):
        value.update(zip(before[::2], before[1::2], strict=True))
    else:
        (value.update if isinstance(value, set) else value.extend)(before)


def _rewrite(value: np.ndarray[Any, Any], before: bytes) -> None:
    value[...] = np.frombuffer(before, value.dtype).reshape(value.shape)


def _bits(value: np.ndarray[Any, Any]) -> bytes:
    """Return the content of an array; of one that is large, or holds objects, nothing."""
    return b"" if value.nbytes > _LARGE or value.dtype.hasobject else value.tobytes()


#: How the content of what can be changed is read and written. The keys and values of a mapping
#: stand one after the other.
_CHANGEABLE: Mapping[
    type, tuple[Callable[[Any], list[Any] | bytes], Callable[[Any, Any], None]]
] = {
    dict: (lambda value: [item for pair in value.items() for item in pair], _refill),
    list: (list, _refill),
    set: (list, _refill),
    deque: (list, _refill),
    bytearray: (bytes, lambda value, before: value.__setitem__(slice(None), before)),
    np.ndarray: (_bits, _rewrite),
    np.random.Generator: (
        lambda value: pickle.dumps(value.bit_generator.state),
        lambda value, before: setattr(value.bit_generator, "state", pickle.loads(before)),
    ),
    np.random.RandomState: (
        lambda value: pickle.dumps(value.get_state()),
        lambda value, before: value.set_state(pickle.loads(before)),
    ),
    random.Random: (
        lambda value: pickle.dumps(value.getstate()),
        lambda value, before: value.setstate(pickle.loads(before)),
    ),
    CellType: (
        lambda value: [value.cell_contents],
        lambda value, before: setattr(value, "cell_contents", before[0]),
    ),
}

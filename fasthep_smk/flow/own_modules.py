"""What an operation leaves in the user's own modules, and in the process, is taken back.

A process of its own imports the modules anew: with ``--granularity stage`` no stage sees what
another has left in them. So that it sees it with no granularity, they are as they were when they
were imported whenever an operation begins.
"""

from __future__ import annotations

import array
import os
import pickle
import random
import sys
import threading
from collections import UserDict, UserList, deque
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache, cached_property, partial
from importlib import import_module
from itertools import zip_longest
from types import (
    CellType,
    FunctionType,
    MemberDescriptorType,
    MethodType,
    ModuleType,
    SimpleNamespace,
)
from typing import Any, NamedTuple

import awkward as ak
import numpy as np

from fasthep_smk.flow import op_identity
from fasthep_smk.flow.distributions import is_installed_file

#: Bytes of an array of a module above which its content is not looked at, and items of a list or
#: mapping above which only these are, and nothing that they hold.
_LARGE, _LONG = 10_000_000, 2_000
#: Values of a module that are looked at, those first that fewest others lie around.
_MANY = 50_000
#: What cannot be changed, nor hold what can.
_PLAIN = (type(None), bool, int, float, complex, str, bytes)
#: What Python calls the type of a module that is loaded by a look at it.
_LAZY = "_LazyModule"


#: What was imported before this module, and is not the user's: a job imports that later.
_EARLIER = frozenset(sys.modules)
#: What is told of own modules that an operation imports while it runs.
_watching: OwnModules | None = None
#: Names of the user's modules that were imported: one may put another object in its place.
_imported: set[str] = set()


class OwnModules:
    """What the user's own modules hold, to be as it was before an operation.

    What ``functools.cache`` keeps stays, and so does what is inside objects of libraries.
    ``unseeded`` is the state of random numbers before any of them was imported.
    """

    def __init__(self, named: Collection[str], unseeded: RandomState) -> None:
        self._named = {name.partition(".")[0] for name in named}
        self._examined = set(_EARLIER)
        self._own: set[str] = set()
        #: What they hold. It stays true: whatever is changed is taken back.
        self._held: list[_Held] = []
        self._seen: dict[int, object] = {}
        self._place, self._variables, self._errors = "", _variables(), np.geterr()
        self._unseeded, self._before = unseeded, unseeded

    def enter(self, module: str | None, *, anew: bool) -> None:
        """Import a module, and look at what is held by those that were imported since.

        ``anew``: at what all hold by now, which is not only what they held when they were imported.
        """
        global _watching
        if module is not None:
            with suppress(Exception):  # FAST-HEP says what is wrong with it
                import_module(module)
        modules = sys.modules
        unseen = modules.keys() - self._examined
        new = {name for name in unseen if type(modules[name]).__name__ != _LAZY}
        self._examined |= new
        self._own.update(name for name in new if self._is_own(name, sys.modules[name]))
        if anew or self._own & new:  # which may have told others of themselves
            self._held, self._seen = [], {}
            for name in sorted(self._own & sys.modules.keys()):
                self._look_at(sys.modules[name], name)
        self._place, self._variables = os.getcwd(), _variables()  # noqa: PTH109
        self._before, self._errors = random_state(), np.geterr()
        _watching = self

    def leave(self, returned: Collection[object]) -> list[str]:
        """Let the modules hold what they held, and the process be as it was; say what was not.

        Raises:
            ValueError: one of the objects that were ``returned`` would be taken back with them.
        """
        global _watching
        _watching = None
        changes, lost = [], ""
        for held in self._held:
            change = held.take_back()
            changes += [change] * bool(change)
            if change and any(held.value is value for value in returned):
                lost = change
        if _variables() != self._variables:
            os.environb.clear()
            os.environb.update(self._variables)
        os.chdir(self._place)
        np.seterr(**self._errors)
        if random_state() != self._before:
            random.seed()
            np.random.seed()
            if self._before != self._unseeded:  # by a module: so begins each stage of its own
                of_python, name, key, *more = self._before
                random.setstate(of_python)
                np.random.set_state((name, np.frombuffer(key, np.uint32), *more))
        if lost:
            raise ValueError(
                f"it has changed {lost} and returned it: return a copy instead (copy.deepcopy)"
            )
        return changes

    def separate(self, returned: ak.Array) -> None:
        """Copy those columns of what an operation returned that lie in an array of a module."""
        arrays = [held.value for held in self._held if isinstance(held.value, np.ndarray)]
        if arrays:
            layout = _separated(returned.layout, arrays)
            if layout is not returned.layout:
                returned.layout = layout

    @contextmanager
    def taking_in(self, module: ModuleType) -> Iterator[None]:
        """Let stay what a module that is imported meanwhile does to others: it tells them once."""
        before = [held.read(held.value) for held in self._held]
        yield
        self._examined.add(module.__name__)
        self._own.add(module.__name__)
        for number, was in enumerate(before):
            held = self._held[number]
            now = held.read(held.value)
            if _is_other(now, was):
                self._held[number] = held._replace(before=now)
                for item in now if isinstance(now, list) else []:
                    self._look_at(item, held.name)
        self._look_at(module, module.__name__)

    def _look_at(self, value: object, name: str) -> None:
        self._held += _held(value, name, self._own, self._seen)

    def _is_own(self, name: str, module: object) -> bool:
        if op_identity.is_published(name) or name in _imported:
            return name in _imported
        if not isinstance(module, ModuleType):
            return False
        top, file = name.partition(".")[0], vars(module).get("__file__")
        outside = bool(file) and top != "fasthep_smk" and not is_installed_file(str(file))
        return top in self._named or outside


@contextmanager
def importing(module: ModuleType) -> Iterator[None]:
    """Note a module of the user's that is imported meanwhile, perhaps while an operation runs."""
    _imported.add(module.__name__)
    if _watching is None:
        yield
    else:
        with _watching.taking_in(module):
            yield


#: The state of the random numbers that Python's module and NumPy's keep.
RandomState = tuple[Any, ...]


def random_state() -> RandomState:
    """Return the state of the random numbers that Python's module and NumPy's keep."""
    state: Any = np.random.get_state()
    name, key, *more = state
    return (random.getstate(), name, key.tobytes(), *more)


def _variables() -> dict[bytes, bytes]:
    """Return the environment, past what observes who reads it."""
    return dict(os.environb._data)  # type: ignore[attr-defined]


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
        if not _is_other(now, before):
            return ""
        self.write(self.value, before)
        if isinstance(self.value, ModuleType):
            return f"{', '.join(_others(now, before))} of {self.name}"
        return self.name


def _is_other(now: list[Any] | bytes, before: list[Any] | bytes) -> bool:
    if isinstance(now, bytes):
        return now != before
    end = object()
    return any(new is not old for new, old in zip_longest(now, before, fillvalue=end))


def _others(now: Any, before: Any) -> list[str]:
    """Return the names that do not stand for the same object; of both, names and values in turn."""
    was, are = (dict(zip(listed[::2], listed[1::2], strict=True)) for listed in (before, now))
    return [name for name in {**was, **are} if was.get(name, was) is not are.get(name, are)]


def _held(value: Any, name: str, own: Collection[str], seen: dict[int, object]) -> Iterator[_Held]:
    """Yield what can be changed of a value that an own module holds, and of what that holds."""
    waiting, left = deque([(value, name)]), _MANY
    while waiting and left > 0:
        value, name = waiting.popleft()
        kind = type(value)
        if kind in _PLAIN or id(value) in seen:
            continue
        seen[id(value)] = value
        ways = [way for base, way in _CHANGEABLE.items() if issubclass(kind, base)][:1]
        if _home(value) in own or issubclass(kind, _HOLDERS):
            ways.append((_names, _rename))
        inner = _inside(value)
        for read, write in ways:
            before = read(value)
            yield _Held(value, name, write, read, before)
            if isinstance(before, list) and (read is _names or len(before) < _LONG):
                left -= len(before)
                inner += before
        for number, item in enumerate(inner):
            if type(item) not in _PLAIN:
                is_variable = issubclass(kind, ModuleType) and number % 2
                waiting.append((item, f"{inner[number - 1]} of {name}" if is_variable else name))


def _inside(value: Any) -> list[Any]:
    """Return what a value holds for good."""
    kind = type(value)  # ``isinstance`` asks the value itself, which may be a proxy
    if kind is FunctionType:
        return [value.__defaults__, value.__kwdefaults__, *(value.__closure__ or ())]
    if issubclass(kind, (staticmethod, classmethod)):
        return [value.__func__]
    if kind is MethodType:
        return [value.__self__, value.__func__]
    if issubclass(kind, partial):
        return [value.func, value.args, value.keywords]
    if kind is ak.Array:
        return list(ak.to_buffers(value)[2].values())
    return list(value) if issubclass(kind, (tuple, frozenset)) else []


def _home(value: Any) -> str:
    """Return the module of a class or function, or of the class of an object."""
    kind = type(value)
    if issubclass(kind, ModuleType):
        return str(value.__name__)
    return str((value if issubclass(kind, (type, FunctionType)) else kind).__module__)


def _names(value: Any) -> list[Any]:
    """Return names and values of a module, class, function or object, one after the other."""
    slots, cached = _declared(type(value))  # type: ignore[arg-type]
    attributes: dict[str, Any] = {}
    with suppress(Exception):  # it has none, and may say so in any way
        attributes.update(value.__dict__)
    for name, slot in slots.items():
        with suppress(AttributeError):  # nothing is in it
            attributes[name] = slot.__get__(value)
    return [
        item
        for name, attribute in attributes.items()
        if not (issubclass(type(attribute), ModuleType) or _is_of_python(name) or name in cached)
        for item in (name, attribute)
    ]


def _is_of_python(name: str) -> bool:
    return name.startswith("_") and name.endswith("_")  # enumerations keep tables by such names


@cache
def _declared(kind: type) -> tuple[dict[str, MemberDescriptorType], frozenset[str]]:
    """Return the ``__slots__`` that objects of a class have, and its cached properties."""
    names = {name: member for base in reversed(kind.__mro__) for name, member in vars(base).items()}
    slots = {
        name: member
        for name, member in names.items()
        if isinstance(member, MemberDescriptorType) and not _is_of_python(name)
    }
    cached = (name for name, member in names.items() if isinstance(member, cached_property))
    return slots, frozenset(cached)


def _rename(value: Any, before: list[Any]) -> None:
    """Give names their values, also where the class forbids it."""
    slots = _declared(type(value))[0]  # type: ignore[arg-type]
    names = dict(zip(before[::2], before[1::2], strict=True))
    for name in _others(_names(value), before):
        is_there = name in names
        if isinstance(value, type):
            put, arguments = (
                (type.__setattr__, (names[name],)) if is_there else (type.__delattr__, ())
            )
            put(value, name, *arguments)
        elif name in slots:
            slot = slots[name]
            slot.__set__(value, names[name]) if is_there else slot.__delete__(value)
        elif is_there:
            value.__dict__[name] = names[name]
        else:
            del value.__dict__[name]


def _separated(layout: Any, arrays: list[Any]) -> Any:
    """Return a layout that shares no memory with ``arrays``; the same if it does not."""
    if isinstance(layout, ak.contents.RecordArray):
        contents = [_separated(content, arrays) for content in layout.contents]
        pairs = zip(contents, layout.contents, strict=True)
        return layout.copy(contents=contents) if any(a is not b for a, b in pairs) else layout
    if layout.backend.name != "cpu":
        return layout
    buffers = ak.to_buffers(layout)[2].values()
    if any(np.may_share_memory(buffer, array) for buffer in buffers for array in arrays):
        return ak.copy(ak.Array(layout)).layout
    return layout


def _refill(value: Any, before: list[Any]) -> None:
    value.clear()
    if isinstance(value, dict):
        value.update(zip(before[::2], before[1::2], strict=True))
    else:
        (value.update if isinstance(value, set) else value.extend)(before)


def _rewrite(value: np.ndarray[Any, Any], before: bytes | list[Any]) -> None:
    plain = value.view(np.ndarray)
    if not value.flags.writeable:
        with suppress(ValueError):  # it is that of something else, which is taken back itself
            value.flags.writeable = True
            _rewrite(value, before)
        value.flags.writeable = False
    elif isinstance(before, bytes):
        plain[...] = np.frombuffer(before, plain.dtype).reshape(plain.shape)
    else:
        for number, item in enumerate(before):
            plain.flat[number] = item


def _bits(value: np.ndarray[Any, Any]) -> bytes | list[Any]:
    """Return the content of an array; of one that is large, nothing."""
    if value.nbytes > _LARGE:
        return b""
    plain = value.view(np.ndarray)
    return list(plain.flat) if value.dtype.kind == "O" else plain.tobytes()


#: Objects of libraries that are there to hold what is put into them.
_HOLDERS = (SimpleNamespace, threading.local, UserDict, UserList)
#: How the content of what can be changed is read and written. The keys and values of a mapping
#: stand one after the other.
_CHANGEABLE: Mapping[
    type, tuple[Callable[[Any], list[Any] | bytes], Callable[[Any, Any], None]]
] = {
    dict: (lambda value: [item for pair in value.items() for item in pair], _refill),
    list: (list, _refill),
    set: (lambda value: sorted(value, key=id), _refill),  # refilled, it may have another order
    deque: (list, _refill),
    bytearray: (bytes, lambda value, before: value.__setitem__(slice(None), before)),
    array.array: (
        lambda value: value.tobytes(),
        lambda value, before: value.__setitem__(slice(None), array.array(value.typecode, before)),
    ),
    np.ndarray: (_bits, _rewrite),
    ak.Array: (
        lambda value: [value.layout],
        lambda value, before: setattr(value, "layout", before[0]),
    ),
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

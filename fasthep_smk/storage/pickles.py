"""Pickles that others may have written: read as data of a closed format, or looked at unread.

A pickle names what Python calls while it reads it, so that reading one is running code
(https://docs.python.org/3/library/pickle.html#restricting-globals). What jobs of this user hand on
in this build is plainly unpickled (:mod:`fasthep_smk.storage.products`). Of all others,

- a histogram, as FAST-HEP's layout wants it, is read with stand-ins for what it names, which make
  it of numbers and texts that they have checked (:func:`load_histogram`);
- what a worker sends is not read where it arrives: its opcodes say what it names, which has to be
  a histogram or listed in the workflow, ``smk: {pickles_of: [...]}`` (:func:`check`).
"""

from __future__ import annotations

import io
import math
import pickle
import re
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from fasthep_smk.util import files
from fasthep_smk.util.errors import Findings

if TYPE_CHECKING:
    import hist

Name = tuple[str, str]

#: How the pickles in an archive of products are called.
MEMBER = ".pickle"
#: Bytes of the largest pickle that is taken from a worker.
LARGEST = 1_000_000_000
#: Opcodes of older protocols, of objects that lie elsewhere, and one that Python does not write.
_ODD = frozenset(
    {"BINPERSID", "BINPUT", "DUP", "EXT1", "EXT2", "EXT4", "GLOBAL", "INST", "LONG_BINPUT",
     "NEXT_BUFFER", "PERSID", "PUT", "READONLY_BUFFER"}
)  # fmt: skip
#: Stands for a tuple; and how many of them the pickle of a histogram may have.
_TUPLE, _TUPLES = object(), 1000

_CLASSES = frozenset(
    {
        ("hist.hist", "Hist"),
        ("hist.namedhist", "NamedHist"),
        ("hist.basehist", "BaseHist"),
        ("boost_histogram.histogram", "Histogram"),
    }
)
_STORAGES = frozenset(
    ("boost_histogram._core.hist", f"any_{kind}")
    for kind in ("atomic_int64", "double", "int64", "mean", "multi_cell", "unlimited", "weight",
                 "weighted_mean")
)  # fmt: skip
#: Finds a transform's compiled functions, by their names.
_CONVERSION = ("boost_histogram.axis.transform", "_internal_conversion")
_TRANSFORMS = (["_log_fn", "_exp_fn"], ["_sqrt_fn", "_sq_fn"])
_DTYPE = ("numpy", "dtype")
_CORES = ("numpy._core", "numpy.core")  # of NumPy 2 and 1
_FROM_BUFFER = frozenset((f"{core}.numeric", "_frombuffer") for core in _CORES)
#: All that the pickle of a histogram names.
HISTOGRAM = _CLASSES | _STORAGES | _FROM_BUFFER | {_CONVERSION, _DTYPE}
#: What objects of listed classes may hold besides: plain data, and arrays.
PLAIN = frozenset(
    {
        *(("builtins", name) for name in
          ("bool", "bytearray", "bytes", "complex", "dict", "float", "frozenset", "int", "list",
           "range", "set", "slice", "str", "tuple")),
        *(("collections", name) for name in ("Counter", "OrderedDict", "defaultdict", "deque")),
        *(("datetime", name) for name in ("date", "datetime", "time", "timedelta", "timezone")),
        ("decimal", "Decimal"),
        ("fractions", "Fraction"),
        *((module, name) for module in ("pathlib", "pathlib._local")
          for name in ("PosixPath", "PurePosixPath")),
        *_FROM_BUFFER,
        *((f"{core}.multiarray", name) for core in _CORES for name in ("_reconstruct", "scalar")),
        _DTYPE,
        ("numpy", "ndarray"),
    }
)  # fmt: skip

#: The classes whose objects this process may pickle: all, unless its job was sent its files.
_listed: frozenset[str] | None = None


class RefusedPickle(pickle.UnpicklingError):
    """A pickle is not taken; ``names`` are those in it that would have to be listed."""

    def __init__(self, problem: str, names: Iterable[Name] = ()) -> None:
        self.names = ", ".join(sorted(f"{module}:{name}" for module, name in names))
        super().__init__(f"{problem} {self.names}".rstrip())


def limit(listed: Iterable[str] | None) -> None:
    """Let this process pickle objects of these classes only, ``module:Class``; or of all."""
    global _listed
    _listed = None if listed is None else frozenset(listed)


def dump(value: object, key: str) -> bytes:
    """Return a value as a pickle that can be read back; ``key`` names it in a message.

    Raises:
        Findings: it will be sent, and holds objects of classes that are not listed.
        pickle.PicklingError, AttributeError, TypeError: it cannot be pickled.
    """
    content = pickle.dumps(value, protocol=5)
    pickle.loads(content)
    sent(content, key=key)
    return content


def sent(pickled: bytes | Path, *, key: str | None = None, file: str | None = None) -> None:
    """Refuse early what would not be taken where it is sent, if this process's job sends it.

    Raises:
        Findings: it holds objects of classes that are not listed.
    """
    if _listed is None:
        return
    content = files.read_plain(pickled, LARGEST + 1) if isinstance(pickled, Path) else pickled
    try:
        check(content, _listed)
    except RefusedPickle as error:
        fix = f"if you trust the workers, list the class: smk: {{pickles_of: [{error.names}]}}"
        raise Findings.one(
            f"workers must not send this: {error}",
            file=file,
            key=key,
            expected="arrays, histograms, plain data or objects of the classes in 'smk: "
            "{pickles_of: [...]}'",
            hint=fix if error.names else None,
        ) from error


def check(content: bytes, listed: Iterable[str]) -> None:
    """Check a pickle that a worker sends, by the classes that the workflow lists.

    Objects of classes that are listed may also hold plain data, arrays and histograms.

    Raises:
        Refused: it is not a histogram, and names something else.
    """
    if len(content) > LARGEST:
        raise RefusedPickle(f"it is larger than {LARGEST // 10**6} MB")
    classes = {(module, name) for module, _, name in (item.partition(":") for item in listed)}
    names = names_in(content)
    if names <= HISTOGRAM and names - PLAIN:
        load_histogram(content)
    elif others := names - classes - (PLAIN | HISTOGRAM if classes else set()):
        raise RefusedPickle("it holds", others)


def check_archive(path: Path, listed: Iterable[str]) -> None:
    """Check all pickles in an archive of products that a worker has sent.

    Raises:
        Refused: one holds what is not listed, or it is no archive.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            for item in archive.infolist():
                if item.filename.endswith(MEMBER):
                    with archive.open(item) as stream:
                        check(stream.read(LARGEST + 1), listed)
    except RefusedPickle:
        raise
    except Exception as error:
        raise RefusedPickle(f"it is not an archive: {error}") from error


def names_in(content: bytes, *, tuples: float = math.inf) -> set[Name]:
    """Return module and name of all that a pickle names, by its opcodes: nothing is read.

    There are at most so many ``tuples``, none of them twice: to hash one goes as deep as they lie
    in each other, through each as often as it is met.

    Raises:
        Refused: it is none of protocol 4 or 5 as Python's own pickler writes it.
    """
    import pickletools  # few processes need it

    names: set[Name] = set()
    memo: list[object] = []
    # The two values that were pushed last, as far as they are texts or tuples.
    below: object = None
    top: object = None
    many: float = 0
    try:
        for number, operation in enumerate(pickletools.genops(content)):
            name, argument = operation[0].name, cast("Any", operation[1])
            if name in _ODD or (name == "PROTO") != (number == 0) or (not number and argument < 4):
                raise ValueError(f"its opcode {number} is {name}")
            if name == "MEMOIZE":
                memo.append(top)
            elif name in ("BINGET", "LONG_BINGET"):
                below, top = top, memo[argument]
                many += tuples if top is _TUPLE else 0
            elif name in ("SHORT_BINUNICODE", "BINUNICODE", "BINUNICODE8"):
                below, top = top, argument
            elif name == "STACK_GLOBAL":
                if not isinstance(below, str) or not isinstance(top, str):
                    raise ValueError("the names of its classes are not in plain text")
                names.add((below, top))
                below = top = None
            elif name.startswith("TUPLE"):
                below, top, many = None, _TUPLE, many + 1
            elif name not in ("FRAME", "PROTO"):
                below = top = None
            if many > tuples:
                raise ValueError("it has too many tuples")
    except Exception as error:
        raise RefusedPickle(f"it is not a pickle as Python writes it: {error}") from error
    return names


def load_histogram(content: bytes) -> hist.BaseHist:
    """Return the histogram in a pickle as FAST-HEP writes it, whoever has written this one.

    Raises:
        Refused: it is not what the pickle of a histogram is.
    """
    if others := names_in(content, tuples=_TUPLES) - HISTOGRAM:
        raise RefusedPickle("it names objects that histograms do not contain:", others)
    try:
        histogram = _Histograms(io.BytesIO(content)).load()
    except RefusedPickle:
        raise
    except Exception as error:
        raise RefusedPickle(f"it is not a histogram: {error}") from error
    if not isinstance(histogram, _Histogram):
        raise RefusedPickle("it is not a histogram")
    return histogram.real


class _Histograms(pickle.Unpickler):
    """Lets nothing be called but stand-ins, which check what they are given.

    The libraries' own ``__setstate__`` would take bytes for objects, and cells that are not there.
    """

    def find_class(self, module: str, name: str) -> object:
        key = (module, name)
        if key in _CLASSES | _STORAGES:
            kind = _Histogram if key in _CLASSES else _Storage
            return type(name, (kind,), {"cls": super().find_class(module, name)})
        if key == _CONVERSION:
            return _Conversion(super().find_class(module, name))
        return _NumberType if key == _DTYPE else _Array


class _StandIn:
    """What it stands for is ``real``, of the class ``cls``, once it has its state."""

    cls: Any
    real: Any

    def __setstate__(self, state: Any) -> None:
        raise RefusedPickle("it contains an object with the state of another class")


class _Conversion(_StandIn):
    """Finds functions in a library, which is not for a pickle to ask for: it cannot be called."""

    def __init__(self, real: object) -> None:
        self.real = real


class _NumberType(_StandIn):
    """A ``numpy.dtype`` of numbers: neither of objects nor of records."""

    def __init__(self, code: str, align: bool, copy: bool) -> None:
        if not re.fullmatch(r"b1|[iu][1248]|f[248]|c8|c16", code) or (align, copy) != (False, True):
            raise RefusedPickle("it contains an array that does not hold numbers")
        self._code = code

    def __setstate__(self, state: Any) -> None:
        import numpy as np

        version, order, *others = state
        if (version, others) != (3, [None, None, None, -1, -1, 0]) or order not in ("<", ">", "|"):
            raise RefusedPickle("it contains an array that does not hold numbers")
        self.real = np.dtype(self._code).newbyteorder(order)


class _Array(_StandIn):
    """An array of numbers in one dimension."""

    def __init__(self, content: bytes, dtype: Any, shape: tuple[int], order: str) -> None:
        import numpy as np

        (length,) = shape
        if not isinstance(dtype, _NumberType) or order != "C":
            raise RefusedPickle("it contains an array that does not hold numbers")
        self.real = np.frombuffer(content, dtype.real).reshape((length,)).copy()


class _Storage(_StandIn):
    """Axes and cells, which the library writes one after the other."""

    def __setstate__(self, state: Any) -> None:
        *axes, cells = state
        most = max(cells.real.nbytes, 99)  # kinds of axes are numbers, too
        checked: list[object] = []
        for before, item in zip([None, *axes], axes, strict=False):
            # All numbers are counts but the first of an axis of integers, after its annotations.
            is_count = type(item) is int and type(before) is not dict
            if isinstance(item, _Array) or (
                isinstance(item, _Conversion) and checked[-2:] in _TRANSFORMS
            ):
                checked.append(item.real)
            elif _is_plain(item) and not (is_count and not 0 <= item <= most):
                checked.append(item)
            else:
                raise RefusedPickle("it contains an axis that is not a histogram axis")
        self.real = self.cls.__new__(self.cls)
        self.real.__setstate__((*checked, cells.real))
        real_axes = [self.real.axis(number) for number in range(self.real.rank())]
        if self.real.size() != math.prod(axis.extent for axis in real_axes):
            raise RefusedPickle("its number of cells does not fit its axes")
        for axis in real_axes:  # only some may be empty, to grow
            if axis.size < type(axis).__name__.startswith(("regular", "variable")):
                raise RefusedPickle("an axis in it has no bins")


class _Histogram(_StandIn):
    """A histogram with its annotations."""

    def __setstate__(self, state: Any) -> None:
        version, content = state
        storage = content.pop("_hist")
        own = [name for name in content if hasattr(self.cls, name)]
        if version != 0 or own or not _is_plain(content) or not isinstance(storage, _Storage):
            raise RefusedPickle("it is not a histogram with plain annotations")
        self.real = self.cls.__new__(self.cls)
        self.real.__setstate__((0, {**content, "_hist": storage.real}))


def _is_plain(value: object) -> bool:
    """Whether a value is of Python's plain types through and through."""
    todo, seen = [value], set[int]()
    while todo:
        item = todo.pop()
        if isinstance(item, dict | list | tuple):
            if id(item) not in seen:
                seen.add(id(item))
                todo += [*item, *item.values()] if isinstance(item, dict) else item
        elif not isinstance(item, bool | bytes | complex | float | int | str | None):
            return False
    return True

"""Objects of classes that no typed format holds: pickled, and read back without trust.

A pickle names functions that Python calls while it reads it. What a job hands to another one may
come from a worker, so that only classes are found that an operation of the workflow may have made:
of modules that the plan names and own modules that these import, of FAST-HEP, of the numeric
packages below, and of packages that the workflow lists under ``smk: {pickles_of: [...]}``.
(https://docs.python.org/3/library/pickle.html#restricting-globals)
"""

from __future__ import annotations

import io
import pickle
import re
from collections.abc import Iterable

__all__ = ["Refused", "dump", "load", "trust"]

_NUMERIC = frozenset({"awkward", "boost_histogram", "hist", "numpy", "pandas", "scipy", "vector"})
_FASTHEP = frozenset({"fasthep_carpenter", "fasthep_curator", "fasthep_render", "hepflow"})
#: What packages have their pickles call besides classes.
_MAKERS = re.compile(
    r"_*(pyx_)?(unpickle|reconstruct|mareconstruct|frombuffer|scalar|new_Index|new_DatetimeIndex"
    r"|internal_conversion|\w+_ctor)\w*"
)
#: Modules of numeric packages, and classes, with which a file or a process can be opened.
_OF_FILES = re.compile(
    r"(^|\.)(_?io|npyio|_npyio_impl|_datasource|f2py|testing|distutils|ctypeslib|compat|utils?"
    r"|_utils?|weave|tests?|conftest)(\.|$)"
)
_FILES = frozenset({"memmap", "DataSource"})
#: Of Python's own modules, the classes that hold plain data.
_PLAIN = {
    "builtins": frozenset(
        {"bool", "bytearray", "bytes", "complex", "dict", "float", "frozenset", "int", "list",
         "object", "range", "set", "slice", "str", "tuple"}
    ),
    "collections": frozenset({"Counter", "OrderedDict", "defaultdict", "deque"}),
    "datetime": frozenset({"date", "datetime", "time", "timedelta", "timezone"}),
    "decimal": frozenset({"Decimal"}),
    "fractions": frozenset({"Fraction"}),
    "functools": frozenset({"partial"}),
    "pathlib": frozenset({"Path", "PosixPath", "PurePath", "PurePosixPath"}),
    "pathlib._local": frozenset({"Path", "PosixPath", "PurePath", "PurePosixPath"}),
    "types": frozenset({"SimpleNamespace"}),
    "uuid": frozenset({"UUID"}),
    "copyreg": frozenset({"_reconstructor", "__newobj__", "__newobj_ex__"}),
    "_codecs": frozenset({"encode"}),
}  # fmt: skip

#: Top-level packages of the run that this process works for.
_trusted: frozenset[str] = frozenset()


class Refused(pickle.UnpicklingError):
    """A pickle names what no operation of the workflow makes; ``package`` is where that lies."""

    def __init__(self, module: str, name: str) -> None:
        self.package = module.partition(".")[0]
        super().__init__(f"it names {module}.{name}, which nothing of this workflow makes")


def trust(packages: Iterable[str]) -> None:
    """Let pickles hold classes of these packages: what the run of this process names."""
    global _trusted
    _trusted = frozenset(packages)


def dump(value: object) -> bytes:
    """Return a value as a pickle that can be read back.

    Raises:
        Refused: :func:`load` would not read it.
        pickle.PicklingError, AttributeError, TypeError: it cannot be pickled.
    """
    content = pickle.dumps(value, protocol=5)
    load(content)
    return content


def load(content: bytes) -> object:
    """Return the value in a pickle.

    Raises:
        Refused: it names what the workflow has no operation for.
        Exception: it is no pickle.
    """
    return _Reader(io.BytesIO(content)).load()


class _Reader(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> object:
        try:
            return self._find(module, name)
        except (AttributeError, ImportError, ValueError) as error:
            raise Refused(module, name) from error

    def _find(self, module: str, name: str) -> object:
        top = module.partition(".")[0]
        if name in _PLAIN.get(module, ()):
            return super().find_class(module, name)
        if module == "builtins":
            found = super().find_class(module, name) if name.isidentifier() else None
            if isinstance(found, type) and issubclass(found, BaseException):
                return found
        # Another module's import would run it: it is not looked for.
        elif top in _trusted | _FASTHEP | _NUMERIC:
            found = super().find_class(module, name)
            if _is_allowed(found, top, name):
                return found
        raise Refused(module, name)


def _is_allowed(found: object, top: str, name: str) -> bool:
    """Whether a package declares an object itself, and it is a class or makes objects of one."""
    if type(found).__module__ == "numpy" and type(found).__name__ == "ufunc":
        return True
    home = str(getattr(found, "__module__", "") or "")
    if home.partition(".")[0] != top:
        return False
    if top in _NUMERIC and (_OF_FILES.search(home) or name in _FILES):
        return False
    return isinstance(found, type) or _MAKERS.fullmatch(name) is not None

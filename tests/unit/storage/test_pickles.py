"""Pickles of others: histograms are read as data, and of all else it is said what they hold."""

from __future__ import annotations

import collections
import functools
import importlib
import inspect
import io
import itertools
import os
import pickle
import random
import re
import resource
import signal
import sys
import zipfile
from pathlib import Path
from typing import Any

import boost_histogram as bh
import hist
import numpy as np
import pytest
from boost_histogram import _core

from fasthep_smk.storage import pickles
from fasthep_smk.util.errors import Findings
from tests.support.histograms import same_histogram

#: How many damaged pickles are read.
COUNT = int(os.environ.get("FASTHEP_SMK_FUZZ", "300"))
NEW = hist.Hist.new
TRANSFORMS = hist.axis.transform


def histograms() -> list[hist.BaseHist]:
    """Return histograms of each axis, each trait, each storage and each transform."""
    axes: list[Any] = [
        hist.axis.Regular(3, 1, 10, name="x", label="$x$"),
        *(hist.axis.Regular(3, 1, 10, **one) for one in traits()),
        *(hist.axis.Variable([1, 2, 4.5], **one) for one in traits()),
        *(hist.axis.Integer(-2, 3, **one) for one in traits()),
        *(
            hist.axis.Regular(3, 1, 10, transform=one)
            for one in (TRANSFORMS.log, TRANSFORMS.sqrt, TRANSFORMS.Pow(2.5))
        ),
        *(hist.axis.StrCategory(["a", "ü"], growth=one) for one in (True, False)),
        *(hist.axis.IntCategory([-3, 7], growth=one) for one in (True, False)),
        hist.axis.StrCategory([], growth=True),
        hist.axis.StrCategory(["a"], overflow=False),
        hist.axis.IntCategory([1], overflow=False),
        hist.axis.Boolean(name="b"),
        hist.axis.Regular(3, 0, 1, metadata={"a": [1, (2.5, None)], "b": b"x"}),
    ]
    storages = [hist.storage.Double(), hist.storage.Weight(), hist.storage.Int64(),
                hist.storage.AtomicInt64(), hist.storage.Mean(), hist.storage.WeightedMean(),
                hist.storage.Unlimited()]  # fmt: skip
    made = [hist.Hist(axis, storage=one) for axis in axes for one in storages]
    made += [
        hist.Hist(one, other, storage=hist.storage.Weight())
        for one, other in itertools.combinations(axes, 2)
    ]
    made += [
        NEW.Reg(2, 0, 1).Var([0, 1, 5]).StrCat(["a"], growth=True).Double(name="n", label="l"),
        hist.NamedHist.new.Reg(2, 0, 1, name="x").Weight(),
        hist.BaseHist(hist.axis.Regular(2, 0, 1)),
        bh.Histogram(bh.axis.Regular(2, 0, 1), metadata="m"),
        bh.Histogram(bh.axis.Regular(2, 0, 1), storage=bh.storage.MultiCell(3)),
        NEW.Reg(3, 0, 1).Unlimited().fill([0.1], weight=2.5),
    ]
    chance = np.random.default_rng(1)
    for one in made:
        cells = one.view(flow=True)
        if type(cells) is np.ndarray:
            cells[...] = chance.integers(0, 100, cells.shape)
        else:
            for name in cells.dtype.names:
                cells[name] = chance.normal(size=cells.shape)
    made[0].view(flow=True)[:] = [np.nan, np.inf, -0.0, 5e-324, -np.inf]
    return made


def traits() -> list[dict[str, bool]]:
    return [{"growth": True}, {"circular": True}, {"flow": False},
            {"underflow": False}, {"overflow": False}, {}]  # fmt: skip


HISTOGRAMS = histograms()


def test_every_histogram_is_read_as_pickle_does() -> None:
    for one in HISTOGRAMS:
        content = pickle.dumps(one, protocol=5)
        read = pickles.load_histogram(content)
        expected = pickle.loads(content)
        assert same_histogram(read, expected)
        assert pickle.dumps(read, protocol=5) == pickle.dumps(expected, protocol=5)
        pickles.check(content, [])


# --- what pickles may name ------------------------------------------------------------------------


def test_a_histogram_names_what_the_table_says_and_no_more() -> None:
    named = set[pickles.Name]().union(
        *(pickles.names_in(pickle.dumps(one, protocol=5)) for one in HISTOGRAMS)
    )
    core = "numpy._core" if np.lib.NumpyVersion(np.__version__) >= "2.0.0" else "numpy.core"
    other = {"numpy._core": "numpy.core", "numpy.core": "numpy._core"}[core]
    assert named == pickles.HISTOGRAM - {(f"{other}.numeric", "_frombuffer")}
    assert {name for module, name in named if module == _core.hist.__name__} == {
        name for name in vars(_core.hist) if name.startswith("any_")
    }


#: Why no class of a table runs text: by construction, whatever state it gets.
HARMLESS = {
    "a stand-in is called in its place": pickles._FROM_BUFFER
    | {pickles._DTYPE, pickles._CONVERSION},
    "it gets numbers and texts that a stand-in has checked": pickles._CLASSES | pickles._STORAGES,
}


def test_each_name_of_a_histogram_is_harmless() -> None:
    assert set().union(*HARMLESS.values()) == pickles.HISTOGRAM
    reader = pickles._Histograms(io.BytesIO())
    for key in pickles.HISTOGRAM:
        found = reader.find_class(*key)
        kind = found if isinstance(found, type) else type(found)
        assert issubclass(kind, pickles._StandIn), key
        assert isinstance(found, type) or not callable(found)


#: Text of methods that Python calls when an object is read.
RUNS = re.compile(r"\b(eval|exec|compile|__import__|import_module|open|system|Popen|getattr)\(")
READ_BY = ("__setstate__", "__init__", "__new__", "__reduce__", "__reduce_ex__", "__setattr__")
PACKAGES = ("awkward", "boost_histogram", "fsspec", "hist", "numpy", "pandas", "scipy", "uhi",
            "uproot", "vector")  # fmt: skip


def test_no_class_that_runs_text_can_be_named() -> None:
    """A search among all classes that come with the libraries of histograms and arrays."""
    for name in ("numpy.f2py", "numpy.testing", "numpy.lib.npyio", "uhi.io", "uproot"):
        importlib.import_module(name)
    for name in ("pandas", "scipy.stats"):
        try:
            importlib.import_module(name)
        except ImportError:
            continue
    found = set()
    for name, module in sorted(sys.modules.items()):
        if name.partition(".")[0] in PACKAGES:
            for cls in vars(module).values():
                if isinstance(cls, type) and any(map(runs_text, methods(cls))):
                    found |= {(cls.__module__, cls.__qualname__), (name, cls.__name__)}
    assert len(found) > 20, "the search finds classes that do"
    assert not found & pickles.PLAIN
    # Of histograms' classes, the own methods are not what the pickle decides about.
    assert {key[0].partition(".")[0] for key in found & pickles.HISTOGRAM} <= {
        "hist", "boost_histogram",
    }  # fmt: skip


def methods(cls: type) -> list[Any]:
    found = [vars(one).get(name) for one in cls.__mro__[:-1] for name in READ_BY]
    return [one for one in found if inspect.isfunction(one)]


@functools.cache
def runs_text(method: object) -> bool:
    try:
        return RUNS.search(inspect.getsource(method)) is not None  # type: ignore[arg-type]
    except (OSError, TypeError):
        return False


def test_plain_data_is_of_types_without_code() -> None:
    """Classes of Python's own that hold what they are given, and NumPy's four of an array."""
    for module, name in pickles.PLAIN - {("numpy.core.numeric", "_frombuffer")}:
        if module.startswith("numpy"):
            assert name in {"ndarray", "dtype", "_frombuffer", "_reconstruct", "scalar"}
            continue
        found = getattr(importlib.import_module(module.partition(".")[0]), name)
        assert isinstance(found, type)
        assert found.__module__ not in ("os", "subprocess", "importlib", "functools", "operator")
        assert not any(map(runs_text, methods(found))), found


# --- what runs nothing ----------------------------------------------------------------------------


class Runs:
    """A pickle of it calls ``function(*arguments)`` when it is read."""

    def __init__(self, function: str, *arguments: object, state: object = None) -> None:
        self.function, self.arguments, self.state = function, arguments, state

    def pickled(self) -> bytes:
        module, _, name = self.function.partition(":")
        words = b"".join(b"\x8c" + bytes([len(word)]) + word.encode() for word in (module, name))
        arguments = pickle.dumps(self.arguments, 3)[2:-1]
        assert not re.search(rb"[qrh]\x00", arguments.replace(b"q\x00", b"")), "no memo"
        text = b"\x80\x04" + words + b"\x93" + re.sub(rb"q.", b"", arguments) + b"R"
        if self.state is not None:
            text += re.sub(rb"q.", b"", pickle.dumps(self.state, 3)[2:-1]) + b"b"
        return text + b"."


ATTACKS = [
    Runs("os:system", "touch canary"),
    Runs("posix:system", "touch canary"),
    Runs("builtins:eval", "open('canary', 'w')"),
    Runs("builtins:exec", "open('canary', 'w')"),
    Runs("builtins:open", "canary", "w"),
    Runs("builtins:__import__", "os"),
    Runs("importlib:import_module", "antigravity"),
    Runs("pathlib:os.system", "touch canary"),
    Runs("numpy:fromfile", "/etc/passwd"),
    Runs("numpy:memmap", "canary", "uint8", "w+"),
    Runs("numpy.f2py:compile", "x"),
    Runs("hepflow.utils:load_object", "os:system"),
    Runs("hist.hist:os.system", "touch canary"),
    Runs("hist:Hist", "x"),
    Runs("boost_histogram.axis.transform:copy.copy", "x"),
    Runs("boost_histogram._core.axis.transform:func_transform", "x"),
    Runs("fasthep_smk.util.files:write_text", "canary", "x"),
    Runs("copyreg:_reconstructor", "x"),
    Runs("scipy.stats._distn_infrastructure:rv_continuous",
         state={"_parse_arg_template": "open('canary', 'w')", "shapes": "a"}),
    Runs("pandas.core.computation.eval:eval", "@__import__('os').system('touch canary')"),
]  # fmt: skip


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.function)
def test_nothing_runs(attack: Runs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    content = attack.pickled()
    assert pickles.names_in(content) == {tuple(attack.function.split(":"))}
    with pytest.raises(pickles.RefusedPickle, match=re.escape(attack.function)):
        pickles.load_histogram(content)
    for listed in ([], ["tests:Own"], [attack.function + "s"]):
        with pytest.raises(pickles.RefusedPickle, match=re.escape(attack.function)):
            pickles.check(content, listed)
    assert not list(tmp_path.iterdir())


ODD = {
    "protocol 3": pickle.dumps(NEW.Reg(2, 0, 1).Double(), protocol=3),
    "protocol 0": b"cos\nsystem\n(S'touch canary'\ntR.",
    "a lower protocol later": b"\x80\x04\x80\x02\x8c\x0b__builtin__\x8c\x04eval\x93.",
    "an old opcode": b"\x80\x04cos\nsystem\n.",
    "an instance": b"\x80\x04(ios\nsystem\n.",
    "a registered number": b"\x80\x04\x82\x01.",
    "a persistent id": b"\x80\x04K\x01Q.",
    "a buffer from outside": b"\x80\x05\x97.",
    "a name from a list": b"\x80\x04]\x8c\x02os\x8c\x06system0\x93.",
    "a name from parts": b"\x80\x04\x8c\x02os0\x8c\x06system\x93.",
    "a name that is copied": b"\x80\x04\x8c\x02os2\x93.",
    "a place far away": b"\x80\x04K\x01r\xff\xff\xff\xff.",
    "a name from nowhere": b"\x80\x04h\x05h\x06\x93.",
    "a negative place": b"\x80\x04\x8c\x02os\x94j\xff\xff\xff\xff\x93.",
    "nothing": b"",
    "half of it": pickle.dumps(NEW.Reg(2, 0, 1).Double(), protocol=5)[:-9],
}  # fmt: skip


@pytest.mark.parametrize("what", ODD)
def test_what_python_does_not_write_is_refused(what: str) -> None:
    for read in (pickles.load_histogram, lambda content: pickles.check(content, ["os:system"])):
        with pytest.raises(pickles.RefusedPickle):
            read(ODD[what])


@pytest.mark.parametrize(
    "nested",
    [b")" + b"\x85" * 100_000, b")" + b"".join(b"\x94h%c\x86" % n for n in range(60))],
    ids=["deep", "wide"],
)  # fmt: skip
def test_a_key_that_takes_for_ever_is_not_looked_up(nested: bytes) -> None:
    with pytest.raises(pickles.RefusedPickle, match="tuples"):
        pickles.load_histogram(b"\x80\x04}" + nested + b"Ns.")


# --- states that the libraries would believe ------------------------------------------------------


class Crafted:
    """Is pickled as an object of a class with any state."""

    def __init__(self, cls: Any, *arguments: object, state: object = None) -> None:
        self.parts = (cls, arguments) if state is None else (cls, arguments, state)

    def __reduce__(self) -> Any:
        return self.parts


def of_storage(storage: type, state: object, **annotations: object) -> bytes:
    content = {"_hist": Crafted(storage, state=state), "_variance_known": True, **annotations}
    return pickle.dumps(Crafted(hist.Hist, state=(0, content)), protocol=5)


#: One regular axis of two bins, and what stands before the cells.
AXIS = (0, 1, 0, 0, 0, 0, 0, 2, {}, 0.0, 1.0, 0, 0)


def axis(at: int, value: object) -> tuple[object, ...]:
    return (*AXIS[:at], value, *AXIS[at + 1 :])


CELLS = np.arange(4.0)
#: What NumPy pickles an array with.
FROM_BUFFER = np.zeros(1).__reduce_ex__(5)[0]


def dtype(*arguments: object, state: object) -> Crafted:
    return Crafted(np.dtype, *arguments, state=state)


PLAIN_STATE = (3, "<", None, None, None, -1, -1, 0)
CRAFTED = {
    "too few cells": of_storage(_core.hist.any_double, (*AXIS, CELLS[:1])),
    "a billion bins": of_storage(
        _core.hist.any_double, (*axis(7, 10**9), CELLS[:1])
    ),
    "a billion names": of_storage(
        _core.hist.any_double, (0, 1, 0, 0, 24, 0, 10**9, "a", {}, 0, 0, CELLS)
    ),
    "a billion axes": of_storage(_core.hist.any_double, (*axis(1, 10**9), CELLS)),
    "negative bins": of_storage(
        _core.hist.any_double, (*axis(7, -1), CELLS[:1])
    ),
    "no edges": of_storage(
        _core.hist.any_double,
        (0, 2, 0, 0, 14, 0, -1.0, {}, 0, 0, 24, 0, 0, {}, 0, 0, np.array([])),
    ),
    "one edge": of_storage(
        _core.hist.any_double, (0, 1, 0, 0, 9, 0, np.array([1.0]), {}, 0, 0, CELLS[:2])
    ),
    "no regular bins": of_storage(_core.hist.any_double, (*axis(7, 0), CELLS[:2])),
    "no axes": of_storage(_core.hist.any_double, (CELLS,)),
    "no state": of_storage(_core.hist.any_double, ()),
    "a number for cells": of_storage(_core.hist.any_double, (*AXIS, 1.0)),
    "objects for cells": of_storage(_core.hist.any_double, (*AXIS, np.array([1, None]))),
    "records for cells": of_storage(_core.hist.any_double, (*AXIS, np.zeros(4, "f8,i4"))),
    "an object as annotation": of_storage(
        _core.hist.any_double, (*axis(8, {"a": Crafted(np.dtype, "f8")}), CELLS)
    ),
    "a method as annotation": of_storage(_core.hist.any_double, (*AXIS, CELLS), view="x"),
    "another version": pickle.dumps(Crafted(hist.Hist, state=(1, {})), protocol=5),
    "a state of old": pickle.dumps(Crafted(hist.Hist, state={"_hist": 1}), protocol=5),
    "a transform of any function": of_storage(
        _core.hist.any_double,
        (0, 1, 0, 0, 7, 0, 0, "__loader__", "_exp_fn", bh.axis.transform._internal_conversion,
         "log", 2, {}, 0.0, 1.0, 0, 0, CELLS),
    ),
    "a function that is called": of_storage(
        _core.hist.any_double, (*AXIS, CELLS),
        foo=Crafted(bh.axis.transform._internal_conversion, "__dict__"),
    ),
    "bytes as objects": of_storage(
        _core.hist.any_double,
        (*AXIS, Crafted(FROM_BUFFER, bytearray(32),
                        dtype("f8", False, True, state=(3, "|", None, None, None, -1, -1, 63)),
                        (4,), "C")),
    ),
    "bytes as pointers": of_storage(
        _core.hist.any_double,
        (*AXIS, Crafted(FROM_BUFFER, bytearray(32), dtype("O8", False, True, state=PLAIN_STATE),
                        (4,), "C")),
    ),
    "a shared type": of_storage(
        _core.hist.any_double,
        (*AXIS, Crafted(FROM_BUFFER, bytearray(32), dtype("f8", False, False, state=PLAIN_STATE),
                        (4,), "C")),
    ),
    "more cells than bytes": of_storage(
        _core.hist.any_double,
        (*AXIS, Crafted(FROM_BUFFER, bytearray(32), dtype("f8", False, True, state=PLAIN_STATE),
                        (400,), "C")),
    ),
    "an array with another state": of_storage(
        _core.hist.any_double,
        (*AXIS, Crafted(FROM_BUFFER, bytearray(32), dtype("f8", False, True, state=PLAIN_STATE),
                        (4,), "C", state={"real": 1})),
    ),
    "only an array": pickle.dumps(CELLS, protocol=5),
    "only a number": pickle.dumps(1, protocol=5),
}  # fmt: skip


@pytest.mark.parametrize("what", CRAFTED)
def test_a_state_that_cannot_be_is_refused(what: str) -> None:
    with pytest.raises(pickles.RefusedPickle):
        pickles.load_histogram(CRAFTED[what])


def test_a_state_that_can_be_is_not() -> None:
    made = pickles.load_histogram(of_storage(_core.hist.any_double, (*AXIS, CELLS), mine="x"))
    assert made.view(flow=True).tolist() == [0, 1, 2, 3]
    assert made.mine == "x"  # type: ignore[attr-defined]
    number = dtype("f8", False, True, state=PLAIN_STATE)
    array = Crafted(FROM_BUFFER, bytearray(32), number, (4,), "C")
    made = pickles.load_histogram(of_storage(_core.hist.any_double, (*AXIS, array)))
    assert made.view(flow=True).tolist() == [0] * 4


VALUES: tuple[Any, ...] = (
    None, True, -1, 0, 1, 2, 3, 7, 15, 24, 26, 2**31 - 1, 2**31, -(2**31), 2**32, 10**9, 2**63 - 1,
    2**63, 1e300, float("nan"), float("inf"), -1.0, 0.0, "", "x", "x" * 1000, {}, {"name": 1}, (),
    np.array([]), np.array([np.nan] * 4), np.array([3.0, 2, 1]), np.zeros(1), np.zeros((2, 2)),
    np.arange(3, dtype="i4"), np.zeros(1000), np.array([1, 1]), np.zeros(4, "c16"),
    bh.axis.transform._internal_conversion, "_log_fn", "_exp_fn", "pow", "func_transform",
)  # fmt: skip


def test_no_state_ends_the_process() -> None:
    """Each that is believed can be used, in a process of its own with little memory."""
    child = os.fork()
    if child == 0:
        read_states()
    assert os.waitpid(child, 0)[1] == 0


def read_states() -> None:
    limit = resource.getrlimit(resource.RLIMIT_AS)[1]
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + 2**30, limit))
    signal.alarm(300)
    np.seterr(all="ignore")
    chance, believed = random.Random(1), 0
    for _ in range(COUNT * 10):
        origin = chance.choice(HISTOGRAMS)._hist
        state = list(origin.__getstate__())
        for _ in range(chance.randint(1, 2)):
            start = chance.randrange(len(state) + 1)
            state[start : start + chance.randrange(3)] = chance.sample(VALUES, chance.randrange(3))
        try:
            made = pickles.load_histogram(of_storage(type(origin), tuple(state)))
        except pickles.RefusedPickle:
            continue
        believed += 1
        for use in (repr, hash_of_view, lambda one: one + one, lambda one: one.sum(flow=True)):
            try:
                use(made)
            except Exception:
                continue
    os._exit(0 if believed else 1)


def hash_of_view(made: Any) -> object:
    return [made.view(flow=True).tobytes(), *([*axis.edges] for axis in made.axes)]


def test_odd_bytes_are_an_error_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    chance = random.Random(1)
    good = [pickle.dumps(one, protocol=5) for one in HISTOGRAMS[::20]]
    good.append(Runs("os:system", "touch canary").pickled())
    for _ in range(COUNT):
        content = bytearray(chance.choice(good))
        for _ in range(chance.randint(1, 4)):
            content[chance.randrange(len(content))] = chance.randrange(256)
        try:
            pickles.load_histogram(bytes(content))
        except pickles.RefusedPickle:
            continue
    assert not list(tmp_path.iterdir())


# --- what a worker may send -----------------------------------------------------------------------


class Own:
    """Stands for a class of a user's module."""

    class Inner:
        """One within it."""

    def __init__(self, value: object) -> None:
        self.value = value


OWN = "tests.unit.storage.test_pickles:Own"
VALUE = [
    Own([np.arange(3), np.float32(1), np.array([1, "a"], object), {1, 2}, Path("a"), 1j]),
    collections.Counter("aab"),
    NEW.Reg(2, 0, 1).Double(),
]


def test_a_class_may_be_sent_if_it_is_listed_itself() -> None:
    content = pickle.dumps(VALUE, protocol=5)
    for listed in ([], [f"{OWN}.Inner"], [f"{OWN}s"], ["tests:Own"], ["os:system"]):
        with pytest.raises(pickles.RefusedPickle, match=re.escape(OWN)):
            pickles.check(content, listed)
    pickles.check(content, [OWN])
    inner = pickle.dumps(Own.Inner(), protocol=5)
    with pytest.raises(pickles.RefusedPickle, match=r"Own\.Inner"):
        pickles.check(inner, [OWN])
    pickles.check(inner, [f"{OWN}.Inner"])


def test_all_classes_are_fine_where_the_files_stay() -> None:
    pickles.limit(None)
    assert pickle.loads(pickles.dump(Own(1), "stage.S")).value == 1


def test_a_job_that_is_sent_fails_when_it_writes() -> None:
    pickles.limit([])
    try:
        with pytest.raises(Findings) as caught:
            pickles.dump({"a": Own(1)}, "stage.S")
        assert "stage.S: workers must not send this" in str(caught.value)
        assert f"smk: {{pickles_of: [{OWN}]}}" in str(caught.value)
        pickles.limit([OWN])
        pickles.dump({"a": Own(1)}, "stage.S")
    finally:
        pickles.limit(None)


@pytest.mark.parametrize("twice", [True, False])
def test_each_member_of_an_archive_is_looked_at(tmp_path: Path, twice: bool) -> None:
    path = tmp_path / "products.zip"
    good = pickle.dumps(NEW.Reg(2, 0, 1).Double(), protocol=5)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("p1.pickle", good)
        archive.writestr("p2.json", b"{}")
    pickles.check_archive(path, [])
    with zipfile.ZipFile(path, "a") as archive, pytest.warns() if twice else open(os.devnull):  # noqa: PTH123
        archive.writestr("p1.pickle" if twice else "p3.pickle", ATTACKS[0].pickled())
    with pytest.raises(pickles.RefusedPickle, match="os:system"):
        pickles.check_archive(path, [])
    path.write_bytes(path.read_bytes()[:-30])
    with pytest.raises(pickles.RefusedPickle, match="not an archive"):
        pickles.check_archive(path, [])

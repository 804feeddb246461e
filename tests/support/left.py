"""Ways in which an operation may leave something for others; no other stage may see any of it."""

from __future__ import annotations

from pathlib import Path

import awkward as ak
import numpy as np
import uproot

__all__ = ["BRANCHES", "HEAD", "LEFT", "write_events", "write_modules"]

#: By name: what the first stage does, and a number below 40 that the second one looks at.
LEFT = {
    # --- in the events ---
    "a column that is set": ("stream['x'] = stream.x * 2", "stream.x[0]"),
    "a new column": ("stream['more'] = stream.x * 0 + 7", "'more' in stream.fields"),
    "a field of a record": ("stream['jet', 'pt'] = stream.jet.pt * 3", "stream.jet.pt[1, 0]"),
    "a column by numpy": ("np.asarray(stream.x)[:] *= 5", "stream.x[1]"),
    "a column that is sorted": ("np.asarray(stream.x)[::-1].sort()", "stream.x[0]"),
    "a list by numpy": ("np.asarray(ak.flatten(stream.jet.eta))[:] = 33", "stream.jet.eta[1, 0]"),
    "ak.to_numpy": ("ak.to_numpy(stream.n)[:3] = 9", "stream.n[0]"),
    "a ufunc with out=": (
        "np.negative(stream.x.to_numpy(), out=stream.x.to_numpy())",
        "stream.x[1]",
    ),
    # --- in what it is given besides ---
    "a global that is a mapping": ("ctx['globals']['table']['a'] = 5", "ctx['table']['a']"),
    "a global that is new": ("ctx['globals']['b'] = 5", "ctx['globals'].get('b', 1)"),
    "the context": ("ctx['b'] = 5", "ctx.get('b', 1)"),
    "metadata": ("ctx['dataset']['meta']['xs'] = 5", "ctx['dataset']['meta'].get('xs', 1)"),
    "a parameter of several stages": ("shared.append(3)", "len(shared)"),
    # --- in its module ---
    "a variable": ("ops.NUMBER = 9", "ops.NUMBER"),
    "a variable that is new": ("ops.FRESH = 9", "getattr(ops, 'FRESH', 1)"),
    "a variable that is deleted": ("del ops.OLD", "getattr(ops, 'OLD', 1)"),
    "a list": ("ops.LIST.append(1)", "len(ops.LIST)"),
    "a list in a mapping": ("ops.DEEP['a'].append(1)", "len(ops.DEEP['a'])"),
    "a set": ("ops.SET.add(1)", "len(ops.SET)"),
    "an array": ("ops.ARRAY[:] = 4", "ops.ARRAY[0]"),
    "an object": ("ops.OBJECT.value = 4", "ops.OBJECT.value"),
    "a class": ("ops.Thing.shared = 4", "ops.Thing.shared"),
    "a function": ("ops.function.calls = 4", "getattr(ops.function, 'calls', 1)"),
    "a default": ("ops.function(4)", "len(ops.function(5))"),
    "a closure": ("ops.count()", "ops.count()"),
    "a generator": ("ops.RANDOM.random()", "int(ops.RANDOM.random() * 30)"),
    "numpy's generator": ("np.random.random()", "int(np.random.random() * 30)"),
    "python's generator": ("random.random()", "int(random.random() * 30)"),
    "an object with slots": ("ops.SLOTS.value = 4", "ops.SLOTS.value"),
    "a frozen object": ("object.__setattr__(ops.FROZEN, 'value', 4)", "ops.FROZEN.value"),
    "an attribute of a mapping": ("ops.TABLE.value = 4", "ops.TABLE.value"),
    "an object of a method": ("ops.method()", "ops.method()"),
    "an argument of a partial": ("ops.bound()", "ops.bound()"),
    "a namespace": ("ops.NAMES.value = 4", "ops.NAMES.value"),
    "a variable of threads": ("ops.LOCAL.value = 4", "ops.LOCAL.value"),
    "a hidden variable": ("ops.__dict__['__hidden'] = 4", "ops.__dict__['__hidden']"),
    "an Awkward array": ("ops.EVENTS['a'] = ops.EVENTS.a * 4", "ops.EVENTS.a[0]"),
    "numbers of an Awkward array": ("np.asarray(ops.EVENTS.a)[:] = 4", "ops.EVENTS.a[0]"),
    "an array of objects": ("ops.OBJECTS[0].append(4)", "len(ops.OBJECTS[0])"),
    "an array that is protected": (
        "ops.READ.flags.writeable = True; ops.READ[:] = 4; ops.READ.flags.writeable = False",
        "ops.READ[0]",
    ),
    "an array of Python's": ("ops.PYTHONS[0] = 4", "ops.PYTHONS[0]"),
    "an object in the place of a module": ("ops.instead.value = 4", "ops.instead.value"),
    "how numpy takes errors": ("np.seterr(over='raise')", "len(np.geterr()['over'])"),
    "a module that it imports": ("ops.other.NUMBER = 4", "ops.other.NUMBER"),
    "a module imported late": ("import pkg.late; pkg.late.NUMBER = 4", "late_number()"),
    # --- in the process ---
    "a variable of the environment": (
        "os.environ['LEFT'] = '4'",
        "float(os.environ.get('LEFT', 1))",
    ),
    "the folder": ("os.chdir('/')", "len(os.getcwd()) == 1"),
    "a folder that is removed": (
        "os.mkdir('gone'); os.chdir('gone'); os.rmdir('../gone')",
        "len(os.getcwd()) == 1",
    ),
}
HEAD = """\
import array, dataclasses, functools, os, random, sys, threading, types, weakref
import awkward as ak
import numpy as np
import instead, other
ops = sys.modules[__name__]
random.seed(3)
np.random.seed(3)
NUMBER, OLD, LIST, DEEP, SET = 1, 2, [], {"a": []}, set()
ARRAY, RANDOM = np.ones(3), np.random.default_rng(3)
def late_number():
    import pkg.late
    return pkg.late.NUMBER
class Thing:
    shared = value = 1
OBJECT = Thing()
def function(value, found=[]):
    found.append(value)
    return found
def counter():
    number = 0
    def count():
        nonlocal number
        number += 1
        return number
    return count
count = counter()
class Slots:
    __slots__ = ("value",)
SLOTS, NAMES, LOCAL = Slots(), types.SimpleNamespace(value=1), threading.local()
SLOTS.value = LOCAL.value = __hidden = 1
@dataclasses.dataclass(frozen=True)
class Frozen:
    value: int = 1
class Table(dict):
    value = 1
class Counter:
    number = 0
    def count(self, *found):
        self.number += 1
        return self.number
FROZEN, TABLE, method = Frozen(), Table(), Counter().count
bound = functools.partial(lambda found: found.append(1) or len(found), [])
EVENTS, OBJECTS, READ = ak.Array([{"a": 1}]), np.array([[], None], dtype=object), np.ones(2)
READ.flags.writeable = False
PYTHONS = array.array("d", [1])
#: Not to be looked at, or of no consequence.
CHAIN = None
for _ in range(5000):
    CHAIN = [CHAIN]
GONE = weakref.proxy(Thing())
HASHES, OTHER = {0, 8, 16, 24, 32}, np.zeros(1000)
SPEC = {
    "name": "my.op", "kind": "transform", "version": "1.0",
    "input": {"name": "stream", "kind": "event_stream", "required": True},
    "params": {"output": {"required": True}, "shared": {"required": False}},
    "result": {"kind": "event_stream"},
    "provides": {"symbols": [{"from": "params.output", "kind": "field_list"}]},
}
def jets(*, stream, output, **_):
    return ak.with_field(stream, ak.zip({"pt": stream.jet_pt, "eta": stream.jet_eta}), output)
def spoil(values):
    np.asarray(values)[:] = 1
    return values
class Spoil:
    def before_node(self, *, inputs, **_):
        spoil(inputs["stream"].x)
WATCH = {"name": "my.watch", "kind": "observer", "version": "1.0", "params": {},
         "input": {"name": "target", "required": True}, "result": {"report": {"kind": "report"}}}
def watch(*, target, ctx):
    target["x"] = target.x * 3
    spoil(target.n)
TWICE = {"name": "my.twice", "kind": "transform", "version": "1.0", "params": {},
         "input": {"name": "hist", "kind": "histogram", "required": True},
         "result": {"hist": {"kind": "histogram"}}}
def twice(*, hist, ctx):
    hist *= 2
    return hist
"""
BRANCHES = ["x", "n", "jet_pt", "jet_eta"]


def write_events(path: Path, count: int, seed: int) -> None:
    """Write a file with the columns that the rows speak of."""
    random = np.random.default_rng(seed)
    number = random.poisson(2, count) + 1
    jets = ak.unflatten(random.exponential(3, number.sum()), number)
    columns = [random.exponential(2, count), number, jets, jets / 2]
    path.parent.mkdir(parents=True, exist_ok=True)
    with uproot.recreate(path) as file:
        file["events"] = dict(zip(BRANCHES, columns, strict=True))


def write_modules(folder: Path) -> None:
    """Write the modules that ``ops`` imports."""
    (folder / "pkg").mkdir()
    for file in ("other.py", "pkg/__init__.py", "pkg/late.py"):
        (folder / file).write_text("NUMBER = 1\n")
    (folder / "instead.py").write_text(
        "import sys\nclass Instead:\n    value = 1\nsys.modules[__name__] = Instead()\n"
    )

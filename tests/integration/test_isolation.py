"""A value is a value: what an operation of a user's own changes, no other stage sees.

Each row of the table is a way in which one stage may leave something for the next. All of them are
stages of one analysis; its histograms are the same in one job and in a job for each stage, and a
histogram that is added later is that of the events as they were.
"""

from __future__ import annotations

import os
import pickle
from pathlib import Path

import awkward as ak
import numpy as np
import pytest
import uproot
import yaml

from tests.support import warm

pytestmark = pytest.mark.integration

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
#: A function, an execution modifier, an observer and an operation that change what they are given.
SPOILERS = """\
- {id: Function, op: hep.define, from: All, params: {variables: [{name: f, expr: spoil(n)}]}}
- id: Modified
  op: hep.define
  from: All
  params: {variables: [{name: g, expr: x + 1}]}
  execution: {modifiers: [{name: my.spoil}]}
  inspect: {kind: my.watch}
- {id: Twice, op: my.twice, from: [{node: changeH0, port: hist, as: hist}]}
"""
PAIR = """\
def change_{number}(*, stream, output, shared, ctx):
    {change}
    return ak.with_field(stream, np.ones(len(stream)), output)
def look_{number}(*, stream, output, shared, ctx):
    return ak.with_field(stream, np.full(len(stream), float({look})), output)
"""


def histogram(name: str, source: str, column: str) -> dict[str, object]:
    bins = {"low": -20, "high": 40, "nbins": 240}
    axes = [{"name": "x", "source": column, "type": "regular", "bins": bins}]
    return {"id": name, "op": "hep.hist", "from": source, "params": {"axes": axes}}


def analysis(left: list[tuple[str, str]]) -> tuple[str, dict[str, object]]:
    """Return the module and the workflow with a pair of stages for each row."""
    registry = {"my.jets": {"spec": "ops:SPEC", "impl": "ops:jets"}}
    stages: list[dict[str, object]] = [
        {"id": "Jets", "op": "my.jets", "params": {"output": "jet"}},
        {
            "id": "All",
            "op": "hep.define",
            "params": {"variables": [{"name": "y", "expr": "x * 1"}]},
        },
    ]
    text, shared = HEAD, [1, 2]
    for number, (change, look) in enumerate(left):
        text += PAIR.format(number=number, change=change, look=look)
        for kind in ("change", "look"):
            registry[f"my.{kind}{number}"] = {"spec": "ops:SPEC", "impl": f"ops:{kind}_{number}"}
            stages.append({
                "id": f"{kind}{number}", "op": f"my.{kind}{number}", "from": "All",
                "params": {"output": f"{kind}{number}", "shared": shared},
            })  # fmt: skip
        stages[-1]["needs"] = [f"change{number}"]
        stages += [histogram(f"{kind}H{number}", f"{kind}{number}", f"{kind}{number}")
                   for kind in ("change", "look")]  # fmt: skip
    registry["my.twice"] = {"spec": "ops:TWICE", "impl": "ops:twice"}
    stages += [*yaml.safe_load(SPOILERS), histogram("G", "Modified", "g")]
    return text, {
        "version": "1.0",
        "use": {"profiles": ["hep"]},
        "registry": {
            "transforms": registry,
            "functions": {"spoil": "ops:spoil"},
            "execution_modifiers": {"my.spoil": {"impl": "ops:Spoil"}},
            "observers": {"my.watch": {"spec": "ops:WATCH", "impl": "ops:watch"}},
        },
        "data": {"defaults": {"eventtype": "mc", "tree_primary": "events"},
                 "datasets": [{"name": "a", "files": ["a.root"]}]},
        "sources": {"events": {"kind": "root_tree", "tree": "events",
                               "branches": ["x", "n", "jet_pt", "jet_eta"]}},
        "analysis": {"globals": {"table": {"a": 1}}, "stages": stages},
    }  # fmt: skip


def counts(build: Path) -> dict[str, list[float]]:
    """Return the content of each histogram."""
    return {
        path.stem: list(pickle.loads(path.read_bytes()).values(flow=True))
        for path in sorted((build / "artifacts/histograms").glob("*.pkl"))
    }


def test_no_stage_sees_what_another_one_has_left(tmp_path: Path) -> None:
    random = np.random.default_rng(1)
    number = random.poisson(2, 100) + 1
    jets = ak.unflatten(random.exponential(3, number.sum()), number)
    with uproot.recreate(tmp_path / "a.root") as file:
        file["events"] = {
            "x": random.exponential(2, 100), "n": number, "jet_pt": jets, "jet_eta": jets / 2,
        }  # fmt: skip
    module, workflow = analysis(list(LEFT.values()))
    (tmp_path / "ops.py").write_text(module)
    (tmp_path / "pkg").mkdir()
    for file in ("other.py", "pkg/__init__.py", "pkg/late.py"):
        (tmp_path / file).write_text("NUMBER = 1\n")
    (tmp_path / "instead.py").write_text(
        "import sys\nclass Instead:\n    value = 1\nsys.modules[__name__] = Instead()\n"
    )

    def run(outdir: str, *options: str) -> dict[str, list[float]]:
        (tmp_path / "w.yaml").write_text(yaml.safe_dump(workflow, sort_keys=False))
        done = warm.run("w.yaml", "-o", outdir, *options, cwd=tmp_path)
        assert done.returncode == 0, done.stderr[-5000:]
        return counts(tmp_path / outdir)

    joined = run("build")
    told = (tmp_path / "build/reports/warnings.md").read_text()
    assert "stage 'change0' changes the columns of its input: other stages see what was" in told
    assert "stage 'change3' changes the values of 'x' in its input: " in told
    assert "stage 'change13' changes NUMBER of ops: " in told
    assert "stage 'change12' changes its parameters: " in told
    apart = run("stage", "--granularity", "stage")
    names = dict(zip((f"lookH{number}" for number in range(len(LEFT))), LEFT, strict=True))
    assert [names.get(name, name) for name in joined if joined[name] != apart[name]] == []
    stages = workflow["analysis"]["stages"]
    stages += [histogram(f"Add{column}", "All", column) for column in ("x", "n", "jet_eta")]
    edited, fresh = run("build"), run("fresh")
    assert [name for name in fresh if edited[name] != fresh[name]] == []
    assert {name: fresh[name] for name in joined} == joined


KEPT = """\
import enum, importlib
import pkg
BUFFER, CONSTANT, STARTED, SEEN = np.zeros(1000), np.arange(100.0), {}, []
HASHES, OTHER = {0, 8, 16, 24, 32}, np.zeros(1000)
HASHES.discard(0)
HASHES.add(0)
class Flag(enum.Flag):
    A = 1
    B = 2
class Loaded:
    @functools.cached_property
    def value(self):
        return 3
LOADED = Loaded()
def buffer(*, stream, output, ctx):
    values = BUFFER[: len(stream)]
    np.multiply(stream.x.to_numpy(), 3, out=values)
    return ak.with_field(stream, values, output)
def constant(*, stream, output, ctx):
    return ak.with_field(stream, CONSTANT, output)
def write(*, stream, output, ctx):
    before = CONSTANT.copy()
    stream.c.to_numpy()[:] += 5
    return ak.with_field(stream, stream.c + before, output)
def plugin(*, stream, output, ctx):
    importlib.import_module("pkg.seven")
    return ak.with_field(stream, np.full(len(stream), pkg.REGISTERED["seven"]()), output)
def scaled(values):
    return np.multiply(values.to_numpy(), 4, out=OTHER[: len(values)])
def look(*, stream, output, ctx):
    return ak.with_field(stream, np.full(len(stream), CONSTANT[3] % 5), output)
def harmless(*, stream, output, ctx):
    value = LOADED.value + (Flag.A | Flag.B).value
    return ak.with_field(stream, stream.x * value, output)
class Watch:  # keeps in the module what it sees before, for what it does after
    def partition_start(self, **_):
        SEEN.append("start")
    def before_node(self, *, node, **_):
        STARTED[node.id] = 1
    def after_node(self, *, node, **_):
        SEEN.append(STARTED.pop(node.id))
    def partition_end(self, **_):
        assert SEEN[0] == "start" and len(SEEN) > 1
HOOK = {"name": "my.hook", "kind": "hook", "version": "1.0"}
"""


@pytest.mark.parametrize("watched", ["", "modifier", "hook"])
def test_what_an_operation_returns_is_as_in_fasthep(tmp_path: Path, watched: str) -> None:
    """Arrays of a module that are returned, modules that register themselves, state of hooks."""
    _, workflow = analysis([])
    (tmp_path / "ops.py").write_text(HEAD.replace("instead, ", "") + KEPT)
    (tmp_path / "other.py").write_text("")
    (tmp_path / "pkg").mkdir()
    (tmp_path / "pkg/__init__.py").write_text("REGISTERED = {}\n")
    (tmp_path / "pkg/seven.py").write_text(
        "from . import REGISTERED\ndef seven():\n    return 7.0\nREGISTERED['seven'] = seven\n"
    )
    with uproot.recreate(tmp_path / "a.root") as file:
        file["events"] = {"x": np.arange(100.0) / 20}
    names = {
        "buffer": "b",
        "constant": "c",
        "write": "d",
        "plugin": "e",
        "harmless": "f",
        "look": "h",
    }
    registry = workflow["registry"]
    registry["transforms"] = {
        f"my.{name}": {"spec": "ops:SPEC", "impl": f"ops:{name}"} for name in names
    }
    registry["functions"] = {"scaled": "ops:scaled"}
    registry["hooks"] = {"my.hook": {"spec": "ops:HOOK", "impl": "ops:Watch"}}
    registry["execution_modifiers"] = {"my.watch": {"impl": "ops:Watch"}}
    stages = [
        {"id": name, "op": f"my.{name}", "params": {"output": column}}
        for name, column in names.items()
    ]
    if watched == "modifier":
        stages[1]["execution"] = {"modifiers": [{"name": "my.watch"}]}
    elif watched:
        workflow["execution_hooks"] = [{"kind": "my.hook"}]
    again = {"id": "again", "op": "my.plugin", "params": {"output": "g"}}
    stages.append(again)
    defined = {"variables": [{"name": "k", "expr": "scaled(x)"}]}
    stages.append({"id": "Function", "op": "hep.define", "params": defined})
    stages += [histogram(f"H{column}", "Function", column) for column in "bcdefghk"]
    workflow["analysis"]["stages"] = stages
    workflow["sources"]["events"]["branches"] = ["x"]
    (tmp_path / "w.yaml").write_text(yaml.safe_dump(workflow, sort_keys=False))
    own = {**os.environ, "PYTHONPATH": str(tmp_path)}
    warm.fasthep("run", "w.yaml", "--outdir", "fasthep", cwd=tmp_path, env=own)
    expected = counts(tmp_path / "fasthep")
    for granularity in ("auto", "stage"):
        done = warm.run("w.yaml", "-o", granularity, "--granularity", granularity, cwd=tmp_path)
        assert done.returncode == 0, done.stderr[-5000:]
        found = counts(tmp_path / granularity)
        assert [name for name in expected if found[name] != expected[name]] == [], granularity
    told = (tmp_path / "auto/reports/warnings.md").read_text()
    assert "'buffer' changes BUFFER of ops" in told
    assert "harmless" not in told

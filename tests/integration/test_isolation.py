"""A value is a value: what an operation of a user's own changes, no other stage sees.

Each row of the table is a way in which one stage may leave something for the next. All of them are
stages of one analysis; its histograms are the same in one job and in a job for each stage, and a
histogram that is added later is that of the events as they were.
"""

from __future__ import annotations

import os
import pickle
from pathlib import Path

import numpy as np
import pytest
import uproot
import yaml

from tests.support import warm
from tests.support.left import BRANCHES, HEAD, LEFT, write_events, write_modules

pytestmark = pytest.mark.integration

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
        "sources": {"events": {"kind": "root_tree", "tree": "events", "branches": BRANCHES}},
        "analysis": {"globals": {"table": {"a": 1}}, "stages": stages},
    }  # fmt: skip


def counts(build: Path) -> dict[str, list[float]]:
    """Return the content of each histogram."""
    return {
        path.stem: list(pickle.loads(path.read_bytes()).values(flow=True))
        for path in sorted((build / "artifacts/histograms").glob("*.pkl"))
    }


def test_no_stage_sees_what_another_one_has_left(tmp_path: Path) -> None:
    write_events(tmp_path / "a.root", 100, 1)
    module, workflow = analysis(list(LEFT.values()))
    (tmp_path / "ops.py").write_text(module)
    write_modules(tmp_path)

    def run(outdir: str, *options: str) -> dict[str, list[float]]:
        (tmp_path / "w.yaml").write_text(yaml.safe_dump(workflow, sort_keys=False))
        done = warm.run("w.yaml", "-o", outdir, *options, cwd=tmp_path)
        assert done.returncode == 0, done.stderr[-5000:]
        return counts(tmp_path / outdir)

    joined = run("build")
    told = (tmp_path / "build/reports/warnings.md").read_text()
    assert "stage 'change0' changes the columns of its input: other stages do not see" in told
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

"""Random analyses of own operations, and random edits of them.

Operations read files, modules and variables that no signature knows, go through mappings in their
order, select events, and (where the mix is ``leaky``) change what is not theirs. They stand in
random chains and branches, with histograms, cutflows and weights between them.
"""

from __future__ import annotations

import copy
import difflib
import json
import os
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from tests.support import warm
from tests.support.left import BRANCHES, HEAD, LEFT, write_events, write_modules

__all__ = ["Mix"]

Input = tuple[str, str]

TAIL = """\
import importlib
import multiprocessing
import shutil
import subprocess
import tempfile
from pathlib import Path
def double(*, hist, ctx):
    return hist * 2
def add_one(values):
    return values + 1
def look(value):
    try:
        return float(value())
    except (IndexError, ValueError):  # there are no events
        return -1.0
def total(inputs):
    return sum(read(kind, name) for kind, name in inputs)
def read(kind, name):
    if kind == "variable":
        return float(os.environ[name])
    if kind == "module":
        return importlib.import_module(name).VALUE
    return float(WAYS[int(name[-1])](os.path.join("tables", name + ".txt")))
def through_a_link(name):
    with tempfile.TemporaryDirectory() as folder:
        os.symlink(os.path.abspath(name), f"{folder}/link")
        return Path(folder, "link").read_text()
def of_a_copy(name):
    with tempfile.TemporaryDirectory() as folder:
        shutil.copy(name, f"{folder}/copy")
        return Path(folder, "copy").read_text()
def in_a_pool(name):
    with multiprocessing.get_context("fork").Pool(1) as pool:
        return pool.map(np.loadtxt, [name])[0]
def below_a_folder(name):
    folder = os.open(os.path.dirname(name), os.O_RDONLY)
    with os.fdopen(os.open(os.path.basename(name), os.O_RDONLY, dir_fd=folder)) as file:
        os.close(folder)
        return file.read()
def to_append(name):
    with open(name, "a+") as file:
        file.seek(0)
        return file.read()
WAYS = [
    lambda name: Path(name).read_text(),
    through_a_link,
    of_a_copy,
    in_a_pool,
    below_a_folder,
    to_append,
    lambda name: subprocess.check_output(["cat", name]),
    lambda name: subprocess.check_output(f"cat {name[:-4]}.*", shell=True),
]
"""
OPERATION = """\
def {name}(*, stream, output, shared, ctx):
    made = stream.{column} * 1.0
    {lines}
    return {result}
"""
RESULTS = ("{}", "{}", "{}", "{}[stream.n > 1]", "{}[np.asarray(stream.x) < 4]")
MORE = "ak.concatenate([{0}, {0}])"
#: What an operation may do with ``made``, a number for each event, that only it can see.
STEPS = (
    "made = (made + total(READS[{name!r}][ctx['dataset_name']])) % 17",
    "for factor in shared[1].values(): made = (made * factor + 1) % 17",
    "for factor in ctx['globals']['table'].values(): made = (made * factor + 1) % 17",
    "for factor in ctx['dataset']['meta']['steps'].values(): made = (made * factor + 1) % 17",
    "made = (made * ctx['globals']['scale'] + stream.n) % 17",
    "made = made + ak.sum(stream.jet_pt, axis=1) % 5",
)
INPUTS = [("file", f"file_{number}") for number in range(8)] + [
    (kind, f"{kind}_{number}") for kind in ("module", "variable") for number in range(4)
]
DATASETS = ("a", "b")


@dataclass
class State:
    """What the results follow from."""

    datasets: list[dict[str, Any]]
    variables: dict[str, Any]
    #: By name: a column, lines of the function, and what it returns.
    operations: dict[str, tuple[str, list[str], str]] = field(default_factory=dict)
    reads: dict[str, dict[str, list[Input]]] = field(default_factory=dict)
    stages: list[dict[str, Any]] = field(default_factory=list)
    values: dict[Input, float] = field(default_factory=lambda: dict.fromkeys(INPUTS, 1.0))
    #: By name: how many events, and the seed of their values.
    files: dict[str, tuple[int, int]] = field(default_factory=dict)


class Mix:
    """A random analysis in a folder. ``leaky``: its operations change what is not theirs."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder, self.seed = folder, seed
        self.chance = random.Random(seed)
        self.leaky = bool(seed % 2)
        self._varied = seed % 4 == 3
        self._number = 0
        self.story: list[str] = []
        self._texts: dict[str, str] = {}
        self._files: dict[str, tuple[int, int]] = {}
        (folder / "tables").mkdir()
        write_modules(folder)
        datasets = [
            {"name": name, "files": [f"data/{name}_{number}.root" for number in (0, 1)],
             "steps": {"one": 2, "two": 3}}
            for name in DATASETS
        ]  # fmt: skip
        self.state = State(datasets, {"table": {"a": 1, "b": 2}, "scale": 1.5})
        for number, name in enumerate(file for one in datasets for file in one["files"]):
            self.state.files[name] = (30 + 10 * number, number)
        self._shared = [2, {"one": 2, "two": 3}]
        self.state.stages = [
            {"id": "Jets", "op": "my.jets", "params": {"output": "jet"}},
            {"id": "All", "op": "hep.define", "from": "Jets",
             "params": {"variables": [{"name": "y", "expr": "x * 1"}]}},
        ]  # fmt: skip
        self._histogram(self._own("All", selects=False))
        for _ in range(self.chance.randint(4, 8)):
            self._add_stage()
        for name in self._streams():
            if self.chance.random() < 0.7:
                self._histogram(name)
        self._versions = [copy.deepcopy(self.state)]
        self._write("the analysis")

    # --- what stands in the analysis ----------------------------------------------------------

    def _name(self, letter: str) -> str:
        self._number += 1
        return f"{letter}{self._number}"

    def _streams(self) -> list[str]:
        """Return the stages that make events, but for the first."""
        return [s["id"] for s in self.state.stages[1:] if s["op"] not in ("hep.hist", "my.twice")]

    def _stage(self, name: str) -> dict[str, Any]:
        return next(stage for stage in self.state.stages if stage["id"] == name)

    def _columns(self, name: str) -> list[str]:
        """Return the columns with a number for each event that a stage hands on."""
        stage = self._stage(name)
        if name == "All":
            return ["x", "n", "y"]
        params = stage["params"]
        made = [one["name"] for one in params.get("variables", ())]
        if stage["op"].startswith("my."):
            made.append(params["output"])
        return self._columns(stage["from"]) + made

    def _column(self, name: str) -> str:
        return self.chance.choice(self._columns(name)[::-1][:4])

    def _add_stage(self) -> str:
        source = self.chance.choice(self._streams()[-4:])
        add = self.chance.choices([self._own, self._define, self._cutflow], [5, 2, 2])[0]
        return add(source)

    def _add(self, letter: str, op: str, source: Any, params: dict[str, Any]) -> str:
        name = self._name(letter)
        stage = {"id": name, "op": op, "from": source, "params": params}
        if self.chance.random() < 0.3:
            stage["needs"] = [self.chance.choice(self._streams())]
        self.state.stages.append(stage)
        return name

    def _own(self, source: str, *, selects: bool = True) -> str:
        name = self._name("op")
        self._body(name, source, selects=selects)
        self.state.reads[name] = {one: self.chance.sample(INPUTS, 2) for one in DATASETS}
        shared = self._shared if self.chance.random() < 0.5 else copy.deepcopy(self._shared)
        return self._add("Own", f"my.{name}", source, {"output": f"c{name[2:]}", "shared": shared})

    def _body(self, name: str, source: str, *, selects: bool = True) -> None:
        column = self._column(source) if source else "x"
        steps = self.chance.sample(STEPS, self.chance.randint(1, 3))
        if not selects and STEPS[0] not in steps:
            steps.append(STEPS[0])
        lines = [step.format(name=name) for step in steps]
        if self.leaky:
            more = []
            for change, look in self.chance.sample(list(LEFT.values()), 4):
                more += [change] * (self.chance.random() < 0.6)
                more += [f"made = made + look(lambda: {look})"] * (self.chance.random() < 0.6)
            self.chance.shuffle(more)
            lines += more
        result = self.chance.choice(RESULTS) if selects else "{}"
        self.state.operations[name] = (column, lines, result)

    def _define(self, source: str) -> str:
        variable = {"name": self._name("d"), "expr": self._expression(source)}
        name = self._add("Define", "hep.define", source, {"variables": [variable]})
        if self.leaky and self.chance.random() < 0.3:
            self._stage(name)["execution"] = {"modifiers": [{"name": "my.spoil"}]}
        if self.leaky and self.chance.random() < 0.3:
            self._stage(name)["inspect"] = {"kind": "my.watch"}
        return name

    def _expression(self, source: str) -> str:
        one, other = self._column(source), self._column(source)
        expressions = [f"{one} * 2 + {other}", f"{one} - scale", f"add_one({one})",
                       f"where({one} > 3, {other}, 1)"]  # fmt: skip
        return self.chance.choice(expressions + [f"spoil(n) + {one}"] * self.leaky)

    def _cutflow(self, source: str) -> str:
        groups = {
            name: [self._cut(source) for _ in range(self.chance.randint(1, 2))]
            for name in ("Loose", "Tight")
        }
        params: dict[str, Any] = {"selection": groups}
        params["filter"] = self.chance.choice(["all", "any", "none"])
        if self.chance.random() < 0.7:
            params["weight_expr"] = self._column(source)
        return self._add("Cuts", "hep.selection.cutflow", source, params)

    def _cut(self, source: str) -> str:
        return f"{self._column(source)} {self.chance.choice('<>')} {self.chance.randint(0, 6)}"

    def _histogram(self, source: str) -> str:
        bins = {"low": -20, "high": 40, "nbins": self.chance.choice([60, 240])}
        axes = [{"name": "x", "source": self._column(source), "type": "regular", "bins": bins}]
        params = {"axes": axes, "storage": "weighted", "weight_expr": self._column(source)}
        name = self._add("H", "hep.hist", source, params)
        if self.chance.random() < 0.2:
            self._add("T", "my.twice", [{"node": name, "port": "hist", "as": "hist"}], {})
        return name

    # --- edits --------------------------------------------------------------------------------

    def edit(self) -> set[str] | None:
        """Make a random edit; return the datasets that it concerns if it is one of inputs only."""
        edits: list[Callable[[], str]] = [
            self._edit_order, self._edit_body, self._edit_number, self._edit_events,
            self._edit_away, self._edit_undo, lambda: f"new stage {self._add_stage()}",
            lambda: f"new histogram {self._histogram(self.chance.choice(self._streams()))}",
        ]  # fmt: skip
        if len(self._versions) == 1 or self.chance.random() < 0.25:
            return self._edit_inputs()
        chosen = self.chance.sample(edits, self.chance.choice([1, 1, 2]))
        self._write(", ".join(edit() for edit in chosen))
        self._versions.append(copy.deepcopy(self.state))
        return None

    def _edit_inputs(self) -> set[str]:
        """Change an input that is read, and perhaps others; return the datasets concerned."""
        reads = [
            (dataset, one)
            for name, inputs_of in self.state.reads.items()
            if any("READS" in line for line in self.state.operations[name][1])
            for dataset, inputs in inputs_of.items()
            for one in inputs
        ]
        chosen = {one for _, one in self.chance.sample(reads, min(1, len(reads)))}
        chosen |= set(self.chance.sample(INPUTS, self.chance.randint(0, 2)))
        for one in sorted(chosen):
            self.state.values[one] = float(self.chance.randint(2, 16))
        self._write(f"other values of {sorted(chosen)}")
        self._versions.append(copy.deepcopy(self.state))
        return {dataset for dataset, one in reads if one in chosen}

    def _edit_order(self) -> str:
        mappings = [self.state.variables, self.state.variables["table"],
                    *(one["steps"] for one in self.state.datasets)]  # fmt: skip
        for stage in self.state.stages:
            if "shared" in stage["params"]:
                mappings.append(stage["params"]["shared"][1])
            if "selection" in stage["params"]:
                mappings.append(stage["params"]["selection"])
        chosen = self.chance.choice(mappings)
        for key in list(chosen)[:-1]:
            chosen[key] = chosen.pop(key)
        return "another order of keys"

    def _edit_body(self) -> str:
        stage = self.chance.choice([s for s in self.state.stages if s["id"].startswith("Own")])
        name = stage["op"].removeprefix("my.")
        self._body(name, stage["from"])
        return f"another body of {name}"

    def _edit_number(self) -> str:
        stage = self.chance.choice(self.state.stages[4:])
        params = stage["params"]
        if "axes" in params:
            params["axes"][0]["bins"]["nbins"] += 1
        elif "selection" in params:
            params["selection"]["Tight"][0] = self._cut(stage["from"])
        elif "variables" in params:
            params["variables"][0]["expr"] = self._expression(stage["from"])
        elif "shared" in params:
            params["shared"][1]["two"] += 1
        else:
            self.state.variables["scale"] += 0.5
        return f"another number in {stage['id']}"

    def _edit_events(self) -> str:
        name = self.chance.choice(list(self.state.files))
        self.state.files[name] = (self.chance.randint(1, 60), self.chance.randrange(1000))
        return f"other events in {name}"

    def _edit_away(self) -> str:
        used = {s["from"][0]["node"] if isinstance(s["from"], list) else s["from"]
                for s in self.state.stages[1:]}  # fmt: skip
        used |= {name for s in self.state.stages for name in s.get("needs", ())}
        free = [s for s in self.state.stages[4:] if s["id"] not in used]
        gone = self.chance.choice(free)
        self.state.stages.remove(gone)
        return f"stage {gone['id']} is removed"

    def _edit_undo(self) -> str:
        self.state = copy.deepcopy(self.chance.choice(self._versions))
        return "as it was before"

    def more_events(self) -> str:
        """Let the first operation return all events twice; return the name of its stage."""
        stage = self.state.stages[2]
        name = stage["op"].removeprefix("my.")
        column, lines, _ = self.state.operations[name]
        self.state.operations[name] = (column, lines, MORE)
        self._write(f"{name} returns more events")
        return str(stage["id"])

    def undo(self) -> None:
        """Take the last edit back."""
        self.state = copy.deepcopy(self._versions[-1])
        self._write("as before the last edit")

    # --- the files ----------------------------------------------------------------------------

    def _write(self, about: str) -> None:
        """Write what has changed, and note it for those who want to do it again."""
        values = self.state.values
        texts = {"workflow.yaml": self._workflow(), "ops.py": self._module()}
        for kind, name in INPUTS:
            if kind == "file":
                texts[f"tables/{name}.txt"] = f"{values[kind, name]}\n"
            elif kind == "module":
                texts[f"{name}.py"] = f"VALUE = {values[kind, name]}\n"
        self.story.append(f"=== {about}")
        for name, text in texts.items():
            before = self._texts.get(name, "")
            if text != before:
                (self.folder / name).write_text(text)
                lines = [before.splitlines(), text.splitlines()]
                self.story += (
                    difflib.unified_diff(*lines, name, name, n=1, lineterm="")
                    if len(lines[1]) > 1
                    else [f"{name}: {text.strip()}"]
                )
        self._texts = texts
        for name, (count, seed) in self.state.files.items():
            if self._files.get(name) != (count, seed):
                write_events(self.folder / name, count, seed)
                self.story.append(f"write_events({name!r}, {count}, {seed})")
        self._files = dict(self.state.files)

    def _variables(self) -> dict[str, str]:
        values = self.state.values.items()
        found = {name: str(value) for (kind, name), value in values if kind == "variable"}
        return {**found, "PYTHONPATH": str(self.folder)}

    def _module(self) -> str:
        text = HEAD + TAIL + f"READS = {self.state.reads}\n"
        for name, (column, lines, result) in self.state.operations.items():
            returned = result.format("ak.with_field(stream, made, output)")
            text += OPERATION.format(
                name=name, column=column, lines="\n    ".join(lines), result=returned
            )
        return text

    def _workflow(self) -> str:
        own = {f"my.{name}": {"spec": "ops:SPEC", "impl": f"ops:{name}"}
               for name in ("jets", *self.state.operations)}  # fmt: skip
        twice = {"spec": "ops:TWICE", "impl": "ops:twice" if self.leaky else "ops:double"}
        document = {
            "version": "1.0",
            "use": {"profiles": ["hep"]},
            "registry": {
                "transforms": {**own, "my.twice": twice},
                "functions": {"spoil": "ops:spoil", "add_one": "ops:add_one"},
                "execution_modifiers": {"my.spoil": {"impl": "ops:Spoil"}},
                "observers": {"my.watch": {"spec": "ops:WATCH", "impl": "ops:watch"}},
            },
            "data": {"defaults": {"eventtype": "mc", "tree_primary": "events"},
                     "datasets": self.state.datasets},
            "sources": {"events": {"kind": "root_tree", "tree": "events", "branches": BRANCHES}},
            "analysis": {"globals": self.state.variables, "stages": self.state.stages},
        }  # fmt: skip
        if self._varied:
            variations = [{"name": "double", "weight": {"multiply": ["2.0"]}}]
            document["systematics"] = {"include_nominal": True, "variations": variations}
        return str(yaml.safe_dump(document, sort_keys=False))

    # --- calls --------------------------------------------------------------------------------

    def call(self, *arguments: str, fails: bool = False) -> str:
        """Return what ``fasthep-smk workflow.yaml`` printed."""
        variables = self._variables()
        self.story.append(f"=== {variables} fasthep-smk {' '.join(arguments)}")
        done = warm.run(*arguments, cwd=self.folder, env={**os.environ, **variables})
        printed = f"{done.stdout[-3000:]}\n{done.stderr[-6000:]}"
        assert (done.returncode != 0) is fails, self.told(printed)
        return printed if fails else done.stdout

    def fasthep(self, outdir: str) -> None:
        """Run FAST-HEP itself."""
        warm.fasthep("run", "workflow.yaml", "--outdir", outdir, cwd=self.folder,
                     env={**os.environ, **self._variables()})  # fmt: skip

    def to_run(self, *options: str) -> set[str]:
        """Return the datasets whose jobs would run, and the rules of other jobs."""
        found = json.loads(self.call("why", "workflow.yaml", "--json", *options))["to_run"]
        return {
            name
            for job in found
            for name in {*job["job"].split("/")} & {*DATASETS} or {job["rule"]}
        }

    def told(self, wrong: object) -> str:
        """Return what is wrong, after all that is needed to do it again."""
        again = f"FASTHEP_SMK_MIXES=1 FASTHEP_SMK_MIX_SEED={self.seed}"
        return "\n".join([*self.story, f"=== {again}, {self.folder}: {wrong}"])

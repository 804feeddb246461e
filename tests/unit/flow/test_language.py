"""Keys that nobody reads are refused; what is free, or only unusual, is not."""

from __future__ import annotations

import copy
import dataclasses
import importlib
import random
import typing
from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
import yaml

from fasthep_smk.config import schema
from fasthep_smk.flow.compile import load_with_digests
from fasthep_smk.flow.language import language_findings, operation_findings
from fasthep_smk.flow.locations import located, yaml_slips

ROOT = Path(__file__).parents[3]


def is_whole(path: Path) -> bool:
    """Whether a file is a workflow, and what it includes is there: it may have to be generated."""
    document = yaml.safe_load(path.read_text()) or {}
    if not {"analysis", "sources"} & set(document):
        return False
    included = document.get("include") or []
    listed = [included] if isinstance(included, str) else included
    return all((path.parent / name).exists() for name in listed)


WORKFLOWS = sorted(
    path
    for folder in ("workflow", "tests/workflows")
    for path in (ROOT / folder).rglob("*.yaml")
    if "build" not in path.relative_to(ROOT).parts
    and is_whole(path)  # what a run of the demo has made
)
#: Places below which keys are free, or checked by others: names that people give, parameters of
#: operations whose specs say nothing, `execution`, and what only FAST-HEP's hooks read.
FREE = (
    "analysis.globals", "data.defaults", "data.datasets", "execution", "execution_hooks", "smk",
    "observers", "reports", "registry", "joins", "fields", "outputs", "sources", "styles",
    "datasets",
)  # fmt: skip


def workflow(**sections: Any) -> dict[str, Any]:
    return {
        "use": {"profiles": ["hep"]},
        "data": {"datasets": [{"name": "a", "files": ["a.root"], "eventtype": "mc"}]},
        "sources": {"events": {"kind": "root_tree", "tree": "events"}},
        **sections,
    }


def stage(op: str, **params: Any) -> dict[str, Any]:
    return workflow(analysis={"stages": [{"id": "A", "op": op, "params": params}]})


def published() -> dict[str, dict[str, Any]]:
    """What FAST-HEP's packages register."""
    found: dict[str, dict[str, Any]] = {}
    for package in ("fasthep_carpenter", "fasthep_render"):
        text = resources.files(package).joinpath("profiles/registry.yaml").read_text()
        for section, entries in yaml.safe_load(text)["registry"].items():
            found.setdefault(section, {}).update(entries)
    return found


REGISTRY = published()


def said(document: dict[str, Any]) -> str:
    own = document.get("registry") or {}
    registry = {name: {**known, **(own.get(name) or {})} for name, known in REGISTRY.items()}
    found = language_findings(document, workflow="w.yaml")
    return "\n".join(map(str, [*found, *operation_findings(document, registry, workflow="w.yaml")]))


AXIS = {"name": "x", "source": "x", "type": "regular", "bins": {"low": 0, "high": 1, "nbins": 2}}


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_right_workflow_has_no_findings(path: Path) -> None:
    document, _ = load_with_digests(path)
    assert said(document) == ""


@pytest.mark.parametrize(
    ("document", "key", "hint"),
    [
        (workflow(analyis={"stages": []}), "analyis", "analysis"),
        (workflow(includes=["a.yaml"]), "includes", "include"),
        (workflow(use={"profile": ["hep"]}), "use.profile", "profiles"),
        (workflow(systematics={"include_nominl": True}), "systematics.include_nominl",
         "include_nominal"),
        (workflow(systematics={"variations": [{"name": "up", "weights": {"multiply": "2"}}]}),
         "systematics.variations['up'].weights", "weight"),
        (workflow(systematics={"variations": [{"name": "u", "applies_to": {"eventtype": "mc"}}]}),
         "systematics.variations['u'].applies_to.eventtype", "eventtypes"),
        (workflow(sources={"events": {"tree": "events", "branchs": ["x"]}}),
         "sources.events.branchs", "branches"),
        (workflow(joins={"both": {"inputs": ["a", "b"], "input": []}}), "joins.both.input",
         "inputs"),
        (workflow(registry={"transform": {}}), "registry.transform", "transforms"),
        (workflow(analysis={"stages": [{"id": "A", "op": "hep.define", "parms": {}}]}),
         "analysis.stages['A'].parms", "params"),
        (workflow(analysis={"stages": [{"id": "A", "op": "my.op", "rendr": {}}]}),
         "analysis.stages['A'].rendr", "render"),
        (workflow(analysis={"stages": [{"id": "A", "op": "my.op", "writes": []}]}),
         "analysis.stages['A'].writes", "write"),
        (workflow(analysis={"stages": [{"id": "A", "op": "my.op", "form": "B"}]}),
         "analysis.stages['A'].form", "from"),
        (stage("hep.hist", axes=[AXIS], wieght_expr="w"), "analysis.stages['A'].params.wieght_expr",
         "weight_expr"),
        (stage("hep.hist", axes=[AXIS], storage="weigthed"), "analysis.stages['A'].params.storage",
         "weighted"),
        (stage("hep.hist", axes=[{**AXIS, "typ": "int"}]),
         "analysis.stages['A'].params.axes[0].typ", "type"),
        (stage("hep.hist", axes=[{**AXIS, "bins": {"low": 0, "high": 1, "nbin": 2}}]),
         "analysis.stages['A'].params.axes[0].bins.nbin", "nbins"),
        (stage("hep.define", variables=[{"name": "x", "exp": "1"}]),
         "analysis.stages['A'].params.variables[0].exp", "expr"),
        (stage("hep.selection.cutflow", selection={"All": {"step": ["x > 1"]}}),
         "analysis.stages['A'].params.selection.All.step", "steps"),
        (stage("hep.selection.cutflow", selection={"All": ["x > 1"]}, weight="w"),
         "analysis.stages['A'].params.weight", "weight_expr"),
        (workflow(styles={"plot": {"op": "hep.render.hist1d", "axis": {}}}), "styles.plot.axis",
         "axes"),
        (workflow(styles={"plot": {"op": "hep.render.hist1d", "hist1d": {"histtyp": "step"}}}),
         "styles.plot.hist1d.histtyp", "histtype"),
        (workflow(data={"dataset": []}), "data.dataset", "datasets"),
        (workflow(data={"datasets": [{"name": "a", "files": [], "eventtyp": "data"}]}),
         "data.datasets['a'].eventtyp", "eventtype"),
        (workflow(data={"datasets": [{"name": "a", "flies": []}]}), "data.datasets['a'].flies",
         "files"),
        (workflow(data={"datasets": {"a": {"file": "a.root"}}}), "data.datasets.a.file", "files"),
    ],
)  # fmt: skip
def test_a_mistake_is_named_with_what_was_meant(
    document: dict[str, Any], key: str, hint: str
) -> None:
    assert f"w.yaml: {key}: " in said(document)
    assert f"'{hint}'" in said(document)


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        (stage("hep.hist", axes=[{**AXIS, "bins": {"low": 0, "high": 1, "nbins": -60}}]),
         "nbins: is too small\n    found: -60\n    expected: a whole number, 1 or more"),
        (stage("hep.hist", axes=[{**AXIS, "bins": {"low": 120, "high": 60, "nbins": 3}}]),
         "bins.high: is not above low\n    found: 120 to 60"),
        (stage("hep.hist", axes=[{**AXIS, "bins": {"low": 0, "nbins": 3}}]),
         "bins.high: is missing\n    expected: a number above low"),
        (stage("hep.hist", axes=[{**AXIS, "bins": [0, 1, 2]}]),
         "bins: is a list\n    found: [0, 1, 2]\n    expected: low, high and nbins"),
        (stage("hep.hist", axes=[{**AXIS, "type": "variable"}]),
         "type: is not a valid value\n    found: 'variable'\n    expected: regular, category"),
        (stage("hep.hist"), "params.axes: is missing\n    expected: a list of axes"),
        (stage("hep.selection.cutflow", selection={"All": "x > 1"}),
         "All: is not a valid value\n    found: 'x > 1'\n    expected: a list of cuts"),
        (workflow(data={"datasets": [{"name": "a", "files": []}]}), "files: is empty"),
        (workflow(data={"datasets": [{"name": "a", "xs": 1, 5: None}]}),
         "write 1.5, not 1,5"),
        (workflow(data={"datasets": [{"name": "a", "xs": float("nan")}]}),
         "xs: is not a valid value\n    found: .nan\n    expected: the cross-section, a number"),
        (stage("hep.hist", axes=[AXIS], storage="count", weight_expr="w"),
         "weight_expr: is not used with 'storage: count'\n    found: 'w'"),
        ({**workflow(), True: {"a": 1}}, "True: unknown key"),
        (workflow(_common={}), "_common: unknown key"),
    ],
)  # fmt: skip
def test_a_value_that_means_nothing_is_named(document: dict[str, Any], expected: str) -> None:
    assert expected in said(document)


@pytest.mark.parametrize(
    "document",
    [
        workflow(**{"x-anchors": {"a": 1}, ".common": {}, "comment": "mine", "description": "?"}),
        workflow(data={"datasets": [{"name": "a", "year": 2018, "xsec": 1, "n": 2, "xs": -0.5}]}),
        workflow(data={"datasets": [{"name": "a", "13TeV": True, "2018_lumi": 59.8, 2018: "B"}]}),
        workflow(sources={"mine": {"kind": "my.source", "anything": 1}}),
        workflow(analysis={"globals": {"anything": 1}, "stages": []}),
        stage("my.op", anything=1),
        # An operation of one's own under a published name.
        {**stage("hep.hist", anything=1),
         "registry": {"transforms": {"hep.hist": {"spec": "a:b", "impl": "a:c"}}}},
        workflow(data={"datasets": {1: {"files": ["a.root"]}}}),
        workflow(data={"datasets": [{"name": "a", "metadata": {"label": "x"}}]}),
        workflow(data={"datasets": [{"name": "a", "nevents": 1, "n_events": 2}]}),
        # YAML reads 1e2 as text, and FAST-HEP makes numbers of it.
        stage("hep.hist", axes=[{**AXIS, "bins": {"low": 0, "high": "1e2", "nbins": 60.0}}]),
        stage("hep.selection.cutflow", filter="ANY", comment="x",
              selection={"All": {"description": "d", "steps": ["x > 1"]}}),
        # Parts that styles take from each other by `use`, and renderers of one's own.
        workflow(styles={"ax": {"name": "q", "label": "m"}, "pal": {"dy": {"label": "DY"}},
                         "p": {"op": "hep.render.hist1d", "axes": {"x": {"use": "ax"}},
                               "style": {"datasets": {"use": "pal"}},
                               "legend": {"loc": [0.6, 0.7]}}}),
        workflow(styles={"fancy": {"op": "my.render", "palette": "viridis"}},
                 analysis={"stages": [{"id": "A", "op": "my.op",
                                       "render": {"style": "fancy", "extra": 1}}]}),
        workflow(analysis={"stages": [{"id": "A", "op": "join", "params": {"how": "inner"}}]}),
        workflow(systematics={"variations": [{"name": "{w}", "matrix": {"w": [1]},
                                              "weight": "{w}"}]}),
        workflow(styles={"base": {"op": "hep.render.hist1d"}, "b": {"use": "base",
                                                                  "with": {"figure": {"dpi": 9}}}}),
    ],
)  # fmt: skip
def test_what_is_free_is_not_refused(document: dict[str, Any]) -> None:
    assert said(document) == ""


def places(content: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The keys of a document, each with those above it."""
    if isinstance(content, dict):
        for key, value in content.items():
            yield (*path, key)
            yield from places(value, (*path, key))
    elif isinstance(content, list):
        for number, value in enumerate(content):
            yield from places(value, (*path, number))


def is_free(path: tuple[Any, ...]) -> bool:
    """Whether a key is a name that somebody gave, or below what is not FAST-HEP's."""
    text = ".".join(str(step) for step in path if not isinstance(step, int))
    if len(path) == 1:
        return path[0] in ("comment", "description")
    if "render" in path and path[-1] == "style":
        return True  # the compiler asks for it
    if any(text.startswith(f"{start}.") for start in FREE):
        return True
    inside = [step for step in path if not isinstance(step, int)]
    names = {"globals", "metadata", "patch", "params", "matrix", "replace", "export", "inspect",
             "write", "execution", "applies_to", "style", "comment", "description",
             "overlays"}  # fmt: skip
    return bool(names & set(inside[:-1])) or inside[-1] in ("comment", "description", "overlays")


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: str(path.relative_to(ROOT)))
def test_each_key_misspelt_once_is_refused(path: Path) -> None:
    document, _ = load_with_digests(path)
    random.seed(path.name)
    silent = []
    for place in places(document):
        if is_free(place) or not isinstance(place[-1], str) or len(place[-1]) < 2:
            continue
        changed = copy.deepcopy(document)
        holder: Any = changed
        for step in place[:-1]:
            holder = holder[step]
        at = random.randrange(len(place[-1]))
        holder[place[-1][:at] + random.choice("qz") + place[-1][at + 1 :]] = holder.pop(place[-1])
        if not said(changed):
            silent.append(place)
    assert silent == []


def test_a_finding_names_its_file_and_line(tmp_path: Path) -> None:
    (tmp_path / "base.yaml").write_text(
        "data:\n  defaults: {eventtype: mc}\n  dataset: []\nanalysis:\n  stages:\n"
        "  - id: A\n    op: my.op\n    parms: {}\n"
    )
    path = tmp_path / "w.yaml"
    path.write_text(
        "include: base.yaml\nanalysis:\n  stages:\n    - id: B\n      op: hep.hist\n"
        "      params:\n        axes: []\n        storage: weigthed\n"
    )
    document, _ = load_with_digests(path)
    findings = language_findings(document, workflow="w.yaml")
    findings += operation_findings(document, REGISTRY, workflow="w.yaml")
    found = located(findings, path, shown="w.yaml")
    assert {(one.key, one.at) for one in found} == {
        ("data.dataset", f"{tmp_path}/base.yaml, line 3"),
        ("analysis.stages['A'].parms", f"{tmp_path}/base.yaml, line 8"),
        ("analysis.stages['B'].params.storage", "w.yaml, line 8"),
    }


def test_a_key_that_stands_twice_is_named(tmp_path: Path) -> None:
    path = tmp_path / "w.yaml"
    path.write_text("a: &x {b: 1}\nc: [*x, {d: 1, <<: *x}]\na:\n  e: 1\n  f: 2\n  e: 3\n")
    found = yaml_slips([path], workflow=path, shown="w.yaml")
    assert {(one.key, one.at) for one in found} == {
        ("a", "w.yaml, lines 1 and 3"),
        ("e", "w.yaml, lines 4 and 6"),
    }


STAGE = "analysis: {{stages: [{{id: A, {}}}]}}"
HIST = "analysis: {{stages: [{{id: A, op: hep.hist, params: {{axes: [{{{}}}]}}}}]}}"
VARIATION = "systematics: {{variations: [{{name: v, {}}}]}}"
#: Texts that YAML takes for something else, and for what.
MISREAD = {
    "on": "true", "yes": "true", "NO": "false", "off": "false", "true": "true", "~": "null",
    "null": "null", "2018_08": "201808", "0x10": "16", "010": "8", "1:30": "90", ".5": "0.5",
    "1.50": "1.5", "+5": "5", "1_0.0": "10.0", "2018-05-01 12:00:00Z": "2018-05-01 12:00:00+00:00",
}  # fmt: skip
#: Texts to YAML, or the same as what YAML makes of them.
READ = ["2018", "1.0", "-3", "2024-01-01", "1e3", "'on'", '"2018_08"', "!!str on", "True", "online"]
NAMES = {
    "data.datasets[0].name": "data: {datasets: [{name: TEXT, files: [a.root]}]}",
    "data.datasets['a'].group": "data: {datasets: [{name: a, group: TEXT}]}",
    "data.datasets.a.eventtype": "data: {datasets: {a: {eventtype: TEXT}}}",
    "data.datasets['a'].files[1]": "data: {datasets: [{name: a, files: [a.root, TEXT]}]}",
    "data.defaults.tree_primary": "data: {defaults: {tree_primary: TEXT}}",
    "sources.ev.tree": "sources: {ev: {kind: root_tree, tree: TEXT}}",
    "sources.ev.branches[1]": "sources: {ev: {branches: [a, TEXT]}}",
    "joins.j.inputs[0].source": "joins: {j: {inputs: [{source: TEXT}]}}",
    "primary_stream": "primary_stream: TEXT",
    "fields.f.branch": "fields: {f: {stream: ev, branch: TEXT}}",
    "outputs.o.keep[0]": "outputs: {o: {tree: t, keep: [TEXT]}}",
    "observers[0].at[0]": "observers: [{kind: k, at: [TEXT]}]",
    "styles.s.use": "styles: {s: {use: TEXT}}",
    "styles.s.data_mc.signals[0]": "styles: {s: {data_mc: {signals: [TEXT]}}}",
    "analysis.stages[0].id": "analysis: {stages: [{id: TEXT}]}",
    "analysis.stages['A'].op": STAGE.format("op: TEXT"),
    "analysis.stages['A'].from": STAGE.format("from: TEXT"),
    "analysis.stages['A'].from[0].node": STAGE.format("from: [{node: TEXT}]"),
    "analysis.stages['A'].needs": STAGE.format("needs: TEXT"),
    "analysis.stages['A'].needs[0]": STAGE.format("needs: [TEXT]"),
    "analysis.stages['A'].applies_to.eventtype": STAGE.format("applies_to: {eventtype: TEXT}"),
    "analysis.stages['A'].execution.require": STAGE.format("execution: {require: TEXT}"),
    "analysis.stages['A'].write.keep[0]": STAGE.format("write: {keep: [TEXT]}"),
    "analysis.stages['A'].write[0].path": STAGE.format("write: [{path: TEXT}]"),
    "analysis.stages['A'].render.style": STAGE.format("render: {style: TEXT}"),
    "analysis.stages['A'].render[0].out": STAGE.format("render: [{out: TEXT}]"),
    "analysis.stages['A'].params.axes[0].name": HIST.format("name: TEXT"),
    "analysis.stages['A'].params.axes[0].source": HIST.format("source: TEXT"),
    "analysis.stages['A'].params.axes[0].bins[0]": HIST.format("bins: [TEXT]"),
    "analysis.stages['A'].params.variables[0].name": STAGE.format(
        "op: hep.define, params: {variables: [{name: TEXT}]}"
    ),
    "analysis.stages['A'].params.selection.S.from[0]": STAGE.format(
        "op: hep.selection.cutflow, params: {selection: {S: {from: [TEXT]}}}"
    ),
    "analysis.stages['A'].params.keep[0]": STAGE.format(
        "op: hep.select_objects, params: {keep: [TEXT]}"
    ),
    "systematics.variations[0].name": "systematics: {variations: [{name: TEXT}]}",
    "systematics.variations['v'].stop_before[0]": VARIATION.format("stop_before: [TEXT]"),
    "systematics.variations['v'].replace.a": VARIATION.format("replace: {a: TEXT}"),
    "execution.pools.cpu.use": "execution: {pools: {cpu: {use: TEXT}}}",
}
#: What may be a number or a yes and no: parameters of a user's own, metadata, and settings.
VALUES = [
    STAGE.format("op: own.op, params: {name: TEXT, axes: [{name: TEXT}], keep: [TEXT]}"),
    STAGE.format("op: hep.hist, params: {dataset_axis: TEXT, axes: [{bins: {low: TEXT}}]}"),
    "analysis: {globals: {a: TEXT, b: [TEXT]}}",
    "data: {datasets: [{name: a, nevents: TEXT, xs: TEXT, is_signal: TEXT, runs: [TEXT]}]}",
    "styles: {s: {figure: {dpi: TEXT}, legend: {frameon: TEXT}}, t: {op: own.x, name: TEXT}}",
    "execution: {pools: {cpu: {config: {htcondor: {getenv: TEXT}, walltime: TEXT}}}}",
    "x-notes: {name: TEXT}",
]


def slips(text: str, folder: Path, part: str = "workflow") -> list[tuple[str | None, str]]:
    (folder / "w.yaml").write_text(text)
    path = folder / "w.yaml"
    found = yaml_slips([path], workflow=path, shown="w.yaml", part=part)
    assert all(one.at == "w.yaml, line 1" for one in found)
    return [(one.key, one.problem) for one in found]


@pytest.mark.parametrize("place", NAMES)
def test_a_name_that_yaml_reads_as_something_else_is_named(place: str, tmp_path: Path) -> None:
    for text, read in MISREAD.items():
        found = slips(NAMES[place].replace("TEXT", text), tmp_path)
        problem = f"must be text, but YAML reads it as {read}"
        # Most names may be left out, which is null.
        assert found == [(place, problem)] or (read == "null" and not found)
    for text in READ:
        assert slips(NAMES[place].replace("TEXT", text), tmp_path) == []


@pytest.mark.parametrize("workflow", VALUES)
def test_values_that_are_no_texts_are_left_alone(workflow: str, tmp_path: Path) -> None:
    for text in [*MISREAD, *READ]:
        if text not in ("010", "1:30"):  # refused as numbers to other bases
            assert slips(workflow.replace("TEXT", text), tmp_path) == []


def test_numbers_that_make_names_may_be_written_with_zeros(tmp_path: Path) -> None:
    """Names are made of a matrix, and parameters."""
    variation = VARIATION.format("matrix: {scale: [0.50, TEXT]}")
    assert slips(variation.replace("TEXT", "1.50"), tmp_path) == []
    assert slips(variation.replace("TEXT", "off"), tmp_path) == [
        (
            "systematics.variations['v'].matrix.scale[1]",
            "must be text, but YAML reads it as false",
        )
    ]


@pytest.mark.parametrize("start", ["", "data: {datasets: ", "x: [{y: "])
def test_a_key_that_yaml_reads_as_something_else_is_named(start: str, tmp_path: Path) -> None:
    end = "}" * start.count("{") + "]" * start.count("[")
    for text, read in MISREAD.items():
        for part in ("workflow", "profile"):
            found = slips(f"{start}{{{text} : 1}}{end}", tmp_path, part)
            assert found == [(text, f"this key must be text, but YAML reads it as {read}")]
    for text in READ:
        assert slips(f"{start}{{{text} : 1}}{end}", tmp_path) == []


def test_a_number_that_yaml_reads_as_another_is_named(tmp_path: Path) -> None:
    path = tmp_path / "w.yaml"
    path.write_text(
        "nbins: 036\nxs: 1:30\nright: [007, 0, 0.5, '036', 0x1f, 1e3, 10]\nx-own: 010\n"
        "execution: {walltime: 1:00:00}\n"
    )
    found = yaml_slips([path], workflow=path, shown="w.yaml")
    assert [(one.key, one.problem, one.at) for one in found] == [
        ("nbins", "YAML reads this as 30", "w.yaml, line 1"),
        ("xs", "YAML reads this as 90", "w.yaml, line 2"),
    ]


@pytest.mark.parametrize(
    ("block", "module", "name"),
    [
        ("figure", "model", "FigureSpec"),
        ("legend", "model", "LegendSpec"),
        ("hist1d", "hist.hist1d", "Hist1DParams"),
        ("data_mc", "hist.data_mc", "DataMcParams"),
        ("heatmap2d", "hist.heatmap2d", "Heatmap2DParams"),
        ("comparison", "hist.comparison", "ComparisonParams"),
    ],
)
def test_the_keys_of_styles_are_those_of_the_renderers(block: str, module: str, name: str) -> None:
    """A release of FAST-HEP's that reads another key fails here."""
    found = getattr(importlib.import_module(f"fasthep_render.{module}"), name)
    known = schema.bundled()["$defs"]["style"]["properties"][block]
    assert {one.name for one in dataclasses.fields(found)} == set(known["properties"]) - {
        "use",
        "with",
    }


@pytest.mark.parametrize(
    ("block", "module", "name"),
    [
        ("hist1d", "hist.hist1d", "Hist1DParams"),
        ("data_mc", "hist.data_mc", "DataMcParams"),
        ("comparison", "hist.comparison", "ComparisonParams"),
    ],
)
def test_the_words_of_styles_are_at_least_those_of_the_renderers(
    block: str, module: str, name: str
) -> None:
    found = importlib.import_module(f"fasthep_render.{module}")
    known = schema.bundled()["$defs"]["style"]["properties"][block]
    hints = typing.get_type_hints(getattr(found, name))
    for key, hint in hints.items():
        listed = [one for one in (hint, *typing.get_args(hint)) if "Literal[" in str(one)[:16]]
        words = {word for one in listed for word in typing.get_args(one)}
        if words:
            assert words <= set(known["properties"][key]["enum"]), key

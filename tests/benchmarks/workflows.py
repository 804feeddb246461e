"""The workflows of the benchmarks, as plain data; :func:`write` makes files of them."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from . import events

__all__ = [
    "chain", "histograms", "many_files", "one_file", "one_plot", "plots", "sleeping", "tiny",
    "tutorial", "varied", "write", "zmumu",
]  # fmt: skip

_DEMO = Path(__file__).parents[2] / "workflow" / "demo" / "workflow.yaml"
Document = dict[str, Any]
#: An operation that takes a second and next to no CPU.
SLEEP = """\
import time

SPEC = {"name": "own.sleep", "kind": "transform", "params": {},
        "input": {"name": "stream", "kind": "event_stream", "required": True},
        "result": {"kind": "event_stream"}}


def run(*, stream, ctx=None, **_):
    time.sleep(SECONDS)
    return stream
"""


def write(document: Document, folder: Path, name: str = "workflow.yaml") -> Path:
    """Write a workflow into ``folder``, where it also is to be run; return its path."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text(yaml.safe_dump(document, sort_keys=False), encoding="utf-8")
    return path


def tutorial(number: int) -> Document:
    """Return a first analysis: toy events, a selection, two histograms with their plots."""
    axis = {"name": "pt", "source": "pt", "type": "regular"}
    bins = {"low": 0, "high": 120, "nbins": 24}
    plot = {
        "op": "hep.render.hist1d",
        "axes": {"x": {"name": "pt", "label": "pT"}, "y": {"name": "events", "label": "Events"}},
    }
    return {
        "version": "1.0",
        "use": {"profiles": ["hep", "fasthep_workshop:registry"]},
        "data": {"datasets": [], "defaults": {"eventtype": "mc", "tree_primary": "events"}},
        "sources": {
            "events": {
                "kind": "workshop.toy_source",
                "nevents": number,
                "seed": 42,
                "dataset": "toy",
                "event_type": "mc",
                "stream_type": "event_stream",
            }
        },
        "styles": {"plot": plot},
        "analysis": {
            "stages": [
                _define("Pt", pt="leading(sqrt(Muon_Px**2 + Muon_Py**2))"),
                {
                    "id": "Hard",
                    "op": "hep.selection.cutflow",
                    "params": {"selection": {"All": ["pt > 30"]}},
                },
                {
                    "id": "AllPt",
                    "op": "hep.hist",
                    "from": "Pt",
                    "params": {"axes": [{**axis, "bins": bins}]},
                    "render": {"style": "plot", "when": "final", "out": "all"},
                },
                {
                    "id": "HardPt",
                    "op": "hep.hist",
                    "from": "Hard",
                    "params": {"axes": [{**axis, "bins": bins}]},
                    "render": {"style": "plot", "when": "final", "out": "hard"},
                },
            ]
        },
    }


def chain(number: int) -> Document:
    """Return the tutorial's toy events through three pools in turn, and a histogram with a plot."""
    document = tutorial(number)
    first, _, last, _ = document["analysis"]["stages"]
    document["analysis"]["stages"] = [
        first,
        {**_define("Shifted", shifted="pt + 10"), "execution": {"require": "large"}},
        {**_define("Scaled", scaled="shifted * 0.5"), "execution": {"require": "parallel"}},
        {**last, "from": "Scaled"},
    ]
    (axis,) = last["params"]["axes"]
    axis["source"] = "scaled"
    document["execution"] = _three_pools()
    return document


def zmumu(total: int) -> Document:
    """Return the demo's analysis, with its plots, of nine datasets with ``total`` events."""
    document = _demo()
    document["data"]["datasets"] = _datasets(events.samples(total), events.sizes(total))
    shown = document["styles"]["data_mc"]
    for name in events.DATASETS:
        style = {"label": name, "color": "#94a4a2", "kind": "background"}
        shown["style"]["datasets"].setdefault(name, style)
    others = [name for name in events.DATASETS if name not in ("data", "dy")]
    shown["data_mc"]["backgrounds"] = others
    return document


def one_plot(total: int) -> Document:
    """Return the least of a dimuon analysis, as FAST-HEP's workshop shows it: one histogram.

    No selection but that of isolated muons, and the plot compares data with simulation.
    """
    document = zmumu(total)
    document["sources"]["events"]["branches"] = [
        *(f"Muon_{name}" for name in ("Px", "Py", "Pz", "E", "Iso")),
        "EventWeight",
    ]
    stages = {stage["id"]: stage for stage in document["analysis"]["stages"]}
    pair, mass = stages["DiMuon"], stages["DiMuonMass"]
    pair["params"]["mask"] = "Muon_Isolated"
    mass["params"]["weight_expr"] = "EventWeight"
    del mass["from"]
    document["analysis"]["stages"] = [
        _define(
            "Muons",
            Muon_Pt="sqrt(Muon_Px**2 + Muon_Py**2)",
            Muon_Isolated="(Muon_Iso / Muon_Pt) < 0.10",
        ),
        pair,
        mass,
    ]
    return document


def histograms(total: int, *, edited: bool) -> Document:
    """Return the demo's selection with 20 histograms of it and no plots; one may be edited."""
    document = _without_plots(zmumu(total))
    stages = document["analysis"]["stages"]
    stages[:] = [stage for stage in stages if stage["op"] != "hep.hist"]
    columns = ("DiMuon_Mass", "LeadingMuon_Pt", "SubleadingMuon_Pt", "NPrimaryVertices", "NJet")
    for number in range(20):
        column = columns[number % len(columns)]
        bins = 25 + number + (edited and number == 7)
        stages.append(_histogram(f"Histogram{number}", column, bins))
    return document


def plots(number: int) -> Document:
    """Return the tutorial with so many histograms, each with a plot of its own."""
    document = tutorial(1000)
    *before, last, _ = document["analysis"]["stages"]
    one = {"op": last["op"], "from": last["from"], "params": last["params"]}
    document["analysis"]["stages"] = [
        *before,
        *(
            {"id": f"Pt{n}", **one, "render": {**last["render"], "out": f"pt_{n}"}}
            for n in range(number)
        ),
    ]
    return document


def varied(total: int, variations: int) -> Document:
    """Return the demo's analysis without plots, its histograms under so many weights."""
    document = _without_plots(zmumu(total))
    for stage in document["analysis"]["stages"]:
        if stage["op"] == "hep.selection.cutflow":
            del stage["params"]["weight_expr"]
    document["systematics"] = {
        "include_nominal": False,
        "variations": [
            {
                "name": f"weight_{number}",
                "mode": "plan",
                "weight": {"multiply": [f"(1.0 + 0.01 * {number + 1} * NJet)"]},
            }
            for number in range(variations)
        ],
    }
    return document


def one_file(number: int) -> Document:
    """Return the demo's analysis without plots, of one file with ``number`` events."""
    document = _without_plots(_demo())
    document["data"]["datasets"] = _datasets(
        {"data": events.sample("data", number)}, {"data": number}
    )
    return document


def tiny(partitions: int) -> tuple[Document, int]:
    """Return next to nothing to do for each of so many partitions, and the chunk size for it."""
    size = 20
    document = _small({"dy": [str(events.sample("dy", partitions * size))]}, partitions * size)
    document["analysis"]["stages"] = [
        _define("Weight", Twice="EventWeight * 2"),
        _histogram("Weights", "Twice", 10, weight="EventWeight"),
    ]
    return document, size


def sleeping(partitions: int) -> tuple[Document, int]:
    """Return a second of sleep for each of so many partitions, and the chunk size for it.

    The operation stands in ``sleeping.py``, which is to hold :data:`SLEEP`.
    """
    document, size = tiny(partitions)
    specs = {"spec": "sleeping:SPEC", "impl": "sleeping:run"}
    document["registry"] = {"transforms": {"own.sleep": specs}}
    document["analysis"]["stages"].insert(1, {"id": "Sleep", "op": "own.sleep"})
    return document, size


def many_files(folder: Path, files: int) -> Document:
    """Return ten stages that need three pools in turn, of so many files.

    The files are copies of a few small ones, below ``folder``.
    """
    number = 50
    real = [events.sample(name, number) for name in events.DATASETS]
    (folder / "data").mkdir(parents=True, exist_ok=True)
    listed: dict[str, list[str]] = {f"sample{i}": [] for i in range(10)}
    for index in range(files):
        name = f"data/{index}.root"
        shutil.copyfile(real[index % len(real)], folder / name)
        listed[f"sample{index % 10}"].append(name)
    document = _small(listed, number)
    pools = ["default"] * 4 + ["large"] * 3 + ["parallel"] * 3
    stages = []
    for index, pool in enumerate(pools[:-1]):
        expression = f"Column{index - 1} * 2" if index else "EventWeight * 2"
        stage = _define(f"Stage{index}", **{f"Column{index}": expression})
        stages.append({**stage, **({"execution": {"require": pool}} if pool != "default" else {})})
    last = _histogram("Stage9", f"Column{len(stages) - 1}", 10, weight="EventWeight")
    stages.append({**last, "execution": {"require": pools[-1]}})
    document["analysis"]["stages"] = stages
    document["execution"] = _three_pools()
    return document


def _three_pools() -> Document:
    """Return an ``execution`` section, in the form that FAST-HEP's own compiler takes as well."""
    return {
        "resources": {
            "small": {"cpus": 1, "memory": "1GB"},
            "large": {"cpus": 1, "memory": "2GB"},
            "parallel": {"cpus": 2, "memory": "1GB"},
        },
        "pools": {
            "default": {"resources": "small"},
            "large": {"resources": "large"},
            "parallel": {"resources": "parallel"},
        },
    }


def _small(listed: Mapping[str, list[str]], number: int) -> Document:
    document = _without_plots(_demo())
    document["data"]["datasets"] = [
        {"name": name, "eventtype": "mc", "nevents": number, "files": files}
        for name, files in listed.items()
    ]
    document["sources"]["events"]["branches"] = ["EventWeight"]
    return document


def _demo() -> Document:
    found: Document = yaml.safe_load(_DEMO.read_text(encoding="utf-8"))
    return found


def _without_plots(document: Document) -> Document:
    for stage in document["analysis"]["stages"]:
        stage.pop("render", None)
        stage.pop("write", None)
    document.pop("styles", None)
    return document


def _datasets(files: Mapping[str, Path], sizes: Mapping[str, int]) -> list[Document]:
    return [
        {
            "name": name,
            "eventtype": "data" if name == "data" else "mc",
            "nevents": sizes[name],
            "files": [str(path)],
        }
        for name, path in files.items()
    ]


def _define(stage: str, **columns: str) -> Document:
    variables = [{"name": name, "expr": expression} for name, expression in columns.items()]
    return {"id": stage, "op": "hep.define", "params": {"variables": variables}}


def _histogram(stage: str, column: str, bins: int, weight: str = "Weight") -> Document:
    axis = {"name": "x", "source": column, "type": "regular"}
    return {
        "id": stage,
        "op": "hep.hist",
        "params": {
            "dataset_axis": True,
            "storage": "weighted",
            "weight_expr": weight,
            "axes": [{**axis, "bins": {"low": 0, "high": 150, "nbins": bins}}],
        },
    }

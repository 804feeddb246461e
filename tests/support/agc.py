"""The ttbar analysis of workflow/agc: what its histograms must be, from its input files alone.

One event after the other, in plain Python, with no code of the workflow, of FAST-HEP or of coffea.
"""

from __future__ import annotations

import math
import pickle
from collections.abc import Iterator, Mapping
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import uproot
import yaml

__all__ = ["Bins", "differences", "expected", "of_build", "of_coffea"]

#: Of a region, a variation and a process: the sums of weights, and of their squares, in each bin;
#: 25 bins from 50 to 550 GeV, with one below and one above.
Bins = dict[tuple[str, str, str], np.ndarray]

_LUMINOSITY = 3378.0
_LEPTONS = {
    "Electron": ("pt", "eta", "sip3d", "cutBased"),
    "Muon": ("pt", "eta", "sip3d", "tightId", "pfRelIso04_all"),
}
_JETS = ("pt", "eta", "phi", "mass", "btagCSVV2", "jetId")
_Jet = dict[str, float]


def of_build(build: Path) -> Bins:
    """Return what a build folder of fasthep-smk has, for the processes of each variation."""
    found: Bins = {}
    for path in sorted((build / "artifacts").glob("*/histograms/*.pkl")):
        histogram = pickle.loads(path.read_bytes())
        for process in histogram.axes[0]:
            if not process.startswith("ttbar_"):
                view = histogram[process, :].view(flow=True)
                found[path.stem, path.parts[-3], process] = _both(view)
    return found


def of_coffea(path: Path) -> Bins:
    """Return what ``tests/benchmarks/agc_coffea.py`` has made."""
    found: Bins = {}
    for region, histogram in pickle.loads(path.read_bytes()).items():
        for process in histogram.axes["process"]:
            for variation in histogram.axes["variation"]:
                both = _both(histogram[process, variation, :].view(flow=True))
                if both.any():
                    found[region, variation, process] = both
    return found


def differences(expected: Bins, found: Bins) -> list[str]:
    """Return which of the expected bins are others, but for the jets that are smeared.

    Sums are compared to 1e-9: the order in which they are made is not the same.
    """
    told = []
    for key, content in expected.items():
        if key[1] == "pt_res_up":
            continue
        if key not in found:
            told.append(f"{key}: missing")
        elif not np.allclose(content, found[key], rtol=1e-9, atol=0):
            told.append(f"{key}: {content[0]} != {found[key][0]}")
    return told


def expected(datasets: Path) -> Bins:
    """Return what the datasets of ``datasets.yaml`` give in each variation but ``pt_res_up``."""
    document = yaml.safe_load(datasets.read_text(encoding="utf-8"))
    found: Bins = {}
    for dataset in document["data"]["datasets"]:
        process, name = dataset["group"], dataset["name"]
        weight = _LUMINOSITY * dataset["xs"] / dataset["n_unskimmed_events"]
        for file in dataset["files"]:
            for jets in _one_lepton(datasets.parent / Path(file).name):
                if name.startswith("ttbar_"):
                    _fill(found, jets, process, {name.removeprefix("ttbar_"): weight})
                    continue
                _fill(found, jets, process, _weights(jets, process, weight))
                scaled = [{**jet, "pt": jet["pt"] * 1.03} for jet in jets]
                _fill(found, scaled, process, {"pt_scale_up": weight})
    return found


def _one_lepton(path: Path) -> Iterator[list[_Jet]]:
    """Yield all jets of each event with one good lepton."""
    with uproot.open(path) as file:
        names = [f"{kind}_{name}" for kind, parts in _LEPTONS.items() for name in parts]
        names += [f"Jet_{name}" for name in _JETS]
        for event in file["Events"].arrays(names).to_list():
            leptons = [
                _Lepton(kind, lepton)
                for kind, parts in _LEPTONS.items()
                for lepton in _objects(event, kind, parts)
            ]
            if sum(lepton.good for lepton in leptons) == 1:
                yield _objects(event, "Jet", _JETS)


def _objects(event: Mapping[str, Any], kind: str, parts: tuple[str, ...]) -> list[_Jet]:
    columns = (event[f"{kind}_{name}"] for name in parts)
    return [dict(zip(parts, values, strict=True)) for values in zip(*columns, strict=True)]


class _Lepton:
    def __init__(self, kind: str, values: _Jet) -> None:
        self.good = values["pt"] > 30 and abs(values["eta"]) < 2.1 and values["sip3d"] < 4
        if kind == "Electron":
            self.good = self.good and values["cutBased"] == 4
        else:
            isolated = np.float32(values["pfRelIso04_all"]) < np.float32(0.15)
            self.good = self.good and bool(values["tightId"]) and bool(isolated)


def _weights(jets: list[_Jet], process: str, weight: float) -> dict[str, float]:
    scale = 0.025 if process == "wjets" else 0.0
    found = {"nominal": weight}
    found |= {"scale_var_up": weight * (1 + scale), "scale_var_down": weight * (1 - scale)}
    for index, jet in enumerate(_good(jets)[:4]):
        change = 0.075 * jet["pt"] / 50
        found[f"btag_var_{index}_up"] = weight * (1 + change)
        found[f"btag_var_{index}_down"] = weight * (1 - change)
    return found


def _good(jets: list[_Jet]) -> list[_Jet]:
    # The momenta and angles are of single precision, and so are these cuts.
    return [
        jet
        for jet in jets
        if jet["pt"] > 30 and abs(jet["eta"]) < np.float32(2.4) and jet["jetId"] == 6
    ]


def _fill(found: Bins, jets: list[_Jet], process: str, weights: Mapping[str, float]) -> None:
    jets = _good(jets)
    tags = sum(jet["btagCSVV2"] > 0.5 for jet in jets)
    if len(jets) < 4 or not tags:
        return
    region = "HT4j1b" if tags == 1 else "Mass4j2b"
    value = sum(jet["pt"] for jet in jets) if tags == 1 else _top_mass(jets)
    at = min(max(math.floor((value - 50) / 20), -1), 25) + 1
    for variation, weight in weights.items():
        bins = found.setdefault((region, variation, process), np.zeros((2, 27)))
        bins[:, at] += weight, weight**2


def _top_mass(jets: list[_Jet]) -> float:
    best, mass = -1.0, math.nan
    for three in combinations(jets, 3):
        if max(jet["btagCSVV2"] for jet in three) <= 0.5:
            continue
        px = sum(jet["pt"] * math.cos(jet["phi"]) for jet in three)
        py = sum(jet["pt"] * math.sin(jet["phi"]) for jet in three)
        pz = sum(jet["pt"] * math.sinh(jet["eta"]) for jet in three)
        energy = sum(math.hypot(jet["pt"] * math.cosh(jet["eta"]), jet["mass"]) for jet in three)
        if px**2 + py**2 > best:
            best, mass = px**2 + py**2, math.sqrt(energy**2 - px**2 - py**2 - pz**2)
    return mass


def _both(view: Any) -> np.ndarray:
    return np.stack([view["value"], view["variance"]])

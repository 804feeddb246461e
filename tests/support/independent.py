"""Expected values from the input files alone: uproot, awkward and hist, no FAST-HEP code.

They stand in for `fasthep run` where that is known to be wrong, and check both otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import awkward as ak
import hist
import numpy as np
import uproot

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path


@dataclass(frozen=True)
class CutRow:
    """Events and weights before and after one cut, of one dataset."""

    n_unweighted_in: int
    n_unweighted_out: int
    sumw_in: float
    sumw_out: float
    sumw2_out: float


def _read(path: Path, tree: str, columns: Sequence[str]) -> ak.Array:
    with uproot.open(path) as file:
        return file[tree].arrays(list(columns))


def _row(weight: Any, before: Any, after: Any) -> CutRow:
    weight = np.asarray(weight, dtype=np.float64)
    before, after = np.asarray(before, dtype=bool), np.asarray(after, dtype=bool)
    return CutRow(
        int(before.sum()),
        int(after.sum()),
        float(weight[before].sum()),
        float(weight[after].sum()),
        float(np.square(weight[after]).sum()),
    )


def cutflow_single_rows(folder: Path) -> dict[str, dict[str, CutRow]]:
    """Rows of stage ``Regions`` of the case cutflow_single: dataset -> cut id -> row."""
    out = {}
    for dataset, file in (("data", "one"), ("dy", "two"), ("qcd", "three")):
        events = _read(
            folder / f"data/{file}.root",
            "events",
            ["EventWeight", "triggerIsoMu24", "NMuon", "NJet", "Muon_Px", "Muon_Py"],
        )
        hard = ak.any(np.sqrt(events.Muon_Px**2 + events.Muon_Py**2) > 20, axis=1)
        everything = np.ones(len(events), dtype=bool)
        base = everything & ak.to_numpy(events.triggerIsoMu24)
        muon = base & ak.to_numpy(events.NMuon >= 1)
        steps = {
            "base[0]": (everything, base),
            "muons[0]": (base, muon),
            "muons[1]": (muon, muon & ak.to_numpy(hard)),
            "jets[0]": (base, base & ak.to_numpy(events.NJet >= 2)),
        }
        out[dataset] = {cut: _row(events.EventWeight, *masks) for cut, masks in steps.items()}
    return out


def cutflow_artifact_rows(document: Mapping[str, Any]) -> dict[str, dict[str, CutRow]]:
    """The same rows, read from ``artifacts/cutflows/<stage>.json``."""
    out: dict[str, dict[str, CutRow]] = {}
    for node in document["nodes"]:
        for dataset, stats in node.get("stats", {}).items():
            out.setdefault(dataset, {})[node["id"]] = CutRow(
                int(stats["n_unweighted_in"]),
                int(stats["n_unweighted_out"]),
                float(stats["sumw_in"]),
                float(stats["sumw_out"]),
                float(stats["sumw2_out"]),
            )
    return out


def rows_close(
    left: Mapping[str, Mapping[str, CutRow]], right: Mapping[str, Mapping[str, CutRow]]
) -> list[str]:
    """Differences between two sets of rows; counts exactly, weights to rounding."""
    out = []
    for dataset in sorted(set(left) | set(right)):
        a, b = left.get(dataset, {}), right.get(dataset, {})
        for cut in sorted(set(a) | set(b)):
            if cut not in a or cut not in b:
                out.append(f"{dataset} {cut}: only on one side")
                continue
            counts = [(r.n_unweighted_in, r.n_unweighted_out) for r in (a[cut], b[cut])]
            sums = [(r.sumw_in, r.sumw_out, r.sumw2_out) for r in (a[cut], b[cut])]
            # Weights are float32 and the order of summation is not ours.
            if counts[0] != counts[1] or not np.allclose(*sums, rtol=1e-5):
                out.append(f"{dataset} {cut}: {a[cut]} != {b[cut]}")
    return out


def joins_counts(folder: Path) -> hist.Hist:
    """Histogram ``Counts`` of the case joins, every event counted once."""
    out = hist.Hist(
        hist.axis.StrCategory(["muons", "jets"], name="dataset"),
        hist.axis.Regular(30, 0.0, 300.0, name="et"),
        storage=hist.storage.Double(),
    )
    for dataset, files in (("muons", (0, 1)), ("jets", (2,))):
        for index in files:
            jets = _read(folder / f"data/l1_{index}.root", "l1JetRecoTree/JetRecoTree", ["etCorr"])
            out.fill(dataset=dataset, et=ak.flatten(jets.etCorr))
    return out


def joins_matched(folder: Path) -> hist.Hist:
    """Histogram ``Matched`` of the case joins: each offline jet with its nearest level-1 jet."""
    out = hist.Hist(
        hist.axis.Regular(15, 0.0, 300.0, name="reco"),
        hist.axis.Regular(15, 0.0, 300.0, name="l1"),
        storage=hist.storage.Double(),
    )
    for index in range(3):
        path = folder / f"data/l1_{index}.root"
        reco = _read(path, "l1JetRecoTree/JetRecoTree", ["etCorr", "eta", "phi"])
        level1 = _read(path, "l1UpgradeTree/L1UpgradeTree", ["jetEt", "jetEta", "jetPhi"])
        # A plain loop: slow, and so simple that it can be checked by eye.
        for offline, online in zip(reco, level1, strict=True):
            if len(online.jetEt) == 0 or not ak.any(offline.etCorr > 20):
                continue
            for et, eta, phi in zip(offline.etCorr, offline.eta, offline.phi, strict=True):
                dphi = (phi - online.jetPhi + np.pi) % (2 * np.pi) - np.pi
                distance = np.sqrt((eta - online.jetEta) ** 2 + dphi**2)
                nearest = int(ak.argmin(distance))
                if distance[nearest] <= 0.4:
                    out.fill(et, online.jetEt[nearest])
    return out


def met_histogram(
    files: Mapping[str, Sequence[Path]], *, bins: tuple[int, float, float] = (20, 0.0, 100.0)
) -> hist.Hist:
    """Weighted missing momentum of whole files, whatever ``nevents`` and chunk size say.

    FAST-HEP applies a dataset's ``nevents`` to each of its files, so that a total over two
    files gives ranges that no file reaches; they must neither add nor drop an event.
    """
    out = hist.Hist(
        hist.axis.StrCategory(list(files), name="dataset"),
        hist.axis.Regular(*bins, name="met"),
        storage=hist.storage.Weight(),
    )
    for dataset, paths in files.items():
        for path in paths:
            events = _read(path, "events", ["MET_px", "MET_py", "EventWeight"])
            met = np.sqrt(events.MET_px**2 + events.MET_py**2)
            keep = met > 10
            out.fill(dataset=dataset, met=met[keep], weight=events.EventWeight[keep])
    return out


def plan_systematics_nominal(folder: Path) -> hist.Hist:
    """Histogram ``MetHist`` of the nominal variation of the case plan_systematics.

    Each dataset has two files and a ``nevents`` that is right for the first one only.
    """
    return met_histogram(
        {d: [folder / f"data/{d}_{i}.root" for i in range(2)] for d in ("data", "dy", "dy_alt")}
    )


def dimuon_mass(folder: Path, datasets: Sequence[str]) -> hist.Hist:
    """Histogram ``DiMuonMass`` of the workshop's Zmumu example."""
    out = hist.Hist(
        hist.axis.StrCategory(list(datasets), name="dataset"),
        hist.axis.Regular(60, 60.0, 120.0, name="dimu_mass"),
        storage=hist.storage.Weight(),
    )
    parts = [f"Muon_{c}" for c in ("Px", "Py", "Pz", "E", "Iso")]
    for dataset in datasets:
        path = folder / f"data/CMS/Zmumu/{dataset}.root"
        events = _read(path, "events", [*parts, "EventWeight"])
        px, py, pz, energy, iso = (events[name] for name in parts)
        good = (iso / np.sqrt(px**2 + py**2)) < 0.10
        two = ak.to_numpy(ak.sum(good, axis=1) >= 2)
        pair = [ak.to_numpy(p[good][two][:, :2]).sum(axis=1) for p in (px, py, pz, energy)]
        square = pair[3] ** 2 - pair[0] ** 2 - pair[1] ** 2 - pair[2] ** 2
        mass = np.full(len(events), np.nan)
        mass[two] = np.sqrt(np.maximum(square, 0))
        # Events without a pair are NaN, and those count as overflow.
        out.fill(dataset=dataset, dimu_mass=mass, weight=events.EventWeight)
    return out


def histograms_close(left: Any, right: Any, rtol: float = 1e-6) -> list[str]:
    """Differences of two histograms beyond rounding: names of axes, values, variances."""
    names = [axis.name for axis in left.axes], [axis.name for axis in right.axes]
    if names[0] != names[1]:
        return [f"axes {names[0]} != {names[1]}"]
    out = []
    for what in ("values", "variances"):
        a, b = getattr(left, what)(flow=True), getattr(right, what)(flow=True)
        if a is None or b is None:  # of unweighted histograms after scaling
            continue
        if a.shape != b.shape:
            out.append(f"{what}: shape {a.shape} != {b.shape}")
        if a.shape == b.shape and not np.allclose(a, b, rtol=rtol, atol=1e-9):
            out.append(f"{what}: sum {a.sum()!r} != {b.sum()!r}")
    return out

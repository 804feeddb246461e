"""The ttbar analysis of workflow/agc, written again with coffea, to compare results and times with.

Usage: python agc_coffea.py DATASETS.yaml OUT.pkl [--executor futures|dask] [--workers N]
[--chunk-size N] [--skip-bad-files]

``OUT.pkl`` holds a histogram for each region, with the axes ``process``, ``variation`` and
``observable``. It shares no code with the operations of the workflow, and reads no corrections: it
has their formulas. The smeared jets are drawn with other random numbers than there.
"""

from __future__ import annotations

import argparse
import pickle
import warnings
from pathlib import Path
from typing import Any

import awkward as ak
import hist
import numpy as np
import yaml
from coffea import processor
from coffea.nanoevents import NanoAODSchema
from coffea.nanoevents.methods import vector

LUMINOSITY = 3378.0
#: The scale of the jets' momenta in each variation of it; NaN stands for the random one.
JETS = {"nominal": 1.0, "pt_scale_up": 1.03, "pt_res_up": np.nan}


class Analysis(processor.ProcessorABC):
    """One lepton, four jets, one or two b tags."""

    def process(self, events: Any) -> dict[str, hist.Hist]:
        about = events.metadata
        process = about["group"]
        sample = about["dataset"].removeprefix("ttbar_") if process == "ttbar" else "nominal"
        sample = "nominal" if sample == "ttbar" else sample
        weight = LUMINOSITY * about["xs"] / about["n_unskimmed_events"]

        electrons, muons = events.Electron, events.Muon
        electrons = (
            (electrons.pt > 30) & (abs(electrons.eta) < 2.1)
            & (electrons.cutBased == 4) & (electrons.sip3d < 4)
        )  # fmt: skip
        muons = (
            (muons.pt > 30) & (abs(muons.eta) < 2.1) & muons.tightId
            & (muons.sip3d < 4) & (muons.pfRelIso04_all < 0.15)
        )  # fmt: skip
        one_lepton = ak.sum(electrons, axis=1) + ak.sum(muons, axis=1) == 1
        all_jets = events.Jet[one_lepton]

        found = {"HT4j1b": _histogram(), "Mass4j2b": _histogram()}
        for name, scale in JETS.items() if sample == "nominal" else [(sample, 1.0)]:
            jets = self._jets(all_jets, scale)
            tags = ak.sum(jets.btag > 0.5, axis=1)
            four = ak.num(jets) >= 4
            one, two = jets[four & (tags == 1)], jets[four & (tags >= 2)]
            observables = {"HT4j1b": (one, ak.sum(one.pt, axis=1)), "Mass4j2b": (two, _mass(two))}
            for region, (selected, observable) in observables.items():
                weights = _weights(selected, process) if name == "nominal" else {}
                for variation, factor in {name: 1.0, **weights}.items():
                    found[region].fill(
                        process=process,
                        variation=variation,
                        observable=observable,
                        weight=np.broadcast_to(weight * factor, len(observable)),
                    )
        return found

    def postprocess(self, accumulator: object) -> object:
        return accumulator

    @staticmethod
    def _jets(jets: Any, scale: float) -> Any:
        pt = ak.values_astype(jets.pt, np.float64)
        if np.isnan(scale):
            counts = ak.num(pt)
            factors = np.random.default_rng().normal(1.0, 0.05, int(ak.sum(counts)))
            pt = pt * ak.unflatten(factors, counts)
        else:
            pt = pt * scale
        good = (pt > 30) & (abs(jets.eta) < 2.4) & (jets.jetId == 6)
        columns = {"pt": pt[good], "btag": jets.btagCSVV2[good]}
        for name in ("eta", "phi", "mass"):
            columns[name] = ak.values_astype(jets[name][good], np.float64)
        return ak.zip(columns, with_name="PtEtaPhiMLorentzVector", behavior=vector.behavior)


def _mass(jets: Any) -> Any:
    """Return the mass of the three jets, one with a tag, that have the largest momentum."""
    one, two, three = ak.unzip(ak.combinations(jets, 3))
    tag = np.maximum(np.maximum(one.btag, two.btag), three.btag)
    triple = (one + two + three)[tag > 0.5]
    return ak.flatten(triple[ak.argmax(triple.pt, axis=1, keepdims=True)].mass)


def _weights(jets: Any, process: str) -> dict[str, Any]:
    """Return what each variation of the weight multiplies it with."""
    scale = 0.025 if process == "wjets" else 0.0
    found: dict[str, Any] = {"scale_var_up": 1 + scale, "scale_var_down": 1 - scale}
    for index in range(4):
        change = 0.075 * ak.to_numpy(jets.pt[:, index]) / 50
        found |= {f"btag_var_{index}_up": 1 + change, f"btag_var_{index}_down": 1 - change}
    return found


def _histogram() -> hist.Hist:
    return hist.Hist(
        hist.axis.StrCategory([], growth=True, name="process"),
        hist.axis.StrCategory([], growth=True, name="variation"),
        hist.axis.Regular(25, 50, 550, name="observable"),
        storage=hist.storage.Weight(),
    )


def run(options: argparse.Namespace) -> dict[str, hist.Hist]:
    """Return the histograms of all datasets."""
    document = yaml.safe_load(options.datasets.read_text(encoding="utf-8"))
    files = {
        dataset["name"]: {
            "files": dict.fromkeys(dataset["files"], "Events"),
            "metadata": {key: dataset[key] for key in ("group", "xs", "n_unskimmed_events")},
        }
        for dataset in document["data"]["datasets"]
    }
    if options.executor == "dask":
        from dask.distributed import Client, LocalCluster

        with (
            LocalCluster(
                n_workers=options.workers, threads_per_worker=1, dashboard_address=None
            ) as cluster,
            Client(cluster) as client,
        ):
            client.upload_file(__file__)
            return _process(processor.DaskExecutor(client=client, status=False), files, options)
    executor = processor.FuturesExecutor(workers=options.workers, status=False)
    return _process(executor, files, options)


def _process(executor: Any, files: Any, options: argparse.Namespace) -> dict[str, hist.Hist]:
    # The class by its module's name: workers import it from there.
    from agc_coffea import Analysis as Importable

    runner = processor.Runner(
        executor=executor,
        schema=NanoAODSchema,
        chunksize=options.chunk_size,
        # What a damaged basket raises is no OSError, which is all that True stands for.
        skipbadfiles=(Exception,) if options.skip_bad_files else False,
    )
    found: dict[str, hist.Hist] = runner(files, Importable(), treename="Events")
    return found


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("datasets", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--executor", choices=("futures", "dask"), default="futures")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--chunk-size", type=int, default=100_000)
    parser.add_argument("--skip-bad-files", action="store_true")
    options = parser.parse_args()
    options.out.write_bytes(pickle.dumps(run(options)))


if __name__ == "__main__":
    warnings.filterwarnings("ignore", message="Missing cross-reference")
    main()

"""Deterministic events: the same arguments always give the same file content."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import awkward as ak
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import uproot
from numpy.typing import NDArray

MUON_MASS = 0.1056583755
Z_MASS = 91.1876
Z_WIDTH = 2.4952
Rng = np.random.Generator
Vectors = tuple[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any]]


def shared_data(name: str) -> Path | None:
    """Path of a file with real events, or None where those are not installed."""
    configured = os.environ.get("FASTHEP_SMK_SHARED_DATA")
    folder = (
        Path(configured) if configured else Path(__file__).parents[2].parent / "shared" / "data"
    )
    path = folder / name
    return path if path.is_file() else None


def _write(path: Path, trees: dict[str, dict[str, Any]], counter: str = "N") -> Path:
    """Write jagged records as ``Name_field`` branches with one counter per collection."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with uproot.recreate(path, compression=uproot.ZSTD(3)) as out:
        for tree, content in trees.items():
            out.mktree(tree, content, counter_name=lambda counted: f"{counter}{counted}")
    return path


def _jagged(counts: NDArray[Any], columns: dict[str, NDArray[Any]]) -> ak.Array:
    return ak.zip({name: ak.unflatten(values, counts) for name, values in columns.items()})


def _cartesian(pt: NDArray[Any], eta: NDArray[Any], phi: NDArray[Any], mass: Any) -> Vectors:
    px, py, pz = pt * np.cos(phi), pt * np.sin(phi), pt * np.sinh(eta)
    return px, py, pz, np.sqrt(px**2 + py**2 + pz**2 + np.square(mass))


def _f32(*arrays: NDArray[Any]) -> list[NDArray[np.float32]]:
    return [np.asarray(a, dtype=np.float32) for a in arrays]


def _momenta(rng: Rng, n: int, scale: float, mass: float) -> dict[str, NDArray[Any]]:
    """n independent objects with a falling transverse momentum."""
    pt = 5.0 + rng.exponential(scale, n)
    parts = _cartesian(pt, rng.normal(0.0, 1.2, n), rng.uniform(-np.pi, np.pi, n), mass)
    return dict(zip(("Px", "Py", "Pz", "E"), _f32(*parts), strict=True))


def _z_muons(rng: Rng, n: int) -> tuple[Vectors, Vectors]:
    """Two muons of a boosted Z each, isotropic in its rest frame."""
    mass = Z_MASS + 0.5 * Z_WIDTH * np.tan(np.pi * (rng.uniform(0.02, 0.98, n) - 0.5))
    mass = mass + rng.normal(0.0, 1.0, n)
    energy = mass / 2.0
    momentum = np.sqrt(energy**2 - MUON_MASS**2)
    cos, phi = rng.uniform(-1.0, 1.0, n), rng.uniform(-np.pi, np.pi, n)
    sin = np.sqrt(1.0 - cos**2)
    rest = np.stack([momentum * sin * np.cos(phi), momentum * sin * np.sin(phi), momentum * cos])
    pt = rng.exponential(12.0, n)
    zpx, zpy, zpz, ze = _cartesian(pt, rng.normal(0, 1.5, n), rng.uniform(-np.pi, np.pi, n), mass)
    beta = np.stack([zpx / ze, zpy / ze, zpz / ze])
    gamma = ze / mass
    out = []
    for sign in (1.0, -1.0):
        vec = sign * rest
        along = np.sum(beta * vec, axis=0)
        boosted = vec + beta * (gamma**2 / (gamma + 1.0) * along + gamma * energy)
        out.append((*boosted, gamma * (energy + along)))
    return out[0], out[1]


def _zmumu_muons(rng: Rng, n: int, z_fraction: float) -> ak.Array:
    """Muons of n events: a Z, or zero to three unrelated muons."""
    is_z = rng.random(n) < z_fraction
    counts = np.where(is_z, 2, rng.choice(4, n, p=[0.35, 0.4, 0.2, 0.05]))
    total = int(counts.sum())
    columns = _momenta(rng, total, 15.0, MUON_MASS)
    columns["Charge"] = rng.choice(np.array([-1, 1], dtype=np.int32), total)
    columns["Iso"] = _f32(rng.exponential(3.0, total))[0]
    first = (np.cumsum(counts) - counts)[is_z]
    plus = rng.choice(np.array([-1, 1], dtype=np.int32), first.size)
    for offset, (vector, charge) in enumerate(
        zip(_z_muons(rng, first.size), (plus, -plus), strict=True)
    ):
        for name, values in zip(("Px", "Py", "Pz", "E"), vector, strict=True):
            columns[name][first + offset] = values
        columns["Charge"][first + offset] = charge
        columns["Iso"][first + offset] = rng.exponential(0.6, first.size)
    return _jagged(counts, columns)


def zmumu_file(
    path: Path,
    n: int,
    seed: int,
    *,
    is_data: bool = False,
    z_fraction: float = 0.45,
) -> Path:
    """Tree ``events`` in the schema of hzz.root (without generator columns)."""
    rng = np.random.default_rng(seed)
    muons = _zmumu_muons(rng, n, z_fraction)
    n_el = rng.choice(3, n, p=[0.7, 0.25, 0.05])
    electrons = _momenta(rng, int(n_el.sum()), 15.0, 0.000511)
    electrons["Charge"] = rng.choice(np.array([-1, 1], dtype=np.int32), int(n_el.sum()))
    electrons["Iso"] = _f32(rng.exponential(2.0, int(n_el.sum())))[0]
    n_jet = rng.poisson(1.5, n)
    jets = _momenta(rng, int(n_jet.sum()), 30.0, 8.0)
    jets["btag"] = _f32(rng.uniform(-1.0, 6.0, int(n_jet.sum())))[0]
    jets["ID"] = rng.random(int(n_jet.sum())) < 0.97
    n_photon = rng.choice(3, n, p=[0.85, 0.12, 0.03])
    photons = _momenta(rng, int(n_photon.sum()), 12.0, 0.0)
    photons["Iso"] = _f32(rng.exponential(2.0, int(n_photon.sum())))[0]
    met_px, met_py = _f32(rng.normal(0, 18.0, n), rng.normal(0, 18.0, n))
    # A weight of exactly one everywhere would hide a weight that is applied twice or never.
    weight = np.ones(n) if is_data else rng.uniform(0.05, 1.6, n)
    content = {
        "Jet": _jagged(n_jet, jets),
        "Muon": muons,
        "Electron": _jagged(n_el, electrons),
        "Photon": _jagged(n_photon, photons),
        "MET_px": met_px,
        "MET_py": met_py,
        "NPrimaryVertices": rng.poisson(9.0, n).astype(np.int32),
        "triggerIsoMu24": rng.random(n) < 0.85,
        "EventWeight": weight.astype(np.float32),
    }
    return _write(path, {"events": content})


def resampled_hzz(
    src: Path, path: Path, n: int, seed: int, *, is_data: bool = False, smear: float = 0.02
) -> Path:
    """n events drawn from hzz.root, all momenta of an event scaled by one small factor."""
    with uproot.open(src) as file:
        tree = file["events"]
        # NMuon and its like are counters: they are written again with the collections.
        keep = [
            k
            for k in tree.keys()  # noqa: SIM118 - not a mapping
            if not k.startswith("MC") and (not k.startswith("N") or k == "NPrimaryVertices")
        ]
        events = tree.arrays(keep)
    rng = np.random.default_rng(seed)
    events = events[rng.integers(0, len(events), n)]
    scale = ak.Array(rng.normal(1.0, smear, n).astype(np.float32))
    content: dict[str, Any] = {}
    collections: dict[str, dict[str, Any]] = {}
    for name in keep:
        values = events[name]
        if values.ndim == 1:
            content[name] = values
            continue
        collection, field = name.split("_", 1)
        if field in {"Px", "Py", "Pz", "E"}:
            values = ak.values_astype(values * scale, np.float32)
        collections.setdefault(collection, {})[field] = values
    if is_data:
        content["EventWeight"] = np.ones(n, dtype=np.float32)
    content |= {name: ak.zip(fields) for name, fields in collections.items()}
    return _write(path, {"events": content})


def analysis_file(path: Path, n: int, seed: int, *, is_data: bool = False) -> Path:
    """Real events where they are installed, else generated ones; same schema."""
    real = shared_data("hzz.root")
    if real is None:
        return zmumu_file(path, n, seed, is_data=is_data)
    return resampled_hzz(real, path, n, seed, is_data=is_data)


def l1_file(path: Path, n: int, seed: int) -> Path:
    """Level-1 and offline jets of the same events, in two trees inside folders.

    Real ntuples keep the branches below a split ``L1Upgrade`` object, which uproot cannot
    write; they are found by their leaf name, so flat branches of that name read the same.
    """
    rng = np.random.default_rng(seed)
    n_reco = rng.poisson(2.5, n)
    total = int(n_reco.sum())
    et = 12.0 + rng.exponential(45.0, total)
    eta, phi = rng.normal(0, 1.6, total), rng.uniform(-np.pi, np.pi, total)
    reco = dict(zip(("etCorr", "eta", "phi"), _f32(et, eta, phi), strict=True))

    seen = rng.random(total) < 0.8
    event = np.repeat(np.arange(n), n_reco)[seen]
    n_noise = rng.poisson(0.4, n)
    noise = int(n_noise.sum())
    event = np.concatenate([event, np.repeat(np.arange(n), n_noise)])
    l1_et = np.concatenate(
        [et[seen] * rng.normal(0.95, 0.15, int(seen.sum())), 8.0 + rng.exponential(10.0, noise)]
    )
    spread = int(seen.sum())
    l1_eta = np.concatenate([eta[seen] + rng.normal(0, 0.05, spread), rng.normal(0, 1.6, noise)])
    l1_phi = np.concatenate(
        [phi[seen] + rng.normal(0, 0.05, spread), rng.uniform(-np.pi, np.pi, noise)]
    )
    order = np.lexsort((-l1_et, event))
    n_l1 = np.bincount(event, minlength=n)
    l1 = dict(
        zip(
            ("jetEt", "jetEta", "jetPhi"),
            _f32(l1_et[order], l1_eta[order], l1_phi[order]),
            strict=True,
        )
    )
    trees = {
        "l1UpgradeTree/L1UpgradeTree": {k: ak.unflatten(v, n_l1) for k, v in l1.items()},
        "l1JetRecoTree/JetRecoTree": {k: ak.unflatten(v, n_reco) for k, v in reco.items()},
    }
    return _write(path, trees, counter="n")


def lz_file(path: Path, n: int, seed: int) -> Path:
    """Tree ``Scatters`` with branches that carry the names of the split object ``ss.``.

    uproot cannot write the split object itself, but a flat branch may have the full name
    ``ss./ss.x``, and the workflow finds it by that name.
    """
    rng = np.random.default_rng(seed)
    radius, angle = 72.0 * np.sqrt(rng.random(n)), rng.uniform(-np.pi, np.pi, n)
    # The workflow selects 4 <= log(s2) <= 5, so that is where the events are.
    raw = np.exp(rng.normal(4.7, 0.7, n))
    columns = {
        "ss.nSingleScatters": (rng.random(n) < 0.7).astype(np.int32),
        "ss.s1Area_phd": _f32(50.0 + rng.exponential(250.0, n))[0],
        "ss.s2Area_phd": _f32(raw)[0],
        "ss.correctedS2Area_phd": _f32(raw * rng.uniform(1.0, 1.4, n))[0],
        "ss.correctedX_cm": _f32(radius * np.cos(angle))[0],
        "ss.correctedY_cm": _f32(radius * np.sin(angle))[0],
    }
    return _write(path, {"Scatters": {f"ss./{k}": v for k, v in columns.items()}})


def exoplanets_parquet(path: Path, n: int = 60, seed: int = 3) -> Path:
    """One row per star with aligned lists of its planets; some values are missing."""
    rng = np.random.default_rng(seed)
    counts = rng.integers(1, 6, n)
    names, radii, periods = [], [], []
    for count in counts:
        names.append([chr(ord("b") + i) for i in range(count)])
        radii.append([round(float(r), 3) for r in rng.lognormal(0.1, 0.6, count)])
        periods.append([round(float(p), 4) for p in np.sort(rng.lognormal(2.5, 1.2, count))])
    table = pa.table(
        {
            "name": [f"HD {1000 + 7 * i}" for i in range(n)],
            "planet_name": names,
            "planet_radius": pa.array(radii, pa.list_(pa.float64())),
            "planet_period": pa.array(periods, pa.list_(pa.float64())),
        }
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, path)
    return path


def split_packages_file(path: Path, n: int = 12) -> Path:
    """The tiny flat tree of the split-packages example."""
    return _write(path, {"events": {"pt": np.linspace(5.0, 115.0, n)}})


def nanoaod_file(path: Path, n: int, seed: int) -> Path:
    """NanoAOD-like tree ``Events`` with the branches that the tests read."""
    rng = np.random.default_rng(seed)

    def objects(counts: NDArray[Any], scale: float, mass: float) -> dict[str, NDArray[Any]]:
        total = int(counts.sum())
        event = np.repeat(np.arange(counts.size), counts)
        pt = 4.0 + rng.exponential(scale, total)
        pt = pt[np.lexsort((-pt, event))]
        values = (pt, rng.normal(0, 1.3, total), rng.uniform(-np.pi, np.pi, total))
        columns = dict(zip(("pt", "eta", "phi"), _f32(*values), strict=True))
        return columns | {"mass": np.full(total, mass, dtype=np.float32)}

    collections = {}
    for name, mean, scale, mass in (
        ("Muon", 1.4, 25.0, MUON_MASS),
        ("Electron", 1.0, 25.0, 0.000511),
        ("Jet", 5.0, 45.0, 9.0),
    ):
        counts = rng.poisson(mean, n)
        columns = objects(counts, scale, mass)
        total = int(counts.sum())
        if name != "Jet":
            columns["charge"] = rng.choice(np.array([-1, 1], dtype=np.int32), total)
            columns["pfRelIso03_all"] = _f32(rng.exponential(0.12, total))[0]
        else:
            columns["btagDeepFlavB"] = _f32(rng.beta(0.5, 2.0, total))[0]
            columns["jetId"] = rng.choice(np.array([0, 2, 6], dtype=np.int32), total)
        collections[name] = _jagged(counts, columns)
    counts = np.full(n, 33)
    pdf = _f32(rng.normal(1.0, 0.03, int(counts.sum())))[0]
    content = {
        "run": np.ones(n, dtype=np.uint32),
        "luminosityBlock": rng.integers(1, 90, n).astype(np.uint32),
        "event": np.arange(1, n + 1, dtype=np.uint64),
        **collections,
        "LHEPdfWeight": ak.unflatten(pdf, counts),
        "MET_pt": _f32(rng.rayleigh(40.0, n))[0],
        "MET_phi": _f32(rng.uniform(-np.pi, np.pi, n))[0],
        "genWeight": _f32(rng.choice([-1.0, 1.0], n, p=[0.1, 0.9]) * 7.2)[0],
    }
    return _write(path, {"Events": content}, counter="n")


def named_branch_file(path: Path, name: str, values: Any, *, tree: str = "tree") -> Path:
    """A tree with one flat branch, whatever its name is."""
    return _write(path, {tree: {name: np.asarray(values)}})


def rntuple_file(path: Path, columns: dict[str, Any]) -> Path:
    """An RNTuple ``tuple``."""
    with uproot.recreate(path) as out:
        out.mkrntuple("tuple", columns)
    return path

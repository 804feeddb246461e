#!/usr/bin/env python3
"""Generate the events of the Z -> mu mu demo: small ROOT files with a real jagged structure.

Usage: python make_events.py [FOLDER] [--force]

The "data" are drawn from the same physics model as the simulated samples, mixed in the
proportions of ``PROCESSES``, so weighted simulation describes them up to statistics. Two things
differ on purpose, and the workflow has to deal with them: simulated samples are larger than
their share of the data (hence ``EventWeight``), and they were made for more pile-up than the data
have (hence the pile-up weight of the workflow).
"""

from __future__ import annotations

import argparse
import math
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import awkward as ak
import numpy as np
import numpy.typing as npt
import uproot

if TYPE_CHECKING:
    from collections.abc import Iterator

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

SEED = 20260
TREE = "events"
DATA_EVENTS = 60_000
FILES = {"data": 2, "dy": 2}  # all other datasets have one file

# Mean number of primary vertices. The pile-up weight in workflow.yaml is the ratio of two
# Poisson distributions with these means: change them together.
VERTICES_DATA = 9.0
VERTICES_MC = 10.5

MUON_MASS = 0.10566
Z_MASS, Z_WIDTH = 91.188, 2.495
W_MASS, W_WIDTH = 80.38, 2.09
MUON_SLOTS = 4
JET_SLOTS = 8


@dataclass(frozen=True)
class Process:
    """What one physics process looks like."""

    share: float  # of the data events
    generated: int  # simulated events
    pair: bool = False  # one boson decays to both muons (Z), instead of one muon each (W)
    second_muon: float = 0.0  # probability that a second W gives a muon, too
    boson_pt: float = 11.0  # scale of the boson transverse momentum, GeV
    rapidity: float = 1.6  # width of the boson rapidity distribution
    nonprompt: tuple[float, float] = (0.03, 0.003)  # probabilities of muons inside jets
    jets: float = 0.6  # mean number of jets that do not balance the boson
    b_jets: int = 0


PROCESSES = {
    "dy": Process(share=0.47, generated=80_000, pair=True),
    "wjets": Process(share=0.40, generated=40_000, nonprompt=(0.20, 0.03)),
    "ttbar": Process(
        share=0.105,
        generated=20_000,
        second_muon=0.3,
        boson_pt=75.0,
        rapidity=0.9,
        nonprompt=(0.25, 0.10),
        jets=1.2,
        b_jets=2,
    ),
    "ww": Process(share=0.025, generated=8_000, second_muon=0.35, boson_pt=35.0, rapidity=1.2),
}


@dataclass
class FourVectors:
    """Cartesian four-vectors in arrays of any common shape."""

    px: Floats
    py: Floats
    pz: Floats
    energy: Floats

    @property
    def pt(self) -> Floats:
        return np.hypot(self.px, self.py)

    @property
    def eta(self) -> Floats:
        return np.arcsinh(self.pz / np.maximum(self.pt, 1e-9))


def from_pt_eta_phi(pt: Floats, eta: Floats, phi: Floats, mass: float | Floats) -> FourVectors:
    px, py, pz = pt * np.cos(phi), pt * np.sin(phi), pt * np.sinh(eta)
    return FourVectors(px, py, pz, np.sqrt(px**2 + py**2 + pz**2 + np.square(mass)))


def stack(*columns: FourVectors) -> FourVectors:
    """One column per argument."""
    names = ("px", "py", "pz", "energy")
    return FourVectors(*(np.stack([getattr(c, n) for c in columns], axis=1) for n in names))


def breit_wigner(rng: np.random.Generator, n: int, mass: float, width: float) -> Floats:
    """Relativistic Breit-Wigner masses between 40 and 250 GeV (inverse transform in m squared)."""
    low, high = (math.atan((m**2 - mass**2) / (mass * width)) for m in (40.0, 250.0))
    return np.sqrt(mass**2 + mass * width * np.tan(rng.uniform(low, high, n)))


def dilepton_mass(rng: np.random.Generator, n: int) -> Floats:
    """The Z peak on a continuum of virtual photons that falls as the third power of the mass."""
    low, high = 40.0**-2, 250.0**-2
    continuum = 1.0 / np.sqrt(rng.uniform(high, low, n))
    return np.where(rng.random(n) < 0.12, continuum, breit_wigner(rng, n, Z_MASS, Z_WIDTH))


def bosons(rng: np.random.Generator, process: Process, mass: Floats) -> FourVectors:
    """Bosons with a transverse momentum of the form pt / (1 + pt^2 / scale^2)^2.4."""
    n = len(mass)
    pt = process.boson_pt * np.sqrt((1.0 - rng.random(n)) ** (-1.0 / 1.4) - 1.0)
    pt = np.minimum(pt, 500.0)
    rapidity = np.clip(rng.normal(0.0, process.rapidity, n), -4.0, 4.0)
    phi = rng.uniform(-np.pi, np.pi, n)
    transverse_mass = np.hypot(mass, pt)
    return FourVectors(
        pt * np.cos(phi),
        pt * np.sin(phi),
        transverse_mass * np.sinh(rapidity),
        transverse_mass * np.cosh(rapidity),
    )


def decay(
    rng: np.random.Generator, parent: FourVectors, mass: Floats
) -> tuple[FourVectors, FourVectors]:
    """Isotropic decay into two (nearly) massless particles, boosted to the laboratory."""
    n = len(mass)
    cos_theta = rng.uniform(-1.0, 1.0, n)
    phi = rng.uniform(-np.pi, np.pi, n)
    momentum = mass / 2
    sin_theta = np.sqrt(1.0 - cos_theta**2)
    rest = np.stack([sin_theta * np.cos(phi), sin_theta * np.sin(phi), cos_theta]) * momentum
    flight = np.stack([parent.px, parent.py, parent.pz])
    along = np.sum(flight * rest, axis=0)
    daughters = []
    for sign in (1.0, -1.0):
        factor = (sign * along / (parent.energy + mass) + momentum) / mass
        px, py, pz = sign * rest + flight * factor
        daughters.append(FourVectors(px, py, pz, np.sqrt(px**2 + py**2 + pz**2 + MUON_MASS**2)))
    return daughters[0], daughters[1]


def trim(values: Floats, bits: int = 12) -> npt.NDArray[np.float32]:
    """Round to a few mantissa bits: detector resolution needs no more, and files shrink."""
    drop = 23 - bits
    raw = np.ascontiguousarray(values, dtype=np.float32).view(np.uint32)
    half = np.uint32(1 << (drop - 1))
    mask = np.uint32(0xFFFFFFFF ^ ((1 << drop) - 1))
    return ((raw + half) & mask).view(np.float32)


def jagged(vectors: FourVectors, keep: Bools, **more: npt.NDArray[Any]) -> ak.Array:
    """The kept entries of every row, hardest first, as one record per object."""
    order = np.argsort(np.where(keep, -vectors.pt, np.inf), axis=1)
    selected = np.take_along_axis(keep, order, axis=1)

    def column(values: npt.NDArray[Any]) -> ak.Array:
        flat = np.take_along_axis(values, order, axis=1)[selected]
        if flat.dtype == np.float64:
            flat = trim(flat)
        return ak.unflatten(flat, selected.sum(axis=1))

    columns = {
        "Px": vectors.px,
        "Py": vectors.py,
        "Pz": vectors.pz,
        "E": vectors.energy,
        **more,
    }
    return ak.zip({name: column(values) for name, values in columns.items()})


def make_muons(
    rng: np.random.Generator, process: Process, n: int, vertices: Floats
) -> tuple[ak.Array, Bools, FourVectors]:
    """Reconstructed muons, the trigger decision, and the (first) boson."""
    if process.pair:
        mass = dilepton_mass(rng, n)
        boson = bosons(rng, process, mass)
        first, second = decay(rng, boson, mass)
        has_second = np.ones(n, dtype=bool)
    else:
        mass = breit_wigner(rng, n, W_MASS, W_WIDTH)
        boson = bosons(rng, process, mass)
        first, _ = decay(rng, boson, mass)
        mass = breit_wigner(rng, n, W_MASS, W_WIDTH)
        second, _ = decay(rng, bosons(rng, process, mass), mass)
        has_second = rng.random(n) < process.second_muon

    soft = [
        from_pt_eta_phi(
            5.0 + rng.exponential(11.0, n),
            rng.uniform(-2.4, 2.4, n),
            rng.uniform(-np.pi, np.pi, n),
            MUON_MASS,
        )
        for _ in process.nonprompt
    ]
    true = stack(first, second, *soft)
    exists = np.stack(
        [np.ones(n, dtype=bool), has_second, *(rng.random(n) < p for p in process.nonprompt)],
        axis=1,
    )
    charge = rng.choice(np.array([-1, 1], dtype=np.int32), size=(n, MUON_SLOTS))
    charge[:, 1] = -charge[:, 0]

    # Momentum resolution: 1.2 % and worse for very straight tracks.
    scale = np.maximum(1.0 + rng.normal(size=true.px.shape) * (0.012 + 1e-4 * true.pt), 0.5)
    px, py, pz = true.px * scale, true.py * scale, true.pz * scale
    muons = FourVectors(px, py, pz, np.sqrt(px**2 + py**2 + pz**2 + MUON_MASS**2))
    seen = (
        exists
        & (muons.pt > 5.0)
        & (np.abs(muons.eta) < 2.4)
        & (rng.random(exists.shape) < 0.96 - 0.03 * (np.abs(muons.eta) > 1.2))
    )

    # Isolation: energy around the muon in GeV, from pile-up and, for muons in jets, the jet.
    iso = rng.exponential(0.35 + 0.05 * vertices[:, None], size=px.shape)
    iso[:, 2:] += rng.exponential(9.0, size=(n, len(soft)))

    turn_on = 1.0 / (1.0 + np.exp(-(muons.pt - 24.0) / 0.6))
    fires = seen & (np.abs(muons.eta) < 2.1) & (iso < 0.15 * muons.pt)
    trigger = np.any(fires & (rng.random(px.shape) < 0.9 * turn_on), axis=1)
    return jagged(muons, seen, Charge=charge, Iso=iso), trigger, boson


def make_jets(rng: np.random.Generator, process: Process, n: int, boson: FourVectors) -> ak.Array:
    """Jets above 20 GeV: one that balances a hard boson, b jets, and softer radiation."""
    shape = (n, JET_SLOTS)
    pt = 20.0 * rng.random(shape) ** (-1.0 / 2.8)
    pt[:, 1 : 1 + process.b_jets] += rng.exponential(45.0, size=(n, process.b_jets))
    phi = rng.uniform(-np.pi, np.pi, shape)
    pt[:, 0] = boson.pt * np.maximum(rng.normal(0.95, 0.12, n), 0.1)
    phi[:, 0] = np.arctan2(-boson.py, -boson.px) + rng.normal(0.0, 0.1, n)
    eta = np.clip(rng.normal(0.0, 1.7, shape), -4.5, 4.5)

    slot = np.arange(JET_SLOTS)
    extra = rng.geometric(1.0 / (1.0 + process.jets), n) - 1 + process.b_jets
    keep = ((slot >= 1) & (slot <= extra[:, None])) | ((slot == 0) & (pt > 25.0))
    keep &= (pt > 20.0) & (np.abs(eta) < 4.5)
    is_b = (slot >= 1) & (slot <= process.b_jets) & np.ones(shape, dtype=bool)
    tag = np.where(is_b, rng.beta(4.0, 1.5, shape), rng.beta(1.2, 6.0, shape))
    return jagged(from_pt_eta_phi(pt, eta, phi, 0.1 * pt), keep, btag=trim(tag, 6))


def make_process(
    rng: np.random.Generator, process: Process, n: int, vertices_mean: float
) -> dict[str, ak.Array]:
    """``n`` events of one process, unweighted."""
    vertices = rng.poisson(vertices_mean, n)
    muons, trigger, boson = make_muons(rng, process, n, vertices.astype(np.float64))
    return {
        "Muon": muons,
        "Jet": make_jets(rng, process, n, boson),
        "EventWeight": ak.Array(np.ones(n, dtype=np.float32)),
        "NPrimaryVertices": ak.Array(vertices.astype(np.int32)),
        "triggerIsoMu24": ak.Array(trigger),
    }


def make_data(rng: np.random.Generator, n: int) -> dict[str, ak.Array]:
    """``n`` events of all processes, shuffled."""
    counts = rng.multinomial(n, [p.share for p in PROCESSES.values()])
    parts = [
        make_process(rng, process, int(count), VERTICES_DATA)
        for process, count in zip(PROCESSES.values(), counts, strict=True)
    ]
    order = rng.permutation(n)
    return {name: ak.concatenate([part[name] for part in parts])[order] for name in parts[0]}


def make_simulation(rng: np.random.Generator, name: str, n: int) -> dict[str, ak.Array]:
    """``n`` events of one simulated sample, weighted to the size of the data."""
    process = PROCESSES[name]
    events = make_process(rng, process, n, VERTICES_MC)
    mean = process.share * DATA_EVENTS / process.generated
    # A spread of 10 % stands for the scale factors that real simulation carries.
    events["EventWeight"] = ak.Array((mean * rng.uniform(0.9, 1.1, n)).astype(np.float32))
    return events


def complete(path: Path, events: int) -> bool:
    """Is this file there with the right number of events?"""
    try:
        with uproot.open(path) as handle:
            return bool(handle[TREE].num_entries == events)
    except (OSError, KeyError, ValueError):
        return False


def write(path: Path, events: dict[str, ak.Array]) -> None:
    """Write under a temporary name and rename, so that a file that exists is a whole one."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.stem}-", suffix=".tmp")
    os.close(handle)
    temporary = Path(name)
    try:
        with uproot.recreate(temporary, compression=uproot.ZSTD(3)) as output:
            output.mktree(TREE, {column: array.type for column, array in events.items()})
            output[TREE].extend(events)
        temporary.chmod(0o644)  # mkstemp makes files that only their owner can read
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def files() -> Iterator[tuple[str, int, int]]:
    """Dataset, file number and number of events of every file."""
    sizes = {"data": DATA_EVENTS} | {name: p.generated for name, p in PROCESSES.items()}
    for name, events in sizes.items():
        parts = FILES.get(name, 1)
        for part in range(parts):
            yield name, part, events // parts


def main() -> None:
    parser = argparse.ArgumentParser(description="Generate the events of the Z -> mu mu demo.")
    parser.add_argument(
        "folder",
        nargs="?",
        type=Path,
        default=Path(__file__).resolve().parent / "data",
        help="where to write (default: data beside this program)",
    )
    parser.add_argument("--force", action="store_true", help="write files that exist again")
    arguments = parser.parse_args()

    arguments.folder.mkdir(parents=True, exist_ok=True)
    datasets = ["data", *PROCESSES]
    total = 0
    for name, part, count in files():
        path = arguments.folder / f"{name}_{part}.root"
        total += count
        if not arguments.force and complete(path, count):
            print(f"{path.name:<14} {count:>6} events  already there")
            continue
        # One seed per file: a file does not depend on which others are made in the same run.
        rng = np.random.default_rng([SEED, datasets.index(name), part])
        write(path, make_data(rng, count) if name == "data" else make_simulation(rng, name, count))
        print(f"{path.name:<14} {count:>6} events  {path.stat().st_size / 1e6:4.1f} MB")
    print(f"{total} events in {arguments.folder}")


if __name__ == "__main__":
    main()

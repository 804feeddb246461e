#!/usr/bin/env python3
"""Generate the events of the ttbar analysis: small files in the layout of CMS NanoAOD.

Usage: python make_events.py [FOLDER] [--events N] [--per-file N]

Nine datasets in the proportions of the Analysis Grand Challenge, each in files of at most
``--per-file`` events, and ``datasets.yaml``, which names them for workflow.yaml. The events have
the columns that the analysis reads, and what it looks for: leptons from W bosons, b jets, and, in
ttbar, a top quark that decays to three jets. Each file has a seed of its own: it does not depend
on the others.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path

import awkward as ak
import numpy as np
import numpy.typing as npt
import uproot
import yaml

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

SEED = 13_000
TREE = "Events"
TOP_MASS, W_MASS, B_MASS = 172.5, 80.4, 4.8


@dataclass(frozen=True)
class Process:
    """What the events of a process look like."""

    xs: float  # cross-section, pb
    b_quarks: int = 0
    hadronic_top: bool = False
    soft_jets: float = 2.5  # mean number
    hardness: float = 18.0  # mean momentum of soft jets above 15 GeV


PROCESSES = {
    "ttbar": Process(729.84, b_quarks=1, hadronic_top=True),
    "single_top_s_chan": Process(3.2944, b_quarks=2, soft_jets=1.5),
    "single_top_t_chan": Process(234.79, b_quarks=1, hardness=25.0),
    "single_top_tW": Process(75.842, b_quarks=1, soft_jets=3.5, hardness=25.0),
    "wjets": Process(15487.0, hardness=22.0),
}
#: Dataset: its process, millions of events in the Analysis Grand Challenge, and what is another:
#: the momentum of soft jets. The last four are simulations of ttbar with other parameters.
DATASETS = {
    "ttbar": ("ttbar", 276.1, 1.0),
    "single_top_s_chan": ("single_top_s_chan", 2.9, 1.0),
    "single_top_t_chan": ("single_top_t_chan", 109.3, 1.0),
    "single_top_tW": ("single_top_tW", 2.0, 1.0),
    "wjets": ("wjets", 433.7, 1.0),
    "ttbar_ME_var": ("ttbar", 19.1, 1.1),
    "ttbar_PS_var": ("ttbar", 19.3, 0.9),
    "ttbar_scaledown": ("ttbar", 39.3, 1.2),
    "ttbar_scaleup": ("ttbar", 38.4, 0.8),
}


@dataclass
class Vectors:
    """Four-vectors, one per event. GeV."""

    px: Floats
    py: Floats
    pz: Floats
    energy: Floats

    @property
    def pt(self) -> Floats:
        return np.hypot(self.px, self.py)

    @property
    def eta(self) -> Floats:
        return np.arcsinh(self.pz / np.maximum(self.pt, 1e-6))

    @property
    def phi(self) -> Floats:
        return np.arctan2(self.py, self.px)


def produced(rng: np.random.Generator, mass: float, scale: float, number: int) -> Vectors:
    """Return particles of this mass, with a mean transverse momentum of about ``scale``."""
    pt, phi = rng.gamma(2.0, scale / 2, number), rng.uniform(-np.pi, np.pi, number)
    rapidity = np.clip(rng.normal(0.0, 1.0, number), -3.0, 3.0)
    transverse = np.hypot(mass, pt)
    return Vectors(
        pt * np.cos(phi),
        pt * np.sin(phi),
        transverse * np.sinh(rapidity),
        transverse * np.cosh(rapidity),
    )


def decay(
    rng: np.random.Generator, parent: Vectors, mass: float, first: float, second: float
) -> tuple[Vectors, Vectors]:
    """Return what particles of ``mass`` decay to, in a random direction: two of these masses."""
    number = len(parent.px)
    momentum = np.sqrt(
        (mass**2 - (first + second) ** 2) * (mass**2 - (first - second) ** 2)
    ) / (2 * mass)  # fmt: skip
    cosine, phi = rng.uniform(-1.0, 1.0, number), rng.uniform(-np.pi, np.pi, number)
    sine = np.sqrt(1.0 - cosine**2)
    rest = np.stack([sine * np.cos(phi), sine * np.sin(phi), cosine]) * momentum
    flight = np.stack([parent.px, parent.py, parent.pz])
    found = []
    for sign, own in ((1.0, first), (-1.0, second)):
        energy = np.hypot(momentum, own)
        along = np.sum(flight * rest, axis=0) * sign
        px, py, pz = sign * rest + flight * (along / (parent.energy + mass) + energy) / mass
        found.append(Vectors(px, py, pz, np.sqrt(px**2 + py**2 + pz**2 + own**2)))
    return found[0], found[1]


def trim(values: Floats) -> npt.NDArray[np.float32]:
    """Round to 12 bits of the mantissa, as NanoAOD does to save space."""
    raw = np.ascontiguousarray(values, dtype=np.float32).view(np.uint32)
    return ((raw + np.uint32(1 << 10)) & np.uint32(0xFFFFF800)).view(np.float32)


def jagged(keep: Bools, by: Floats, **columns: npt.NDArray[np.generic]) -> ak.Array:
    """Return the objects that are kept, largest ``by`` first, as one record each."""
    order = np.argsort(np.where(keep, -by, np.inf), axis=1, kind="stable")
    kept = np.take_along_axis(keep, order, axis=1)
    counts = kept.sum(axis=1)

    def column(values: npt.NDArray[np.generic]) -> ak.Array:
        flat = np.take_along_axis(values, order, axis=1)[kept]
        return ak.unflatten(trim(flat) if flat.dtype == np.float64 else flat, counts)

    return ak.zip({name: column(values) for name, values in columns.items()})


def leptons(rng: np.random.Generator, lepton: Vectors) -> dict[str, ak.Array]:
    """Return electrons and muons: one of them is that of the W, others are in jets or fakes."""
    number = len(lepton.px)
    is_electron = rng.random(number) < 0.5
    found = {}
    for name, is_prompt, mass in (
        ("Electron", is_electron, 0.000511),
        ("Muon", ~is_electron, 0.10566),
    ):
        pt = np.stack([lepton.pt, 5.0 + rng.exponential(8.0, number)], axis=1)
        eta = np.stack([lepton.eta, rng.uniform(-2.5, 2.5, number)], axis=1)
        phi = np.stack([lepton.phi, rng.uniform(-np.pi, np.pi, number)], axis=1)
        prompt = np.stack([np.ones(number, bool), np.zeros(number, bool)], axis=1)
        keep = np.stack([is_prompt & (rng.random(number) < 0.9), rng.random(number) < 0.2], axis=1)
        keep &= (pt > 5.0) & (np.abs(eta) < 2.5)
        good = rng.random(pt.shape) < np.where(prompt, 0.85, 0.1)
        impact = rng.exponential(np.where(prompt, 1.0, 4.0))
        columns: dict[str, npt.NDArray[np.generic]] = {"pt": pt, "eta": eta, "phi": phi}
        columns["mass"] = np.full(pt.shape, mass)
        columns |= {"sip3d": impact, "charge": rng.choice(np.array([-1, 1], np.int32), pt.shape)}
        if name == "Electron":
            level = np.where(good, 4, rng.integers(0, 4, pt.shape)).astype(np.int32)
            found[name] = jagged(keep, pt, **columns, cutBased=level)
        else:
            isolation = rng.exponential(np.where(prompt, 0.04, 0.8))
            found[name] = jagged(keep, pt, **columns, tightId=good, pfRelIso04_all=isolation)
    return found


def jets(
    rng: np.random.Generator, process: Process, softness: float, quarks: list[tuple[Vectors, bool]]
) -> ak.Array:
    """Return a jet per quark, whether it is a b quark or not, and some soft jets."""
    number, slots = len(quarks[0][0].px) if quarks else 0, 8
    soft = 15.0 + rng.exponential(process.hardness * softness, (number, slots))
    shape = (number, slots + len(quarks))
    pt = np.concatenate([*(v.pt[:, None] for v, _ in quarks), soft], axis=1)
    pt *= np.maximum(rng.normal(1.0, 0.1, shape), 0.2)
    angle = rng.uniform(-np.pi, np.pi, soft.shape)
    phi = np.concatenate([*(v.phi[:, None] for v, _ in quarks), angle], axis=1)
    rapidity = rng.normal(0.0, 1.8, soft.shape)
    eta = np.concatenate([*(v.eta[:, None] for v, _ in quarks), rapidity], axis=1)
    is_b = np.zeros(shape, dtype=bool)
    is_b[:, : len(quarks)] = [b for _, b in quarks]
    tag = np.where(is_b, rng.beta(4.0, 1.5, shape), rng.beta(1.0, 7.0, shape))
    tag = np.where(~is_b & (rng.random(shape) < 0.2), -10.0, tag)
    keep = np.arange(shape[1]) < len(quarks) + rng.poisson(process.soft_jets, number)[:, None]
    keep &= (pt > 15.0) & (np.abs(eta) < 4.7)
    return jagged(
        keep,
        pt,
        pt=pt,
        eta=eta,
        phi=phi,
        mass=pt * rng.uniform(0.06, 0.16, shape),
        btagCSVV2=tag,
        jetId=np.where(rng.random(shape) < 0.95, 6, 2).astype(np.int32),
    )


def events(name: str, part: int, number: int) -> dict[str, ak.Array]:
    """Return the columns of a file of a dataset."""
    kind, _, softness = DATASETS[name]
    process = PROCESSES[kind]
    rng = np.random.default_rng([SEED, list(DATASETS).index(name), part, number])
    quarks = []
    if process.hadronic_top:
        top = produced(rng, TOP_MASS, 120.0, number)
        boson, b_quark = decay(rng, top, TOP_MASS, W_MASS, B_MASS)
        quarks += [(quark, False) for quark in decay(rng, boson, W_MASS, 0.1, 0.1)]
        quarks += [(b_quark, True)]
    for _ in range(process.b_quarks):
        quarks.append((produced(rng, B_MASS, 60.0, number), True))
    if not quarks:  # something that the W recoils against
        quarks.append((produced(rng, 0.1, 30.0, number), False))
    lepton, _ = decay(rng, produced(rng, W_MASS, 45.0, number), W_MASS, 0.1, 0.0)
    return {
        **leptons(rng, lepton),
        "Jet": jets(rng, process, softness, quarks),
        "genWeight": ak.Array(np.ones(number, dtype=np.float32)),
        "run": ak.Array(np.ones(number, dtype=np.uint32)),
        "luminosityBlock": ak.Array(np.full(number, part + 1, dtype=np.uint32)),
        "event": ak.Array(np.arange(number, dtype=np.uint64) + np.uint64(part * number)),
    }


def write(path: Path, columns: dict[str, ak.Array]) -> None:
    """Write under a temporary name and rename, so that a file that exists is a whole one."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.stem}-", suffix=".tmp")
    os.close(handle)
    temporary = Path(name)
    try:
        with uproot.recreate(temporary, compression=uproot.ZSTD(3)) as output:
            output.mktree(TREE, {column: array.type for column, array in columns.items()})
            output[TREE].extend(columns)
        temporary.chmod(0o644)  # mkstemp makes files that only their owner can read
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def sizes(total: int, per_file: int) -> dict[str, list[int]]:
    """Return the number of events of each file of each dataset; the files of one are equal.

    Equal, since FAST-HEP takes ``nevents`` of a dataset as the number of events of every file.
    """
    shares = {name: millions for name, (_, millions, _) in DATASETS.items()}
    found = {}
    for name, share in shares.items():
        wanted = max(round(total * share / sum(shares.values())), 1)
        files = -(-wanted // per_file)
        found[name] = [-(-wanted // files)] * files
    return found


def make(folder: Path, total: int, per_file: int) -> dict[str, list[Path]]:
    """Write all files that are not there yet, and ``datasets.yaml``; return each dataset's files.

    A file that is there with the number of events that it would get is left alone.
    """
    folder.mkdir(parents=True, exist_ok=True)
    found: dict[str, list[Path]] = {}
    document = []
    for name, counts in sizes(total, per_file).items():
        kind = DATASETS[name][0]
        found[name] = []
        for part, number in enumerate(counts):
            path = folder / f"{name}_{number}_{part}.root"
            found[name].append(path)
            if not path.exists():
                write(path, events(name, part, number))
        document.append(
            {
                "name": name,
                "eventtype": "mc",
                "group": kind,
                "xs": PROCESSES[kind].xs,
                "n_unskimmed_events": sum(counts),
                "nevents": counts[0],
                "files": [str(path) for path in found[name]],
            }
        )
    text = yaml.safe_dump({"data": {"datasets": document}}, sort_keys=False)
    (folder / "datasets.yaml").write_text(
        f"# Written by make_events.py, for workflow.yaml.\n{text}", encoding="utf-8"
    )
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description="Generate the events of the ttbar analysis.")
    parser.add_argument(
        "folder",
        nargs="?",
        type=Path,
        default=Path("data"),
        help="where to write; the files are named relative to the current folder (default: data)",
    )
    parser.add_argument("--events", type=int, default=200_000, help="in all (default: 200000)")
    parser.add_argument("--per-file", type=int, default=20_000, help="at most (default: 20000)")
    arguments = parser.parse_args()
    found = make(arguments.folder, arguments.events, arguments.per_file)
    for name, files in found.items():
        size = sum(path.stat().st_size for path in files) / 1e6
        print(f"{name:<18} {len(files):>4} files {size:7.1f} MB")


if __name__ == "__main__":
    main()

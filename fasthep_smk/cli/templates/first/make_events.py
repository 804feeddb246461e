"""Make the events that workflow.yaml analyses: python make_events.py

They are invented: a Z peak on top of muons that do not belong together. Every call makes the same.
"""

from pathlib import Path

import awkward as ak
import numpy as np
import uproot

#: Events of a file, the share of them with a Z, and the weight of each.
FILES = {
    "data_0": (12_000, 0.6, 1.0),
    "data_1": (12_000, 0.6, 1.0),
    "zmumu_0": (20_000, 1.0, 24_000 * 0.6 / 20_000),
    "other_0": (12_000, 0.0, 24_000 * 0.4 / 12_000),
}


def make_events(rng, events, share, weight):
    """Return the columns of one file: muons, as many as an event has, and a weight."""
    is_z = rng.random(events) < share
    count = np.where(is_z, 2, rng.integers(0, 4, events))
    total = int(count.sum())
    pt = 10 + rng.exponential(20, total)
    eta = rng.normal(0, 1.2, total)
    phi = rng.uniform(-np.pi, np.pi, total)

    # The second muon of a Z gets the momentum that gives the pair the mass of a Z.
    first = (np.cumsum(count) - count)[is_z]
    second = first + 1
    pairs = len(first)
    width, resolution = 1.25 * rng.standard_cauchy(pairs), rng.normal(0, 1, pairs)
    mass = np.clip(91.2 + width + resolution, 20, 200)
    pt[first] = np.maximum(rng.normal(42, 9, pairs), 12)
    eta[second] = eta[first] + rng.normal(0, 0.6, pairs)
    phi[second] = phi[first] + np.pi + rng.normal(0, 0.2, pairs)
    angles = np.cosh(eta[first] - eta[second]) - np.cos(phi[first] - phi[second])
    pt[second] = mass**2 / (2 * pt[first] * angles)
    phi = (phi + np.pi) % (2 * np.pi) - np.pi

    charge = rng.choice([-1, 1], total)
    charge[second] = -charge[first]
    muons = {"pt": pt, "eta": eta, "phi": phi, "charge": charge}
    kinds = {"charge": np.int32}
    return {
        "Muon": ak.zip(
            {
                name: ak.unflatten(values.astype(kinds.get(name, np.float32)), count)
                for name, values in muons.items()
            }
        ),
        "EventWeight": np.full(events, weight, dtype=np.float32),
    }


def main(folder=Path("data")):
    """Write all files below `folder`."""
    folder.mkdir(exist_ok=True)
    for number, (name, (events, share, weight)) in enumerate(FILES.items()):
        columns = make_events(np.random.default_rng(number), events, share, weight)
        with uproot.recreate(folder / f"{name}.root") as file:
            file.mktree("events", {key: ak.type(ak.Array(data)) for key, data in columns.items()})
            file["events"].extend(columns)


if __name__ == "__main__":
    main()

"""Prints:

    ['mu']: 1 pairs of two muons
    ['mu', 'mu']: 6 pairs of two muons

Expected: an error for the second line.
"""

import awkward as ak
from fasthep_carpenter.operations.build_pairs import run_build_pairs_transform

muons = {
    "mu_pt": [[40.0, 30.0]],
    "mu_eta": [[0.0, 1.0]],
    "mu_phi": [[0.0, 3.0]],
    "mu_mass": [[0.1, 0.1]],
}
for collections in (["mu"], ["mu", "mu"]):
    made = run_build_pairs_transform(
        stream=ak.Array(muons),
        collections=collections,
        output="mm",
        keep={"candidate": ["mass"], "constituents": ["pt"]},
    )
    print(f"{collections}: {len(made.mm_Z_mass[0])} pairs of two muons")

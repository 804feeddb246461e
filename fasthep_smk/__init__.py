"""Run FAST-HEP workflows as Snakemake workflows."""

from __future__ import annotations

import sys

if sys.argv[:1] == ["-m"] and not sys.flags.safe_path and "fasthep_smk" in sys.orig_argv:
    # "python -m fasthep_smk" has put the current folder first: a file numpy.py there would run.
    del sys.path[0]

from fasthep_smk.flow.rng import rng

__version__ = "0.1.0"

__all__ = ["__version__", "rng"]

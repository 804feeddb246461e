"""Run FAST-HEP workflows as Snakemake workflows."""

from __future__ import annotations

import sys

if sys.argv[:1] == ["-m"] and not sys.flags.safe_path and "fasthep_smk" in sys.orig_argv:
    # "python -m fasthep_smk" has put the current folder first: a file numpy.py there would run.
    del sys.path[0]

from fasthep_smk.flow.rng import rng

TYPE_CHECKING = False  # typing takes longer to import than all of this
if TYPE_CHECKING:
    from fasthep_smk.api import Results, Translated, load_results, run, translate

    __version__: str

__all__ = ["Results", "Translated", "__version__", "load_results", "rng", "run", "translate"]


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    # Imported when needed: operations and the command line ask for nothing of it.
    if name == "__version__":
        from importlib.metadata import version

        return version("fasthep-smk")
    from fasthep_smk import api

    return getattr(api, name)

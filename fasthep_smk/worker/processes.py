"""What a process that forks jobs, and one that is forked, must know about themselves."""

from __future__ import annotations

import contextlib
import gc
import importlib
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterable
from pathlib import Path

from fasthep_smk.util.masking import masked

#: Looks, a millisecond apart: a thread that has been joined is listed for a moment longer.
_LOOKS = 20
#: What plots import, in steps that keep no job waiting for long; it starts no thread either.
FOR_PLOTS = (
    "matplotlib",
    "matplotlib.figure",
    "matplotlib.pyplot",
    "matplotlib.backends.backend_agg",
    "PIL.PngImagePlugin",
    "mplhep",
    "fasthep_render.hist.hist1d",
    "scipy.special",
    "scipy.linalg",
    "scipy.optimize",
    "scipy.ndimage",
    "scipy.integrate",
    "scipy.interpolate",
    "scipy.stats.distributions",
    "mplhep.error_estimation",
)
#: What partition jobs and reductions import; nothing of this starts a thread.
MODULES = (
    "fasthep_smk.worker.runner",
    "fasthep_smk.worker.bundle",
    "fasthep_smk.worker.partition",
    "fasthep_smk.worker.reduction",
    "fasthep_smk.flow.runtime",
    "fasthep_smk.sites.local",
    "fasthep_carpenter.sources.root_tree",
    "fasthep_carpenter.operations.define",
    "fasthep_carpenter.operations.hist",
    "fasthep_carpenter.operations.cutflow",
    "fasthep_carpenter.expr_helpers",
    "fasthep_carpenter.products",
    "fasthep_curator",
    "fasthep_curator.hooks.dataset_context",
    "fasthep_curator.products",
    # These are imported when an array is made, random numbers are seeded, a record of four-vectors
    # is met, or a ZIP file is read.
    "numpy.ma",
    "numpy.random",
    "vector.backends.awkward",
    "vector.backends.awkward_constructors",
    "encodings.ascii",
    "encodings.cp437",
)

#: Names the log of an attempt, which a job that succeeds removes.
LOG = "FASTHEP_SMK_LOG"


def import_for_good(names: Iterable[str]) -> None:
    """Import modules that are never let go; the garbage collector need not look at them again."""
    gc.disable()
    for name in names:
        with contextlib.suppress(Exception):  # a job that needs it will say so
            importlib.import_module(name)
    gc.freeze()
    gc.enable()


def exit_status(run: Callable[[], int]) -> int:
    """Return what a process that only runs this would end with; nothing is raised."""
    try:
        return run()
    except SystemExit as error:
        if error.code is None or isinstance(error.code, int):
            return (error.code or 0) & 0xFF
        print(error.code, file=sys.stderr)
        return 1
    except BaseException as error:
        # As Python does, but for the secrets that the error quotes.
        print(masked(traceback.format_exc()), end="", file=sys.stderr)
        return 128 + signal.SIGINT if isinstance(error, KeyboardInterrupt) else 1
    finally:
        with contextlib.suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()


def has_one_thread() -> bool:
    """Whether this process can be forked safely: no other thread may hold a lock."""
    for _ in range(_LOOKS):
        if len(list(Path("/proc/self/task").iterdir())) == 1:
            return True
        time.sleep(0.001)
    return False

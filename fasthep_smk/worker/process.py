"""What a process that forks jobs, and one that is forked, must know about themselves."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import importlib
import os
import signal
import sys
import traceback
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NoReturn

__all__ = [
    "LOG",
    "MODULES",
    "ONE_THREAD",
    "die_with_parent",
    "exit_status",
    "has_one_thread",
    "import_for_good",
    "live_as",
]

#: Libraries for linear algebra start a thread per core where nothing is said; a process with
#: threads cannot be forked safely.
ONE_THREAD = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "BLIS_NUM_THREADS": "1",
    "NUMEXPR_NUM_THREADS": "1",
    # The allocator in pyarrow tidies up in a thread of its own.
    "JE_ARROW_MALLOC_CONF": "background_thread:false",
}
#: What partition jobs and reductions import; nothing of this starts a thread.
MODULES = (
    "fasthep_smk.worker.job",
    "fasthep_smk.worker.bundle",
    "fasthep_smk.worker.series",
    "fasthep_smk.worker.partition",
    "fasthep_smk.worker.reduction",
    "fasthep_smk.flow.execute",
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
    # These are imported when an array is made, or a record of four-vectors is met.
    "numpy.ma",
    "vector.backends.awkward",
    "vector.backends.awkward_constructors",
)

#: Names the log of an attempt, which a job that succeeds removes.
LOG = "FASTHEP_SMK_LOG"
_PR_SET_PDEATHSIG = 1


def import_for_good(names: Iterable[str]) -> None:
    """Import modules that are never let go; the garbage collector need not look at them again."""
    gc.disable()
    for name in names:
        with contextlib.suppress(Exception):  # a job that needs it will say so
            importlib.import_module(name)
    gc.freeze()
    gc.enable()


def live_as(run: Callable[[], int], parent: int, outputs: Sequence[int] = ()) -> NoReturn:
    """Be a job, in a forked process, and end with its exit status.

    It ends with ``parent``, and ``outputs`` are its standard output and error.
    """
    status = 1
    try:
        die_with_parent(parent)
        for goal, output in enumerate(outputs, start=1):
            os.dup2(output, goal)
        if "numpy" in sys.modules:
            sys.modules["numpy"].random.seed()  # or all jobs would draw the same numbers
        status = exit_status(run)
    finally:  # also after Ctrl-C
        os._exit(status)


def exit_status(run: Callable[[], int]) -> int:
    """Return what a process that only runs this would end with; nothing but Ctrl-C is raised."""
    try:
        return run()
    except SystemExit as error:
        return error.code if isinstance(error.code, int) else 1
    except KeyboardInterrupt:
        raise
    except BaseException:
        traceback.print_exc()
        return 1
    finally:
        with contextlib.suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()


def has_one_thread() -> bool:
    """Tell whether this process can be forked safely: no other thread may hold a lock."""
    return len(list(Path("/proc/self/task").iterdir())) == 1


def die_with_parent(parent: int) -> None:
    """Let the kernel kill this process when its parent is gone: somebody else runs the job."""
    prctl = getattr(ctypes.CDLL(None), "prctl", None)
    if prctl is not None:
        prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
    if os.getppid() != parent:  # it was gone before
        os.kill(os.getpid(), signal.SIGKILL)

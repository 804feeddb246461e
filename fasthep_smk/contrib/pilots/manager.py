"""What runs on the node of a pilot: Parsl's manager and its workers, without the rest of Parsl.

The processes that it starts run this module first, as Python's ``multiprocessing`` does with the
main module of a process that is not its parent's. So Parsl's module is run here, in the place of
this one. They fork from one process that has imported it, instead of a new Python each.
"""

from __future__ import annotations

import importlib
import importlib.util
import multiprocessing
import signal
from importlib import metadata
from importlib.abc import InspectLoader

from fasthep_smk.contrib.pilots.interchange import import_bare_parsl
from fasthep_smk.flow import patches
from fasthep_smk.util.processes import signal_at_parents_end

_MODULE = "parsl.executors.high_throughput.process_worker_pool"

import_bare_parsl()
if __name__ == "__main__":
    _forks = multiprocessing.get_context("forkserver")
    _forks.set_forkserver_preload(["fasthep_smk.contrib.pilots.manager"])
    patches.PILOT_START.make(importlib.import_module("parsl.multiprocessing"), SpawnContext=_forks)
    # It would tell its interchange which packages there are, which is not needed.
    patches.PILOT_START.make(metadata, distributions=lambda **_: ())
else:  # a worker, or what they are forked from: without the manager it would wait forever
    signal_at_parents_end(signal.SIGKILL)
_spec = importlib.util.find_spec(_MODULE)
assert _spec is not None
assert isinstance(_spec.loader, InspectLoader)
_code = _spec.loader.get_code(_MODULE)
assert _code is not None
exec(_code, globals())  # its ``__name__`` is that of this module, often the main one

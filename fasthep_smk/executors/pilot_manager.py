"""What runs on the node of a pilot: Parsl's manager and its workers, without the rest of Parsl.

The processes that it starts run this module first, as Python's ``multiprocessing`` does with the
main module where it starts a new Python. So Parsl's module is run here, in the place of this one.
"""

from __future__ import annotations

import importlib.util
from importlib.abc import InspectLoader

from fasthep_smk.flow.patches.late import PARSL, import_bare

_MODULE = "parsl.executors.high_throughput.process_worker_pool"

import_bare(PARSL)
_spec = importlib.util.find_spec(_MODULE)
assert _spec is not None
assert isinstance(_spec.loader, InspectLoader)
_code = _spec.loader.get_code(_MODULE)
assert _code is not None
exec(_code, globals())  # its ``__name__`` is that of the main module

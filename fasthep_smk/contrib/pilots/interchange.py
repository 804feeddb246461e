"""Where pilots and Snakemake meet: Parsl's interchange, which ends with who started it.

Without that it would outlive a Snakemake that is killed, and so would all pilots: they end when
they do not hear of it any more. As other processes of Parsl's, it imports no more of it than it
uses: to import one module of Parsl imports all that it has.
"""

from __future__ import annotations

import os
import runpy
import sys
import threading
import time
from collections.abc import Iterable
from importlib.util import module_from_spec

from fasthep_smk.flow.patches.late import import_late, spec_of

_MODULE = "parsl.executors.high_throughput.interchange"


def main() -> None:
    """Be Parsl's interchange, in a session of its own: Ctrl-C is for Snakemake to handle."""
    parent = os.getppid()
    os.setsid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
    import_bare_parsl()
    runpy.run_module(_MODULE, run_name="__main__", alter_sys=True)


def import_bare_parsl() -> None:
    """Let this process import modules of Parsl alone; before it has imported any."""
    import_bare(["parsl", "parsl.executors", "parsl.monitoring"])
    # They import it, and do not use it: it asks a server in the internet for the own address.
    import_late(["requests"])


def import_bare(packages: Iterable[str]) -> None:
    """Let the modules of packages be imported without what these import and define themselves.

    A package must come after the one that it is in. In the register: BARE_PARSL.
    """
    for name in packages:
        spec = None if name in sys.modules else spec_of(name)
        if spec is not None and spec.submodule_search_locations is not None:
            sys.modules[name] = module_from_spec(spec)


if __name__ == "__main__":
    main()

"""Where pilots and Snakemake meet: Parsl's interchange, which ends with who started it.

Without that it would outlive a Snakemake that is killed, and so would all pilots: they end when
they do not hear of it any more.
"""

from __future__ import annotations

import os
import runpy
import threading
import time

from fasthep_smk.contrib.pilots.bare import import_bare_parsl

__all__ = ["main"]

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


if __name__ == "__main__":
    main()

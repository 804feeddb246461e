"""Snakemake for this machine: ``python -m`` this module, then as usual.

With ``--told-by FD`` alone it imports what it needs, and then waits for its arguments at that
descriptor, one JSON list; the process that started it may find that there is nothing to do. It ends
silently if nothing comes, and with that process as long as nothing has come.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import signal
import sys

from fasthep_smk.executors.forked_jobs import hand_jobs_over
from fasthep_smk.executors.start import prepare
from fasthep_smk.util.processes import signal_at_parents_end
from fasthep_smk.util.snakemake_types import run_command_line

__all__ = ["main"]

_TOLD_BY = "--told-by"


def main() -> None:
    """Run Snakemake's command line."""
    told = sys.argv[1:2] == [_TOLD_BY]
    if told:
        signal_at_parents_end(signal.SIGKILL)
        # In the background of a script, Ctrl-C is ignored, and we have inherited that.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    gc.disable()  # what is imported stays: nothing of it is to be collected
    importlib.import_module("snakemake.cli")
    prepare()
    if told:
        _wait_to_be_told(int(sys.argv[2]))
    hand_jobs_over()
    gc.freeze()
    gc.enable()
    try:
        run_command_line()
    finally:
        gc.freeze()  # the end of the process is quicker


def _wait_to_be_told(descriptor: int) -> None:
    """Read the arguments and become Snakemake, as if started now; end if there are none."""
    importlib.import_module("snakemake.cli").get_argument_parser()  # imports the plugins
    with os.fdopen(descriptor, "rb") as stream:
        said = stream.read()
    try:
        arguments = json.loads(said)
    except ValueError:  # nothing, or half of it: who started us has ended
        os._exit(0)
    signal_at_parents_end(0)
    sys.argv[1:] = map(str, arguments)


if __name__ == "__main__":
    main()

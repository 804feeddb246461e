"""One job, as a pilot runs it: the rule's own command, in a process that ends with the pilot."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from fasthep_smk.storage import layout
from fasthep_smk.util.processes import signal_at_parents_end

__all__ = ["run"]

#: Parsl's names for the number of this process in its pilot, and for how many there are.
_RANK, _COUNT = "PARSL_WORKER_RANK", "PARSL_WORKER_COUNT"
_GPUS = "CUDA_VISIBLE_DEVICES"


def run(words: Sequence[str], folder: str, captured: str) -> tuple[int, float]:
    """Run a command in a folder, and return its exit status and the seconds that it took.

    What it prints goes to a file.
    """
    begun = time.monotonic()
    target = Path(captured)
    target.parent.mkdir(parents=True, exist_ok=True)
    with target.open("ab") as output:
        process = subprocess.Popen(
            words,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env=_environment(),
            # The job is run elsewhere when this process is lost.
            preexec_fn=lambda: signal_at_parents_end(signal.SIGKILL),
        )
        return process.wait(), time.monotonic() - begun


def _environment() -> dict[str, str]:
    """Return the pilot's environment with the part of its GPUs that is this job's."""
    found = {name: value for name, value in os.environ.items() if not name.startswith("PARSL_")}
    found[layout.IN_PILOT] = "yes"
    gpus = [one for one in found.get(_GPUS, "").split(",") if one]
    rank, count = int(os.environ.get(_RANK, 0)), int(os.environ.get(_COUNT, 1))
    if share := len(gpus) // count:
        found[_GPUS] = ",".join(gpus[rank * share : (rank + 1) * share])
    return found

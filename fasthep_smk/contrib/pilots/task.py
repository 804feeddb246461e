"""One job, as a pilot runs it: the rule's own command, which ends with the pilot."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from fasthep_smk.storage import layout
from fasthep_smk.util.processes import signal_at_parents_end
from fasthep_smk.worker.fork_client import hand_over

#: Parsl's names for the number of this process in its pilot, and for how many there are.
_RANK, _COUNT = "PARSL_WORKER_RANK", "PARSL_WORKER_COUNT"
_GPUS = "CUDA_VISIBLE_DEVICES"
#: How the command of a job begins that is ours.
_OURS = ["sh", layout.WORKER, layout.ALONE]


def run(words: Sequence[str], folder: str, captured: str) -> tuple[int, float]:
    """Run a command in a folder, and return its exit status and the seconds that it took.

    What it prints goes to a file. A job of ours is handed to the node's fork server.
    """
    begun, variables = time.monotonic(), _environment()
    target = Path(captured)
    target.parent.mkdir(parents=True, exist_ok=True)
    with target.open("ab") as output:
        status = _forked(words, folder, variables)
        if status is None:
            status = _started(words, folder, variables, output.fileno())
    return status, time.monotonic() - begun


def _started(words: Sequence[str], folder: str, variables: Mapping[str, str], output: int) -> int:
    process = subprocess.Popen(
        words,
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=output,
        env=variables,
        # The job is run elsewhere when this process is lost.
        preexec_fn=lambda: signal_at_parents_end(signal.SIGKILL),
    )
    return process.wait()


def _forked(words: Sequence[str], folder: str, variables: Mapping[str, str]) -> int | None:
    """Run a job of ours; it ends with this process, as its connection to the fork server does.

    ``None``: it was not run, or not to its end, and has to be started.
    """
    server = variables.get(layout.FORK_SERVER)
    if not server or list(words[:3]) != _OURS:
        return None
    submitted, *own = words[3:]
    its = {**variables, layout.SUBMITTED: submitted}
    return hand_over(server, own, folder, its)


def _environment() -> dict[str, str]:
    """Return the pilot's environment with the part of its GPUs that is this job's."""
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith("PARSL_")
    }
    environment[layout.IN_PILOT] = "yes"
    gpus = [gpu for gpu in environment.get(_GPUS, "").split(",") if gpu]
    rank, count = int(os.environ.get(_RANK, 0)), int(os.environ.get(_COUNT, 1))
    if share := len(gpus) // count:
        environment[_GPUS] = ",".join(gpus[rank * share : (rank + 1) * share])
    return environment

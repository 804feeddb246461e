"""One job, as a pilot runs it: the rule's own command, which ends with the pilot."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from fasthep_smk.storage import layout
from fasthep_smk.storage.job_settings import log_of_attempt
from fasthep_smk.util.processes import signal_at_parents_end
from fasthep_smk.worker.fork_client import is_taken, status_of

__all__ = ["run"]

#: Parsl's names for the number of this process in its pilot, and for how many there are.
_RANK, _COUNT = "PARSL_WORKER_RANK", "PARSL_WORKER_COUNT"
_GPUS = "CUDA_VISIBLE_DEVICES"
#: How the command of a job begins that is ours, and the variable that names its log.
_OURS, _LOG = ["sh", layout.WORKER, layout.ALONE], "FASTHEP_SMK_LOG"
_CONTAINERS = ("APPTAINER_CONTAINER", "SINGULARITY_CONTAINER")


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
    """Run a job as ``smk/worker`` and its client do, which take 20 ms of CPU for that.

    It ends with this process, as its connection to the fork server does. ``None``: it was not run,
    or not to its end, and has to be started.
    """
    server = variables.get(layout.FORK_SERVER)
    if not server or list(words[:3]) != _OURS or words[6:7] != ["1"] or _is_elsewhere(variables):
        return None
    submitted, log, attempt, threads, *job = words[3:]
    kept = log_of_attempt(log, int(attempt.partition(":")[0]))
    its = {**variables, layout.IS_ALONE: "1", layout.SUBMITTED: submitted, _LOG: kept}
    encoded = {os.fsencode(name): os.fsencode(value) for name, value in its.items()}
    arguments = ["--attempt", attempt, "--threads", threads, "--", *job]
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND
    output = os.open(Path(folder, log), flags, 0o666)
    try:
        Path(folder, kept).unlink(missing_ok=True)
        with contextlib.suppress(OSError):  # no hard links here: one name must do
            Path(folder, kept).hardlink_to(Path(folder, log))
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            where = os.fsencode(folder)
            if not is_taken(connection, server, arguments, where, encoded, (output, output)):
                return None
            return status_of(connection)
    except OSError:
        return None
    finally:
        os.close(output)


def _is_elsewhere(variables: Mapping[str, str]) -> bool:
    """Whether ``smk/worker`` takes the Python of a container or of an environment."""
    prefix = variables.get("CONDA_PREFIX")
    return any(map(variables.get, _CONTAINERS)) or Path(f"{prefix}.env_setup_done").exists()


def _environment() -> dict[str, str]:
    """Return the pilot's environment with the part of its GPUs that is this job's."""
    found = {name: value for name, value in os.environ.items() if not name.startswith("PARSL_")}
    found[layout.IN_PILOT] = "yes"
    gpus = [one for one in found.get(_GPUS, "").split(",") if one]
    rank, count = int(os.environ.get(_RANK, 0)), int(os.environ.get(_COUNT, 1))
    if share := len(gpus) // count:
        found[_GPUS] = ",".join(gpus[rank * share : (rank + 1) * share])
    return found

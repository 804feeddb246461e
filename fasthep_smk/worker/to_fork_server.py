"""Hand a job to a fork server from a process that is there already.

``smk/worker`` and ``fork_client.py`` do the same from a shell: two shells, ``ln`` and a Python, as
much CPU as a small job takes.
"""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

from fasthep_smk.storage.job_settings import log_of_attempt
from fasthep_smk.worker.fork_client import is_taken, status_of
from fasthep_smk.worker.processes import LOG

__all__ = ["hand_over"]

_CONTAINERS = ("APPTAINER_CONTAINER", "SINGULARITY_CONTAINER")


def hand_over(
    server: str,
    words: Sequence[str],
    folder: str,
    variables: Mapping[str, str],
    *,
    during: Callable[[socket.socket], AbstractContextManager[object]] = contextlib.nullcontext,
) -> int | None:
    """Run a job, and return its exit status; ``None``: it has to be started, perhaps once more.

    ``server`` is the fork server's socket; ``words`` are what follows ``smk/worker`` in the job's
    command: its log, attempt, threads, rule and place. ``during`` gets the connection while the job
    runs, which ends with it.
    """
    log, attempt, threads, *job = words
    if threads != "1" or _is_elsewhere(variables):
        return None
    kept = log_of_attempt(log, int(attempt.partition(":")[0]))
    encoded = {
        os.fsencode(name): os.fsencode(value) for name, value in {**variables, LOG: kept}.items()
    }
    arguments = ["--attempt", attempt, "--threads", threads, "--", *job]
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND
    try:
        output = os.open(Path(folder, log), flags, 0o666)
    except OSError:
        return None
    try:
        # Snakemake removes the log of a failed attempt; under a name of its own it stays.
        Path(folder, kept).unlink(missing_ok=True)
        with contextlib.suppress(OSError):  # no hard links here: one name must do
            Path(folder, kept).hardlink_to(Path(folder, log))
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            where = os.fsencode(folder)
            if not is_taken(connection, server, arguments, where, encoded, (output, output)):
                return None
            with during(connection):
                return status_of(connection)
    except OSError:
        return None
    finally:
        os.close(output)


def _is_elsewhere(variables: Mapping[str, str]) -> bool:
    """Whether ``smk/worker`` takes the Python of a container or of an environment."""
    prefix = variables.get("CONDA_PREFIX")
    return any(map(variables.get, _CONTAINERS)) or Path(f"{prefix}.env_setup_done").exists()

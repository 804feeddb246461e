"""Hand a job to a fork server from a process that is there already.

``smk/worker`` and ``fork_client.py`` do the same from a shell: two shells, ``ln`` and a Python, as
much CPU as a small job takes; and what stands here would make that Python slower to start.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from fasthep_smk.storage.job_settings import keep_log
from fasthep_smk.worker.fork_client import Request
from fasthep_smk.worker.processes import LOG

_CONTAINERS = ("APPTAINER_CONTAINER", "SINGULARITY_CONTAINER")


def hand_over(
    server: str,
    words: Sequence[str],
    folder: str,
    variables: Mapping[str, str],
    *,
    begun: Callable[[socket.socket], object] = lambda _: None,
) -> int | None:
    """Run a job, and return its exit status; ``None``: it has to be started, perhaps once more.

    ``server`` is the fork server's socket; ``words`` are what follows ``smk/worker`` in the job's
    command: its log, attempt, threads, rule and place. ``begun`` gets the connection when the job
    has begun, which ends with it.
    """
    log, attempt, threads, *job = words
    # ``smk/worker`` takes the Python of a container or of an environment.
    prefix = variables.get("CONDA_PREFIX")
    is_elsewhere = Path(f"{prefix}.env_setup_done").exists()
    if threads != "1" or is_elsewhere or any(map(variables.get, _CONTAINERS)):
        return None
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND
    try:
        output = os.open(Path(folder, log), flags, 0o666)
    except OSError:
        return None
    try:
        kept = keep_log(Path(folder), log, int(attempt.partition(":")[0]))
        arguments = ["--attempt", attempt, "--threads", threads, "--", *job]
        has = {**variables, LOG: kept}.items()
        encoded = {os.fsencode(name): os.fsencode(value) for name, value in has}
        request = Request(os.fsencode(folder), arguments, encoded)
        return request.status(server, (output, output), begun)
    except OSError:
        return None
    finally:
        os.close(output)

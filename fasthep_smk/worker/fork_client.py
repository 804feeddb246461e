"""Hand a job to a fork server, and wait for it."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from fasthep_smk.storage.job_settings import keep_log, read_requests
from fasthep_smk.worker.processes import LOG

#: Said to the fork server, in the place of a signal: the job need not end with its client.
GO_ON = b"\0"
_CONTAINERS = ("APPTAINER_CONTAINER", "SINGULARITY_CONTAINER")


@dataclass(frozen=True)
class Request:
    """A job that is asked for: its folder, its arguments, its environment."""

    folder: str
    arguments: list[str]
    variables: Mapping[str, str]

    def send(self, connection: socket.socket, outputs: Sequence[int]) -> None:
        """Ask for it, in a line of JSON; beside it, its standard output and error.

        Raises:
            OSError: nobody listens.
        """
        data = json.dumps([self.folder, self.arguments, dict(self.variables)]).encode() + b"\n"
        sent = socket.send_fds(connection, [data], list(outputs))
        if sent < len(data):  # else it may have ended already, and nobody listens
            connection.sendall(data[sent:])

    def status(
        self, server: str, outputs: Sequence[int], begun: Callable[[socket.socket], object]
    ) -> int | None:
        """Have the fork server at this socket run it; return the exit status.

        ``None``: it was not taken, or the fork server was killed, and the job with it.

        Raises:
            OSError: nobody listens.
        """
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.connect(server)
            self.send(connection, outputs)
            if connection.recv(1) != b"+":
                return None
            begun(connection)
            answer = b""
            while not answer.endswith(b"\n") and (part := connection.recv(64)):
                answer += part
        return int(answer) if answer.endswith(b"\n") else None


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
    if Path(f"{prefix}.env_setup_done").exists() or any(map(variables.get, _CONTAINERS)):
        return None
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND
    try:
        if threads != "1" and job[0] not in read_requests(Path(folder))["spread"]:
            return None
        output = os.open(Path(folder, log), flags, 0o666)
    except (OSError, ValueError, KeyError):
        return None
    try:
        kept = keep_log(Path(folder), log, int(attempt.partition(":")[0]))
        arguments = ["--attempt", attempt, "--threads", threads, "--", *job]
        request = Request(folder, arguments, {**variables, LOG: kept})
        return request.status(server, (output, output), begun)
    except OSError:
        return None
    finally:
        os.close(output)

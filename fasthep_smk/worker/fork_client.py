"""Hand a job to the fork server and wait for it, with nothing imported in vain.

``python -I -S fork_client.py SOCKET ARGUMENT ...`` ends as the job does. Where no fork server takes
the job, it becomes a cold one.
"""

from __future__ import annotations

import os
import signal
import socket
import sys

__all__ = ["GO_ON", "ask", "is_taken", "status_of"]

TYPE_CHECKING = False  # typing takes longer to import than all of this
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import NoReturn

#: Said to the fork server, in the place of a signal: the job need not end with its client.
GO_ON = b"\0"
_PASSED_ON = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def main() -> int:
    server, *arguments = sys.argv[1:]
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    folder = os.getcwdb()  # noqa: PTH109 (pathlib takes longer to import than all of this)
    if not is_taken(connection, server, arguments, folder, os.environb, (1, 2)):
        _start_cold(arguments)

    def forward(number: int, _frame: object) -> None:
        connection.send(bytes([number]))

    for number in _PASSED_ON:
        signal.signal(number, forward)
    status = status_of(connection)
    if status is None:
        _start_cold(arguments)
    if status < 0:  # killed by a signal: so are we
        if -status != signal.SIGKILL:
            signal.signal(-status, signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    return status


def _start_cold(arguments: list[str]) -> NoReturn:
    """Become the job, in a Python of its own."""
    for number in _PASSED_ON:
        signal.signal(number, signal.SIG_DFL)
    command = [sys.executable, "-P", "-m", "fasthep_smk.worker", *arguments]
    os.execv(sys.executable, command)


def is_taken(
    connection: socket.socket,
    server: str,
    arguments: list[str],
    folder: bytes,
    variables: Mapping[bytes, bytes],
    outputs: Sequence[int],
) -> bool:
    """Hand a job over: its arguments, folder and environment, its standard output and error.

    ``server`` is the path of the socket. The job ends when the connection is closed.
    """
    try:
        connection.connect(server)
        ask(connection, arguments, folder, variables, outputs)
        return connection.recv(1) == b"+"
    except OSError:
        return False


def ask(
    connection: socket.socket,
    arguments: list[str],
    folder: bytes,
    variables: Mapping[bytes, bytes],
    outputs: Sequence[int],
) -> None:
    """Ask for a job: lengths, then its folder, arguments and environment; beside it, its output.

    Raises:
        OSError: the server does not listen.
    """
    listed = [name + b"=" + value for name, value in variables.items()]
    body = b"\0".join([folder, *map(os.fsencode, arguments), *listed])
    data = b"%d %d\n" % (len(body), len(arguments)) + body
    sent = socket.send_fds(connection, [data], list(outputs))
    connection.sendall(data[sent:])


def status_of(connection: socket.socket) -> int | None:
    """Wait for the end of a job; ``None``: the fork server was killed, and the job with it."""
    answer = b""
    while not answer.endswith(b"\n") and (part := connection.recv(64)):
        answer += part
    return int(answer) if answer.endswith(b"\n") else None


if __name__ == "__main__":
    sys.exit(main())

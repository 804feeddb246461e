"""Hand a job to the fork server and wait for it, with nothing imported in vain.

``python -I -S fork_client.py SOCKET ARGUMENT ...`` ends as the job does. Where no fork server takes
the job, it becomes a cold one.
"""

from __future__ import annotations

import os
import signal
import socket
import sys

TYPE_CHECKING = False  # typing takes longer to import than all of this
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import NoReturn

#: Said to the fork server, in the place of a signal: the job need not end with its client.
GO_ON = b"\0"
_PASSED_ON = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Request:
    """A job that is asked for: its folder, its arguments, its environment."""

    def __init__(
        self, folder: bytes, arguments: list[str], variables: Mapping[bytes, bytes]
    ) -> None:
        self.folder, self.arguments, self.variables = folder, arguments, variables

    def send(self, connection: socket.socket, outputs: Sequence[int]) -> None:
        """Ask for it: lengths, then all of this; beside it, its standard output and error.

        Raises:
            OSError: nobody listens.
        """
        variables = [name + b"=" + value for name, value in self.variables.items()]
        body = b"\0".join([self.folder, *map(os.fsencode, self.arguments), *variables])
        data = b"%d %d\n" % (len(body), len(self.arguments)) + body
        sent = socket.send_fds(connection, [data], list(outputs))
        if sent < len(data):  # else it may have ended already, and nobody listens
            connection.sendall(data[sent:])

    def status(
        self, server: str, outputs: Sequence[int], begun: Callable[[socket.socket], object]
    ) -> int | None:
        """Have the fork server at this socket run it; return the exit status.

        ``begun`` gets the connection when it has begun; it ends when that is closed. ``None``: it
        was not taken, or the fork server was killed, and the job with it.
        """
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            try:
                connection.connect(server)
                self.send(connection, outputs)
                if connection.recv(1) != b"+":
                    return None
            except OSError:
                return None
            begun(connection)
            answer = b""
            while not answer.endswith(b"\n") and (part := connection.recv(64)):
                answer += part
        return int(answer) if answer.endswith(b"\n") else None


def main() -> int:
    server, *arguments = sys.argv[1:]

    def pass_signals_on(connection: socket.socket) -> None:
        for number in _PASSED_ON:
            signal.signal(number, lambda number, _: connection.send(bytes([number])))

    folder = os.getcwdb()  # noqa: PTH109 (pathlib takes longer to import than all of this)
    status = Request(folder, arguments, os.environb).status(server, (1, 2), pass_signals_on)
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


if __name__ == "__main__":
    sys.exit(main())

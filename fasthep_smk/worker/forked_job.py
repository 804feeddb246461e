"""What a process does that the fork server has forked: a job, and perhaps the next one.

To fork, to copy the pages that are written to and to fill the caches of Python and of libraries
takes four times as long as a small job itself. So one that was small and leaves nothing behind
waits for the next job of its rule, under the conditions of :mod:`fasthep_smk.worker.series`.
"""

from __future__ import annotations

import os
import signal
import socket
import tempfile
import time
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from fasthep_smk.worker.fork_client import ask
from fasthep_smk.worker.job_end import Before
from fasthep_smk.worker.processes import exit_status, live_as
from fasthep_smk.worker.series import be_as_new, may_go_on

__all__ = ["IS_FREE", "Request", "become", "receive"]

#: Said by a process whose job is done, and that waits for another one.
IS_FREE = b"."
_MOST = 1_000_000
#: A request with what goes with it: standard output and error.
_OUTPUTS = 2


class Request(NamedTuple):
    """A job that a client asks for: its folder, its arguments, its environment."""

    folder: bytes
    arguments: list[str]
    variables: Mapping[bytes, bytes]

    @property
    def rule(self) -> str:
        """The rule of the job, which follows the options."""
        return self.arguments[self.arguments.index("--") + 1] if "--" in self.arguments else ""

    def send(self, to: socket.socket, outputs: Sequence[int]) -> None:
        """Ask for the job, with what it writes to."""
        ask(to, self.arguments, self.folder, self.variables, outputs)


def receive(connection: socket.socket) -> tuple[Request, list[int]]:
    """Return what is asked for, and the job's standard output and error.

    Raises:
        EOFError: the client has closed the connection.
        ValueError: that is no request.
    """
    data, outputs, _, _ = socket.recv_fds(connection, _MOST, _OUTPUTS)
    if not data:
        raise EOFError
    head, _, body = data.partition(b"\n")
    length, count = map(int, head.split())
    while len(body) < length:
        part = connection.recv(_MOST)
        if not part:
            raise ValueError("the request is incomplete")
        body += part
    if len(outputs) != _OUTPUTS:
        raise ValueError("no output to write to")
    folder, *rest = body.split(b"\0")
    variables = [item.partition(b"=") for item in rest[count:]]
    request = Request(
        folder, [os.fsdecode(item) for item in rest[:count]], {n: v for n, _, v in variables}
    )
    return request, outputs


def become(request: Request, outputs: Sequence[int], parent: int, server: socket.socket) -> None:
    """Be the job, in the forked process, and those that ``server`` asks for; never return."""

    def run() -> int:
        for number in (signal.SIGCHLD, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        for output in outputs:
            os.close(output)
        return _run(request, server)

    live_as(run, parent, outputs)


def _run(request: Request, server: socket.socket) -> int:
    """Run jobs until one of them was not small, or leaves something behind; return its status."""
    me, before = os.getpid(), Before()
    while True:
        began = time.process_time()
        os.chdir(request.folder)
        os.environ.clear()
        os.environb.update(request.variables)
        tempfile.tempdir = None  # the job's own variables name it
        ended = _Ended(request.arguments)
        status = exit_status(ended.run)
        if os.getpid() != me or not (ended.may_stay and may_go_on(status, began, before)):
            return status
        nowhere = os.open(os.devnull, os.O_WRONLY)
        for output in (1, 2):  # the job's log is not ours any more
            os.dup2(nowhere, output)
        os.close(nowhere)
        os.chdir("/")
        try:
            server.sendall(IS_FREE)
            request, outputs = receive(server)
        except (OSError, EOFError):
            return 0
        for goal, output in enumerate(outputs, start=1):
            os.dup2(output, goal)
            os.close(output)
        be_as_new()


class _Ended:
    """A run of a job, and whether its process may run another one."""

    def __init__(self, arguments: list[str]) -> None:
        self._arguments, self.may_stay = arguments, False

    def run(self) -> int:
        from fasthep_smk.worker import runner

        status, self.may_stay = runner.run(self._arguments, warm=True)
        return status

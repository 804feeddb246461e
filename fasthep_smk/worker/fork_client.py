"""Hand a job to the fork server and wait for it; run as a script, with nothing imported in vain.

``python -I -S fork_client.py SOCKET ARGUMENT ...`` ends as the job does. Where no fork server takes
the job, it becomes a cold one.
"""

import array
import os
import signal
import socket
import sys

_PASSED_ON = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def main() -> int:
    arguments = sys.argv[2:]
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    if not _is_taken(connection, arguments):
        _start_cold(arguments)

    def forward(number: int, _frame: object) -> None:
        connection.send(bytes([number]))

    for number in _PASSED_ON:
        signal.signal(number, forward)
    answer = b""
    while not answer.endswith(b"\n") and (part := connection.recv(64)):
        answer += part
    if not answer.endswith(b"\n"):  # the fork server was killed, and the job with it
        _start_cold(arguments)
    status = int(answer)
    if status < 0:  # killed by a signal: so are we
        if -status != signal.SIGKILL:
            signal.signal(-status, signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    return status


def _start_cold(arguments: list[str]) -> None:
    """Become the job, in a Python of its own."""
    for number in _PASSED_ON:
        signal.signal(number, signal.SIG_DFL)
    command = [sys.executable, "-P", "-m", "fasthep_smk.worker", *arguments]
    os.execv(sys.executable, command)


def _is_taken(connection: socket.socket, arguments: list[str]) -> bool:
    """Hand the job over: its arguments, folder and environment, its standard output and error."""
    variables = [name + b"=" + value for name, value in os.environb.items()]
    folder = os.getcwdb()  # noqa: PTH109 (pathlib takes longer to import than all of this)
    body = b"\0".join([folder, *map(os.fsencode, arguments), *variables])
    data = b"%d %d\n" % (len(body), len(arguments)) + body
    outputs = array.array("i", [1, 2]).tobytes()
    try:
        connection.connect(sys.argv[1])
        sent = connection.sendmsg([data], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, outputs)])
        connection.sendall(data[sent:])
        return connection.recv(1) == b"+"
    except OSError:
        return False


if __name__ == "__main__":
    sys.exit(main())

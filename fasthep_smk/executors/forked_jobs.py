"""Jobs that Snakemake on this machine hands to the run's fork server, without a shell for each.

The fork server lets such a job go on if only Snakemake is killed: what it finishes counts. It ends
with the fork server, which ends when neither Snakemake nor the run is left.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import shlex
import signal
import socket
import sys
from typing import TYPE_CHECKING, Protocol

from fasthep_smk.executors.direct import is_alone
from fasthep_smk.flow import patches
from fasthep_smk.storage import layout
from fasthep_smk.worker.fork_client import GO_ON
from fasthep_smk.worker.to_fork_server import hand_over

if TYPE_CHECKING:
    from fasthep_smk.util.snakemake_types import SnakemakeJob, Workflow

__all__ = ["hand_jobs_over"]

#: As Snakemake sets them for a command: the threads of a job, which are one here.
_THREADS = (
    "OMP_NUM_THREADS",
    "GOTO_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    "NUMEXPR_NUM_THREADS",
)
_TEMPORARY = ("TMPDIR", "TMP", "TEMPDIR", "TEMP")


class _Executor(Protocol):
    """What is used of Snakemake's executor for this machine."""

    @property
    def workflow(self) -> Workflow: ...


def hand_jobs_over() -> None:
    """Let Snakemake's executor for this machine hand jobs to the fork server, if there is one."""
    server = os.environ.get(layout.FORK_SERVER)
    if not server or os.environ.get("BASH_ENV"):  # a file that may change what a job finds
        return
    executor = importlib.import_module("snakemake.executors.local").Executor
    error = importlib.import_module("snakemake.exceptions").WorkflowError
    start = executor.cached_or_run
    cancel = executor.cancel
    jobs = _Jobs()

    def cached_or_run(self: _Executor, job: SnakemakeJob, *how: object) -> None:
        status = None
        if is_alone(job, self.workflow):
            words = shlex.split(str(job.shellcmd))[2:]
            status = hand_over(server, words, os.getcwd(), _variables(job), begun=jobs.tell)  # noqa: PTH109
        if status is None:
            start(self, job, *how)
        elif status != 0:
            raise error(f"Command {job.shellcmd!r} ended with status {status}.")

    def interrupt(self: _Executor) -> None:
        if isinstance(sys.exc_info()[1], KeyboardInterrupt):
            jobs.interrupt()
        cancel(self)  # which waits for them

    patches.FORKED_JOBS.make(executor, cached_or_run=cached_or_run, cancel=interrupt)


class _Jobs:
    """The connections of the jobs that run, until they are interrupted, as are those after them."""

    def __init__(self) -> None:
        self._connections: set[socket.socket] = set()
        self._told = GO_ON

    def tell(self, connection: socket.socket) -> None:
        """Let a job go on without this process."""
        self._connections -= {one for one in list(self._connections) if one.fileno() < 0}
        self._connections.add(connection)
        with contextlib.suppress(OSError):  # it has ended already
            connection.sendall(self._told)

    def interrupt(self) -> None:
        """Send each of them the signal that Ctrl-C is."""
        self._told = GO_ON + bytes([signal.SIGINT])
        for connection in list(self._connections):
            with contextlib.suppress(OSError):  # its job has just ended
                connection.sendall(bytes([signal.SIGINT]))


def _variables(job: SnakemakeJob) -> dict[str, str]:
    """Return the environment that Snakemake would give to a job's command.

    And that the job has to measure itself what it takes.
    """
    found = dict(os.environ) | dict.fromkeys(_THREADS, "1") | {layout.IS_ALONE: "1"}
    if folder := job.resources.get("tmpdir"):
        found |= dict.fromkeys(_TEMPORARY, str(folder))
    return found

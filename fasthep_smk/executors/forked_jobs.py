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
from typing import TYPE_CHECKING, Any

from snakemake_interface_common.exceptions import WorkflowError

from fasthep_smk.executors.direct import is_alone
from fasthep_smk.executors.retries import Retries
from fasthep_smk.storage import layout
from fasthep_smk.worker.fork_client import GO_ON, hand_over

if TYPE_CHECKING:
    from fasthep_smk.util.snakemake_types import SnakemakeJob, SnakemakeJobInfo

#: To be imported after ``snakemake.cli``: the modules below that import each other.
local: Any = importlib.import_module("snakemake.executors.local")

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


class LocalExecutor(local.Executor):  # type: ignore[misc]
    """Snakemake's executor for this machine; a job of ours is handed over if that is possible."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._server = os.environ.get(layout.FORK_SERVER)
        self._handed_over = _Jobs()
        self._retries = Retries(self.workflow)

    def cached_or_run(self, job: SnakemakeJob, *how: object) -> None:
        """Run a job, or raise what it ended with."""
        status = None
        if self._server and is_alone(job, self.workflow):
            status = hand_over(
                self._server,
                shlex.split(str(job.shellcmd))[2:],
                os.getcwd(),  # noqa: PTH109
                _variables(job),
                begun=self._handed_over.tell,
            )
        if status is None:
            super().cached_or_run(job, *how)
        elif status != 0:
            raise WorkflowError(f"Command {job.shellcmd!r} ended with status {status}.")

    def cancel(self) -> None:
        """Interrupt the jobs if this process is; wait for them."""
        if isinstance(sys.exc_info()[1], KeyboardInterrupt):
            self._handed_over.interrupt()
        super().cancel()

    def report_job_error(
        self, job_info: SnakemakeJobInfo, msg: str | None = None, **options: object
    ) -> None:
        """Take a job as failed, unless it is tried again at the same attempt."""
        if not self._retries.settle(job_info.job, said=msg):
            super().report_job_error(job_info, msg=msg, **options)


class _Jobs:
    """The connections of the jobs that run, until they are interrupted, as are those after them."""

    def __init__(self) -> None:
        self._connections: set[socket.socket] = set()
        self._told = GO_ON

    def tell(self, connection: socket.socket) -> None:
        """Let a job go on without this process."""
        self._connections -= {closed for closed in list(self._connections) if closed.fileno() < 0}
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
    """Return the environment that Snakemake would give to a job's command."""
    variables = dict(os.environ) | dict.fromkeys(_THREADS, "1")
    if folder := job.resources.get("tmpdir"):
        variables |= dict.fromkeys(_TEMPORARY, str(folder))
    return variables

"""Parsl's HighThroughputExecutor for one crew of pilots, and the batch system as it asks for one.

What of it is other than Parsl's own: paths in the command of a pilot are quoted; where there can be
no more pilots, that is noted once, and all jobs hear of it, whatever happens to one of them; the
process that pilots talk to may die, and its answer is not waited for then.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import InvalidStateError

from parsl.executors.high_throughput.executor import DEFAULT_LAUNCH_CMD, HighThroughputExecutor
from parsl.jobs.states import JobState, JobStatus
from parsl.providers.base import ExecutionProvider

from fasthep_smk.contrib.pilots.jobs import PilotJobs
from fasthep_smk.contrib.pilots.losses import Unusable
from fasthep_smk.util.names import shell

#: Seconds of silence after which a pilot is lost, and ends itself; and between two of its signs.
LOST, WORD = 30, 5
#: Seconds between two questions to the batch system.
ASK = 10
#: Seconds in which the process that pilots talk to answers, and without a job after which a pilot
#: makes room for one of another crew.
_ANSWER, _BRIEF = 30.0, 2.0
_PYTHON = [sys.executable, "-P", "-m"]
_INTERCHANGE, _NODE = "fasthep_smk.contrib.pilots.interchange", "fasthep_smk.contrib.pilots.node"
_STATES = {
    "waiting": JobState.PENDING,
    "running": JobState.RUNNING,
    "ending": JobState.COMPLETED,
    "ended": JobState.COMPLETED,
}


class PilotExecutor(HighThroughputExecutor):  # type: ignore[misc]
    """Parsl's executor for one crew; ``on_look`` hears at each look what became of pilots.

    Source: https://parsl.readthedocs.io, "HighThroughputExecutor".
    """

    cert_dir: str

    def __init__(
        self, batch: PilotJobs, on_look: Callable[[PilotExecutor, Mapping[str, str]], None]
    ) -> None:
        self._batch = batch
        self._asking = threading.Lock()
        pilot = _braced(_braced(shell([*_PYTHON, _NODE, batch.system])))
        super().__init__(
            label=batch.crew.name,
            provider=_Provider(batch),
            launch_cmd=f"{pilot} {DEFAULT_LAUNCH_CMD.partition(' ')[2]}",
            interchange_launch_cmd=[*_PYTHON, _INTERCHANGE],
            cores_per_worker=1e-6,  # their number is said
            max_workers_per_node=batch.crew.tasks,
            heartbeat_period=WORD,
            heartbeat_threshold=LOST,
            drain_period=batch.crew.until,
            encrypted=True,
            block_error_handler=lambda _, states: on_look(
                self, {number: status.status_name for number, status in states.items()}
            ),
        )

    # The command is filled in twice.
    @property
    def worker_logdir(self) -> str:
        return _braced(shell([self.logdir]))

    def initialize_scaling(self) -> None:
        keys = self.cert_dir
        self.cert_dir = _braced(shell([keys]))
        try:
            super().initialize_scaling()
        finally:
            self.cert_dir = keys

    def set_bad_state_and_fail_all(self, exception: Exception) -> None:
        if not self.bad_state_is_set:
            self._executor_exception = Unusable(str(exception))
            self._executor_bad_state.set()
        self._fail_all()

    def submit_payload(self, context: dict[str, object], buffer: bytes) -> object:
        future: object = super().submit_payload(context, buffer)
        if self.bad_state_is_set:  # since this moment
            self._fail_all()
        return future

    def _fail_all(self) -> None:
        for future in list(self._tasks.values()):
            with contextlib.suppress(InvalidStateError):  # it has ended
                future.set_exception(self._executor_exception)

    def status(self) -> dict[str, object]:
        return dict(self._status) if self.bad_state_is_set else super().status()

    def connected_managers(self) -> object:
        return self._asked("MANAGERS")

    def connected_blocks(self) -> object:
        return self._asked("CONNECTED_BLOCKS")

    def _hold_manager(self, manager_id: str) -> None:
        self._asked(["HOLD_MANAGER", manager_id])

    def _asked(self, command: object) -> object:
        with self._asking:
            if self.bad_state_is_set:
                return []
            try:
                answer: object = self.command_client.run(command, timeout_s=_ANSWER)
                return answer
            except Exception as error:  # Parsl's client says nothing more after that
                silent = Unusable(f"Parsl's interchange does not answer: {error}")
        self.set_bad_state_and_fail_all(silent)
        return []

    def make_room(self, others: Mapping[str, PilotExecutor]) -> None:
        """End a pilot that another crew of the pool has to spare, if this has none for its jobs."""
        if not self._batch.is_crowded_out or not self.outstanding():
            return
        for other in self._batch.others:
            executor, tasks = others[other.crew.name], other.crew.tasks
            spare = len(other.alive("waiting", "running")) * tasks - executor.outstanding()
            if spare >= tasks and not executor.bad_state_is_set:
                executor.scale_in_facade(1, max_idletime=_BRIEF)
                return

    def cut_off(self) -> None:
        """Let no pilot start a job any more; those that live end when they notice."""
        with self._asking:  # its answer is not waited for
            if (process := self.interchange_proc) is not None:
                process.kill()
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(_ANSWER)


class _Provider(ExecutionProvider):  # type: ignore[misc]
    """The batch system as Parsl asks for it."""

    nodes_per_block, parallelism = 1, 1.0
    init_blocks, min_blocks = 0, 0

    def __init__(self, batch: PilotJobs) -> None:
        self._batch = batch

    @property
    def label(self) -> str:
        return self._batch.system

    @property
    def status_polling_interval(self) -> int:
        return ASK

    @property
    def max_blocks(self) -> int:
        return min(self._batch.room, self._batch.demand.pilots)

    def submit(self, command: str, _tasks: int, job_name: str = "") -> str:
        return self._batch.submit(command, job_name.rpartition("-")[2])

    def status(self, job_ids: Sequence[str]) -> list[object]:
        self._batch.look()
        return [JobStatus(_STATES[self._batch.states[job]]) for job in job_ids]

    def cancel(self, job_ids: Sequence[str]) -> list[bool]:
        return [self._batch.cancel(job_ids)] * len(job_ids)


def _braced(text: str) -> str:
    """Return text that ``str.format`` leaves as it is."""
    return text.replace("{", "{{").replace("}", "}}")

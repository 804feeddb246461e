"""Parsl's HighThroughputExecutor for one crew of pilots, and the batch system as it asks for one.

What of it is other than Parsl's own: paths in the command of a pilot are quoted; where there can be
no more pilots, that is noted once, and all jobs hear of it, whatever happens to one of them; the
process that pilots talk to may die, and its answer is not waited for then.
"""

from __future__ import annotations

import contextlib
import importlib
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import InvalidStateError
from typing import Protocol, cast

from fasthep_smk.contrib.pilots.demand import Demand
from fasthep_smk.contrib.pilots.jobs import Batch
from fasthep_smk.storage.pilots import Crew
from fasthep_smk.util.names import shell

__all__ = [
    "ASK",
    "LOST",
    "WORD",
    "PilotExecutor",
    "Unusable",
    "executor_of",
    "is_lost",
    "is_unusable",
    "make_room",
]

#: Seconds of silence after which a pilot is lost, and ends itself; and between two of its signs.
LOST, WORD = 30, 5
#: Seconds between two questions to the batch system.
ASK = 10
#: Seconds in which the process that pilots talk to answers, and without a job after which a pilot
#: makes room for one of another crew.
_ANSWER, _BRIEF = 30.0, 2.0


class PilotExecutor(Protocol):
    """What is used of Parsl's executor, beside what Parsl itself does with it.

    Source: https://parsl.readthedocs.io, "HighThroughputExecutor".
    """

    @property
    def label(self) -> str: ...

    @property
    def bad_state_is_set(self) -> bool: ...

    @property
    def interchange_proc(self) -> subprocess.Popen[bytes] | None: ...

    def outstanding(self) -> int: ...

    def set_bad_state_and_fail_all(self, exception: Exception) -> None: ...

    def scale_in_facade(self, n: int, max_idletime: float | None = None) -> list[str]: ...

    def cut_off(self) -> None: ...


class _State(Protocol):
    """What became of a pilot, as Parsl says it."""

    @property
    def status_name(self) -> str: ...


class Unusable(Exception):
    """There can be no more pilots of a crew."""


def is_unusable(error: BaseException) -> bool:
    """Return whether a job was not run since there can be no more pilots of its crew."""
    return isinstance(error, Unusable) or type(error).__name__ == "BadStateException"


def is_lost(error: BaseException) -> bool:
    """Return whether a job has lost its pilot."""
    return type(error).__name__ in ("ManagerLost", "WorkerLost")


def executor_of(
    crew: Crew,
    batch: Batch,
    demand: Demand,
    on_look: Callable[[PilotExecutor, Mapping[str, str]], None],
) -> PilotExecutor:
    """Return Parsl's executor; ``on_look`` hears at each look what became of pilots."""
    htex = importlib.import_module("parsl.executors.high_throughput.executor")
    python = [sys.executable, "-P", "-m"]
    manager = htex.DEFAULT_LAUNCH_CMD.partition(" ")[2]
    pilot = _braced(_braced(shell([*python, "fasthep_smk.contrib.pilots.node", batch.system])))

    class Executor(htex.HighThroughputExecutor):  # type: ignore[misc, name-defined]
        cert_dir: str

        def __init__(self, **options: object) -> None:
            super().__init__(**options)
            self._failing, self._asking = threading.Lock(), threading.Lock()

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
            with self._failing:
                if not self.bad_state_is_set:
                    self._executor_exception = exception
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
                    future.set_exception(Unusable(str(self._executor_exception)))

        def status(self) -> dict[str, object]:
            return dict(self._status) if self.bad_state_is_set else super().status()

        def connected_managers(self) -> object:
            return self._asked("MANAGERS")

        def connected_blocks(self) -> object:
            return self._asked("CONNECTED_BLOCKS")

        def _hold_manager(self, manager_id: str) -> None:
            self._asked(["HOLD_MANAGER", manager_id])

        def _asked(self, what: object) -> object:
            with self._asking:
                if self.bad_state_is_set:
                    return []
                try:
                    answer: object = self.command_client.run(what, timeout_s=_ANSWER)
                    return answer
                except Exception as error:  # Parsl's client says nothing more after that
                    silent = Unusable(f"Parsl's interchange does not answer: {error}")
            self.set_bad_state_and_fail_all(silent)
            return []

        def cut_off(self) -> None:
            """Let no pilot start a job any more; those that live end when they notice."""
            with self._asking:  # its answer is not waited for
                process = self.interchange_proc
                if process is not None:
                    process.kill()
                    with contextlib.suppress(subprocess.TimeoutExpired):
                        process.wait(_ANSWER)

    def handle(executor: PilotExecutor, states: Mapping[str, _State]) -> None:
        on_look(executor, {number: status.status_name for number, status in states.items()})

    made = Executor(
        label=crew.name,
        provider=_provider(batch, demand),
        launch_cmd=f"{pilot} {manager}",
        interchange_launch_cmd=[*python, "fasthep_smk.contrib.pilots.interchange"],
        cores_per_worker=1e-6,  # their number is said
        max_workers_per_node=crew.tasks,
        heartbeat_period=WORD,
        heartbeat_threshold=LOST,
        drain_period=crew.until,
        encrypted=True,
        block_error_handler=handle,
    )
    return cast("PilotExecutor", made)


def make_room(batch: Batch, executors: Mapping[str, PilotExecutor]) -> None:
    """End a pilot that another crew of the pool has to spare, if this one may have none for it."""
    if not batch.is_crowded_out or not executors[batch.crew.name].outstanding():
        return
    for other in batch.others:
        one = executors[other.crew.name]
        spare = len(other.alive("waiting", "running")) * other.crew.tasks - one.outstanding()
        if spare >= other.crew.tasks and not one.bad_state_is_set:
            one.scale_in_facade(1, max_idletime=_BRIEF)
            return


def _braced(text: str) -> str:
    """Return text that ``str.format`` leaves as it is."""
    return text.replace("{", "{{").replace("}", "}}")


def _provider(batch: Batch, demand: Demand) -> object:
    """Return the batch system as Parsl asks for it (``ExecutionProvider``)."""
    base = importlib.import_module("parsl.providers.base")
    jobs = importlib.import_module("parsl.jobs.states")
    as_theirs = {
        "waiting": jobs.JobState.PENDING,
        "running": jobs.JobState.RUNNING,
        "ending": jobs.JobState.COMPLETED,
        "ended": jobs.JobState.COMPLETED,
    }

    class Provider(base.ExecutionProvider):  # type: ignore[misc, name-defined]
        label = batch.system
        nodes_per_block, parallelism = 1, 1.0
        init_blocks, min_blocks = 0, 0
        cores_per_node, mem_per_node = None, None
        status_polling_interval = ASK

        def __init__(self) -> None:
            self.script_dir: str | None = None
            self.resources: dict[object, object] = {}

        @property
        def max_blocks(self) -> int:
            return min(batch.room, demand.pilots)

        def submit(self, command: str, _tasks: int, job_name: str = "") -> str:
            return batch.submit(command, job_name.rpartition("-")[2])

        def status(self, job_ids: Sequence[str]) -> list[object]:
            batch.look()
            known = batch.states()
            return [jobs.JobStatus(as_theirs[known[job]]) for job in job_ids]

        def cancel(self, job_ids: Sequence[str]) -> list[bool]:
            return [batch.cancel(job_ids)] * len(job_ids)

    return Provider()

"""Batch jobs that stay: pilots, which run one job of Snakemake's after the other.

A pilot is a worker of Parsl's HighThroughputExecutor, beside a fork server of ours. Parsl starts as
many as there is work for, up to the workers of the pool, hands jobs to those that are free, notices
when one is lost, and ends those that have nothing to do
(https://parsl.readthedocs.io, "Execution" and "Elasticity").
"""

from __future__ import annotations

import functools
import importlib
import math
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from fasthep_smk import sites
from fasthep_smk.sites.commands import ask
from fasthep_smk.storage import layout
from fasthep_smk.storage.pilots import Crew, Crews
from fasthep_smk.util.names import encode, shell
from fasthep_smk.worker import pilot_task

__all__ = ["Ended", "Pilots"]

#: A pilot without a word for so many seconds is lost, and ends itself; it says one as often.
_LOST, _WORD = 30, 5
#: Seconds without a job after which a pilot is ended, between two looks at how many are needed, and
#: between two questions to the batch system.
_IDLE, _LOOK, _ASK = 60.0, 1.0, 10
#: So many pilots of a crew in succession that end before they have said a word are the last.
_FAILED = 3
#: How often a job may lose its pilot: it may be what ends them.
_LOSSES = 3
_NEVER_CAME = "none of its pilots has started"
#: Seconds that the batch system gets to end pilots.
_PATIENCE = 30


#: What a pilot is doing in the queue. ``held``: it stays there, and never runs again.
_State = Literal["waiting", "running", "held", "ended"]


@dataclass(frozen=True)
class Ended:
    """How a job has ended: with a status, or not at all since no pilot can run it, and why.

    ``late``: jobs of its crew have waited for one as long as they may.
    """

    status: int | None
    why: str = ""
    late: bool = False


class Pilots:
    """All pilots of a run; each job is reported once, from any thread.

    ``told`` hears of each batch job, ``say`` what a user has to know.
    """

    def __init__(
        self,
        crews: Crews,
        *,
        told: Callable[[str], None],
        say: Callable[[str], None],
    ) -> None:
        self._crews, self._told, self._say = crews, told, say
        self._kernel: Any = None
        self._executors: list[Any] = []
        self._batches: dict[str, _Batch] = {}
        self._lock = threading.Lock()
        self._losses: Counter[str] = Counter()
        self._given_up: dict[str, threading.Event] = {}
        self._over = threading.Event()
        #: When the first job of a crew has waited as long as it may.
        self._patience: dict[str, float] = {}

    def crew_of(self, rule: str, attempt: int) -> Crew | None:
        """Return the pilots that run a job; ``None`` if it is a batch job of its own."""
        crew = self._crews.of(rule, attempt)
        return None if crew is None or crew.name in self._given_up else crew

    def run(
        self,
        crew: Crew,
        key: str,
        words: Sequence[str],
        captured: Path,
        ended: Callable[[Ended], None],
        *,
        patience: int | None = None,
    ) -> None:
        """Let a pilot run a command in this folder, and hear how it has ended.

        ``key`` is one for each attempt at a job; what it prints goes to ``captured``. If no pilot
        of the crew has come when ``patience`` seconds are over, it is not run.
        """
        if patience is not None:
            end = time.monotonic() + patience
            self._patience[crew.name] = min(end, self._patience.get(crew.name, end))

        def again() -> None:
            if not self._over.wait(_WORD):  # by then the lost one has noticed, and ended
                self.run(crew, key, words, captured, ended, patience=patience)

        def stop(error: BaseException) -> Ended:
            late = patience is not None and _reason(error).endswith(_NEVER_CAME)
            return replace(self._give_up(crew, error), late=late)

        def hear(future: Future[int]) -> None:
            error = future.exception()
            if self._over.is_set():
                return
            if error is None:
                ended(Ended(future.result()))
            elif type(error).__name__ not in ("ManagerLost", "WorkerLost"):
                _apart(lambda: ended(stop(error)))
            elif self._count_loss(key) < _LOSSES:
                _apart(again)
            else:
                ended(Ended(1, f"{_LOSSES} pilots were lost that ran it: {error}"))

        try:
            future = self._started().submit(
                pilot_task.run,
                executors=[crew.name],
                app_args=(list(words), str(Path.cwd()), str(captured)),
                cache=False,
                ignore_for_cache=[],
                app_kwargs={},
            )
        except Exception as error:
            if not self._over.is_set():
                ended(stop(error))
        else:
            future.add_done_callback(hear)

    def end(self) -> None:
        """End all pilots."""
        self._over.set()
        with self._lock:
            kernel, self._kernel = self._kernel, None
        for batch in self._batches.values():
            batch.end()
        if kernel is not None:
            self._look()  # Parsl would wait for the answer of one that has ended
            ending = _apart(kernel.cleanup)
            ending.join(_PATIENCE)

    def _count_loss(self, key: str) -> int:
        self._losses[key] += 1
        return self._losses[key]

    def _give_up(self, crew: Crew, error: BaseException) -> Ended:
        """End all pilots of a crew; its jobs are batch jobs when none of them is left."""
        with self._lock:
            first = crew.name not in self._given_up
            ended = self._given_up.setdefault(crew.name, threading.Event())
        if first:
            why = _reason(error)
            pool = f"pool {crew.attempt.pool!r}"
            self._say(
                f"{pool}: {why}"
                if why.endswith(_NEVER_CAME)
                else f"{pool}: pilots cannot be used, each job is a batch job of its own now: {why}"
            )
            if crew.name in self._batches:
                self._batches[crew.name].end(wait=_PATIENCE)
            ended.set()
        ended.wait()
        return Ended(None)

    def _started(self) -> Any:
        with self._lock:
            if self._kernel is None and not self._over.is_set():
                self._kernel = self._start()
            return self._kernel

    def _start(self) -> Any:
        """Start Parsl: it listens for pilots on this machine, and starts them when there is work.

        Keys of this run's own encrypt what is said; they lie in a folder for the user only.
        """
        config = importlib.import_module("parsl.config")
        kernel = importlib.import_module("parsl.dataflow.dflow")
        folder = Path(layout.PILOT_FILES)  # no path of the user's: batch systems fill in patterns
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o700)
        crews = self._crews.by_name.values()
        for crew in crews:
            name = f"pilot:{encode(crew.attempt.pool)}"
            self._batches[crew.name] = _Batch(self._crews.system, crew, name, folder, self._told)
        self._executors = [_executor(crew, self._batches[crew.name]) for crew in crews]
        started = kernel.DataFlowKernel(
            config.Config(
                executors=self._executors,
                run_dir=str(folder),
                strategy="htex_auto_scale",
                strategy_period=_LOOK,
                max_idletime=_IDLE,
                initialize_logging=False,
                exit_mode="skip",
            )
        )
        _apart(self._watch)
        return started

    def _watch(self) -> None:
        """Notice when what pilots talk to has ended: Parsl does not."""
        while not self._over.wait(_LOOK):
            self._look()
            for one in self._executors:
                if time.monotonic() >= self._patience.get(one.label, math.inf):
                    del self._patience[one.label]
                    if self._batches[one.label].never_comes():
                        one.set_bad_state_and_fail_all(RuntimeError(_NEVER_CAME))

    def _look(self) -> None:
        for one in self._executors:
            process = one.interchange_proc
            if process and process.poll() is not None and not one.bad_state_is_set:
                why = f"Parsl's interchange has ended, status {process.returncode}"
                one.set_bad_state_and_fail_all(RuntimeError(why))


class _Batch:
    """The batch jobs of a crew, as Parsl's provider of them asks for (``ExecutionProvider``)."""

    def __init__(
        self, system: str, crew: Crew, name: str, folder: Path, told: Callable[[str], None]
    ) -> None:
        self.system, self.crew = system, crew
        self._submit, self._system = sites.batch(system).submit, sites.system(system)
        self._name, self._folder, self._told = name, folder, told
        self._states: dict[str, _State] = {}
        self._closed = False
        #: Why the batch system did not take the last one, if it did not.
        self.problem: str | None = None

    def submit(self, command: str, label: str) -> str:
        output = self._folder / f"{encode(self.crew.attempt.pool)}-{label}"
        if self._closed:
            raise sites.NotSubmitted("its pool has not come")
        try:
            job = self._submit(command, self._name, self.crew.attempt, output)
        except sites.NotSubmitted as error:
            self.problem = str(error)
            raise
        self.problem = None
        self._states[job] = "waiting"
        self._told(job)
        return job

    def states(self) -> Mapping[str, _State]:
        """Return what they are doing, as of the last answer of the batch system.

        What is held, since it took too much memory for example, is taken out of the queue.
        """
        left = [job for job, state in self._states.items() if state in ("waiting", "running")]
        queued = self._system.queued(Path.cwd()) if left else None
        if queued is not None:
            known = {one.batch_id: one for one in queued}
            self._states |= {job: _state(known.get(job)) for job in left}
        self.cancel([job for job in left if self._states[job] == "held"])
        return self._states

    def never_comes(self) -> bool:
        """Take all out of the queue if none has ever started; return whether that is so.

        They are put on hold first, from where none starts.
        """
        self._closed = True
        jobs = [job for job, state in self.states().items() if state == "waiting"]
        others = set(self._states.values()) - {"waiting"}
        if not jobs or others:
            self._closed = False
            return False
        held = self._system.hold(jobs)
        gone = self._system.withdraw([job for job in jobs if held.get(job)])
        came = not all(gone.get(job) for job in jobs)
        self._closed = not came
        return not came

    def cancel(self, jobs: Sequence[str]) -> bool:
        return not jobs or ask(self._system.cancel(jobs)) is not None

    def end(self, wait: float = 0) -> None:
        """Cancel them all; wait for their end, up to so many seconds."""
        end = time.monotonic() + wait
        while left := [job for job, now in self.states().items() if now in ("waiting", "running")]:
            self.cancel(left)
            if time.monotonic() >= end:
                return
            time.sleep(_LOOK)


def _state(queued: sites.Queued | None) -> _State:
    if queued is None or queued.state == "ending":
        return "ended"
    return "held" if queued.reason.startswith("held: ") else queued.state


def _reason(error: BaseException) -> str:
    """Return why pilots cannot be used; Parsl puts the reason into an error of its own."""
    return " ".join(str(getattr(error, "reason", error)).split())[:300]


def _apart(call: Callable[[], object]) -> threading.Thread:
    """Call what may take time: in the thread of a callback, Parsl would wait for it."""
    thread = threading.Thread(target=call, daemon=True)
    thread.start()
    return thread


def _executor(crew: Crew, batch: _Batch) -> Any:
    htex = importlib.import_module("parsl.executors.high_throughput.executor")
    python = [sys.executable, "-P", "-m"]
    manager = htex.DEFAULT_LAUNCH_CMD.partition(" ")[2]
    pilot = _braced(_braced(shell([*python, "fasthep_smk.run.pilot"])))

    class Executor(htex.HighThroughputExecutor):  # type: ignore[misc, name-defined]
        """Quotes the paths in the command of a pilot, which is filled in twice."""

        cert_dir: str

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

    return Executor(
        label=crew.name,
        provider=_provider(batch),
        launch_cmd=f"{pilot} {manager}",
        interchange_launch_cmd=[*python, "fasthep_smk.executors.interchange"],
        cores_per_worker=1e-6,  # their number is said
        max_workers_per_node=crew.tasks,
        heartbeat_period=_WORD,
        heartbeat_threshold=_LOST,
        drain_period=crew.until,
        encrypted=True,
        block_error_handler=functools.partial(_end_if_none_starts, batch),
    )


def _end_if_none_starts(batch: _Batch, executor: Any, states: Mapping[str, Any]) -> None:
    """Let Parsl's executor end when the last pilots were not taken, or never said a word."""
    last = [states[number].status_name for number in sorted(states, key=int)[-_FAILED:]]
    if len(last) == _FAILED and {*last} <= {"FAILED", "MISSING"}:
        why = f"{_FAILED} of them ended before they said a word, see {layout.PILOT_FILES}"
        executor.set_bad_state_and_fail_all(RuntimeError(batch.problem or why))


def _braced(text: str) -> str:
    """Return text that ``str.format`` leaves as it is."""
    return text.replace("{", "{{").replace("}", "}}")


def _provider(batch: _Batch) -> Any:
    """Return the same for Parsl, which looks at the class."""
    base = importlib.import_module("parsl.providers.base")
    jobs = importlib.import_module("parsl.jobs.states")
    as_theirs = {
        "waiting": jobs.JobState.PENDING,
        "running": jobs.JobState.RUNNING,
        "held": jobs.JobState.FAILED,
        "ended": jobs.JobState.COMPLETED,
    }

    class Provider(base.ExecutionProvider):  # type: ignore[misc, name-defined]
        label = batch.system
        nodes_per_block, parallelism = 1, 1.0
        init_blocks, min_blocks, max_blocks = 0, 0, batch.crew.most
        cores_per_node, mem_per_node = None, None
        status_polling_interval = _ASK

        def __init__(self) -> None:
            self.script_dir: str | None = None
            self.resources: dict[object, object] = {}

        def submit(self, command: str, _tasks: int, job_name: str = "") -> str:
            return batch.submit(command, job_name)

        def status(self, job_ids: Sequence[str]) -> list[object]:
            known = batch.states()
            return [jobs.JobStatus(as_theirs[known[job]]) for job in job_ids]

        def cancel(self, job_ids: Sequence[str]) -> list[bool]:
            return [batch.cancel(job_ids)] * len(job_ids)

    return Provider()

"""Batch jobs that stay: pilots, which run one job of Snakemake's after the other.

A pilot is a worker of Parsl's HighThroughputExecutor, beside a fork server of ours. Parsl starts as
many as there is work for (:class:`.jobs.Demand` says how many that are), up to the workers of the
pool, hands jobs to those that are free, notices when one is lost, and ends those that have nothing
to do (https://parsl.readthedocs.io, "Execution" and "Elasticity").

No job runs twice at a time. One that has lost its pilot is run again when that has noticed, too.
Where there can be no more pilots, none is given a job any more, and the jobs go elsewhere when all
of them are gone.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from fasthep_smk.contrib.pilots import task
from fasthep_smk.contrib.pilots.jobs import PilotJobs, names_of
from fasthep_smk.contrib.pilots.losses import MOST, Losses, Lost, Unusable
from fasthep_smk.storage import layout
from fasthep_smk.storage.pilots import Crew, Crews
from fasthep_smk.util.processes import in_words

if TYPE_CHECKING:
    from parsl.dataflow.dflow import DataFlowKernel

    from fasthep_smk.contrib.pilots.parsl_executor import PilotExecutor

#: Seconds without a job after which a pilot is ended; between two looks at how many are needed; and
#: between two looks at what became of them.
_IDLE, _NEEDED, _LOOK = 60.0, 0.3, 1.0
_NEVER_CAME = "none of its pilots has started"
#: Seconds that Parsl gets to end.
_PATIENCE = 30


@dataclass(frozen=True)
class Ended:
    """How a job has ended: with a status, or not at all since no pilot can run it, and why.

    ``late``: jobs of its crew have waited for one as long as they may. ``lost``: the pilots that
    it has lost, if it has failed of that.
    """

    status: int | None
    why: str = ""
    late: bool = False
    lost: Lost | None = None


class Pilots:
    """All pilots of a run; each job is reported once, from any thread.

    ``told`` hears of each batch job, with its pool; ``say`` what a user has to know.
    """

    def __init__(
        self,
        crews: Crews,
        *,
        told: Callable[[str, str], None],
        say: Callable[[str], None],
    ) -> None:
        self._crews, self._say = crews, say
        self._kernel: DataFlowKernel | None = None
        #: Why Parsl cannot be started.
        self._broken: Unusable | None = None
        self._executors: dict[str, PilotExecutor] = {}
        names = names_of(list(crews.by_name.values()))
        self._batches = {
            name: PilotJobs(crews.system, crew, names[name], told=told, say=say)
            for name, crew in crews.by_name.items()
        }
        for batch in self._batches.values():
            if batch.pool in crews.limited:
                alike = (other for other in self._batches.values() if other.pool == batch.pool)
                batch.others += [other for other in alike if other is not batch]
        self._lock = threading.Lock()
        self._losses = Losses(crews.system, say)
        self._given_up: dict[str, threading.Event] = {}
        self._over = threading.Event()
        #: Since when jobs of a crew wait that do not wait for ever, and for how long they do.
        self._patient: dict[str, dict[str, tuple[float, int]]] = defaultdict(dict)
        #: Since when a crew with jobs has no pilot that runs; those of which none has come.
        self._without: dict[str, float] = {}
        self._never_came: set[str] = set()

    def crew_of(self, rule: str, attempt: int) -> Crew | None:
        """Return the pilots that run a job; ``None`` if it is a batch job of its own."""
        crew = self._crews.of(rule, attempt)
        return None if crew is None or crew.name in self._given_up else crew

    def whole_pools(self) -> list[str]:
        """Return the pools in which all jobs are run by pilots, as many as its workers."""
        left = {self._crews.by_name[name].attempt.pool for name in list(self._given_up)}
        return [pool for pool in self._crews.tokens if pool not in left]

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
        of the crew has been there for ``patience`` seconds, it is not run.
        """
        demand, waiting = self._batches[crew.name].demand, self._patient[crew.name]
        if patience is not None:
            waiting.setdefault(key, (time.monotonic(), patience))

        def end(how: Ended) -> None:
            waiting.pop(key, None)
            if not self._over.is_set():
                ended(how)

        def again(error: BaseException) -> None:
            lost = self._losses.note(key, crew, error)
            if lost.number >= MOST:
                end(Ended(1, lost.why, lost=lost))
            # By then the lost one has noticed, and ended.
            elif not self._over.wait(self._executors[crew.name].heartbeat_period):
                self.run(crew, key, words, captured, ended, patience=patience)

        def elsewhere(error: BaseException) -> None:
            self._give_up(crew, error)
            end(Ended(None, late=patience is not None and crew.name in self._never_came))

        def hear(future: Future[tuple[int, float]]) -> None:
            error = future.exception()
            status, seconds = (None, None) if error else future.result()
            demand.ends(seconds)
            if self._over.is_set():
                return
            if error is None:
                end(Ended(status))
            elif isinstance(error, Unusable):
                _apart(lambda: elsewhere(error))
            elif type(error).__name__ in ("ManagerLost", "WorkerLost"):
                _apart(lambda: again(error))
            else:
                end(Ended(1, _one_line(f"{type(error).__name__}: {error}")))

        demand.begins()
        try:
            future = self._started().submit(
                task.run,
                executors=[crew.name],
                app_args=(list(words), str(Path.cwd()), str(captured)),
                cache=False,
                ignore_for_cache=[],
                app_kwargs={},
            )
        except Exception as error:
            future = Future()
            future.set_exception(error)
        future.add_done_callback(hear)

    def end(self) -> None:
        """End all pilots."""
        self._over.set()
        with self._lock:
            kernel, self._kernel = self._kernel, None
        for batch in self._batches.values():
            batch.end()
        if kernel is not None:
            _apart(kernel.cleanup).join(_PATIENCE)

    def _give_up(self, crew: Crew, error: BaseException) -> None:
        """End all pilots of a crew, and return when none of them is left that could run a job."""
        with self._lock:
            first = crew.name not in self._given_up
            gone = self._given_up.setdefault(crew.name, threading.Event())
        if first:
            why = _one_line(str(error))
            if crew.name not in self._never_came:
                why = f"pilots cannot be used, each job is a batch job of its own now: {why}"
            self._say(f"pool {crew.attempt.pool!r}: {why}")
            if crew.name in self._executors:
                self._executors[crew.name].cut_off()
                self._batches[crew.name].await_end(self._over)
            gone.set()
        gone.wait()

    def _started(self) -> DataFlowKernel:
        """Return Parsl, which runs.

        Raises:
            Unusable: it cannot be started, or all is over.
        """
        with self._lock:
            if self._over.is_set():
                raise Unusable("all is over")
            if self._broken is not None:
                raise self._broken
            if self._kernel is None:
                try:
                    self._kernel = self._start()
                except Exception as error:  # whatever keeps Parsl from starting
                    self._broken = Unusable(str(error))
                    for executor in self._executors.values():  # some have started
                        executor.cut_off()
                    raise self._broken from error
            return self._kernel

    def _start(self) -> DataFlowKernel:
        """Start Parsl: it listens for pilots on this machine, and starts them when there is work.

        Keys of this run's own encrypt what is said; they lie in a folder for the user only.
        """
        # All of Parsl: a run whose jobs are done already needs none of it.
        from parsl.config import Config
        from parsl.dataflow.dflow import DataFlowKernel

        from fasthep_smk.contrib.pilots.parsl_executor import PilotExecutor

        folder = Path(layout.PILOT_FILES)  # no path of the user's: batch systems fill in patterns
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o700)
        for name, batch in self._batches.items():
            self._executors[name] = PilotExecutor(batch, self._on_look)
        started = DataFlowKernel(
            Config(
                executors=list(self._executors.values()),
                run_dir=str(folder),
                strategy="htex_auto_scale",
                strategy_period=_NEEDED,
                max_idletime=_IDLE,
                initialize_logging=False,
                exit_mode="skip",
            )
        )
        _apart(self._watch)
        return started

    def _on_look(self, executor: PilotExecutor, ends: Mapping[str, str]) -> None:
        """See to a crew, in the thread in which Parsl starts and ends pilots."""
        if executor.bad_state_is_set:
            return
        if why := self._batches[executor.label].problem(ends):
            executor.set_bad_state_and_fail_all(Unusable(why))
        else:
            executor.make_room(self._executors)

    def _watch(self) -> None:
        """Look at each crew once a second; what goes wrong with one look is no matter of others."""
        while not self._over.wait(_LOOK):
            for executor in self._executors.values():
                with contextlib.suppress(Exception):  # what is seen cannot be noted now, perhaps
                    self._look(executor)

    def _look(self, executor: PilotExecutor) -> None:
        """Notice when what pilots talk to has ended, as Parsl does not, or that no pilot comes."""
        if executor.bad_state_is_set:
            return
        process = executor.interchange_proc
        if process and process.poll() is not None:
            why = f"Parsl's interchange has ended, {in_words(process.returncode)}"
            executor.set_bad_state_and_fail_all(Unusable(why))
            return
        batch, now = self._batches[executor.label], time.monotonic()
        if not executor.outstanding() or batch.alive("running"):
            self._without.pop(executor.label, None)
            return
        since = self._without.setdefault(executor.label, now)
        jobs = list(self._patient[executor.label].values())
        if any(now >= max(since, at) + most for at, most in jobs) and batch.stays_away:
            self._never_came.add(executor.label)
            executor.set_bad_state_and_fail_all(Unusable(_NEVER_CAME))


def _one_line(text: str) -> str:
    return " ".join(text.split())[:300]


def _apart(call: Callable[[], object]) -> threading.Thread:
    """Call what may take time: in the thread of a callback, Parsl would wait for it."""
    thread = threading.Thread(target=call, daemon=True)
    thread.start()
    return thread

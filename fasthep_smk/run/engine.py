"""Start Snakemake on a translated workflow, show how it goes, and say what failed."""

from __future__ import annotations

import contextlib
import functools
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, TextIO

from fasthep_smk import sites
from fasthep_smk.config.run_settings import RunSettings
from fasthep_smk.flow import plan_files
from fasthep_smk.run import display, job_counts, stalled
from fasthep_smk.run.fork_server import Connection, fork_server
from fasthep_smk.run.job_counts import ProgressFacts
from fasthep_smk.run.lock import share, unshare
from fasthep_smk.run.prestart import Prestarted, environment
from fasthep_smk.run.snakemake_output import Progress, Reader
from fasthep_smk.run.snakemake_process import SnakemakeProcess
from fasthep_smk.storage import batch_jobs, failures, layout
from fasthep_smk.storage.run_lock import locks_of_snakemake
from fasthep_smk.translate.translation import Translation
from fasthep_smk.translate.write import Written
from fasthep_smk.util import files
from fasthep_smk.util.errors import JobsFailed, RunFailed


@dataclass(frozen=True)
class JobsRun:
    """How many jobs of each rule ran or would run; the folders of those that would.

    Of a bundle of jobs, its marker.
    """

    jobs: dict[str, int]
    folders: frozenset[str] = frozenset()

    @property
    def total(self) -> int:
        return sum(self.jobs.values())


@dataclass(frozen=True, kw_only=True)
class Engine:
    """Runs Snakemake on the files of one translation after the other, as its settings say.

    ``output`` shows how it goes, if not a ``screen`` of the caller's; ``facts`` are asked for if it
    can show them. When no job has ended for ``patience`` seconds, ``reasons`` is asked why, and its
    lines are printed. After a success, logs older than ``keep_logs`` seconds are removed. ``held``
    is the lock of the build folder, which Snakemake's process shares. What was ``prestarted`` is
    taken over; with ``plots``, the fork server gets ready for those. ``default_site`` is that of
    the run, if nobody has named it: its options may be what Snakemake refuses.
    """

    settings: RunSettings
    output: TextIO
    system: str = "local"
    facts: Callable[[], ProgressFacts] = ProgressFacts
    reasons: Callable[[Progress], list[str]] | None = None
    patience: int = 60
    keep_logs: int | None = None
    plots: bool = False
    held: int | None = None
    prestarted: Prestarted | None = None
    screen: display.Screen | None = None
    default_site: str = ""

    @classmethod
    def of(
        cls,
        translation: Translation,
        *,
        output: TextIO,
        held: int | None,
        prestarted: Prestarted | None,
        screen: display.Screen | None = None,
    ) -> Engine:
        """Return what runs a translation, and others of the same workflow and site."""
        settings, placement = translation.settings, translation.placement
        return cls(
            settings=settings,
            output=output,
            system=placement.site.system,
            facts=lambda: job_counts.facts(translation.rules, placement),
            reasons=lambda progress: stalled.reasons(progress, placement),
            patience=settings.waiting or placement.site.waiting,
            keep_logs=placement.site.keep_logs,
            plots=any(
                plan_files.draws(variation.graph.plan) for variation in translation.variations
            ),
            held=held,
            prestarted=prestarted,
            screen=screen,
            default_site=placement.site.why if placement.site.origin == "default" else "",
        )

    def run(self, written: Written, extra: Sequence[str] = ()) -> JobsRun:
        """Run the jobs of a translation that have to run; ``extra`` are arguments for Snakemake.

        Raises:
            JobsFailed: jobs failed; the message names each.
            RunFailed: Snakemake ended with another error.
        """
        settings, here = self.settings, self.system == "local"
        if not here:
            from fasthep_smk.run import earlier_jobs
        log = written.build / layout.RUN_LOG
        log.parent.mkdir(parents=True, exist_ok=True)
        if not here:
            for captured in layout.CAPTURED:  # errors there may quote anything, too
                (written.build / captured).mkdir(parents=True, exist_ok=True)
                (written.build / captured).chmod(0o700)
        goes_on = settings.keep_going or settings.accept_missing is not None
        going = ["--keep-going"] if goes_on else []
        arguments = _arguments(
            written, self.system, settings.jobs, [*going, *extra, *settings.snakemake]
        )
        if not here:
            earlier_jobs.await_end(written.build)
        failures.forget(written.build, {job.batch_id for job in batch_jobs.read(written.build)})
        name = str(written.build.resolve())
        screen = self.screen or display.screen(self.output, self.facts, quiet=settings.quiet)
        well = killed = False
        fate = sites.system(self.system).fate
        said_of = functools.partial(_said_of, written.build, fate)
        reader = Reader(screen, name, said_of, written.bundles)
        try:
            with contextlib.ExitStack() as stack:
                stack.callback(screen.close)
                stream = stack.enter_context(_private(log))
                events = stack.enter_context(_private(written.build / layout.RUN_EVENTS))
                if self.reasons is not None:
                    stack.enter_context(stalled.telling(reader, self.reasons, self.patience))
                variables = environment(written.build, self.held, self.system)
                ready = self.prestarted
                taken = ready.take_worker(self.system, variables) if ready else None
                worker = stack.enter_context(
                    fork_server(variables, system=self.system, prestarted=taken)
                )
                if self.plots:
                    worker.expect_plots()
                start = functools.partial(
                    self._start, written.build, arguments, variables, worker.connection
                )
                status = _follow(
                    start, written.build, (stream, events), reader, self.held, waits=here
                )
                killed = status < 0
                if settings.verbose:
                    for why in worker.reasons():
                        reader.say(f"jobs that start their own Python: {why}")
            well = status == 0
            if status != 0:
                from fasthep_smk.run.what_failed import what_failed

                error = what_failed(written, log, status, reader, sites.system(self.system))
                has_begun = isinstance(error, JobsFailed) or failures.read_all(written.build)
                if self.default_site and not has_begun:
                    error = RunFailed(
                        f"{error}\nthe run uses options of the default site {self.default_site}: "
                        "to run on this machine without them, use --profile local"
                    )
                raise error
        finally:
            for text in failures.warnings(written.build):
                reader.problem(f"fasthep-smk: warning: {text}")
            if self.held is not None and not well:
                from fasthep_smk.run.left_over import end_marked

                end_marked(self.held)  # what was killed may have left processes
            stays = earlier_jobs.stay(written.build) if killed and not here else None
            # A batch system keeps jobs that Snakemake gave up.
            left = stays if here or stays else earlier_jobs.take_back(written.build)
            if left:
                reader.say(left)
            _sort_captured(log.parent)
            if not stays:
                files.discard(written.build / "smk" / "stage")  # of jobs that were killed
        if self.keep_logs is not None:
            _prune_logs(log.parent, self.keep_logs)
        return JobsRun(reader.jobs)

    def _start(
        self, folder: Path, arguments: list[str], variables: dict[str, str], connection: Connection
    ) -> SnakemakeProcess:
        """Take over the process that was prestarted, or start one."""
        taken = self.prestarted and self.prestarted.take_snakemake(
            self.system, arguments, variables
        )
        return taken or SnakemakeProcess(
            self.system,
            folder,
            {**variables, **connection.environment},
            arguments=arguments,
            shared=(*(() if self.held is None else (self.held,)), *connection.shared),
        )


def _said_of(build: Path, fate: Callable[[str], str | None], log: str) -> str:
    """Return what the job of a log says of its failure, or the batch system of a killed one."""
    place = layout.place_of_log(log)
    attempts = failures.earlier(build, *place, fate) if place else []
    return attempts[-1]["problem"] if attempts else ""


def _private(path: Path) -> BinaryIO:
    """Open a file anew that others cannot read: it may quote anything."""
    stream = path.open("wb", buffering=0)
    files.close_to_others(stream.fileno())
    return stream


def _sort_captured(folder: Path) -> None:
    """Put what a batch system captured of jobs' standard error beside ``out``, into ``err``."""
    for path in (folder / "out").rglob("*.err"):
        goal = folder / "err" / path.relative_to(folder / "out")
        with contextlib.suppress(OSError):  # it is in ``out``, then
            goal.parent.mkdir(parents=True, exist_ok=True)
            path.replace(goal)


def _prune_logs(folder: Path, keep: int) -> None:
    """Remove logs that were not written to for ``keep`` seconds: this run has succeeded."""
    for path in folder.rglob("*"):
        with contextlib.suppress(OSError):  # another one's, or gone already
            if path.is_file() and time.time() - path.stat().st_mtime > keep:
                path.unlink()


def dry_run(written: Written, *, extra: Sequence[str] = ()) -> JobsRun:
    """Return which jobs would run; run nothing.

    Raises:
        RunFailed: Snakemake refuses the workflow.
    """
    snakemake = SnakemakeProcess(
        "local",
        written.build,
        environment(written.build, None),
        arguments=_arguments(written, "local", None, ["--dry-run", *extra]),
    )
    reader = Reader(None, bundles=written.bundles)
    status = snakemake.follow(reader)
    if status != 0:
        from fasthep_smk.run.what_failed import refusal

        raise RunFailed(refusal(reader))
    return JobsRun(reader.jobs, frozenset(reader.folders))


def _follow(
    start: Callable[[], SnakemakeProcess],
    folder: Path,
    copies: tuple[BinaryIO, BinaryIO],
    reader: Reader,
    held: int | None,
    *,
    waits: bool,
) -> int:
    """Run Snakemake, copy what it prints and reports, and return its exit status.

    It runs in a session of its own, so that Ctrl-C reaches it once and through us: it then lets
    its running jobs end and removes its lock. SIGTERM is handled alike; a second one ends
    everything at once. If it is killed, its jobs go on; with ``waits``, so do we, until they end.
    Jobs of the fork server end with that at the latest, and so with the run.
    """
    snakemake: SnakemakeProcess | None = None
    asked_to_stop = 0

    def stop(_number: int, _frame: object) -> None:
        nonlocal asked_to_stop
        reader.stop()
        if snakemake is not None:
            snakemake.signal(signal.SIGKILL if asked_to_stop else signal.SIGINT)
        asked_to_stop += 1

    # Before Snakemake starts: in the background of a script, Ctrl-C is ignored, and it would
    # inherit that.
    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        snakemake = start()
        if held is not None:
            share(held, snakemake.pid)
        if asked_to_stop:
            snakemake.signal(signal.SIGINT)
        status = snakemake.follow(reader, *copies)
        if waits:
            most = min(1, asked_to_stop)
            _let_jobs_end(folder, reader, until=lambda: asked_to_stop > most)
        left = locks_of_snakemake(folder) and not reader.locked_out
        if held is not None and status >= 0 and not left:
            unshare(held)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    if asked_to_stop:
        raise KeyboardInterrupt
    return status


def _let_jobs_end(folder: Path, reader: Reader, *, until: Callable[[], bool]) -> None:
    """Wait for jobs that go on although Snakemake has ended: what they finish counts."""
    announced = False
    while not until() and (
        left := [note for note in failures.read_all(folder) if failures.lives(note)]
    ):
        if not announced:
            jobs = "a job" if len(left) == 1 else f"{len(left)} jobs"
            reader.say(f"Snakemake has ended: waiting for {jobs} under way")
        announced = True
        time.sleep(0.2)


def _arguments(written: Written, system: str, jobs: int | None, extra: Sequence[str]) -> list[str]:
    # Run in the build folder: Snakemake would expand variables and globs in the profile's path.
    arguments = ["--profile", str(written.profile.relative_to(written.build))]
    # It would run what profiles/default says in the build folder, which is for results.
    arguments += ["--workflow-profile", "none"]
    if jobs is not None:
        arguments += ["--cores" if system == "local" else "--jobs", str(jobs)]
    return [*arguments, *extra]

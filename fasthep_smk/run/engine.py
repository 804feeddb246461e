"""Start Snakemake on a translated workflow, show how it goes, and say what failed."""

from __future__ import annotations

import contextlib
import functools
import signal
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from fasthep_smk import sites
from fasthep_smk.flow import plan_files
from fasthep_smk.run import display, job_counts, stalled
from fasthep_smk.run.lock import share, unshare
from fasthep_smk.run.prestart import Prestarted, environment
from fasthep_smk.run.snakemake_output import Reader
from fasthep_smk.run.snakemake_process import SnakemakeProcess
from fasthep_smk.storage import batch_jobs, failures, layout
from fasthep_smk.storage.run_lock import locks_of_snakemake
from fasthep_smk.translate.translation import Translation
from fasthep_smk.translate.write import Written
from fasthep_smk.util import files
from fasthep_smk.util.errors import JobsFailed, RunFailed


@dataclass(frozen=True)
class JobsRun:
    """How many jobs of each rule would run, and their folders, or of bundles their markers."""

    jobs: dict[str, int]
    folders: frozenset[str] = frozenset()

    @property
    def total(self) -> int:
        return sum(self.jobs.values())


def run_jobs(
    translation: Translation,
    written: Written,
    extra: Sequence[str] = (),
    *,
    held: int | None = None,
    prestarted: Prestarted | None = None,
    screen: display.Screen | None = None,
) -> int:
    """Run the jobs of what was ``written`` that have to run, as a translation's settings say.

    Returns how many those were. ``translation`` is the one that the run began with. ``extra`` are
    arguments for Snakemake, ``held`` is the lock of the build folder, which it shares. What was
    ``prestarted`` is taken over, if it can be. A ``screen`` shows how it goes, or standard error.

    Raises:
        JobsFailed: jobs failed; the message names each.
        RunFailed: Snakemake ended with another error.
    """
    settings, placement = translation.settings, translation.placement
    site, build = placement.site, written.build
    here = site.system == "local"
    log = build / layout.RUN_LOG
    log.parent.mkdir(parents=True, exist_ok=True)
    if not here:
        from fasthep_smk.run import earlier_jobs

        for captured in layout.CAPTURED:  # errors there may quote anything, too
            (build / captured).mkdir(parents=True, exist_ok=True)
            (build / captured).chmod(0o700)
        earlier_jobs.await_end(build)
    failures.forget(build, {job.batch_id for job in batch_jobs.read(build)})
    goes_on = settings.keep_going or settings.accept_missing is not None
    more = [*(["--keep-going"] if goes_on else []), *extra, *settings.snakemake]
    arguments = _arguments(written, site.system, settings.jobs, more)
    screen = screen or display.screen(sys.stderr, quiet=settings.quiet)
    system = sites.system(site.system)
    said_of = functools.partial(_said_of, build, system.fate)
    facts = job_counts.facts(translation.rules, placement)
    reader = Reader(screen, said_of, written.bundles, facts)
    status: int | None = None
    try:
        with contextlib.ExitStack() as stack:
            stack.callback(screen.close)
            copies = (
                stack.enter_context(_private(log)),
                stack.enter_context(_private(build / layout.RUN_EVENTS)),
            )
            stack.enter_context(
                stalled.telling(reader, placement, build, settings.waiting or site.waiting)
            )
            variables = environment(build, held, site.system)
            if prestarted is None or not prestarted.is_for(site.system, variables):
                if prestarted is not None:
                    prestarted.end()
                prestarted = Prestarted(build, site.system, variables, held)
            stack.callback(prestarted.end)
            worker = prestarted.worker
            if any(plan_files.draws(item.graph.plan) for item in translation.variations):
                worker.expect_plots()
            status = _follow(
                prestarted.snakemake, arguments, build, copies, reader, held, waits=here
            )
            if settings.verbose:
                for why in worker.reasons():
                    reader.say(f"jobs that start their own Python: {why}")
        if status != 0:
            from fasthep_smk.run.what_failed import what_failed

            error = what_failed(written, log, status, reader, system)
            has_begun = isinstance(error, JobsFailed) or failures.read_all(build)
            if site.origin == "default" and not has_begun:  # Snakemake may have refused its options
                error = RunFailed(
                    f"{error}\nthe run uses options of the default site {site.why}: "
                    "to run on this machine without them, use --profile local"
                )
            raise error
    finally:
        for text in failures.warnings(build):
            reader.problem(f"fasthep-smk: warning: {text}")
        if held is not None and status != 0:
            from fasthep_smk.run.left_over import end_marked

            end_marked(held)  # what was killed may have left processes
        was_killed = status is not None and status < 0
        stays = earlier_jobs.stay(build) if was_killed and not here else None
        # A batch system keeps jobs that Snakemake gave up.
        left = stays if here or stays else earlier_jobs.take_back(build)
        if left:
            reader.say(left)
        _sort_captured(log.parent)
        if not stays:
            files.discard(build / "smk" / "stage")  # of jobs that were killed
    if site.keep_logs is not None:
        _prune_logs(log.parent, site.keep_logs)
    return sum(reader.jobs.values())


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
    snakemake = SnakemakeProcess("local", written.build, environment(written.build, None))
    snakemake.tell(_arguments(written, "local", None, ["--dry-run", *extra]))
    reader = Reader(None, bundles=written.bundles)
    status = snakemake.follow(reader)
    if status != 0:
        from fasthep_smk.run.what_failed import refusal

        raise RunFailed(refusal(reader))
    return JobsRun(reader.jobs, frozenset(reader.folders))


def _follow(
    snakemake: SnakemakeProcess,
    arguments: Sequence[str],
    folder: Path,
    copies: tuple[BinaryIO, BinaryIO],
    reader: Reader,
    held: int | None,
    *,
    waits: bool,
) -> int:
    """Let Snakemake run, copy what it prints and reports, and return its exit status.

    It runs in a session of its own, so that Ctrl-C reaches it once and through us: it then lets
    its running jobs end and removes its lock. SIGTERM is handled alike; a second one ends
    everything at once. If it is killed, its jobs go on; with ``waits``, so do we, until they end.
    Jobs of the fork server end with that at the latest, and so with the run.
    """
    asked_to_stop = 0

    def stop(_number: int, _frame: object) -> None:
        nonlocal asked_to_stop
        reader.stop()
        snakemake.signal(signal.SIGKILL if asked_to_stop else signal.SIGINT)
        asked_to_stop += 1

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        snakemake.tell(arguments)
        if held is not None:
            share(held, snakemake.pid)
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

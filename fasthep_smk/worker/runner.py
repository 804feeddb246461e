"""One job from start to end: read its entry, run it, write its record or say why not."""

from __future__ import annotations

import argparse
import contextlib
import faulthandler
import json
import math
import os
import shutil
import signal
import socket
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from fasthep_smk import sites
from fasthep_smk.flow import local_modules
from fasthep_smk.flow.named_files import NamedFiles
from fasthep_smk.flow.operation import current_operation
from fasthep_smk.storage import failures, layout, pickles
from fasthep_smk.storage.job_settings import MOVED, attempts_of, heard, read_requests
from fasthep_smk.storage.observed import Surroundings, environment_of, inherited, save
from fasthep_smk.storage.record import Asked, Content, EarlierAttempt, Record, Used
from fasthep_smk.storage.task_table import TaskTable, UnreadableTable
from fasthep_smk.util import disk_full, files, last_words
from fasthep_smk.util.errors import SmkError
from fasthep_smk.util.masking import masked
from fasthep_smk.worker import alone
from fasthep_smk.worker.causes import (
    after_work,
    cause_of,
    column_fix,
    damaged_record,
    kind_of,
    what_ended,
)
from fasthep_smk.worker.job import Sent, WorkerJob
from fasthep_smk.worker.job_end import DONE, End
from fasthep_smk.worker.limits import (
    bytes_moved,
    cpu_time,
    memory_limit,
    peak_memory,
    time_limit,
)
from fasthep_smk.worker.observe import Observer, observing
from fasthep_smk.worker.planned import Changed, check_files, check_modules
from fasthep_smk.worker.processes import LOG
from fasthep_smk.worker.refused import SENT, refusal, stop_without

if TYPE_CHECKING:
    from fasthep_smk.storage.job_settings import Launch


def run(arguments: list[str], *, warm: bool = False) -> tuple[int, bool]:
    """Run a job or a bundle; return the exit status, and whether its process may run another job.

    That is so for one partition, or the sum of some: what draws or writes a user's files may leave
    a library as the next job must not find it.
    """
    faulthandler.enable(file=2)  # the stack of what a signal ends goes to the job's log
    faulthandler.register(signal.SIGUSR2, file=2, chain=True)  # also where its time is over
    files.close_to_others(1, 2)  # the job's log
    status, may_stay = _run_named(arguments, _parser().parse_args(arguments), warm=warm)
    last_words.say(**{DONE: str(status)})
    return status, may_stay


def _run_named(arguments: list[str], parsed: argparse.Namespace, *, warm: bool) -> tuple[int, bool]:
    """Run the job, or bundle of jobs, that ``arguments`` name: the rule, then its wildcards.

    ``parsed`` is what they say; ``warm`` is for records: forked by a fork server.
    """
    build = Path.cwd()
    key = "/".join(parsed.place)
    try:
        table = TaskTable.read(build, parsed.rule, key)
        sent = _sent(build, parsed, warm)
    except (OSError, KeyError) as error:
        print(f"no such job: {' '.join(arguments)} ({error})", file=sys.stderr)
        return 2, False
    except UnreadableTable as error:
        print(error, file=sys.stderr)
        return 2, False
    if not table.bundles:
        status = _run_job(WorkerJob(build, table, key, sent))
        return status, table.scope in ("partition", "merge")
    bundle = table.bundles[key]
    jobs = {
        job_key: WorkerJob(build, table, job_key, sent, bundle=key, marker=bundle.marker)
        for job_key in bundle.jobs
    }
    from fasthep_smk.worker.bundle import run_bundle

    command = partial(_command, parsed)
    return run_bundle(bundle, jobs, run=_run_job, command=command, note=_note_end), False


def note_end(build: Path, arguments: list[str], end: End) -> None:
    """Say what a job's process died of, or what kept it from ending well after its work."""
    parsed = _parser().parse_args(arguments)
    key = "/".join(parsed.place)
    table = TaskTable.read(build, parsed.rule, key)
    if key in table.jobs:
        _note_end(WorkerJob(build, table, key, _sent(build, parsed, False)), end)


def _note_end(job: WorkerJob, end: End) -> None:
    if DONE in end.said:
        if end.of_job == 0:
            failures.warn(job.build, job.rule, job.key, after_work(end))
        return  # else it has said itself what was wrong
    started = failures.read(failures.path_of(job.build, job.rule, job.key))
    if started is None or started.kind != "killed":
        return  # the same
    kind, problem, fix = what_ended(end, job.sent)
    stage, op = end.said.get("stage"), end.said.get("op")
    failures.note(
        job.build,
        replace(
            started,
            kind=kind,
            problem=problem,
            fix=fix,
            stage=stage,
            op=op,
            ended=round(time.time(), 3),
        ),
    )


def _command(parsed: argparse.Namespace, key: str) -> list[str]:
    """Return the command that runs one job of a bundle alone."""
    sent = ["--attempt", parsed.attempt, "--threads", str(parsed.threads)]
    words = [*sent, "--", parsed.rule, *key.split("/")]
    return [sys.executable, "-P", "-m", "fasthep_smk.worker", *words]


def _run_job(job: WorkerJob) -> int:
    last_words.say()
    last_words.end_by(math.inf)  # this process may have run another one
    build = job.build
    if job.is_done:
        print("an earlier process has finished this job, but could not report it", file=sys.stderr)
        failures.clear(build, job.rule, job.key)
        return 0
    earlier = _earlier(build, job) if job.sent.attempt > 1 else []
    started = _note(job, earlier)
    asked = job.sent.asked
    pool = asked.get("pool")
    # A batch system holds jobs to their memory; on one machine there may be enough for all.
    memory = asked.get("memory") if job.sent.system != "local" else None
    try:
        failures.note(build, started)
        _enter_launch_folder(build)
        # For messages and diagnostics of an op; no result may depend on it.
        os.environ["FASTHEP_SMK_POOL"] = str(pool or "")
        with (
            memory_limit(memory, pool, lambda error: _leave(job, started, error)),
            time_limit(job.sent.walltime, pool),
        ):
            stop_without(job.sent.credentials)
            if alone.submitted() is not None:
                alone.wait_for_inputs(job)
            _run(job, earlier)
    except Exception as error:
        if disk_full.shown(error):
            # What is half-written is of no use, and others may need the space.
            shutil.rmtree(job.folder, ignore_errors=True)
        shown: BaseException = error
        if kind_of(error) == "error":
            shown = refusal(error, job.entry.file or "", job.sent.credentials) or error
        with contextlib.suppress(OSError):  # no space: the end of the run looks for that itself
            _leave(job, started, shown)
            if not isinstance(error, SmkError):
                print(masked(traceback.format_exc()), end="", file=sys.stderr)
            print(failures.one_line(shown), file=sys.stderr)
        return 1
    failures.clear(build, job.rule, job.key)
    if log := os.environ.get(LOG):
        (build / log).unlink(missing_ok=True)  # the job's log has it under its plain name
    return 0


def _note(job: WorkerJob, earlier: list[EarlierAttempt]) -> failures.Failure:
    """Return the note of a job that ends without a message."""
    partition = job.entry.partition
    return failures.Failure(
        rule=job.rule,
        key=job.key,
        record=job.marker or job.entry.record,
        bundle=job.bundle,
        problem="it ended without an error message: it was killed, or its machine failed",
        kind="killed",
        stages=list(job.table.stages),
        dataset=job.entry.dataset,
        file=partition["file"] if partition else None,
        start=partition["start"] if partition else None,
        stop=partition["stop"] if partition else None,
        variation=job.entry.variation,
        pool=job.sent.asked.get("pool"),
        attempt=job.sent.attempt,
        host=socket.gethostname(),
        pid=os.getpid(),
        born=failures.born(os.getpid()),
        system=job.sent.system,
        batch_job=job.sent.batch_job,
        memory=job.sent.asked.get("memory"),
        walltime=job.sent.walltime,
        started=round(time.time(), 3),
        in_pilot=job.sent.in_pilot,
        earlier=earlier,
    )


def _leave(job: WorkerJob, started: failures.Failure, error: BaseException) -> None:
    """Say in a job's note what it died of."""
    kind = kind_of(error)
    record = damaged_record(error)
    if kind == "damaged" and record is not None:
        _forget_damaged(job, record)
    problem, fix = failures.one_line(error), getattr(error, "fix", None)
    if gone := _gone(job):
        problem = f"its input file was moved or deleted during the run: {gone}"
        fix = "put it back, then run the same command again"
    failures.note(
        job.build,
        replace(
            started,
            problem=problem,
            kind=kind,
            fix=fix or column_fix(error, job.entry.file),
            at=getattr(error, "at", None),
            stage=getattr(error, "stage", None),
            op=getattr(error, "impl", None),
            used=getattr(error, "used", None) or peak_memory(),
            ended=round(time.time(), 3),
        ),
    )


def _gone(job: WorkerJob) -> Path | None:
    """Return an input file of a job that is not there any more."""
    local = (path for path in map(Path, job.entry.inputs) if path.is_absolute())
    return next((path for path in local if not path.exists()), None)


def _forget_damaged(job: WorkerJob, record: Path) -> None:
    """Let the job run again whose file is damaged, and all others that made such a file for us.

    Without its record a job counts as not done, and without its marker a bundle.
    """
    from fasthep_smk.storage import products

    record.unlink(missing_ok=True)
    for read in job.entry.reads:
        try:
            products.verify(job.build / read.folder)
        except products.Damaged as error:
            error.record.unlink(missing_ok=True)
            if read.marker is not None:
                (job.build / read.marker).unlink(missing_ok=True)


def _earlier(build: Path, job: WorkerJob) -> list[EarlierAttempt]:
    """Return what the earlier attempts died of; of a kill, the batch system knows why."""
    attempts = failures.earlier(build, job.rule, job.key, sites.system(job.sent.system).fate)
    # A job that was lost, or had no valid credential, is still at the same attempt.
    return [item for item in attempts if item["attempt"] != job.sent.attempt]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="worker", description="Run one job in the build folder.")
    parser.add_argument("rule", help="the job's rule")
    parser.add_argument("place", nargs="*", help="the values of its wildcards")
    parser.add_argument("--attempt", type=_word, default="1", help="how often it was tried, from 1")
    parser.add_argument("--threads", type=int, default=1, help="how many cpus it may use")
    return parser


def _word(text: str) -> str:
    """Return the word for an attempt, if it is one."""
    heard(text)
    return text


def _run(job: WorkerJob, earlier: list[EarlierAttempt]) -> None:
    from fasthep_smk.storage import products

    started, moved = time.time(), bytes_moved()
    shutil.rmtree(job.folder, ignore_errors=True)
    content, observed = _observed(job)
    record: Record = {
        "rule": job.rule,
        "key": job.key,
        "signature": job.entry.signature,
        "waited_for": job.sent.waited_for,
        "observed": observed,
        "host": socket.gethostname(),
        "pid": os.getpid(),
        "submitted": job.sent.submitted,
        "started": round(started, 3),
        "ended": round(time.time(), 3),
        "attempt": job.sent.attempt,
        "threads": job.sent.threads,
        "asked": job.sent.asked,
        "used": _used(job, moved),
        "events": job.entry.events,
        "system": job.sent.place,
        "batch_job": job.sent.batch_job,
        "earlier": earlier,
        "results": {name: files.described(job.build / name) for name in sorted(set(job.results))},
        "outside": job.outside,
        "made_of": job.made_of,
        "build": str(job.build),
        **content,
    }
    products.write_record(job.folder, record)


def _used(job: WorkerJob, before: tuple[int, int] | None) -> Used:
    """Return what a job took; ``before`` is what its process had read and written until then."""
    used: Used = {"memory": peak_memory(), "cpu": cpu_time(), "warm": job.sent.warm}
    after = bytes_moved()
    if before is not None and after is not None:
        used["read"], used["written"] = after[0] - before[0], after[1] - before[1]
    return used


def _observed(job: WorkerJob) -> tuple[Content, list[str]]:
    """Run the job; return the content of its record, and the observations that it rests on.

    Raises:
        Changed: its inputs are not those that it was planned with.
    """
    run: Launch = json.loads((job.build / layout.RUN).read_text(encoding="utf-8"))
    pickles.limit(run["pickles_of"] if os.environ.get(SENT) else None)
    launch, beside = Path(run["launch_folder"]), Path(run["workflow"]).parent
    named = NamedFiles((launch, beside), run["ignore_reads"], own=[job.build])
    check_files(job, named, modules=True)
    if not run["own_modules"]:  # nothing of the user's runs in any job
        return _checked(job, named, None)
    observer = Observer(
        job.build,
        Surroundings(launch, environment_of(job.build), run["ignore_reads"], beside),
        files=named,
        operation=current_operation,
        own=run["own_modules"],
        named=run["named_texts"],
        known=job.entry.files,
    )
    with contextlib.closing(observer):
        return _checked(job, named, observer)


def _checked(
    job: WorkerJob, named: NamedFiles, observer: Observer | None
) -> tuple[Content, list[str]]:
    """Run the job, seen by an ``observer``, and look whether its inputs have changed meanwhile."""
    try:
        with observing(observer) if observer else contextlib.nullcontext():
            content = _runner(job.table.scope)(job)
    except Exception as error:
        with contextlib.suppress(OSError):  # the error of the job is what counts
            _keep_made(job, observer)
        if kind_of(error) == "error":  # a file may have been half-written
            check_files(job, named, modules=True, written=observer.written if observer else ())
            if observer and (edited := observer.edited()):
                raise Changed(edited, failed=cause_of(error)) from error
        raise
    folders = [read.folder for read in job.entry.reads]
    folders += [adopted.folder for adopted in job.entry.adopted]
    observed = inherited(job.build, folders)
    if observer is None:
        check_files(job, named, modules=False)
        return content, observed
    written = _keep_made(job, observer)
    reads, changed = observer.observations()
    check_files(job, named, modules=False, written=observer.written)
    check_modules(job, observer.sources)
    if changed:
        raise Changed(changed)
    own = [save(job.build, reads)] if reads else []
    return content, list(dict.fromkeys([*own, *written, *observed]))


def _keep_made(job: WorkerJob, observer: Observer | None) -> list[str]:
    """Write down which files the job has written, for jobs that run later."""
    written = observer.made() if observer else []
    return [save(job.build, written)] if written else []


def _runner(scope: str) -> Callable[[WorkerJob], Content]:
    # Imported when needed: a merge does not pay for what a partition needs.
    if scope in ("partition", "side"):
        from fasthep_smk.worker import partition

        return partition.run_partition if scope == "partition" else partition.run_side_products
    from fasthep_smk.worker import reduction

    return {
        "merge": reduction.run_merge,
        "finish": reduction.run_finish,
        "publish": reduction.run_publish,
    }[scope]


def _sent(build: Path, parsed: argparse.Namespace, warm: bool) -> Sent:
    """Return how the job was sent out: its pool, the amounts asked for, its batch job."""
    asked: Asked
    number, own = heard(parsed.attempt)  # what this job alone has asked for
    moved, attempt = divmod(number, MOVED)
    try:
        requests = read_requests(build)
        attempts = attempts_of(requests, parsed.rule, "/".join(parsed.place))
        asked = {**attempts[min(number, len(attempts)) - 1], **own}
        waited_for = attempts[0].get("pool") if moved else None
        system = str(requests["system"])
        credentials = tuple(requests.get("credentials") or ())
    except (OSError, ValueError, KeyError, IndexError):
        # An older translation: without limits.
        asked, system, credentials, waited_for = {}, "local", (), None
    job = sites.system(system).batch_job()
    return Sent(
        attempt,
        parsed.threads,
        asked,
        system,
        job,
        warm,
        credentials,
        waited_for,
        in_pilot=layout.IN_PILOT in os.environ,
        submitted=alone.submitted(),
    )


def _enter_launch_folder(build: Path) -> None:
    """Go where the run was started: FAST-HEP's relative paths and local modules start there."""
    run: Launch = json.loads((build / layout.RUN).read_text(encoding="utf-8"))
    sys.path.extend(path for path in run["python_path"] if path not in sys.path)
    local_modules.search(run["own_folders"], run["own_modules"])
    if Path(run["launch_folder"]).is_dir():
        os.chdir(run["launch_folder"])

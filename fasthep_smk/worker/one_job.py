"""One job from start to end: run it, write its record or say why not."""

from __future__ import annotations

import contextlib
import math
import os
import shutil
import socket
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from fasthep_smk import sites
from fasthep_smk.flow import local_modules
from fasthep_smk.flow.named_files import NamedFiles
from fasthep_smk.flow.operation import current_operation
from fasthep_smk.storage import failures, layout, pickles
from fasthep_smk.storage.observed import Surroundings, environment_of, inherited, save
from fasthep_smk.storage.record import Content, EarlierAttempt, Record, Used
from fasthep_smk.util import disk_full, files, last_words
from fasthep_smk.util.errors import SmkError
from fasthep_smk.util.masking import masked
from fasthep_smk.worker.causes import (
    after_work,
    cause_of,
    column_fix,
    damaged_record,
    kind_of,
    what_ended,
)
from fasthep_smk.worker.job import WorkerJob
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

#: For how many seconds what another node has written may not be seen on this one.
_LATE = 60.0
_PAUSE = 0.5


def run_job(job: WorkerJob) -> int:
    """Run a job in this process; return its exit status."""
    last_words.say()
    last_words.end_by(math.inf)  # this process may have run another one
    if job.is_done:
        print("an earlier process has finished this job, but could not report it", file=sys.stderr)
        failures.clear(job.build, job.rule, job.key)
        return 0
    started = _note(job)
    asked = job.sent.asked
    pool = asked.get("pool")
    # A batch system holds jobs to their memory; on one machine there may be enough for all.
    memory = asked.get("memory") if job.sent.system != "local" else None
    try:
        failures.note(job.build, started)
        sys.path.extend(path for path in job.launch["python_path"] if path not in sys.path)
        local_modules.search(job.launch["own_folders"], job.launch["own_modules"])
        if Path(job.launch["launch_folder"]).is_dir():
            os.chdir(job.launch["launch_folder"])  # where FAST-HEP's relative paths start
        # For messages and diagnostics of an op; no result may depend on it.
        os.environ["FASTHEP_SMK_POOL"] = str(pool or "")
        with (
            memory_limit(memory, pool, lambda error: _leave(job, started, error)),
            time_limit(job.sent.walltime, pool),
        ):
            stop_without(job.sent.credentials)
            if job.sent.submitted is not None:
                _wait_for_inputs(job)
            _run(job, started.earlier)
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
    failures.clear(job.build, job.rule, job.key)
    if log := os.environ.get(LOG):
        (job.build / log).unlink(missing_ok=True)  # the job's log has it under its plain name
    return 0


def note_end_of(job: WorkerJob, end: End) -> None:
    """Say what a job's process died of, or what kept it from ending well after its work."""
    if DONE in end.said:
        if end.of_job == 0:
            failures.warn(job.build, job.rule, job.key, after_work(end))
        return  # else it has said itself what was wrong
    started = failures.read(failures.path_of(job.build, job.rule, job.key))
    if started is None or started.kind != "killed":
        return  # the same
    kind, problem, fix = what_ended(end, job.sent)
    stage, op, now = end.said.get("stage"), end.said.get("op"), round(time.time(), 3)
    ended = replace(started, kind=kind, problem=problem, fix=fix, stage=stage, op=op, ended=now)
    failures.note(job.build, ended)


def _note(job: WorkerJob) -> failures.Failure:
    """Return the note of a job that ends without a message."""
    partition, sent = job.entry.partition, job.sent
    earlier: list[EarlierAttempt] = []
    if sent.attempt > 1:  # of a kill, the batch system knows why
        fate = sites.system(sent.system).fate
        attempts = failures.earlier(job.build, job.rule, job.key, fate)
        # A job that was lost, or had no valid credential, is still at the same attempt.
        earlier = [item for item in attempts if item["attempt"] != sent.attempt]
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
        pool=sent.asked.get("pool"),
        attempt=sent.attempt,
        host=socket.gethostname(),
        pid=os.getpid(),
        born=failures.born(os.getpid()),
        system=sent.system,
        batch_job=sent.batch_job,
        memory=sent.asked.get("memory"),
        walltime=sent.walltime,
        started=round(time.time(), 3),
        in_pilot=sent.in_pilot,
        earlier=earlier,
    )


def _leave(job: WorkerJob, started: failures.Failure, error: BaseException) -> None:
    """Say in a job's note what it died of."""
    kind = kind_of(error)
    record = damaged_record(error)
    if kind == "damaged" and record is not None:
        _forget_damaged(job, record)
    problem, fix = failures.one_line(error), getattr(error, "fix", None)
    local = (path for path in map(Path, job.entry.inputs) if path.is_absolute())
    if gone := next((path for path in local if not path.exists()), None):
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


def _wait_for_inputs(job: WorkerJob) -> None:
    """Wait until the file system shows what a job reads; after a minute it says itself what lacks.

    A network file system may show for some time what was there before.
    """
    reads = [job.build / read.folder / layout.RECORD for read in job.entry.reads]
    end, told = time.monotonic() + _LATE, False
    while (
        late := next((path for path in reads if not path.exists()), None)
    ) and time.monotonic() < end:
        if not told:
            print(f"waiting for {late}, which another node has written", file=sys.stderr)
        told = True
        for folder in {path.parent for path in reads}:
            if folder.parent.is_dir():
                os.listdir(folder.parent)  # noqa: PTH208 (this lets NFS look again)
        time.sleep(_PAUSE)


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
    run = job.launch
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
    if content.get("adopted"):  # else it has run as a whole
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

"""Snakemake that is patient with HTCondor: ``python -m`` this module, then as ever.

Snakemake's plugin (0.3) gives the whole run up when the schedd does not answer one single time.
Schedds are restarted, and have busy hours. And it looks for ended jobs while it is still being set
up, which fails, now and then, where an earlier run has left its log of events.

Jobs that see no file of this machine (``staging.mode: transfer``) are no Snakemake there: they are
sent a parcel, and send one back. One that got lost or was damaged is sent again; that is no
failure of the job.
"""

from __future__ import annotations

import functools
import importlib
import re
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

from fasthep_smk.credentials.gate import hold_jobs_back
from fasthep_smk.transfer.arrival import Arrival
from fasthep_smk.transfer.depot import NODE, Depot, Trip

__all__ = ["Executor", "main", "patiently"]

#: How long to try for, and how long to wait between two tries, in seconds.
_PATIENCE, _PAUSE = 1800, 5
#: How often a job is sent again whose parcel, or what it sends back, got lost or was damaged.
_TRIPS = 3
_OUTCOME = "outcome.tar"
#: What HTCondor says of a job that it could not send, or get back.
_OF_FILES = re.compile(r"transfer|ExitCode 7[56]\b", re.IGNORECASE)
#: Nothing has reached the schedd: a job was not queued, and can be submitted again.
_NO_ANSWER = re.compile(r"failed to connect|unable to locate|can't find address", re.IGNORECASE)

plugin: Any = importlib.import_module("snakemake_executor_plugin_htcondor")


class Executor(plugin.Executor):  # type: ignore[misc]
    """The plugin's executor; nothing is looked up before there are jobs."""

    def __post_init__(self, *arguments: Any, **options: Any) -> None:
        self._depot = Depot(Path.cwd())
        #: The trips under way, by HTCondor's ids, and how often each of Snakemake's jobs got lost.
        self._trips: dict[Any, Trip] = {}
        self._sent: Trip | None = None
        self._lost: Counter[Any] = Counter()
        super().__post_init__(*arguments, **options)

    async def check_active_jobs(self, active_jobs: list[Any]) -> AsyncIterator[Any]:
        """Yield the jobs that have not ended."""
        if active_jobs:
            async for job in super().check_active_jobs(active_jobs):
                yield job

    def _get_exec_args_and_transfer_files(self, job: Any, needs_transfer: bool) -> Any:
        """Return executable, arguments, files that go and come, and where these come to."""
        if not needs_transfer:
            return super()._get_exec_args_and_transfer_files(job, needs_transfer)
        names = self._depot.names_of(job.rule.name)
        trip = self._depot.send(job.rule.name, [str(getattr(job.wildcards, one)) for one in names])
        self._sent = trip
        python = self._depot.python
        arguments = [trip.parcel, _OUTCOME, python]
        arguments += ["--attempt", str(job.attempt), "--threads", str(job.threads)]
        inputs = [trip.parcel, *([python] if self._depot.brings_python else [])]
        return str(NODE), " ".join(arguments), inputs, [_OUTCOME], [f"{_OUTCOME} = {trip.outcome}"]

    def report_job_submission(self, job_info: Any, **options: Any) -> None:
        if self._sent is not None:
            self._trips[job_info.external_jobid] = self._sent
            self._sent = None
        super().report_job_submission(job_info, **options)

    def report_job_success(self, job_info: Any) -> None:
        """Take a job as done when all that it made is here."""
        trip = self._trips.pop(job_info.external_jobid, None)
        arrival = self._depot.receive(trip) if trip else None
        if arrival is not None and arrival.status != 0:
            self._again_or_failed(job_info, arrival, None)
        else:
            super().report_job_success(job_info)

    def report_job_error(self, job_info: Any, msg: str | None = None, **options: Any) -> None:
        """Take a job as failed, with what it says of that."""
        trip = self._trips.pop(job_info.external_jobid, None)
        if trip is None:
            super().report_job_error(job_info, msg=msg, **options)
        else:
            self._again_or_failed(job_info, self._depot.receive(trip), msg, **options)

    def _again_or_failed(
        self, job_info: Any, arrival: Arrival, msg: str | None, **options: Any
    ) -> None:
        """Send a job again whose files got lost; of others, and in the end, say why it failed."""
        job = job_info.job
        # The worker has said so, all went well but for that, or HTCondor names it as the reason.
        lost = arrival.host is not None or msg is None or _OF_FILES.search(msg) is not None
        if arrival.status is None and lost and self._lost[job.jobid] < _TRIPS:
            self._lost[job.jobid] += 1
            where = f" on {arrival.host}" if arrival.host else ""
            print(f"{job.name}: sent again: {arrival.problem}{where}", flush=True)
            self.run_job(job)
            return
        if arrival.status is None:
            msg = " ".join(filter(None, [msg, f"({arrival.problem})"]))
        super().report_job_error(job_info, msg=msg, **options)


def main() -> None:
    """Run Snakemake's command line."""
    plugin.Executor = Executor
    schedd = importlib.import_module("htcondor2").Schedd
    schedd.__init__ = patiently(schedd.__init__)
    # A schedd that was restarted has another address: it is looked up again for each try.
    submit = schedd.submit
    schedd.submit = patiently(lambda _self, *args, **kwargs: submit(schedd(), *args, **kwargs))
    hold_jobs_back()
    sys.argv[0] = "snakemake"
    importlib.import_module("snakemake.cli").main()


def patiently(call: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that calls again, for half an hour, while HTCondor does not answer."""

    @functools.wraps(call)
    def again(*arguments: Any, **options: Any) -> Any:
        end = time.monotonic() + _PATIENCE
        while True:
            try:
                return call(*arguments, **options)
            except Exception as error:  # the bindings raise several kinds
                if not _NO_ANSWER.search(str(error)) or time.monotonic() > end:
                    raise
                text = " ".join(str(error).split())
                print(f"HTCondor does not answer, trying again: {text}", flush=True)
                time.sleep(_PAUSE)

    return again


if __name__ == "__main__":
    main()

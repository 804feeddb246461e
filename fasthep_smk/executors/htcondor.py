"""Snakemake that is patient with HTCondor: ``python -m`` this module, then as usual.

Snakemake's plugin (0.3) gives the whole run up when the schedd does not answer one single time.
Schedds are restarted, and have busy hours.

Jobs that see no file of this machine (``staging.mode: transfer``) are no Snakemake there: they are
sent a parcel, and send one back. One that got lost or was damaged is sent again; that is no
failure of the job.
"""

from __future__ import annotations

import functools
import importlib
import threading
import time
from collections.abc import AsyncIterator, Callable, MutableMapping
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from fasthep_smk.executors.direct import Pace, command_of
from fasthep_smk.executors.fallback import number
from fasthep_smk.executors.job_events import Submitted
from fasthep_smk.executors.logger_plugin import problem, report
from fasthep_smk.executors.piloted import Piloted, lift_limits
from fasthep_smk.executors.read_as_text import HTCONDOR_IS_SILENT
from fasthep_smk.executors.start import be_snakemake
from fasthep_smk.executors.submissions import Submissions, TakingOver, name_of, prepare_to_take_over
from fasthep_smk.executors.transfer_executor import Travelling
from fasthep_smk.flow import patches
from fasthep_smk.util.snakemake_types import SnakemakeJob, SnakemakeJobInfo

__all__ = ["Executor", "main", "patiently"]

#: How long to try for, and how long to wait between two tries, in seconds.
_PATIENCE, _PAUSE = 1800, 5
#: What a job sends back, in its folder on the worker.
_OUTCOME = "outcome.tar"
#: What the job is called that a thread submits.
_naming = threading.local()
plugin: Any = importlib.import_module("snakemake_executor_plugin_htcondor")

#: Executable, arguments, files that go and that come, and where these come to.
_Sent = tuple[str, str, list[str], list[str], list[str]]
_Given = ParamSpec("_Given")
_Answer = TypeVar("_Answer")


class Executor(Piloted, Travelling, TakingOver, plugin.Executor):  # type: ignore[misc]
    """The plugin's executor; nothing is looked up before there are jobs."""

    def __init__(self, *arguments: object, **options: object) -> None:
        self._pace = Pace()
        self._submissions = Submissions("htcondor")
        super().__init__(*arguments, **options)

    def run_job(self, job: SnakemakeJob) -> None:
        """Take a job over, or submit it under a name that people understand."""
        _naming.name = name_of(job)
        super().run_job(job)

    def _number(self, batch_id: str) -> int:
        return int(batch_id)

    async def check_active_jobs(
        self, active_jobs: list[SnakemakeJobInfo]
    ) -> AsyncIterator[SnakemakeJobInfo]:
        """Yield the jobs that have not ended."""
        if active_jobs:
            asked, leaving = self._queue.look(active_jobs)
            left = len(leaving)
            for job in leaving:
                yield job
            async for job in super().check_active_jobs(asked):
                left += 1
                yield job
            if left < len(active_jobs):
                self._pace.moved()
        most = self.workflow.remote_execution_settings.seconds_between_status_checks
        self.next_seconds_between_status_checks = self._pace.seconds(most)

    def report_job_submission(self, job_info: SnakemakeJobInfo, **options: object) -> None:
        """Take a job as submitted."""
        self._submissions.taken(str(job_info.external_jobid))
        self._pace.moved()
        report(Submitted(str(job_info.external_jobid)))
        super().report_job_submission(job_info, **options)

    def _get_exec_args_and_transfer_files(self, job: SnakemakeJob, needs_transfer: bool) -> _Sent:
        """Return executable, arguments, files that go and come, and where these come to."""
        alone = self._tracker is None and not needs_transfer and not job.resources.get("universe")
        if alone and (command := command_of(job, self.workflow)):
            # A job starts in a folder of its own.
            return "/bin/sh", " ".join([str(Path.cwd() / command[1]), *command[2:]]), [], [], []
        if self._tracker is None or not needs_transfer:
            found: _Sent = super()._get_exec_args_and_transfer_files(job, needs_transfer)
            return found
        sending, spool = self._tracker.leave(job), self._tracker.spool
        arguments = [sending.parcel, _OUTCOME, spool.python]
        arguments += ["--attempt", str(number(job)), "--threads", str(job.threads)]
        for kind, path in sending.credentials.items():  # beside what the job is sent
            arguments += ["--credential", f"{kind}={Path(path).name}"]
        inputs = [sending.parcel, *([spool.python] if spool.brings_python else [])]
        inputs += sending.credentials.values()
        back = [f"{_OUTCOME} = {sending.outcome}"]
        return str(spool.node), " ".join(arguments), inputs, [_OUTCOME], back


def main() -> None:
    """Run Snakemake's command line."""
    be_snakemake(_change, begin=_begin)


def _change() -> None:
    patches.HTCONDOR.make(plugin, Executor=Executor)
    schedd = importlib.import_module("htcondor2").Schedd
    patches.HTCONDOR.make(schedd, __init__=patiently(schedd.__init__))
    # A schedd that was restarted has another address: it is looked up again for each try.
    submit = schedd.submit

    def submit_named(
        _self: object, job: MutableMapping[str, str], *arguments: object, **options: object
    ) -> object:
        job["batch_name"] = _naming.name
        return submit(schedd(), job, *arguments, **options)

    patches.HTCONDOR.make(schedd, submit=patiently(submit_named))


def _begin() -> None:
    prepare_to_take_over()
    lift_limits()


def patiently(call: Callable[_Given, _Answer]) -> Callable[_Given, _Answer]:
    """Return a function that calls again, for half an hour, while HTCondor does not answer."""

    @functools.wraps(call)
    def again(*arguments: _Given.args, **options: _Given.kwargs) -> _Answer:
        end = time.monotonic() + _PATIENCE
        while True:
            try:
                return call(*arguments, **options)
            except Exception as error:  # the bindings raise several kinds
                if not HTCONDOR_IS_SILENT.search(str(error)) or time.monotonic() > end:
                    raise
                text = " ".join(str(error).split())
                problem(f"HTCondor does not answer, trying again: {text}")
                time.sleep(_PAUSE)

    return again


if __name__ == "__main__":
    main()

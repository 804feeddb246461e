"""Snakemake that is patient with HTCondor. ``run/snakemake_process.py`` starts it.

Snakemake's plugin (0.3) gives the whole run up when the schedd does not answer one single time.
Schedds are restarted, and have busy hours.

Jobs that see no file of this machine (``staging.mode: transfer``) are no Snakemake there: they are
sent a parcel, and send one back. One that got lost or was damaged is sent again; that is no
failure of the job.
"""

from __future__ import annotations

import importlib
import shutil
from pathlib import Path
from typing import Any, Self, cast

from fasthep_smk.executors.batch_executor import BatchExecutor, Forgotten
from fasthep_smk.executors.direct import command_of
from fasthep_smk.executors.fallback import number
from fasthep_smk.executors.start import be_snakemake
from fasthep_smk.executors.submissions import name_of
from fasthep_smk.sites import BatchState, htcondor
from fasthep_smk.sites.commands import ask
from fasthep_smk.sites.htcondor import COMMAND
from fasthep_smk.util.snakemake_types import SnakemakeJob, SnakemakeJobInfo

#: What a job sends back, in its folder on the worker.
_OUTCOME = "outcome.tar"
plugin: Any = importlib.import_module("snakemake_executor_plugin_htcondor")

#: Executable, arguments, files that go and that come, and where these come to.
_Sent = tuple[str, str, list[str], list[str], list[str]]


class _Text(int):
    """Text that the plugin and HTCondor's library take for a number, and write down as it is.

    What they take for a string is put in quotes.
    """

    _text: str

    def __new__(cls, text: str) -> Self:
        instance = super().__new__(cls)
        instance._text = text
        return instance

    def __str__(self) -> str:
        return self._text


class _Named:
    """A job of Snakemake's that the plugin submits under a name that people understand.

    Commands of a submit description have their values as they stand in the pool, as expressions.
    """

    def __init__(self, job: SnakemakeJob, name: str) -> None:
        self.job = job
        self.resources = {
            key: _Text(value) if key.startswith(COMMAND) and isinstance(value, str) else value
            for key, value in job.resources.items()
        }
        self.resources["classad_JobBatchName"] = name

    def __getattr__(self, name: str) -> object:
        return getattr(self.job, name)


class HTCondorExecutor(BatchExecutor, plugin.Executor):  # type: ignore[misc]
    """The plugin's executor; nothing is looked up before there are jobs."""

    _system = "htcondor"

    def __init__(self, *arguments: object, **options: object) -> None:
        self._forgotten = Forgotten()
        super().__init__(*arguments, **options)

    def _as_submitted(self, job: SnakemakeJob) -> SnakemakeJob:
        return cast("SnakemakeJob", _Named(job, name_of(job)))

    def _number(self, batch_id: str) -> int:
        return int(batch_id)

    async def _under_way(self, jobs: list[SnakemakeJobInfo]) -> list[SnakemakeJobInfo]:
        """Take in which jobs have ended; without commands, the plugin asks HTCondor's library."""
        if shutil.which("condor_q"):
            return await super()._under_way(jobs)
        return [job async for job in plugin.Executor.check_active_jobs(self, jobs)]

    def _states(self, jobs: list[SnakemakeJobInfo]) -> dict[int, BatchState]:
        """Return what is known now of jobs."""
        ids = [str(job.external_jobid) for job in jobs]
        states = htcondor.status(ids, Path.cwd(), self._submissions.since) if ids else {}
        return {
            id(job): states[batch_id]
            for job, batch_id in zip(jobs, ids, strict=True)
            if batch_id in states
        }

    def _report_failed(self, job_info: SnakemakeJobInfo, state: BatchState) -> None:
        if state.said.startswith("HTCondor: held"):  # let go later, it would run beside the next
            ask(self._submissions.system.cancel([str(job_info.external_jobid)]))
        super()._report_failed(job_info, state)

    def report_job_submission(self, job_info: SnakemakeJobInfo, **options: object) -> None:
        """Take a job as submitted."""
        job_info.job = _plain(job_info.job)
        self._submissions.taken(str(job_info.external_jobid))
        super().report_job_submission(job_info, **options)

    def cancel_jobs(self, active_jobs: list[SnakemakeJobInfo]) -> None:
        """Cancel jobs; what is left is cancelled at the end of the run."""
        if active_jobs:
            ask(self._submissions.system.cancel(str(job.external_jobid) for job in active_jobs))

    def _get_exec_args_and_transfer_files(self, job: SnakemakeJob, needs_transfer: bool) -> _Sent:
        """Return executable, arguments, files that go and come, and where these come to."""
        job = _plain(job)
        alone = self._tracker is None and not needs_transfer and not job.resources.get("universe")
        if alone and (command := command_of(job, self.workflow)):
            # A job starts in a folder of its own.
            return "/bin/sh", " ".join([str(Path.cwd() / command[1]), *command[2:]]), [], [], []
        if self._tracker is None or not needs_transfer:
            sent: _Sent = super()._get_exec_args_and_transfer_files(job, needs_transfer)
            return sent
        sending, spool = self._tracker.leave(job), self._tracker.spool
        arguments = [sending.parcel, _OUTCOME, spool.python]
        arguments += ["--attempt", str(number(job)), "--threads", str(job.threads)]
        for kind, path in sending.credentials.items():  # beside what the job is sent
            arguments += ["--credential", f"{kind}={Path(path).name}"]
        inputs = [sending.parcel, *([spool.python] if spool.brings_python else [])]
        inputs += sending.credentials.values()
        back = [f"{_OUTCOME} = {sending.outcome}"]
        return str(spool.node), " ".join(arguments), inputs, [_OUTCOME], back


def _plain(job: SnakemakeJob) -> SnakemakeJob:
    return job.job if isinstance(job, _Named) else job


def main() -> None:
    """Run Snakemake's command line."""
    be_snakemake(plugin, HTCondorExecutor)


if __name__ == "__main__":
    main()

"""Snakemake with any other executor. ``run/snakemake_process.py`` starts it.

The plugin runs jobs as it does. What it submits is noted, so that a run that is killed does not
leave jobs that are not recorded.
"""

from __future__ import annotations

import importlib
from pathlib import Path

from fasthep_smk.executors.job_events import Submitted
from fasthep_smk.executors.reporting import report
from fasthep_smk.executors.retries import Retries
from fasthep_smk.executors.start import be_snakemake
from fasthep_smk.executors.submissions import Submissions
from fasthep_smk.storage.job_settings import read_requests
from fasthep_smk.util.executor_plugins import module_of
from fasthep_smk.util.snakemake_types import Executor, SnakemakeJobInfo


class Noting(Executor):
    """To be laid over a plugin's executor: notes what is under way."""

    _system = ""

    def __init__(self, *arguments: object, **options: object) -> None:
        self._submissions = Submissions(self._system)
        self._under_way: dict[str, SnakemakeJobInfo] = {}
        super().__init__(*arguments, **options)
        self._retries = Retries(self.workflow)

    def report_job_submission(self, job_info: SnakemakeJobInfo, **options: object) -> None:
        """Take a job as submitted."""
        if (number := job_info.external_jobid) is not None:
            self._submissions.taken(str(number))
            self._under_way[str(number)] = job_info
            report(Submitted(str(number)))
        super().report_job_submission(job_info, **options)

    def report_job_success(self, job_info: SnakemakeJobInfo) -> None:
        self._ended(str(job_info.external_jobid))
        super().report_job_success(job_info)

    def report_job_error(
        self, job_info: SnakemakeJobInfo, msg: str | None = None, **options: object
    ) -> None:
        """Take a job as failed; one that a person wants to have again is at the same attempt."""
        number = str(job_info.external_jobid)
        again = self._submissions.is_wanted_again(number)
        self._ended(number)
        if not self._retries.settle(job_info.job, "wanted" if again else "error", msg):
            super().report_job_error(job_info, msg=msg, **options)

    def cancel_jobs(self, active_jobs: list[SnakemakeJobInfo]) -> None:
        """Cancel jobs, as the plugin does it.

        While their states are asked for, Snakemake knows of no active jobs: we do. The plugin does
        not say whether they are gone: they stay noted, and the next run asks for them.
        """
        unnumbered = [job for job in active_jobs if job.external_jobid is None]
        super().cancel_jobs([*self._under_way.values(), *unnumbered])

    def _ended(self, number: str) -> None:
        self._under_way.pop(number, None)
        self._submissions.ended(number)


def main() -> None:
    """Run Snakemake's command line. The run is written by now: it names the executor."""
    name = read_requests(Path())["system"]
    plugin = importlib.import_module(module_of(name))
    be_snakemake(plugin, type("Executor", (Noting, plugin.Executor), {"_system": name}))


if __name__ == "__main__":
    main()

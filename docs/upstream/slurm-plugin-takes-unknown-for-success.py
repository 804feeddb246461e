"""Prints:

    job 1 is done
    still active: []

Expected: only `still active: ['1']`.
"""

import asyncio
import contextlib
import logging
from types import SimpleNamespace

import snakemake_executor_plugin_slurm as plugin


async def unknown(command, logger):
    return {"1": "UNKNOWN"}, 0.0


plugin.query_job_status = unknown
plugin.is_query_tool_available = lambda name: True
plugin.get_min_job_age = lambda: 300

settings = SimpleNamespace(
    init_seconds_before_status_checks=40, status_attempts=1, status_command="squeue"
)
executor = object.__new__(plugin.Executor)
executor.workflow = SimpleNamespace(executor_settings=settings)
executor.logger = logging.getLogger("quiet")
executor.run_uuid = "run"
executor.status_rate_limiter = contextlib.nullcontext()
executor.next_seconds_between_status_checks = 40
executor._status_query_calls = executor._status_query_failures = 0
executor._status_query_total_seconds = 0.0
executor._status_query_min_seconds = executor._status_query_max_seconds = 0.0
executor._status_query_cycle_rows = []
executor.report_job_success = lambda job: print(f"job {job.external_jobid} is done")


async def still_active(jobs):
    return [job.external_jobid async for job in executor.check_active_jobs(jobs)]


print("still active:", asyncio.run(still_active([SimpleNamespace(external_jobid="1", aux={})])))

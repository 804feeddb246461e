"""Prints:

    still active: ['CANCELLED by 1000', 'PREEMPTED']

Expected: `still active: []`.
"""

import asyncio
import contextlib
import logging
from types import SimpleNamespace

import snakemake_executor_plugin_slurm as plugin

STATES = {"1": "CANCELLED by 1000", "2": "PREEMPTED", "3": "FAILED"}


async def answer(command, logger):
    return STATES, 0.0


plugin.query_job_status = answer
plugin.is_query_tool_available = lambda name: True
plugin.get_min_job_age = lambda: 300

settings = SimpleNamespace(
    init_seconds_before_status_checks=40, status_attempts=1, status_command="squeue"
)
executor = object.__new__(plugin.Executor)
executor.workflow = SimpleNamespace(executor_settings=settings)
executor.logger = logging.getLogger("quiet")
executor.logger.disabled = True
executor.run_uuid = "run"
executor.status_rate_limiter = contextlib.nullcontext()
executor.next_seconds_between_status_checks = 40
executor._preemption_warning = False
executor._status_query_calls = executor._status_query_failures = 0
executor._status_query_total_seconds = 0.0
executor._status_query_min_seconds = executor._status_query_max_seconds = 0.0
executor._status_query_cycle_rows = []
executor.report_job_error = lambda *_, **__: None


async def still_active(jobs):
    return [job.external_jobid async for job in executor.check_active_jobs(jobs)]


jobs = [SimpleNamespace(external_jobid=number, aux={}) for number in STATES]
print("still active:", [STATES[job] for job in asyncio.run(still_active(jobs))])

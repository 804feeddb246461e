"""Prints:

    jobs before: 3, after a query without an answer: 0

Expected: `jobs before: 3, after a query without an answer: 3`.
"""

import asyncio
import contextlib
import logging
from types import SimpleNamespace

import snakemake_executor_plugin_slurm as plugin


async def no_answer(command, logger):  # the result while the controller does not answer
    return None, None


plugin.query_job_status = no_answer
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
executor._status_query_calls = executor._status_query_failures = 0
executor._status_query_cycle_rows = []


async def still_active(jobs):
    return [job async for job in executor.check_active_jobs(jobs)]


jobs = [SimpleNamespace(external_jobid=str(number), aux={}) for number in (1, 2, 3)]
left = asyncio.run(still_active(jobs))
print(f"jobs before: {len(jobs)}, after a query without an answer: {len(left)}")

"""Prints:

    seconds between looks at a running job: 15 … 180

Expected: 5 seconds each time, as the option says.
"""

import asyncio
import contextlib
import logging
from types import SimpleNamespace

import snakemake_executor_plugin_slurm as plugin


async def running(command, logger):
    return {"1": "RUNNING"}, 0.0


plugin.query_job_status = running
plugin.is_query_tool_available = lambda name: True
plugin.get_min_job_age = lambda: 300

settings = SimpleNamespace(
    init_seconds_before_status_checks=5,
    seconds_between_status_checks=5,  # the user's option
    status_attempts=1,
    status_command="squeue",
)
executor = object.__new__(plugin.Executor)
executor.workflow = SimpleNamespace(executor_settings=settings)
executor.logger = logging.getLogger("quiet")
executor.run_uuid = "run"
executor.status_rate_limiter = contextlib.nullcontext()
executor.next_seconds_between_status_checks = 5
executor._status_query_calls = executor._status_query_failures = 0
executor._status_query_total_seconds = 0.0
executor._status_query_min_seconds = executor._status_query_max_seconds = 0.0
executor._status_query_cycle_rows = []


async def look(jobs):
    return [job async for job in executor.check_active_jobs(jobs)]


pauses = []
for _ in range(20):
    asyncio.run(look([SimpleNamespace(external_jobid="1", aux={})]))
    pauses.append(executor.next_seconds_between_status_checks)
print("seconds between looks at a running job:", pauses[0], "…", pauses[-1])

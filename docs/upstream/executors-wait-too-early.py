"""Prints:

    set up at the first look at jobs: False

Expected: `True`.
"""

import logging
import time
from unittest.mock import MagicMock

from snakemake_interface_executor_plugins.executors.remote import RemoteExecutor
from snakemake_interface_executor_plugins.settings import SharedFSUsage

ready = []


class Executor(RemoteExecutor):
    def __post_init__(self):
        time.sleep(1)  # a busy machine
        self.is_set_up = True

    async def check_active_jobs(self, active_jobs):
        ready.append(hasattr(self, "is_set_up"))
        for job in active_jobs:
            yield job


Executor.__abstractmethods__ = frozenset()
workflow = MagicMock()
workflow.executor_plugin.common_settings.init_seconds_before_status_checks = 0
workflow.storage_settings.shared_fs_usage = [SharedFSUsage.SOURCES]
settings = workflow.remote_execution_settings
settings.jobname, settings.jobscript = "{jobid}", None
settings.max_status_checks_per_second = settings.seconds_between_status_checks = 1
Executor(workflow, logging.getLogger("quiet"))
print("set up at the first look at jobs:", ready[0])

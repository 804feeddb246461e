"""Prints:

    the name of a job: f"--job-name {safe_quote(params.run_uuid)} "

Expected: a name with the rule and wildcards of the job.
"""

import inspect

from snakemake_executor_plugin_slurm import submit_string

source = inspect.getsource(submit_string.get_submit_command)
(line,) = (line.strip() for line in source.splitlines() if "--job-name" in line)
print("the name of a job:", line)

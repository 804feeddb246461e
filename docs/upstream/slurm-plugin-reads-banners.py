r"""Prints:

    '*** 30 jobs a day ***\n17\n': WorkflowError
    '*** node 5 is back ***\n': job 5

Expected: job 17, and an error.
"""

from snakemake_executor_plugin_slurm.validation import validate_or_get_slurm_job_id

for printed in ("*** 30 jobs a day ***\n17\n", "*** node 5 is back ***\n"):
    try:
        number = validate_or_get_slurm_job_id(printed.strip().split(";")[0], printed)
        print(f"{printed!r}: job {number}")
    except Exception as error:
        print(f"{printed!r}: {type(error).__name__}")

"""What is read of other programs' texts in a run: all of it, each with its reason.

All else is events (`job_events`) or exit statuses. The tests compare each with the text of the
program that is installed. Elsewhere, what FAST-HEP's compiler refuses is read in
``flow/compiler_messages.py``, and what refuses a credential in ``credentials/refusals.py``.
"""

from __future__ import annotations

import re

__all__ = [
    "HTCONDOR_IS_SILENT",
    "IS_LOCKED",
    "IS_MISSING",
    "IS_REFUSED",
    "IS_RETRIED",
    "IS_UNUSABLE",
    "SBATCH_HEARD_NOTHING",
    "SLURM_IS_SILENT",
    "SRUN_IS_SILENT",
]

# --- Snakemake ---

#: It has no event for a job that is tried again.
IS_RETRIED = re.compile(r"^Trying to restart job (\S{1,40})\.$")
#: Its event of an error tells no more than the name of a class.
IS_LOCKED = re.compile(r"Directory cannot be locked")
#: A file that was there when the run began has no event when it is missing before a job.
IS_MISSING = re.compile(r"^(/.+) \(missing locally")
#: It reads its command line before it has a logger.
IS_UNUSABLE = re.compile(r"^\S*(snakemake|__main__\.py): error: ")

# --- Slurm, and Snakemake's plugin for it ---

#: What sbatch said stands in the middle of what the plugin says, between long advice.
IS_REFUSED = re.compile(
    r"SLURM sbatch failed[^']*The error message was '(?:sbatch: error: )?(.*?)'(?:\.| sbatch)"
)
#: sbatch has one exit status for all errors. Nothing has reached the controller: the job is not
#: queued, and can be submitted again.
SLURM_IS_SILENT = re.compile(r"unable to contact slurm controller", re.IGNORECASE)
#: Likewise. Something may have reached it: sbatch has heard no answer.
SBATCH_HEARD_NOTHING = re.compile(r"timed out|timeout", re.IGNORECASE)
#: srun, which starts what a Snakemake on the node runs, has one exit status for all errors, too.
SRUN_IS_SILENT = re.compile(
    rf"^srun: error: .*{SLURM_IS_SILENT.pattern}", re.IGNORECASE | re.MULTILINE
)

# --- HTCondor ---

#: Its bindings raise one exception for all errors. Nothing has reached the schedd: a job was not
#: queued, and can be submitted again.
HTCONDOR_IS_SILENT = re.compile(
    r"failed to connect|unable to locate|can't find address", re.IGNORECASE
)

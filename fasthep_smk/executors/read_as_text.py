"""What is read of the texts that Snakemake and its executors print in a run, each with its reason.

All else of a run is events (`job_events`) or exit statuses. The tests compare each with the text of
the program that is installed. What batch systems answer to our own commands is read in ``sites/``,
what FAST-HEP's compiler refuses in ``flow/compiler_messages.py``, and what refuses a credential in
``credentials/refusals.py``.
"""

from __future__ import annotations

import re

__all__ = [
    "ADVICE",
    "BEFORE_HTCONDOR",
    "CRASHED_IN",
    "IS_FRAME",
    "IS_LOCKED",
    "IS_MISSING",
    "IS_REFUSED",
    "IS_REFUSED_BY_SYSTEM",
    "IS_RETRIED",
    "IS_UNCLEAR",
    "IS_UNUSABLE",
    "MAY_PASS",
    "NO_NUMBER",
    "NO_ROOM",
    "REFUSED",
    "said_by_sbatch",
    "said_of_failed_job",
]

# --- Snakemake ---

#: It has no event for a job that is tried again.
IS_RETRIED = re.compile(r"^Trying to restart job (\S{1,40})\.$")
#: Its event of an error tells no more than the name of a class.
IS_LOCKED = re.compile(r"Directory cannot be locked")
#: A file that was there when the run began has no event when it is missing before a job.
IS_MISSING = re.compile(r"^(/.+) \(missing locally")
#: How the traceback ends that it prints when the system refuses it a file or folder.
IS_REFUSED_BY_SYSTEM = re.compile(r"^[A-Z]\w*Error: \[Errno \d+\] (.+?): '([^']+)'$")
#: It reads its command line before it has a logger.
IS_UNUSABLE = re.compile(r"^\S*(snakemake|__main__\.py): error: ")
#: A process that has crashed cannot tell where but in its log: how Python's faulthandler begins the
#: stack of the thread that crashed, and a frame of it.
CRASHED_IN = "\nCurrent thread "
IS_FRAME = re.compile(r"  File .+, line \d+ in ")
#: How the sentence begins that it adds to what an executor says of a failed job.
ADVICE = "For further error details see"

#: What it is told of a job that its batch system refuses begins so; the system's sentence follows.
REFUSED = "could not be submitted: "

# --- Slurm, and Snakemake's plugin for it; where it is silent: sites/slurm.py ---

#: What sbatch said stands in the middle of what the plugin says, before its long command line; or
#: the plugin itself has refused the job.
IS_REFUSED = re.compile(
    r"SLURM sbatch failed[^']*The error message was '(.*?)'(?:\.| sbatch)"
    r"|^Job submission failed with exception: (?:WorkflowError: ?)?(.*)"
)
#: Of a job whose number was not understood.
NO_NUMBER = "sbatch gives no number"
#: The job may be in the queue: sbatch has ended well, or something around it has failed.
IS_UNCLEAR = re.compile(
    rf"{NO_NUMBER}|SLURM job submission failed"
    r"|SLURM sbatch failed[^']*The error message was '(?:(?!sbatch: (?:error|fatal)).)*'\.?\s+"
    r"sbatch call",
    re.DOTALL,
)

# --- HTCondor, and Snakemake's plugin for it; where it is silent: sites/htcondor.py ---

#: What the plugin says before what HTCondor has said.
BEFORE_HTCONDOR = re.compile(r"^(WorkflowError:\s*)?Failed to submit HTCondor job:\s*")
# --- Both ---

#: Their reasons why a job is not taken have no numbers; after these, another attempt may help.
MAY_PASS = re.compile(
    r"MaxSubmit|submit limit|MAX_JOBS|too many jobs|temporar|try again|timed out|timeout|busy"
    r"|unable to contact|unavailable|failed to connect|connection (refused|reset)|not connected"
    r"|standby mode|zero bytes|unexpected message|failed to send|create new cluster|\[Errno ",
    re.IGNORECASE,
)


#: And after these, which come before what else they say, when another job has ended.
NO_ROOM = re.compile(r"(QOS|Assoc)(Max|Grp)Submit\w*|MAX_JOBS_(PER_OWNER|SUBMITTED)")


def said_of_failed_job(message: str) -> str:
    """Return what an executor says of a failed job, without the advice that each of them has."""
    text = " ".join(message.partition(ADVICE)[0].split())
    return "" if text == "None" else text


def said_by_sbatch(message: str) -> str:
    """Return what sbatch, or the plugin itself, has said of a job that was not taken."""
    match = IS_REFUSED.search(" ".join(message.split()))
    lines = (match[1] or match[2] or "").split("sbatch: error: ") if match else []
    return "; ".join(line.strip() for line in lines if line.strip())

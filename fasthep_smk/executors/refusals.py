"""A job that the batch system does not take: it is told once, and not tried again in vain.

What is refused for an account, a partition or a wrong word would be refused at each attempt. Only a
refusal that may pass, such as that for too many jobs in the queue, leaves the other
attempts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fasthep_smk.executors.read_as_text import MAY_PASS

if TYPE_CHECKING:
    from fasthep_smk.util.snakemake_types import SnakemakeJob

__all__ = ["REFUSED", "refused"]

#: What Snakemake is told of such a job begins so; the batch system's own sentence follows.
REFUSED = "could not be submitted: "


def refused(job: SnakemakeJob, said: str) -> str:
    """Return what to tell of a job that was refused; ``said`` is the batch system's sentence.

    Unless that may pass, this was the last attempt.
    """
    if not MAY_PASS.search(said):
        job.attempt = job.restart_times + 1
    return f"{REFUSED}{' '.join(said.split())}"

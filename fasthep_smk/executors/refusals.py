"""A job that the batch system does not take: it is told once, and not tried again in vain.

What is refused for an account, a partition or a wrong word would be refused at each attempt. Only a
refusal that may pass, such as that of somebody who has too many jobs in the queue, leaves the other
attempts.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fasthep_smk.transfer.tracker import SnakemakeJob

__all__ = ["REFUSED", "refused"]

#: What Snakemake is told of such a job begins so; the batch system's own sentence follows.
REFUSED = "could not be submitted: "
_MAY_PASS = re.compile(
    r"MaxSubmit|submit limit|MAX_JOBS|too many jobs|temporar|try again|timed out|timeout|busy"
    r"|unable to contact|unavailable|failed to connect",
    re.IGNORECASE,
)


def refused(job: SnakemakeJob, said: str) -> str:
    """Return what to tell of a job that was refused; ``said`` is the batch system's sentence.

    Unless that may pass, this was the last attempt.
    """
    if not _MAY_PASS.search(said):
        job.attempt = job.restart_times + 1
    return f"{REFUSED}{' '.join(said.split())}"

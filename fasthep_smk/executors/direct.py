"""Batch jobs that are our worker's command.

For each job Snakemake's plugins start a Snakemake on the node, on Slurm one in another, which
starts the rule's command: seconds of CPU for nothing that our worker would not do. Where jobs see
the files of this machine, a job of ours is its command alone.
"""

from __future__ import annotations

import shlex
import time
from pathlib import Path
from typing import TYPE_CHECKING

from fasthep_smk.storage import layout

if TYPE_CHECKING:
    from fasthep_smk.util.snakemake_types import SnakemakeJob, Workflow

_STARTS_WITH = ["sh", layout.WORKER]
#: Words of that command before those that name the job: also its log, attempt and threads.
_BEFORE = len(_STARTS_WITH) + 3


def words_of(job: SnakemakeJob) -> list[str] | None:
    """Return the rule of a job of ours and the values of its wildcards; ``None`` for others."""
    words = shlex.split(job.shellcmd or "")
    if words[:2] != _STARTS_WITH or not Path(layout.TASKS, f"{job.rule.name}.json").is_file():
        return None
    return words[_BEFORE:]


def is_alone(job: SnakemakeJob, workflow: Workflow) -> bool:
    """Whether a batch job is our worker's command alone.

    Otherwise only a Snakemake on the node can run it, in a container or environment that it makes,
    as one of several that share a batch job, or since its rule is not ours.
    """
    settings = workflow.deployment_settings
    if job.is_group() or (settings and settings.deployment_method):
        return False
    return words_of(job) is not None


def command_of(job: SnakemakeJob, workflow: Workflow) -> list[str] | None:
    """Return the command of a job on a node, after this machine has made way for what it writes.

    ``None``: it is not our worker's command alone.
    """
    if not is_alone(job, workflow):
        return None
    words = shlex.split(job.shellcmd or "")
    for path in map(Path, [*job.output, *job.log]):
        path.parent.mkdir(parents=True, exist_ok=True)
    if job.attempt == 1:  # as before each attempt in Snakemake; a later one may find its work done
        for path in map(Path, job.output):
            path.unlink(missing_ok=True)
    return [*words[:2], layout.ALONE, f"{time.time():.3f}", *words[2:]]

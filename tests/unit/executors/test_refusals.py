"""A job that the batch system does not take: tried again only where that may help."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from fasthep_smk.executors.refusals import refused


def job(attempt: int = 1) -> Any:
    return SimpleNamespace(attempt=attempt, restart_times=2)


@pytest.mark.parametrize(
    "said",
    [
        "Batch job submission failed: Invalid account or account/partition combination specified",
        "invalid partition specified: nowhere",
        "Batch job submission failed: Requested time limit is invalid (missing or exceeds some"
        " limit)",
        "Batch job submission failed: Requested node configuration is not available",
        "Parse error in expression: Machine ==",
    ],
)
def test_what_is_refused_is_not_tried_again(said: str) -> None:
    """Snakemake tries a job again whose attempt is at most the number of its restarts."""
    it = job()
    assert refused(it, said) == f"could not be submitted: {said}"
    assert it.attempt > it.restart_times


@pytest.mark.parametrize(
    "said",
    [
        "QOSMaxSubmitJobPerUserLimit; Batch job submission failed: Job violates accounting/QOS"
        " policy (job submit limit, user's size and/or time limits)",
        "Slurm temporarily unable to accept job, sleeping and retrying",
        "Number of jobs submitted would exceed MAX_JOBS_PER_OWNER",
        "Batch job submission failed: Socket timed out on send/recv operation",
    ],
)
def test_what_may_pass_is_tried_again(said: str) -> None:
    it = job()
    refused(it, said)
    assert it.attempt == 1

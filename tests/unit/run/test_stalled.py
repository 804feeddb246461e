"""What a run says when nothing ends for a while."""

from __future__ import annotations

from pathlib import Path

from fasthep_smk.config.requests import Attempt, ResourceRequest
from fasthep_smk.config.site import Site
from fasthep_smk.executors.job_events import JobFinished, JobsPlanned, JobStarted, Moved
from fasthep_smk.run.snakemake_output import Reader
from fasthep_smk.run.stalled import reasons
from fasthep_smk.translate.profile import Placement

ATTEMPTS = tuple(Attempt(pool, ResourceRequest()) for pool in ("gpu", "default"))


def test_jobs_are_counted_where_they_are(tmp_path: Path) -> None:
    """Two of three have gone to their fallback, where there is room for two."""
    placement = Placement(Site("local", None), {"gpu": 2, "default": 2}, {"a": ATTEMPTS})
    reader = Reader(None)
    reader.event(JobsPlanned({"a": 8, "all": 1}))
    for number in "1234":
        reader.event(JobStarted(number, "a", [f"smk/work/a/dy/{number}/record.json"]))
    reader.event(Moved("a", ["dy/2", "dy/3"], ["2", "3"], 10, "gpu", "default"))
    reader.event(JobFinished("4"))
    assert reasons(reader, placement, tmp_path) == [
        "0 s without a finished job; running or queued: 1 x a (pool 'gpu'), "
        "2 x a (pool 'default'); 4 more to do",
        "    pool 'default': 2 of 2 workers are busy",
    ]

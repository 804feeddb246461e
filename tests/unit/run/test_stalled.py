"""What a run says when nothing ends for a while."""

from __future__ import annotations

from fasthep_smk.config.requests import Attempt, ResourceRequest
from fasthep_smk.config.site import Site
from fasthep_smk.run.snakemake_output import Progress
from fasthep_smk.run.stalled import reasons
from fasthep_smk.translate.profile import Placement

ATTEMPTS = tuple(Attempt(pool, ResourceRequest()) for pool in ("gpu", "default"))


def test_jobs_are_counted_where_they_are() -> None:
    """Two of three have gone to their fallback, where there is room for two."""
    placement = Placement(Site("local", None), {"gpu": 2, "default": 2}, {"a": ATTEMPTS})
    moved = {("a", "default"): 2}
    assert reasons(Progress({"a": 3}, 4, "run", 60, moved), placement) == [
        "60 s without a finished job; running or queued: 1 x a (pool 'gpu'), "
        "2 x a (pool 'default'); 4 more to do",
        "    pool 'default': 2 of 2 workers are busy",
    ]

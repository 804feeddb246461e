"""What finished jobs took, by their records."""

from pathlib import Path

from fasthep_smk.storage.measured import taken
from tests.support.measured import build_of


def test_each_finished_job_says_what_it_took_and_asked_for(tmp_path: Path) -> None:
    asked = {"pool": "large", "memory": 4, "walltime": 3600}
    build = build_of(tmp_path, [{"asked": asked, "memory": 3, "seconds": 2.5, "events": 70}])
    (job,) = taken(build)
    assert (job.rule, job.scope, job.stages, job.pool) == ("stage_A", "partition", ("A",), "large")
    assert (job.memory, job.seconds, job.events, job.dataset) == (3, 2.5, 70, "dy")
    assert (job.asked_memory, job.asked_time) == (4, 3600)


def test_a_job_says_nothing_that_is_not_done_or_did_only_a_part(tmp_path: Path) -> None:
    build = build_of(tmp_path, [{}, {"signature": "of an earlier edit"}, {}, {"memory": 0}])
    assert len([*taken(build)]) == 2
    part = build / "smk/work/stage_A/0/record.json"
    part.write_text(part.read_text().replace('"results": {}', '"results": {},\n "adopted": ["x"]'))
    assert len([*taken(build)]) == 1
    (build / "smk/work/stage_A/2/record.json").unlink()
    assert [*taken(build)] == []

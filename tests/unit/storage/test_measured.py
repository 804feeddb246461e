"""What finished jobs took, by their records."""

import json
from pathlib import Path

from fasthep_smk.storage import layout
from fasthep_smk.storage.measured import taken
from fasthep_smk.util import files
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
    part.write_text(part.read_text().replace('"results"', '"adopted": ["x"],\n "results"'))
    assert len([*taken(build)]) == 1
    (build / "smk/work/stage_A/2/record.json").unlink()
    assert [*taken(build)] == []


def test_a_job_says_nothing_that_a_modifier_has_measured(tmp_path: Path) -> None:
    build = build_of(tmp_path, [{}, {}])
    path = build / layout.table("stage_A")
    table = json.loads(path.read_text())
    table["jobs"]["1"]["measured"] = True
    path.write_text(json.dumps(table))
    assert len([*taken(build)]) == 1


def test_of_a_whole_file_the_entries_are_those_that_were_counted(tmp_path: Path) -> None:
    """A record says how many events a partition has only if it was cut."""
    build = build_of(tmp_path, [{}])
    path = build / layout.table("stage_A")
    table = json.loads(path.read_text())
    part = {"id": "p", "dataset": "dy", "file": "a.root", "source": "events", "part": "0_0"}
    table["jobs"]["0"] |= {
        "partition": {**part, "start": None, "stop": None},
        "origin": {
            "dataset": "dy", "context": "", "files": ["a.root|10|20"], "entries": "all",
            "branches": {}, "run": "", "before": [], "own": "", "seen": {},
        },
    }  # fmt: skip
    path.write_text(json.dumps(table))
    known = {"a.root|10|20|['events']": {"entries": {"events": 260}, "problem": None}}
    (build / layout.INPUTS).parent.mkdir(parents=True)
    (build / layout.INPUTS).write_text(files.seal({"files": known}))
    assert [one.events for one in taken(build)] == [260]

"""What Snakemake is told of the jobs: a finished one does not wait for what runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from fasthep_smk.plan.rules import Variation
from fasthep_smk.reuse import Reuse
from fasthep_smk.translate.task_tables import table_texts
from fasthep_smk.translate.waits_for import Waits
from tests.unit.plan.test_jobs import SIM, partition, rules_of
from tests.unit.plans import define, graph, histogram, node

#: A chain of two stages, one histogram of each.
PLAN = graph(
    node("source", "events", tree="events", branches=["px"]),
    define("A", "read.events", "px + 1"),
    histogram("HA", "stage.A", "A_x"),
    define("B", "stage.A", "A_x + 1"),
    histogram("HB", "stage.B", "B_x"),
    datasets={"sim": SIM},
)
ALL = ("read_events", "stage_A", "stage_B", "stage_HA", "stage_HB")


STREAMS = (
    "read_events/sim/0_0/read_events.arrow",
    "stage_A/sim/0_0/A.arrow",
    "stage_B/sim/0_0/B.arrow",
)


def inputs(*, done: tuple[str, ...], deleted: tuple[str, ...] = ()) -> dict[str, list[str]]:
    """Return what each stage's job waits for, with some jobs done and some files deleted.

    The end of the run is never done: it reads the records of all.
    """
    rules = rules_of(Variation(None, PLAN, (partition("sim"),)), granularity="stage")
    folders = {job.rule: job.folder for rule in rules.values() for job in rule.jobs.values()}
    reuse = Reuse(
        valid=frozenset(folders[rule] for rule in done),
        deleted=frozenset(f"smk/work/{path}" for path in deleted),
    )
    waits = Waits(rules.values(), reuse)
    texts = table_texts(rules.values(), root=Path("/nowhere"), waits=waits)
    tables: dict[str, Any] = {name: json.loads(text) for name, text in texts.items()}
    jobs = {name: next(iter(tables[name]["jobs"].values())) for name in ALL}
    return {
        name: [path.replace("smk/work/", "").replace("sim/0_0/", "") for path in job["inputs"]]
        for name, job in jobs.items()
    }


def test_a_job_waits_for_what_it_reads() -> None:
    found = inputs(done=())
    assert found["stage_HA"] == ["stage_A/record.json", "stage_A/A.arrow"]
    assert found["stage_B"] == ["stage_A/record.json", "stage_A/A.arrow"]
    assert inputs(done=ALL) == found


def test_when_a_deleted_stream_is_made_again_only_who_needs_it_waits() -> None:
    done = tuple(rule for rule in ALL if rule != "stage_HA")
    found = inputs(done=done, deleted=STREAMS)
    assert found["stage_HA"] == ["stage_A/record.json", "stage_A/A.arrow"]
    assert found["stage_A"] == ["read_events/record.json", "read_events/read_events.arrow"]
    # It is done, and nobody needs its own stream.
    assert found["stage_B"] == ["stage_A/record.json"]
    assert found["stage_HB"] == ["stage_B/record.json", "stage_B/B.arrow"]


def test_a_chain_of_deleted_streams_is_made_again_as_far_as_it_is_needed() -> None:
    done = tuple(rule for rule in ALL if rule != "stage_HB")
    found = inputs(done=done, deleted=STREAMS)
    assert found["stage_B"] == ["stage_A/record.json", "stage_A/A.arrow"]
    assert found["stage_HA"] == ["stage_A/record.json"]


def test_a_finished_job_does_not_wait_for_one_that_never_ran() -> None:
    # Its products were taken over from jobs of another cut.
    assert inputs(done=("stage_HA",))["stage_HA"] == []

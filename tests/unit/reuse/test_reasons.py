"""Why a job runs, in words."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fasthep_smk.plan.jobs import make_rules
from fasthep_smk.plan.partitions import Partition
from fasthep_smk.plan.rules import Job, Rule, Variation, made_of
from fasthep_smk.reuse import ledger
from fasthep_smk.reuse.ledger import Ledger
from fasthep_smk.reuse.reasons import reason
from tests.unit.plans import define, graph, histogram, node, router_for

SOURCE = node("source", "events", tree="events", branches=["px", "py"])


def joined_job(
    *stages: dict[str, Any],
    identity: str = "|10|1|a",
    stop: int | None = None,
    number: int = 0,
    datasets: dict[str, Any] | None = None,
) -> tuple[Rule, Job]:
    """The job of a plan's stages for one file."""
    plan = graph(SOURCE, *stages, datasets=datasets)
    name, part = f"events__sim__{number}", f"{number}_0"
    part = Partition(name, "sim", "sim.root", "events", part, 0, stop, stop is None)
    rules = make_rules(
        [Variation(None, plan, (part,))],
        "auto",
        identity=lambda path: f"{path}{identity}",
        router=router_for(plan),
    )
    (job,) = rules[0].jobs.values()
    return rules[0], job


def why(before: tuple[Rule, Job], now: tuple[Rule, Job], tmp_path: Path) -> str:
    ledger.write(tmp_path, [before[0]], Ledger())
    record = {"signature": before[1].signature, "made_of": made_of(*before)}
    return reason(*now, record, ledger.read(tmp_path), {})


CHAIN = (define("A", "read.events", "px + 1"), histogram("H", "stage.A", "A_x"))


@pytest.mark.parametrize(
    ("now", "said"),
    [
        (
            (define("A", "read.events", "px + 2"), CHAIN[1]),
            "hep.define A: params.variables[0].expr px + 1 → px + 2",
        ),
        (
            (*CHAIN, histogram("H2", "stage.A", "A_x")),
            "H2: new here",
        ),
    ],
)
def test_an_edit_of_the_workflow(now: Any, said: str, tmp_path: Path) -> None:
    assert why(joined_job(*CHAIN), joined_job(*now), tmp_path) == said


@pytest.mark.parametrize(
    ("identity", "said"),
    [
        ("|20|2|b", "input sim.root changed size (10 → 20 bytes)"),
        ("|10|2|b", "input sim.root was written to (another modification time)"),
        ("|10|1|b", "input sim.root has other first bytes than known, with its size and time"),
    ],
)
def test_an_input_file_that_changed(identity: str, said: str, tmp_path: Path) -> None:
    assert why(joined_job(*CHAIN), joined_job(*CHAIN, identity=identity), tmp_path) == said


def test_a_file_that_is_cut_otherwise(tmp_path: Path) -> None:
    said = why(joined_job(*CHAIN), joined_job(*CHAIN, stop=50), tmp_path)
    assert said == "its entries are 0 to 50 instead of all"


def all_datasets(*names: str) -> dict[str, Any]:
    return {name: {"name": name, "files": [f"{name}.root"]} for name in names}


BY_DATASET = node("hist", "D", "stage.A", axes=[{"name": "d", "source": "dataset_name"}])
WRITER = node("writer", "W", "stage.A", path="skim.root", keep=["A_x"])


def test_another_dataset_is_seen_by_a_histogram_with_an_axis_of_datasets(tmp_path: Path) -> None:
    before = joined_job(CHAIN[0], BY_DATASET, datasets=all_datasets("sim"))
    now = joined_job(CHAIN[0], BY_DATASET, datasets=all_datasets("sim", "data"))
    assert before[1].signature != now[1].signature
    assert why(before, now, tmp_path) == "the run's datasets, which D may see: + data"


def test_another_place_in_the_list_of_files_is_seen_by_a_writer(tmp_path: Path) -> None:
    before, now = joined_job(CHAIN[0], WRITER), joined_job(CHAIN[0], WRITER, number=1)
    assert before[1].signature != now[1].signature
    said = "its partition has another name or range, which write.W may see"
    assert why(before, now, tmp_path) == said


def test_neither_is_seen_by_other_operations() -> None:
    before = joined_job(*CHAIN, datasets=all_datasets("sim"))
    more = joined_job(*CHAIN, datasets=all_datasets("sim", "data"))
    elsewhere = joined_job(*CHAIN, datasets=all_datasets("sim"), number=1)
    assert before[1].signature == more[1].signature == elsewhere[1].signature


def test_without_a_ledger_less_is_said() -> None:
    before, now = joined_job(*CHAIN), joined_job(define("A", "read.events", "px + 2"), CHAIN[1])
    record = {"signature": before[1].signature, "made_of": made_of(*before)}
    assert reason(*now, record, Ledger(), {}) == "A: it is another operation than before"

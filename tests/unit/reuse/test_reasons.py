"""Why a job runs, in words."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from fasthep_smk.plan.jobs import make_rules
from fasthep_smk.plan.partitions import Partition
from fasthep_smk.plan.rules import Job, Rule, Variation, made_of
from fasthep_smk.reuse import ledger
from fasthep_smk.reuse.ledger import Ledger
from fasthep_smk.reuse.reasons import reason, renamed
from fasthep_smk.storage.record import Record
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
    ledger.write(tmp_path, [before[0], now[0]], Ledger())
    record = {"signature": before[1].signature, "made_of": made_of(*before)}
    return reason(*now, record, ledger.read(tmp_path), {})


CHAIN = (define("A", "read.events", "px + 1"), histogram("H", "stage.A", "A_x"))
VARIABLES = [{"name": "A_x", "expr": "px + 1"}]
MORE = [{"name": "more", "expr": "px + 2"}]


@pytest.mark.parametrize(
    ("now", "said"),
    [
        (
            (define("A", "read.events", "px + 2"), CHAIN[1]),
            "hep.define A: params.variables['A_x'].expr px + 1 → px + 2",
        ),
        (
            (node("define", "A", "read.events", variables=[*VARIABLES, *MORE]), CHAIN[1]),
            "hep.define A: params.variables: + more",
        ),
        (
            (
                node("define", "B", "read.events", variables=VARIABLES),
                histogram("H", "stage.B", "A_x"),
            ),
            "A is now called B",
        ),
        (
            (*CHAIN, histogram("H2", "stage.A", "A_x")),
            "H2: new in this job",
        ),
    ],
)
def test_an_edit_of_the_workflow(now: Any, said: str, tmp_path: Path) -> None:
    assert why(joined_job(*CHAIN), joined_job(*now), tmp_path) == said


@pytest.mark.parametrize(
    ("identity", "said"),
    [
        ("|20|2|b", "input sim.root has changed: its size, modification time, first bytes"),
        ("|10|2|b", "input sim.root has changed: its modification time, first bytes"),
        ("|10|1|b", "input sim.root has changed: its first bytes"),
    ],
)
def test_an_input_file_that_changed(identity: str, said: str, tmp_path: Path) -> None:
    assert why(joined_job(*CHAIN), joined_job(*CHAIN, identity=identity), tmp_path) == said


def test_a_file_that_is_cut_otherwise(tmp_path: Path) -> None:
    said = why(joined_job(*CHAIN), joined_job(*CHAIN, stop=50), tmp_path)
    assert said == "its entries are [0, 50] instead of all"


def all_datasets(*names: str) -> dict[str, Any]:
    return {name: {"name": name, "files": [f"{name}.root"]} for name in names}


BY_DATASET = node("hist", "D", "stage.A", axes=[{"name": "d", "source": "dataset_name"}])
WRITER = node("writer", "W", "stage.A", path="skim.root", keep=["A_x"])


def test_another_dataset_is_seen_by_a_histogram_with_an_axis_of_datasets(tmp_path: Path) -> None:
    before = joined_job(CHAIN[0], BY_DATASET, datasets=all_datasets("sim"))
    now = joined_job(CHAIN[0], BY_DATASET, datasets=all_datasets("sim", "data"))
    assert before[1].signature != now[1].signature
    assert why(before, now, tmp_path) == "D depends on the list of datasets: + data"


def test_another_place_in_the_list_of_files_is_seen_by_a_writer(tmp_path: Path) -> None:
    before, now = joined_job(CHAIN[0], WRITER), joined_job(CHAIN[0], WRITER, number=1)
    assert before[1].signature != now[1].signature
    said = "write.W depends on the name or range of its partition, which has changed"
    assert why(before, now, tmp_path) == said


def test_neither_is_seen_by_other_operations() -> None:
    before = joined_job(*CHAIN, datasets=all_datasets("sim"))
    more = joined_job(*CHAIN, datasets=all_datasets("sim", "data"))
    elsewhere = joined_job(*CHAIN, datasets=all_datasets("sim"), number=1)
    assert before[1].signature == more[1].signature == elsewhere[1].signature


def test_without_a_ledger_less_is_said() -> None:
    before, now = joined_job(*CHAIN), joined_job(define("A", "read.events", "px + 2"), CHAIN[1])
    record = {"signature": before[1].signature, "made_of": made_of(*before)}
    assert reason(*now, record, Ledger(), {}) == "A or what it reads has changed"


def by_stage(*stages: dict[str, Any]) -> dict[str, Rule]:
    """The rules of a plan's stages for one file, one for each stage."""
    plan, part = graph(SOURCE, *stages), Partition("p", "sim", "sim.root", "events", "0_0")
    rules = make_rules(
        [Variation(None, plan, (part,))],
        "stage",
        identity=lambda path: f"{path}|10|1|a",
        router=router_for(plan),
    )
    return {rule.name: rule for rule in rules}


def run_before(tmp_path: Path, rules: dict[str, Rule]) -> dict[str, Record]:
    """Return the records that the jobs of rules leave, whose contents the ledger knows then."""
    ledger.write(tmp_path, rules.values(), Ledger())
    return {
        name: cast(
            "Record",
            {
                "rule": name,
                "key": job.key,
                "signature": job.signature,
                "made_of": made_of(rule, job),
            },
        )
        for name, rule in rules.items()
        for job in rule.jobs.values()
    }


def test_the_stage_is_named_whose_change_reaches_a_job(tmp_path: Path) -> None:
    records = run_before(tmp_path, by_stage(*CHAIN))
    rules = by_stage(define("A", "read.events", "px + 2"), CHAIN[1])
    known = ledger.write(tmp_path, rules.values(), ledger.read(tmp_path))
    (job,) = rules["stage_H"].jobs.values()
    said = reason(rules["stage_H"], job, records["stage_H"], known, {})
    change = "hep.define A: params.variables['A_x'].expr px + 1 → px + 2"
    assert said == f"its input changed: {change}"
    forgotten = Ledger(
        {
            name: item
            for name, item in known.found.items()
            if item.get("content", {}).get("id") != "stage.A"
        }
    )
    said = reason(rules["stage_H"], job, records["stage_H"], forgotten, {})
    assert said == "its input changed: A or what it reads has changed"


def test_a_stage_with_another_name_has_run_before(tmp_path: Path) -> None:
    records = run_before(tmp_path, by_stage(*CHAIN))
    now = node("define", "B", "read.events", variables=VARIABLES)
    rules = by_stage(now, histogram("H", "stage.B", "A_x"))
    known = ledger.write(tmp_path, rules.values(), ledger.read(tmp_path))
    (job,) = rules["stage_B"].jobs.values()
    before = renamed(rules["stage_B"], job, list(records.values()), known)
    assert before is not None and before == records["stage_A"]
    assert reason(rules["stage_B"], job, before, known, {}) == "A is now called B"
    other = by_stage(define("C", "read.events", "px + 3"))["stage_C"]
    assert renamed(other, *other.jobs.values(), list(records.values()), known) is None


def test_an_axis_is_named_and_not_counted(tmp_path: Path) -> None:
    """FAST-HEP puts that of the datasets before those of the workflow."""
    dataset = {"name": "dataset", "type": "category", "source": "dataset_name", "bins": None}
    axes = [
        [dataset, {"name": "met", "source": "A_x", "bins": {"nbins": bins, "low": 0, "high": 1}}]
        for bins in (10, 20)
    ]
    jobs = [joined_job(CHAIN[0], node("hist", "H", "stage.A", axes=one)) for one in axes]
    assert why(jobs[0], jobs[1], tmp_path) == "hep.hist H: params.axes['met'].bins.nbins 10 → 20"

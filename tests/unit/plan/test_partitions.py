"""How many partitions may be missing, and what a run without them reads and is signed with.

And what is said of a branch that a tree lacks.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
import uproot

from fasthep_smk.config.run_settings import Limit
from fasthep_smk.plan.jobs import make_rules
from fasthep_smk.plan.partitions import (
    Partition,
    Place,
    SourceFacts,
    check_inputs,
    make_partitions,
    missing_entries,
)
from fasthep_smk.plan.rules import Rule, Variation
from fasthep_smk.plan.tasks import Granularity
from fasthep_smk.storage.inputs import Inputs
from fasthep_smk.storage.missing_report import markdown
from tests.unit.plans import define, graph, histogram, node, router_for

SIM = {"name": "sim", "eventtype": "mc", "files": ["s.root"]}
DATA = {"name": "data", "eventtype": "data", "files": ["d.root"]}


@pytest.mark.parametrize(
    ("text", "total", "accepted"),
    [
        ("3", 200, 3),
        ("3", 2, 3),
        ("1%", 200, 2),
        ("1%", 199, 1),
        ("1%", 99, 0),
        ("0.5 %", 1000, 5),
        # In binary fractions it would be 28.999...
        ("29%", 100, 29),
        ("100%", 7, 7),
    ],
)
def test_a_limit_is_a_number_or_a_share_that_is_rounded_down(
    text: str, total: int, accepted: int
) -> None:
    assert Limit.parse(text).of(total) == accepted


def test_a_share_is_said_with_what_it_comes_to() -> None:
    said = Limit.parse("1%").said(250)
    assert said == "--accept-missing 1% accepts 2 of 250 (rounded down)"
    assert Limit.parse("2").said(250) == "--accept-missing 2 accepts 2 of 250"


@pytest.mark.parametrize("text", ["-1", "abc", "", "1.5", "1e2%", "%", "-1%", "nan%", "1,5%"])
def test_other_texts_are_no_limit(text: str) -> None:
    with pytest.raises(ValueError, match="neither a number of partitions nor a percentage"):
        Limit.parse(text)


@pytest.mark.parametrize("text", ["0", "0%", "0.0%", "00"])
def test_to_accept_nothing_there_is_another_option(text: str) -> None:
    with pytest.raises(ValueError, match="use --keep-going"):
        Limit.parse(text)


def test_more_than_everything_cannot_be_missing() -> None:
    with pytest.raises(ValueError, match="more than all partitions"):
        Limit.parse("150%")


def test_a_report_can_hold_any_text() -> None:
    one = Partition("id", "data", "a|b.root", "events", "0_0", 10, 20)
    text = markdown(missing_entries([one], {("data", "0_0"): "no | such \\ branch"}), 4)
    assert "All results of this run lack 1 of 4 partitions" in text
    assert text.splitlines()[-1] == (
        r"| data | a\|b.root | entries 10 to 20 | no \| such \\ branch |"
    )


def partition(dataset: str, part: str) -> Partition:
    return Partition(f"events__{dataset}__{part}", dataset, f"{dataset}.root", "events", part)


PARTITIONS = (partition("data", "0_0"), partition("sim", "0_0"), partition("sim", "1_0"))


def rules_without(
    *left_out: tuple[str, str], granularity: Granularity = "auto", varied: bool = False
) -> dict[str, Rule]:
    plan = graph(
        node("source", "events", tree="events", branches=["px"]),
        define("A", "read.events", "px"),
        histogram("H", "stage.A", "A_x"),
        datasets={"data": DATA, "sim": SIM},
    )
    names = ["nominal", "up"] if varied else [None]
    rules = make_rules(
        [Variation(name, plan, PARTITIONS) for name in names],
        granularity,
        identity=str,
        router=router_for(plan),
        without=dict.fromkeys(left_out, "it failed"),
    )
    return {rule.name: rule for rule in rules}


def signatures(rules: dict[str, Rule], name: str) -> dict[str, str]:
    return {key: job.signature for key, job in rules[name].jobs.items()}


def test_what_is_left_out_has_its_job_but_nothing_reads_it() -> None:
    rules = rules_without(("sim", "1_0"))
    assert list(rules["stages_A_to_H"].jobs) == ["data/0_0", "sim/0_0", "sim/1_0"]
    (finish,) = rules["finish"].jobs.values()
    assert [read.folder for read in finish.reads] == [
        "smk/work/stages_A_to_H/data/0_0",
        "smk/work/stages_A_to_H/sim/0_0",
    ]
    assert [part["id"] for part in finish.missing] == ["events__sim__1_0"]


def test_jobs_of_partitions_do_not_know_what_is_left_out() -> None:
    name = "stages_A_to_H"
    assert signatures(rules_without(("sim", "1_0")), name) == signatures(rules_without(), name)


def test_a_complete_end_of_a_run_and_one_without_partitions_are_signed_differently() -> None:
    found = [
        signatures(rules_without(*left_out), "finish")[""]
        for left_out in ([], [("sim", "1_0")], [("sim", "0_0")], [("sim", "0_0"), ("sim", "1_0")])
    ]
    assert len(set(found)) == 4


def test_only_the_dataset_that_lacks_something_is_merged_again() -> None:
    complete = rules_without(granularity="stage")
    reduced = rules_without(("sim", "1_0"), granularity="stage")
    before, after = signatures(complete, "merge"), signatures(reduced, "merge")
    assert after["data"] == before["data"]
    assert after["sim"] != before["sim"]
    assert signatures(reduced, "finish") != signatures(complete, "finish")


def test_all_variations_go_without_it_and_what_they_publish_too() -> None:
    complete, reduced = rules_without(varied=True), rules_without(("data", "0_0"), varied=True)
    for job in reduced["finish"].jobs.values():
        assert [part["id"] for part in job.missing] == ["events__data__0_0"]
    assert signatures(reduced, "publish") != signatures(complete, "publish")


def test_a_file_that_is_missing_is_not_a_file_that_was_never_listed() -> None:
    """Else the summary of the first would do for the second, and call it incomplete."""
    plan = graph(node("source", "events", tree="events"), define("A", "read.events", "px"))

    def finish(*parts: Partition, without: Mapping[Place, str]) -> str:
        variations, router = [Variation(None, plan, parts)], router_for(plan)
        rules = make_rules(variations, "auto", identity=str, router=router, without=without)
        return rules[-1].jobs[""].signature

    first, second = partition("sim", "0_0"), partition("sim", "1_0")
    assert finish(first, second, without={("sim", "1_0"): ""}) != finish(first, without={})


def test_of_several_sources_the_one_is_named_that_has_a_branch(tmp_path: Path) -> None:
    with uproot.recreate(tmp_path / "a.root") as out:
        out.mktree("events", {"pt": np.zeros(2)})
        out.mktree("runs", {"run": np.zeros(1)})
    sources = [
        SourceFacts(f"my {tree}", tree, True, ("pt", "px"), {}, False, None, None)
        for tree in ("events", "runs")
    ]
    inputs = Inputs(tmp_path, tmp_path / "known.json")
    _, lacks, _ = check_inputs(sources, {"dy": {"files": ["a.root"]}}, inputs)
    assert [(one.branch, one.source, one.other) for one in lacks] == [
        ("px", "my events", None),
        ("pt", "my runs", "my events"),
        ("px", "my runs", None),
    ]


@pytest.mark.parametrize(
    ("bounds", "ranges"),
    [
        ([(None, None)], [(0, 50), (50, 100), (100, 150), (150, 200)]),
        ([(20, 90)], [(20, 70), (70, 90)]),
        ([(20, 90), (20, 90)], [(20, 70), (70, 90)]),
        # Each source reads its own entries of the whole file.
        ([(None, None), (None, 50)], [(None, None)]),
        ([(None, -30)], [(None, None)]),
        ([(-30, None)], [(None, None)]),
    ],
)
def test_a_file_is_cut_where_all_sources_read_the_same_entries(
    tmp_path: Path, bounds: list[tuple[int | None, int | None]], ranges: list[tuple[int, int]]
) -> None:
    path = tmp_path / "events.root"
    with uproot.recreate(path) as file:
        file["Events"] = {"MET": np.arange(200.0)}
    sources = [
        SourceFacts(f"s{number}", "Events", True, ("MET",), {}, False, start, stop)
        for number, (start, stop) in enumerate(bounds)
    ]
    inputs, datasets = Inputs(tmp_path, tmp_path / "known.json"), {"sim": {"files": [str(path)]}}
    made = make_partitions(sources, datasets, chunk_size=50, inputs=inputs)
    assert [(one.start, one.stop) for one in made] == ranges

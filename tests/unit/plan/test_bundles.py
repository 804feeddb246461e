"""How partitions are bundled: by what they take and how many there are."""

from __future__ import annotations

import math
from collections import Counter

import pytest

from fasthep_smk.config.requests import Route
from fasthep_smk.plan.bundles import MOST_JOBS, BundleSize, bundle
from fasthep_smk.plan.partitions import Partition
from fasthep_smk.plan.rules import NOMINAL, Job, Rule


def rule(name: str, events: int | None = None, **datasets: int) -> Rule:
    """A rule with so many partitions of each dataset."""
    found = Rule(name, "partition", (), Route(()), ("dataset", "part"))
    for dataset, count in datasets.items():
        for number in range(count):
            start, stop = (None, None) if events is None else (0, events)
            part = Partition(f"{dataset}{number}", dataset, "f", "s", str(number), start, stop)
            place = {"dataset": dataset, "part": str(number)}
            job = Job(name, place, "nominal", dataset, part, (), (), (), f"{dataset}{number}")
            found.jobs[job.key] = job
    return found


def varied(*variations: str, parts: int) -> Rule:
    """A rule with so many partitions of one dataset in each variation."""
    found = Rule("a", "partition", (), Route(()), ("variation", "dataset", "part"))
    for variation in variations:
        for number in range(parts):
            part = Partition(f"data{number}", "data", "f", "s", str(number), 0, 1)
            place = {"variation": variation, "dataset": "data", "part": str(number)}
            job = Job("a", place, variation, "data", part, (), (), (), f"{variation}{number}")
            found.jobs[job.key] = job
    return found


def sizes(one: Rule) -> list[int]:
    return [len(item.jobs) for item in one.bundles.values()]


def bundled(*rules: Rule, wanted: BundleSize = "auto", **more: object) -> list[list[int]]:
    bundle(rules, wanted, **more)  # type: ignore[arg-type]
    return [sizes(one) for one in rules]


def test_a_few_partitions_have_a_job_each() -> None:
    assert bundled(rule("a", 1000, data=20, dy=11)) == [[]]


def test_many_small_partitions_share_jobs_and_leave_enough_of_them() -> None:
    [found] = bundled(rule("a", 1000, data=320))
    assert found == [10] * 32


def test_as_many_as_take_some_seconds_by_earlier_runs() -> None:
    [found] = bundled(rule("a", 1000, data=3200), seconds=lambda _: [0.9, 1.0, 7.0])
    assert found == [5] * 640


@pytest.mark.parametrize(
    ("seconds", "at_once", "size"),
    [
        (1.0, 2, 5),  # as if nobody had asked
        (1.0, 64, 1),  # 162 jobs for 64 cores
        (1.0, 20, 2),
        (0.1, 64, 5),  # shorter ones would be tiny
        (0.01, 64, 5),  # 32 jobs are left, however short they are
    ],
)
def test_all_that_can_run_at_once_have_work_until_the_end(
    seconds: float, at_once: int, size: int
) -> None:
    [found] = bundled(
        rule("a", 1000, data=162), seconds=lambda _: [seconds], at_once=lambda _: at_once
    )
    assert max(found, default=1) == size


@pytest.mark.parametrize(
    ("parts", "seconds", "size"),
    [
        (11, 0.05, 1),  # three for each of two cores, and as many again, are too few to share
        (16, 0.05, 2),  # eight jobs for two cores
        (60, 0.05, 10),  # six
        (60, 0.4, 2),  # bundles of a second are long enough
        (60, 0.8, 1),
        (640, 0.05, 20),  # 32 jobs are left where that leaves a second to each
    ],
)
def test_few_short_ones_leave_three_for_each_core(parts: int, seconds: float, size: int) -> None:
    [found] = bundled(rule("a", 1000, data=parts), seconds=lambda _: [seconds], at_once=lambda _: 2)
    assert max(found, default=1) == size


@pytest.mark.parametrize("events", [None, 5_000_000])
def test_long_ones_and_those_that_nobody_knows_are_left_alone(events: int | None) -> None:
    assert bundled(rule("a", events, data=400)) == [[]]


def test_whole_files_are_as_long_as_their_events() -> None:
    """No chunk size was given: a partition is a file, of which the plan does not say how long."""
    assert bundled(rule("a", None, data=320), events=lambda _: 1000) == [[10] * 32]
    assert bundled(rule("a", None, data=320), events=lambda _: 5_000_000) == [[]]
    files = bundled(rule("a", None, data=320), events=lambda one: None if one.part == "7" else 1000)
    assert files == [[]]


def test_neighbours_of_one_dataset_share_a_job() -> None:
    one = rule("a", data=3, dy=2)
    bundle([one], 2)
    assert {key: item.jobs for key, item in one.bundles.items()} == {
        "data/bundle_0": ("data/0", "data/1"),
        "data/bundle_1": ("data/2",),
        "dy/bundle_0": ("dy/0", "dy/1"),
    }


def test_the_variations_of_a_partition_are_neighbours() -> None:
    one = varied("up", "down", parts=3)
    bundle([one], 4)
    assert {key: item.jobs for key, item in one.bundles.items()} == {
        "data/bundle_0": ("up/data/0", "down/data/0", "up/data/1", "down/data/1"),
        "data/bundle_1": ("up/data/2", "down/data/2"),
    }
    assert one.named_by == ("dataset", "bundle")


def test_a_variation_that_fails_does_not_keep_back_the_nominal_plan() -> None:
    one = varied(NOMINAL, "up", parts=2)
    bundle([one], 10)
    assert [item.jobs for item in one.bundles.values()] == [
        ("nominal/data/0", "nominal/data/1"),
        ("up/data/0", "up/data/1"),
    ]


def test_there_are_not_too_many_jobs() -> None:
    rules = [rule("a", 5_000_000, data=9990, dy=10), rule("b", None, data=9990, dy=10)]
    found = bundled(*rules)
    assert 0.8 * MOST_JOBS < sum(map(len, found)) <= MOST_JOBS
    assert all(Counter(one).most_common(1)[0][1] > 0.9 * len(one) for one in found)
    assert "there would be 20000 jobs" in rules[0].bundled


def test_many_datasets_cannot_be_fewer_jobs_than_datasets() -> None:
    names = {f"d{number}": 2 for number in range(4000)}
    [found] = bundled(rule("a", None, **names))
    assert found == [2] * 4000


def test_one_that_is_left_out_keeps_no_other_from_being_done() -> None:
    one = rule("a", data=5)
    bundle([one], 2, without={("data", "1")})
    assert [item.jobs for item in one.bundles.values()] == [
        ("data/0", "data/2"),
        ("data/3", "data/4"),
        ("data/1",),
    ]


def test_what_the_batch_system_joins_is_left_to_it() -> None:
    assert bundled(rule("a", data=4), rule("b", data=4), wanted=4, apart={"a"}) == [[], [4]]


def test_a_number_that_was_asked_for() -> None:
    one = rule("a", data=10)
    bundle([one], 3)
    assert len(one.bundles) == math.ceil(10 / 3)
    assert one.bundled == "3 jobs per bundle: as requested"

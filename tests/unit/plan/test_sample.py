"""Which partitions a first look runs."""

from __future__ import annotations

import pytest

from fasthep_smk.config.run_settings import Sample
from fasthep_smk.plan.partitions import Partition
from fasthep_smk.plan.rules import Variation
from fasthep_smk.plan.sample import sampled
from fasthep_smk.util.errors import WrongArgument
from tests.unit.plans import graph, node


def variation(**datasets: int) -> Variation:
    """A plan with so many partitions of each dataset, of 10 events each."""
    partitions = tuple(
        Partition(f"{name}_{n}", name, f"{name}.root", "events", f"0_{n}", 10 * n, 10 * n + 10)
        for name, count in datasets.items()
        for n in range(count)
    )
    return Variation(None, graph(node("source", "events", tree="events", branches=[])), partitions)


def chosen(sample: Sample, **datasets: int) -> list[str]:
    """Return the partitions that are run: ``data/3``."""
    item = variation(**datasets)
    found = sampled([item], sample, lambda one: (one.stop or 0) - (one.start or 0))
    left_out = found.left_out if found else frozenset()
    assert found is None or found.total - found.partitions == len(left_out)
    return [
        f"{one.dataset}/{one.part[2:]}"
        for one in item.partitions
        if (one.dataset, one.part) not in left_out
    ]


def test_some_of_every_dataset_are_run_and_at_least_one() -> None:
    found = chosen(Sample.of_share("25%"), data=8, dy=1, ttbar=5)
    assert found == ["data/0", "data/4", "dy/0", "ttbar/0", "ttbar/4"]


def test_a_larger_sample_holds_a_smaller_one() -> None:
    few, more = (set(chosen(Sample.of_share(share), data=50)) for share in ("10%", "30%"))
    assert len(few) == 5
    assert few < more


def test_partitions_are_chosen_by_their_numbers_and_the_first_of_other_datasets() -> None:
    found = chosen(Sample.of_ranges("data:2-3,data:5"), data=5, dy=2)
    assert found == ["data/1", "data/2", "data/4", "dy/0"]


def test_so_many_events_are_shared_out_by_the_events_of_datasets() -> None:
    found = chosen(Sample(option="--events 50", events=50), data=16, dy=4)
    assert len(found) == 5
    assert sum(one.startswith("data") for one in found) == 4


def test_the_whole_is_no_sample() -> None:
    assert sampled([variation(data=3)], Sample.of_share("100%"), lambda _: None) is None


@pytest.mark.parametrize(
    ("sample", "message"),
    [
        (Sample.of_ranges("dta:1"), "did you mean 'data'?"),
        (Sample.of_ranges("data:1-4"), "expected: 1 to 3"),
        (Sample(option="--events 9", events=9), "the number of events in data.root is not known"),
    ],
)
def test_what_is_not_there_is_refused(sample: Sample, message: str) -> None:
    with pytest.raises(WrongArgument, match=message.replace("?", r"\\?")):
        sampled([variation(data=3)], sample, lambda _: None)


@pytest.mark.parametrize("text", ["1", "0%", "101%", "some"])
def test_a_share_is_a_percentage(text: str) -> None:
    with pytest.raises(ValueError, match="such as 1%"):
        Sample.of_share(text)


@pytest.mark.parametrize("text", ["data", "data:0", "data:3-1", "data:1,", ":1"])
def test_partitions_are_named_by_dataset_and_numbers(text: str) -> None:
    with pytest.raises(ValueError, match="such as data:1-3"):
        Sample.of_ranges(text)

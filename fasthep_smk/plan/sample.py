"""Which partitions a first look runs: some of every dataset, the same whenever it is asked for.

They are partitions of the whole run, with its signatures. Of a dataset those are taken that lie far
apart, in an order in which a larger sample holds a smaller one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from fasthep_smk.config.run_settings import Sample
from fasthep_smk.flow.records import SampleFacts
from fasthep_smk.plan.partitions import Partition, Place
from fasthep_smk.plan.rules import Rule, Variation
from fasthep_smk.util.errors import WrongArgument, not_among


@dataclass(frozen=True)
class Sampled:
    """What of a run a sample is: ``partitions`` of ``total``, all but those ``left_out``.

    ``asked`` is the option by which it was asked for.
    """

    asked: str
    partitions: int
    total: int
    left_out: frozenset[Place]

    def unneeded(self, rules: Iterable[Rule]) -> set[str]:
        """Return the folders of the jobs that it leaves out."""
        return {
            job.folder
            for rule in rules
            for job in rule.jobs.values()
            if job.partition and job.partition.place in self.left_out
        }

    def as_data(self) -> SampleFacts:
        """Return it as manifests and tables say it."""
        return {"asked": self.asked, "partitions": self.partitions, "total": self.total}


def sampled(
    variations: Iterable[Variation],
    wanted: Sample,
    events: Callable[[Partition], int | None],
) -> Sampled | None:
    """Return what a sample leaves out; ``None`` if that is nothing.

    ``events`` tells how many events a partition has, ``None`` if that is not known.

    Raises:
        WrongArgument: a dataset or a partition is wanted that there is not, or a number of events
            where it is not known how many the partitions have.
    """
    by_place = {part.place: part for item in variations for part in item.partitions}
    by_dataset: dict[str, list[Partition]] = {}
    for partition in by_place.values():
        by_dataset.setdefault(partition.dataset, []).append(partition)
    chosen = {partition.place for partition in _chosen(by_dataset, wanted, events)}
    left_out = frozenset(by_place.keys() - chosen)
    if not left_out:
        return None
    return Sampled(wanted.option, len(chosen), len(by_place), left_out)


def _chosen(
    by_dataset: dict[str, list[Partition]],
    wanted: Sample,
    events: Callable[[Partition], int | None],
) -> Iterable[Partition]:
    if wanted.ranges:
        yield from _listed(by_dataset, wanted)
        return
    if wanted.share is not None:
        for partitions in by_dataset.values():
            yield from _spread(partitions)[: max(1, math.ceil(wanted.share * len(partitions)))]
        return
    counts = {
        name: [_counted(partition, wanted, events) for partition in _spread(group)]
        for name, group in by_dataset.items()
    }
    total = sum(map(sum, counts.values()))
    for dataset, partitions in by_dataset.items():
        share, chosen = wanted.events * sum(counts[dataset]) / total if total else 0, 0
        for place, partition in enumerate(_spread(partitions)):
            if place and chosen >= share:
                break
            chosen += counts[dataset][place]
            yield partition


def _listed(by_dataset: dict[str, list[Partition]], wanted: Sample) -> Iterable[Partition]:
    """Yield the partitions that are named by their numbers, and the first of any other dataset."""
    for dataset in wanted.ranges:
        if dataset not in by_dataset:
            problem = "the workflow has no such dataset"
            raise WrongArgument(
                [not_among(dataset, by_dataset, problem=problem, file=None, key="--partitions")]
            )
    for dataset, partitions in by_dataset.items():
        for first, last in wanted.ranges.get(dataset, ((1, 1),)):
            if last > len(partitions):
                raise WrongArgument.one(
                    f"dataset {dataset!r} has no such partition",
                    key="--partitions",
                    value=str(last),
                    expected=f"1 to {len(partitions)}",
                )
            yield from partitions[first - 1 : last]


def _counted(
    partition: Partition, wanted: Sample, events: Callable[[Partition], int | None]
) -> int:
    if (number := events(partition)) is None:
        raise WrongArgument.one(
            f"the number of events in {partition.file} is not known",
            key=wanted.option,
            expected="--sample or --partitions",
        )
    return number


def _spread(partitions: Sequence[Partition]) -> list[Partition]:
    """Return partitions in the order of their numbers read backwards, in binary digits."""
    digits = max(1, (len(partitions) - 1).bit_length())
    order = sorted(range(len(partitions)), key=lambda number: f"{number:0{digits}b}"[::-1])
    return [partitions[number] for number in order]

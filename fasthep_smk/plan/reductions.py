"""The jobs after the partitions: reduce a dataset, finish a variation, publish what all share."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from fasthep_smk.flow.shapes import Key
from fasthep_smk.plan.job_builder import NO_DATASET, Book, Work
from fasthep_smk.plan.partitions import Partition
from fasthep_smk.plan.plot_signatures import end_values
from fasthep_smk.plan.product_keys import dataset_names, late_keys, stream_keys_for, united_live
from fasthep_smk.plan.rules import Job, Rule, Variation
from fasthep_smk.plan.signatures import node_content
from fasthep_smk.storage.task_table import Read
from fasthep_smk.util.files import digest_of
from fasthep_smk.util.names import encode

if TYPE_CHECKING:
    from fasthep_smk.plan.sample import Sampled


#: As many processes draw plots at most: with more of them, starting takes longer than drawing.
_PROCESSES = 8


def reduction_rules(
    book: Book,
    without: frozenset[tuple[str, str]],
    sample: Sampled | None = None,
    exports: tuple[str, ...] = (),
) -> list[Rule]:
    """Return the rules after the partitions; those in ``without`` are not reduced.

    Nor are those that a ``sample`` leaves out.

    ``exports`` are the formats that histograms are written in besides FAST-HEP's own.
    """
    reductions = _Reductions(book, without, sample, exports)
    rules = [reductions.merge_rule()] if book.merges else []
    rules.append(reductions.finish_rule())
    return [*rules, reductions.publish_rule()] if book.varied else rules


class _Reductions:
    def __init__(
        self,
        book: Book,
        without: frozenset[tuple[str, str]],
        sample: Sampled | None,
        exports: tuple[str, ...],
    ) -> None:
        self._book = book
        self._exports = exports
        self._sample = sample
        self._without = without | (sample.left_out if sample else frozenset())

    def merge_rule(self) -> Rule:
        rule = self._book.rule("merge", "merge", ("dataset",), archive=True)
        rule.stages = ("histograms, cutflows and other products",)
        for item in self._book.variations:
            for name in dataset_names(item):
                dataset = item.dataset(name)
                nodes = tuple(
                    node.id
                    for node in item.graph.nodes.values()
                    if node.scope == "dataset" and item.graph.active(node.id, dataset)
                )
                rule.stages = tuple(dict.fromkeys([*rule.stages, *nodes]))
                self._book.send(rule, item, nodes, "the work at the end of a dataset")
                reads = self._partition_reads(item, name, late_keys(item, name))
                side = self._book.folder_of.get(("side_products", item.label))
                if side:
                    reads = (Read(side, ()), *reads)
                signature = digest_of(
                    [
                        self._book.digests(item, nodes, name),
                        self._book.context(item, name),
                        [item.dataset(name), self._book.names(item)] if nodes else None,
                        self._before(item),
                        self._values(item, name),
                        # Where the files of a variation go depends on its name.
                        item.name if nodes else None,
                        self._contents(item, "dataset"),
                        # What is left for the end of the run, besides the reduced products.
                        [list(key) for key in stream_keys_for(item, "final")],
                        *self._said_of_sample(item, name),
                    ]
                )
                work = Work(
                    dataset=name,
                    nodes=nodes,
                    reads=reads,
                    files=(),
                    signature=signature,
                    is_sample=bool(self._said_of_sample(item, name)),
                )
                self._book.add(rule, item, (name,), work)
        for item in self._book.variations:
            for key in stream_keys_for(item, "final"):
                rule.streams[key] = f"{encode(key[0].replace('.', '_'))}-{encode(key[1])}.arrow"
                rule.live[key] = united_live(
                    rule.live.get(key, ()), self._book.live[item.label], key
                )
        return rule

    def finish_rule(self) -> Rule:
        rule = self._book.rule("finish", "finish", (), archive=self._book.varied)
        for item in self._book.variations:
            nodes = tuple(node.id for node in item.graph.nodes.values() if node.scope == "final")
            rule.stages = tuple(dict.fromkeys([*rule.stages, *nodes]))
            self._book.send(rule, item, nodes, "the work at the end of the run")
            reads: list[Read] = []
            side = self._book.folder_of.get(("side_products", item.label))
            if side:
                reads.append(Read(side, ()))
            names = dataset_names(item)
            for name in names:
                if self._book.merges:
                    folder = self._book.folder_of[("merge", item.label, name)]
                    reads.append(Read(folder, tuple(late_keys(item, name))))
                else:
                    reads.extend(self._partition_reads(item, name, late_keys(item, name)))
            if not names:
                late = set(late_keys(item, None))
                reads.extend(self._reads_at(item, (NO_DATASET, NO_DATASET), late))
            plan = item.graph.plan
            missing = tuple(
                partition for partition in item.partitions if self._is_left_out(partition)
            )
            values = self._end_values(item, missing)
            if not self._book.varied:  # several ends of a run keep all cores busy
                rule.processes = max(1, min(_PROCESSES, len(values)))
            signature = digest_of(
                [
                    self._book.digests(item, nodes),
                    self._before(item),
                    [[name, self._values(item, name)] for name in names or (None,)],
                    [plan.reports, item.graph.reporting, self._book.context(item, None)],
                    [item.graph.plan.context.get("datasets"), self._book.names(item)],
                    item.name,
                    self._contents(item, "dataset", "final"),
                    # The summary lists them: a run that knows nothing of them is another one.
                    *([["without", [partition.id for partition in missing]]] if missing else []),
                    *([["export", *self._exports]] if self._exports else []),
                    *self._said_of_sample(item, None),
                ]
            )
            work = Work(
                nodes=nodes,
                reads=tuple(reads),
                files=(),
                signature=signature,
                missing=missing,
                is_sample=self._sample is not None,
                values=values,
            )
            self._book.add(rule, item, (), work)
        return rule

    def publish_rule(self) -> Rule:
        rule = Rule("publish", "publish", (), self._book.router.route([]), ())
        finished = [self._book.folder_of[("finish", item.label)] for item in self._book.variations]
        first = self._book.variations[0]
        rule.jobs[""] = Job(
            rule="publish",
            wildcards={},
            variation=first.label,
            dataset=None,
            partition=None,
            nodes=(),
            reads=tuple(Read(folder, ()) for folder in finished),
            files=(),
            signature=digest_of([self._book.signatures[folder] for folder in finished]),
        )
        return rule

    def _partition_reads(
        self, item: Variation, dataset: str, keys: Iterable[Key]
    ) -> tuple[Read, ...]:
        """Return what is reduced of a dataset, partition by partition in plan order."""
        late = set(keys)
        return tuple(
            read
            for partition in item.partitions
            if partition.dataset == dataset and not self._is_left_out(partition)
            for read in self._reads_at(item, (dataset, partition.part), late)
        )

    def _end_values(self, item: Variation, missing: tuple[Partition, ...]) -> dict[str, str]:
        """Return the signatures of what single nodes at the end of the run make."""
        names = dataset_names(item) or (None,)
        places = {name: self._places(item, name) for name in names}

        def reduced(node: str) -> list[object]:
            return [
                [
                    name,
                    [
                        [self._book.values.get((item.label, at, part), {}).get(node), label]
                        for at, part, label in places[name]
                    ],
                ]
                for name in names
            ]

        around = [
            self._before(item),
            self._book.context(item, None),
            item.graph.plan.context.get("datasets"),
            self._book.names(item),
            item.name,
            [partition.id for partition in missing],
            *self._said_of_sample(item, None),
        ]
        return end_values(item.graph, self._book.static[item.label], reduced, around)

    def _said_of_sample(self, item: Variation, dataset: str | None) -> list[list[str]]:
        """Return what sets apart the reduction of a sample of a dataset, or of the whole run."""
        if self._sample is None:
            return []
        left_out = self._sample.left_out
        lacks = any(
            (partition.dataset, partition.part) in left_out
            for partition in item.partitions
            if dataset in (None, partition.dataset)
        )
        return [["sample", self._sample.asked]] if lacks else []

    def _before(self, item: Variation) -> str | None:
        """Return the signature of what ran before the partitions."""
        side = self._book.folder_of.get(("side_products", item.label))
        return self._book.signatures[side] if side else None

    def _values(self, item: Variation, dataset: str | None) -> list[object]:
        """Return the signatures of all values of a dataset's partitions.

        They are the same however nodes are joined into jobs, and so are the results.
        """
        return [
            [name, sorted(self._book.values.get((item.label, at, part), {}).items())]
            for at, part, name in self._places(item, dataset)
        ]

    def _places(self, item: Variation, dataset: str | None) -> list[tuple[str, str, str]]:
        """Return dataset, part and name of each partition that is reduced, in plan order."""
        if dataset is None:
            return [(NO_DATASET, NO_DATASET, "")]
        return [
            (partition.dataset, partition.part, partition.id)
            for partition in item.partitions
            if partition.dataset == dataset and not self._is_left_out(partition)
        ]

    def _is_left_out(self, partition: Partition) -> bool:
        return (partition.dataset, partition.part) in self._without

    def _reads_at(self, item: Variation, place: tuple[str, ...], late: set[Key]) -> Iterator[Read]:
        """Yield what is reduced of one partition: of each task that ran for it, in order."""
        for task in self._book.tasks:
            folder = self._book.folder_of.get((task.name, item.label, *place))
            if folder is not None:
                yield Read(folder, tuple(sorted(key for key in late if key[0] in task.nodes)))

    def _contents(self, item: Variation, *scopes: str) -> list[str]:
        """Return what the nodes of these scopes do, and those whose products are reduced."""
        return [
            digest_of(node_content(node))
            for node in item.graph.nodes.values()
            if (node.retained and node.scope == "partition") or node.scope in scopes
        ]

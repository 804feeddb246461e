"""Tasks times partitions: every job with what it reads, writes and is signed with.

Jobs come in five kinds, in the order in which they run:

========== =========================== ====================================================
scope      once per                    does
========== =========================== ====================================================
side       variation                   global side products (schemas, comparisons)
partition  task, dataset and partition runs the task's nodes
merge      dataset                     reduces partitions, runs writers with ``when: dataset``
finish     variation                   reduces datasets, makes products, plots and reports
publish    run, with variations only   writes the manifests that all variations share
========== =========================== ====================================================
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from fasthep_smk.config.routing import Router
from fasthep_smk.config.run_settings import Granularity
from fasthep_smk.flow.graph import Ref
from fasthep_smk.flow.shapes import Key
from fasthep_smk.plan.job_builder import NO_DATASET, Book, Work
from fasthep_smk.plan.partitions import Partition
from fasthep_smk.plan.product_keys import consumers_after_bypass, ports, united_live
from fasthep_smk.plan.reductions import reduction_rules
from fasthep_smk.plan.rules import Rule, Variation
from fasthep_smk.plan.signatures import Origin, Origins, value_signature
from fasthep_smk.plan.tasks import Task
from fasthep_smk.plan.wiring import wiring
from fasthep_smk.storage import layout
from fasthep_smk.storage.task_table import Read
from fasthep_smk.util.files import digest_of

if TYPE_CHECKING:
    from fasthep_smk.flow.shapes import Dataset
    from fasthep_smk.plan.sample import Sampled


def make_rules(
    variations: list[Variation],
    granularity: Granularity,
    *,
    identity: Callable[[str], str],
    router: Router,
    without: frozenset[tuple[str, str]] = frozenset(),
    sample: Sampled | None = None,
    exports: Iterable[str] = (),
) -> list[Rule]:
    """Return the rules of a workflow with all their jobs.

    ``identity`` returns what makes an input file the same file. ``without`` are partitions (dataset
    and part) that are not reduced, nor are those that a ``sample`` leaves out; they have their
    jobs, which nothing needs. ``exports`` are the
    formats that histograms are written in at the end.
    """
    book = Book(variations, granularity, identity, router)
    partitions = _Partitions(book)
    rules = [partitions.side_rule(), *map(partitions.partition_rule, book.tasks)]
    rules += reduction_rules(book, without, sample, tuple(exports))
    return [rule for rule in rules if rule.jobs]


class _Partitions:
    def __init__(self, book: Book) -> None:
        self._book = book
        self._task_of = {node: task for task in book.tasks for node in task.nodes}
        self._consumers = {item.label: consumers_after_bypass(item) for item in book.variations}
        self._origins: dict[tuple[str, Partition | None], Origin] = {}
        self._of_plan = {item.label: Origins(item.graph, book.closed) for item in book.variations}

    # --- global side products -----------------------------------------------------------------

    def _side_nodes(self, item: Variation) -> tuple[str, ...]:
        return tuple(node.id for node in item.graph.nodes.values() if node.scope == "global")

    def side_rule(self) -> Rule:
        rule = self._book.rule("side_products", "side", (), archive=True)
        for item in self._book.variations:
            nodes = self._side_nodes(item)
            if not nodes:
                continue
            rule.stages = tuple(dict.fromkeys([*rule.stages, *nodes]))
            self._book.send(rule, item, nodes, "the work before the partitions")
            rule.keeps = tuple(
                dict.fromkeys([*rule.keeps, *((n, p) for n in nodes for p in ports(item, n))])
            )
            files = tuple(self._book.all_files(item))
            signature = digest_of(
                [
                    self._book.digests(item, nodes),
                    self._book.context(item, None),
                    self._book.names(item),
                    self._book.identities(files),
                ]
            )
            work = Work(nodes=nodes, reads=(), files=files, signature=signature)
            self._book.add(rule, item, (), work)
        return rule

    # --- partitions ---------------------------------------------------------------------------

    def partition_rule(self, task: Task) -> Rule:
        rule = self._book.rule(task.name, "partition", ("dataset", "part"))
        rule.stages, rule.route = task.stages, task.route
        for item in self._book.variations:
            self._declare_products(rule, task, item)
        for item in self._book.variations:
            for partition in item.partitions or (None,):
                self._partition_job(rule, task, item, partition)
        return rule

    def _declare_products(self, rule: Rule, task: Task, item: Variation) -> None:
        """Note which products of a task are read by another task or after the partitions."""
        graph = item.graph
        leaving: set[Key] = set()
        for key, consumers in self._consumers[item.label].items():
            if key[0] in task.nodes and any(name not in task.nodes for name in consumers):
                leaving.add(key)
        for node_id in task.nodes:
            node = graph.nodes.get(node_id)
            if node is not None:
                leaving.update((node_id, port) for port in node.retained)
        for key in [(n, p) for n in task.nodes for p in ports(item, n) if (n, p) in leaving]:
            if graph.nodes[key[0]].outputs[key[1]] == "event_stream":
                rule.streams[key] = layout.stream(*key)
                rule.live[key] = united_live(
                    rule.live.get(key, ()), self._book.live[item.label], key
                )
            else:
                rule.archive = True
            if key not in rule.keeps:
                rule.keeps = (*rule.keeps, key)

    def _partition_job(
        self, rule: Rule, task: Task, item: Variation, partition: Partition | None
    ) -> None:
        graph = item.graph
        dataset = item.dataset(partition.dataset) if partition else None
        nodes = tuple(
            node for node in task.nodes if node in graph.nodes and graph.active(node, dataset)
        )
        if not nodes:
            return
        place = (NO_DATASET, NO_DATASET)
        if partition:
            place = (partition.dataset, partition.part)
        by_folder: dict[str, dict[Key, None]] = {}
        for node_id in nodes:
            for ref in graph.nodes[node_id].inputs:
                producer = self._producer(item, ref, node_id, dataset, place)
                if producer is not None and producer[1][0] not in nodes:
                    keys = by_folder.setdefault(producer[0], {})
                    if not ref.is_dependency:
                        keys[producer[1]] = None
        reads = tuple(Read(folder, tuple(keys)) for folder, keys in by_folder.items())
        has_source = any(graph.nodes[node].role == "source" for node in nodes)
        files: tuple[str, ...] = ()
        if has_source:
            files = (partition.file,) if partition else tuple(self._book.all_files(item))
        origin = self._origin(item, dataset, partition)
        kept = [key for key in rule.keeps if key[0] in nodes]
        signed_as, signatures = self._book.known(item, partition.dataset if partition else None)
        if signed_as not in rule.wirings:
            handed_on = {key: rule.live.get(key) for key in kept if key in rule.streams}
            rule.wirings[signed_as] = wiring(graph, nodes, dataset, handed_on)
        values = {node: value_signature(signatures[node], origin) for node in nodes}
        self._book.values.setdefault((item.label, *place), {}).update(values)
        signature = digest_of(
            [list(values.items()), [[list(key), rule.live.get(key)] for key in kept]]
        )
        work = Work(
            dataset=partition.dataset if partition else None,
            partition=partition,
            nodes=nodes,
            reads=reads,
            files=files,
            signature=signature,
            origin=origin,
        )
        self._book.add(rule, item, place, work)

    def _origin(
        self, item: Variation, dataset: Dataset | None, partition: Partition | None
    ) -> Origin:
        """Return where the events of a partition come from, for all tasks alike."""
        at = (item.label, partition)
        if at not in self._origins:
            side = self._book.folder_of.get(("side_products", item.label))
            self._origins[at] = self._of_plan[item.label].of(
                dataset,
                partition,
                self._book.identities(
                    [partition.file] if partition else self._book.all_files(item)
                ),
                before=[self._book.signatures[side]] if side else [],
            )
        return self._origins[at]

    def _producer(
        self,
        item: Variation,
        ref: Ref,
        consumer: str,
        dataset: Dataset | None,
        place: tuple[str, ...],
    ) -> tuple[str, Key] | None:
        """Return the folder and key that an input comes from, ``None`` if it is left out."""
        actual = ref if ref.is_dependency else item.graph.resolve(ref, dataset, consumer=consumer)
        if actual is None:
            return None
        if item.graph.nodes[actual.node].scope == "global":
            return self._book.folder_of[("side_products", item.label)], actual.key
        task = self._task_of.get(actual.node)
        folder = self._book.folder_of.get((task.name, item.label, *place)) if task else None
        return (folder, actual.key) if folder else None

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

A job of one variation whose signature equals that of an earlier variation is not made: its
readers are sent to the other's results.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from fasthep_smk import inputs
from fasthep_smk.files import digest_of
from fasthep_smk.flow.graph import Ref
from fasthep_smk.names import encode
from fasthep_smk.plan.columns import Live, live_columns
from fasthep_smk.plan.partitions import Partition
from fasthep_smk.plan.rules import Job, JobScope, Read, Rule, Variation
from fasthep_smk.plan.signatures import context_signature, node_content, static_signatures
from fasthep_smk.plan.tasks import DEFAULT_POOL, Granularity, Task, cut

__all__ = ["make_rules"]

Key = tuple[str, str]

#: With more partitions than this in a dataset, reducing them is a job of its own.
PARTITIONS_PER_FINISH = 32
NO_DATASET = "all"


def make_rules(variations: list[Variation], granularity: Granularity, *, root: Any) -> list[Rule]:
    """Return the rules of a workflow with all their jobs.

    ``root`` is the folder that relative input files start from (for their identity).
    """
    return _Maker(variations, granularity, root).rules()


class _Maker:
    def __init__(self, variations: list[Variation], granularity: Granularity, root: Any) -> None:
        self._variations = variations
        self._root = root
        self._varied = variations[0].name is not None
        graphs = {item.label: item.graph for item in variations}
        datasets: list[Mapping[str, Any] | None] = [
            item.dataset(partition) for item in variations for partition in _dataset_names(item)
        ] or [None]
        self._tasks = cut(graphs, granularity, datasets)
        self._task_of = {node: task for task in self._tasks for node in task.nodes}
        self._live = {label: live_columns(graph) for label, graph in graphs.items()}
        self._static = {
            item.label: static_signatures(item.graph, item.label) for item in variations
        }
        self._merges = granularity == "stage" or any(
            any(node.scope == "dataset" for node in item.graph.nodes.values())
            or any(count > PARTITIONS_PER_FINISH for count in _partition_counts(item).values())
            for item in variations
        )
        self._consumers = {item.label: _consumers_after_bypass(item) for item in variations}
        self._contexts: dict[tuple[str, str | None], str] = {}
        # The same content made by two variations has one folder: (rule, signature) -> folder.
        self._made: dict[tuple[str, str], str] = {}
        self._signatures: dict[str, str] = {}
        self._folder_of: dict[tuple[str, ...], str] = {}

    def rules(self) -> list[Rule]:
        rules: list[Rule] = []
        if any(self._side_nodes(item) for item in self._variations):
            rules.append(self._side_rule())
        rules.extend(self._partition_rule(task) for task in self._tasks)
        rules = [rule for rule in rules if rule.jobs]
        if self._merges:
            rules.append(self._merge_rule())
        rules.append(self._finish_rule())
        if self._varied:
            rules.append(self._publish_rule())
        return [rule for rule in rules if rule.jobs]

    # --- global side products -----------------------------------------------------------------

    def _side_nodes(self, item: Variation) -> tuple[str, ...]:
        return tuple(node.id for node in item.graph.nodes.values() if node.scope == "global")

    def _side_rule(self) -> Rule:
        rule = self._rule("side_products", "side", (), archive=True)
        for item in self._variations:
            nodes = self._side_nodes(item)
            if not nodes:
                continue
            rule.stages = tuple(dict.fromkeys([*rule.stages, *nodes]))
            rule.keeps = tuple(
                dict.fromkeys([*rule.keeps, *((n, p) for n in nodes for p in _ports(item, n))])
            )
            content = [self._static[item.label][node] for node in nodes]
            files = tuple(self._all_files(item))
            signature = digest_of([content, self._context(item, None), self._identities(files)])
            self._add(rule, item, (), nodes=nodes, reads=(), files=files, signature=signature)
        return rule

    # --- partitions ---------------------------------------------------------------------------

    def _partition_rule(self, task: Task) -> Rule:
        rule = self._rule(task.name, "partition", ("dataset", "part"))
        rule.stages, rule.pool = task.stages, task.pool
        for item in self._variations:
            self._declare_products(rule, task, item)
        for item in self._variations:
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
        for key in [(n, p) for n in task.nodes for p in _ports(item, n) if (n, p) in leaving]:
            if graph.nodes[key[0]].outputs[key[1]] == "event_stream":
                name = encode(key[0].removeprefix("stage.").replace(".", "_"))
                suffix = "" if key[1] == "stream" else f"-{encode(key[1])}"
                rule.streams[key] = f"{name}{suffix}.arrow"
                rule.live[key] = _united_live(rule.live.get(key, ()), self._live[item.label], key)
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
        wanted: dict[str, dict[Key, None]] = {}
        for node_id in nodes:
            for ref in graph.nodes[node_id].inputs:
                found = self._producer(item, ref, node_id, dataset, place)
                if found is not None and found[1][0] not in nodes:
                    keys = wanted.setdefault(found[0], {})
                    if not ref.is_dependency:
                        keys[found[1]] = None
        reads = tuple(Read(folder, tuple(keys)) for folder, keys in wanted.items())
        has_source = any(graph.nodes[node].role == "source" for node in nodes)
        files: tuple[str, ...] = ()
        if has_source:
            files = (partition.file,) if partition else tuple(self._all_files(item))
        signature = digest_of(
            [
                [self._static[item.label][node] for node in nodes],
                self._context(item, partition.dataset if partition else None),
                partition.as_dict() if partition else None,
                self._identities(files),
                [self._signatures[read.folder] for read in reads],
                [[list(key), rule.live.get(key)] for key in rule.keeps],
            ]
        )
        self._add(
            rule,
            item,
            place,
            dataset=partition.dataset if partition else None,
            partition=partition,
            nodes=nodes,
            reads=reads,
            files=files,
            signature=signature,
        )

    def _producer(
        self,
        item: Variation,
        ref: Ref,
        consumer: str,
        dataset: Mapping[str, Any] | None,
        place: tuple[str, ...],
    ) -> tuple[str, Key] | None:
        """Return the folder and key that an input comes from, ``None`` if it is left out."""
        found = ref if ref.is_dependency else item.graph.resolve(ref, dataset, consumer=consumer)
        if found is None:
            return None
        if item.graph.nodes[found.node].scope == "global":
            return self._folder_of[("side_products", item.label)], found.key
        task = self._task_of.get(found.node)
        folder = self._folder_of.get((task.name, item.label, *place)) if task else None
        return (folder, found.key) if folder else None

    # --- reductions ---------------------------------------------------------------------------

    def _merge_rule(self) -> Rule:
        rule = self._rule("merge", "merge", ("dataset",), archive=True)
        rule.stages = ("histograms, cutflows and other products",)
        for item in self._variations:
            for name in _dataset_names(item):
                dataset = item.dataset(name)
                nodes = tuple(
                    node.id
                    for node in item.graph.nodes.values()
                    if node.scope == "dataset" and item.graph.active(node.id, dataset)
                )
                rule.stages = tuple(dict.fromkeys([*rule.stages, *nodes]))
                reads = self._partition_reads(item, name, _late_keys(item, name))
                side = self._folder_of.get(("side_products", item.label))
                if side:
                    reads = (Read(side, ()), *reads)
                signature = digest_of(
                    [
                        [self._static[item.label][node] for node in nodes],
                        self._context(item, name),
                        [self._signatures[read.folder] for read in reads],
                        # Where the files of a variation go depends on its name.
                        item.label if nodes else None,
                        self._reduced_nodes(item),
                    ]
                )
                self._add(
                    rule,
                    item,
                    (name,),
                    dataset=name,
                    nodes=nodes,
                    reads=reads,
                    files=(),
                    signature=signature,
                )
        for item in self._variations:
            for key in _stream_keys_for(item, "final"):
                rule.streams[key] = f"{encode(key[0].replace('.', '_'))}-{encode(key[1])}.arrow"
                rule.live[key] = _united_live(rule.live.get(key, ()), self._live[item.label], key)
        return rule

    def _finish_rule(self) -> Rule:
        rule = self._rule("finish", "finish", (), archive=self._varied)
        for item in self._variations:
            nodes = tuple(node.id for node in item.graph.nodes.values() if node.scope == "final")
            rule.stages = tuple(dict.fromkeys([*rule.stages, *nodes]))
            reads: list[Read] = []
            side = self._folder_of.get(("side_products", item.label))
            if side:
                reads.append(Read(side, ()))
            names = _dataset_names(item)
            for name in names:
                if self._merges:
                    folder = self._folder_of[("merge", item.label, name)]
                    reads.append(Read(folder, tuple(_late_keys(item, name))))
                else:
                    reads.extend(self._partition_reads(item, name, _late_keys(item, name)))
            if not names:
                late = set(_late_keys(item, None))
                reads.extend(self._reads_at(item, (NO_DATASET, NO_DATASET), late))
            plan = item.graph.plan
            signature = digest_of(
                [
                    [self._static[item.label][node] for node in nodes],
                    [self._signatures[read.folder] for read in reads],
                    [plan.reports, item.graph.reporting, self._context(item, None)],
                    item.label,
                    self._reduced_nodes(item),
                ]
            )
            self._add(
                rule, item, (), nodes=nodes, reads=tuple(reads), files=(), signature=signature
            )
        return rule

    def _publish_rule(self) -> Rule:
        rule = Rule("publish", "publish", (), DEFAULT_POOL, ())
        finished = [self._folder_of[("finish", item.label)] for item in self._variations]
        first = self._variations[0]
        rule.jobs[""] = Job(
            rule="publish",
            wildcards={},
            variation=first.label,
            dataset=None,
            partition=None,
            nodes=(),
            reads=tuple(Read(folder, ()) for folder in finished),
            files=(),
            signature=digest_of([self._signatures[folder] for folder in finished]),
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
            if partition.dataset == dataset
            for read in self._reads_at(item, (dataset, partition.part), late)
        )

    def _reads_at(self, item: Variation, place: tuple[str, ...], late: set[Key]) -> Iterator[Read]:
        """Yield what is reduced of one partition: of each task that ran for it, in order."""
        for task in self._tasks:
            folder = self._folder_of.get((task.name, item.label, *place))
            if folder is not None:
                yield Read(folder, tuple(sorted(key for key in late if key[0] in task.nodes)))

    def _reduced_nodes(self, item: Variation) -> list[str]:
        """Return the signatures of the nodes whose products are reduced: names, kinds, params."""
        return [
            digest_of(node_content(node))
            for node in item.graph.nodes.values()
            if node.retained or node.scope in ("dataset", "final")
        ]

    # --- common -------------------------------------------------------------------------------

    def _rule(
        self, name: str, scope: JobScope, wildcards: tuple[str, ...], *, archive: bool = False
    ) -> Rule:
        prefix = ("variation",) if self._varied else ()
        return Rule(name, scope, (), DEFAULT_POOL, (*prefix, *wildcards), archive=archive)

    def _add(
        self,
        rule: Rule,
        item: Variation,
        place: tuple[str, ...],
        *,
        nodes: tuple[str, ...],
        reads: tuple[Read, ...],
        files: tuple[str, ...],
        signature: str,
        dataset: str | None = None,
        partition: Partition | None = None,
    ) -> None:
        at = (rule.name, item.label, *place)
        earlier = self._made.get((rule.name, signature))
        if earlier is not None:
            self._folder_of[at] = earlier
            return
        values = [*([encode(item.label)] if self._varied else []), *map(encode, place)]
        job = Job(
            rule=rule.name,
            wildcards=dict(zip(rule.wildcards, values, strict=True)),
            variation=item.label,
            dataset=dataset,
            partition=partition,
            nodes=nodes,
            reads=reads,
            files=files,
            signature=signature,
        )
        rule.jobs[job.key] = job
        self._made[(rule.name, signature)] = job.folder
        self._folder_of[at] = job.folder
        self._signatures[job.folder] = signature

    def _context(self, item: Variation, dataset: str | None) -> str:
        """Return the signature of what ops see for a dataset; made once, not per partition."""
        at = (item.label, dataset)
        if at not in self._contexts:
            content = item.dataset(dataset) if dataset is not None else None
            self._contexts[at] = context_signature(item.graph, content)
        return self._contexts[at]

    def _all_files(self, item: Variation) -> list[str]:
        datasets = item.graph.plan.context.get("datasets") or {}
        listed = [str(file) for one in datasets.values() for file in one.get("files") or ()]
        return list(dict.fromkeys(listed))

    def _identities(self, files: Iterable[str]) -> list[str]:
        return [inputs.identity_of(file, self._root) for file in files]


def _ports(item: Variation, node: str) -> list[str]:
    return list(item.graph.nodes[node].outputs) if node in item.graph.nodes else []


def _dataset_names(item: Variation) -> list[str]:
    return list(dict.fromkeys(partition.dataset for partition in item.partitions))


def _partition_counts(item: Variation) -> dict[str, int]:
    counts: dict[str, int] = {}
    for partition in item.partitions:
        counts[partition.dataset] = counts.get(partition.dataset, 0) + 1
    return counts


def _datasets_or_none(item: Variation) -> list[Mapping[str, Any] | None]:
    return [item.dataset(name) for name in _dataset_names(item)] or [None]


def _consumers_after_bypass(item: Variation) -> dict[Key, set[str]]:
    """Return which nodes read each product, for any dataset, inactive nodes being by-passed."""
    found: dict[Key, set[str]] = {}
    for dataset in _datasets_or_none(item):
        for node in item.graph.nodes.values():
            # What runs at the end of the run has no dataset; it takes what is there.
            if node.scope != "final" and not item.graph.active(node.id, dataset):
                continue
            for ref in node.inputs:
                if ref.is_dependency:
                    continue
                actual = item.graph.resolve(ref, dataset, consumer=node.id)
                if actual is not None:
                    found.setdefault(actual.key, set()).add(node.id)
    return found


def _late_keys(item: Variation, dataset: str | None) -> list[Key]:
    """Return the products that are reduced after the partitions: retained or read later."""
    graph = item.graph
    late: dict[Key, None] = {}
    content = item.dataset(dataset) if dataset is not None else None
    for node in graph.nodes.values():
        if node.scope == "partition":
            late.update(((node.id, port), None) for port in sorted(node.retained))
        if node.scope in ("dataset", "final"):
            for ref in node.inputs:
                if ref.is_dependency or graph.nodes[ref.node].scope != "partition":
                    continue
                actual = graph.resolve(ref, content, consumer=node.id)
                late.update({actual.key: None} if actual is not None else {})
    return list(late)


def _stream_keys_for(item: Variation, scope: str) -> list[Key]:
    return [
        ref.key
        for node in item.graph.nodes.values()
        if node.scope == scope
        for ref in node.inputs
        if not ref.is_dependency
        and item.graph.nodes[ref.node].outputs.get(ref.port) == "event_stream"
    ]


def _united_live(known: tuple[str, ...] | None, live: Live, key: Key) -> tuple[str, ...] | None:
    found = live.get(key)
    if known is None or found is None:
        return None
    return tuple(sorted({*known, *found}))

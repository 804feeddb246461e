"""The jobs of a workflow while they are made: what is known of nodes, and which jobs there are."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING

from fasthep_smk.config.routing import Router
from fasthep_smk.config.run_settings import Granularity
from fasthep_smk.plan.columns import live_columns
from fasthep_smk.plan.node_routes import joint_route
from fasthep_smk.plan.partitions import Partition
from fasthep_smk.plan.product_keys import dataset_names, partition_counts
from fasthep_smk.plan.rules import Job, Rule, Variation
from fasthep_smk.plan.signatures import (
    NodeSignature,
    Origin,
    closed_sources,
    context_content,
    node_signatures,
)
from fasthep_smk.plan.tasks import cut
from fasthep_smk.storage.task_table import JobScope, Read
from fasthep_smk.util.files import digest_of
from fasthep_smk.util.names import encode

if TYPE_CHECKING:
    from fasthep_smk.flow.shapes import Dataset

#: With more partitions than this in a dataset, reducing them is a job of its own.
PARTITIONS_PER_FINISH = 32
NO_DATASET = "all"


@dataclass(frozen=True, kw_only=True)
class Work:
    """What a job does, wherever it stands: see `Job`."""

    nodes: tuple[str, ...]
    reads: tuple[Read, ...]
    files: tuple[str, ...]
    signature: str
    dataset: str | None = None
    partition: Partition | None = None
    origin: Origin | None = None
    missing: tuple[Partition, ...] = ()
    is_sample: bool = False
    values: Mapping[str, str] = field(default_factory=dict)


class Book:
    """What all jobs are made from, and where those made so far put their products.

    A job of one variation whose signature equals that of an earlier variation is not made: its
    readers are sent to the other's results.
    """

    def __init__(
        self,
        variations: list[Variation],
        granularity: Granularity,
        identity: Callable[[str], str],
        router: Router,
    ) -> None:
        self.variations = variations
        self.router = router
        self.identity = cache(identity)
        self.varied = variations[0].name is not None
        graphs = {item.label: item.graph for item in variations}
        # Variations have most datasets in common.
        every = [item.dataset(name) for item in variations for name in dataset_names(item)]
        datasets: list[Dataset | None] = [
            *{digest_of(content): content for content in every}.values()
        ]
        self.live = {label: live_columns(graph) for label, graph in graphs.items()}
        self.closed = closed_sources(graphs, self.live)
        self.static = {item.label: node_signatures(item.graph, item.name) for item in variations}
        self.tasks = cut(graphs, granularity, datasets or [None], router, self.static)
        self.merges = granularity == "stage" or any(
            any(node.scope == "dataset" for node in item.graph.nodes.values())
            or any(count > PARTITIONS_PER_FINISH for count in partition_counts(item).values())
            for item in variations
        )
        #: The folder of each job, by its rule, variation and place; the signature of each folder.
        self.folder_of: dict[tuple[str, ...], str] = {}
        self.signatures: dict[str, str] = {}
        #: What the nodes make of each partition, by variation and place: however they are joined.
        self.values: dict[tuple[str, ...], dict[str, str]] = {}
        self._made: dict[tuple[str, str, tuple[str, ...]], str] = {}
        self._contexts: dict[tuple[str, str | None], str] = {}
        self._known: dict[
            tuple[str, str | tuple[str, ...]], tuple[str, dict[str, NodeSignature]]
        ] = {}

    def rule(
        self, name: str, scope: JobScope, wildcards: tuple[str, ...], *, archive: bool = False
    ) -> Rule:
        prefix = ("variation",) if self.varied else ()
        return Rule(name, scope, (), self.router.route([]), (*prefix, *wildcards), archive=archive)

    def add(
        self,
        rule: Rule,
        item: Variation,
        place: tuple[str, ...],
        work: Work,
    ) -> None:
        at = (rule.name, item.label, *place)
        signed_as, signatures = self.known(item, work.dataset)
        rule.nodes.setdefault(signed_as, {}).update({node: signatures[node] for node in work.nodes})
        earlier = self._made.get((rule.name, work.signature, place))
        if earlier is not None:
            self.folder_of[at] = earlier
            return
        named = [*([encode(item.label)] if self.varied else []), *map(encode, place)]
        measured = _measured(item, work.nodes)
        # A job whose stages are measured runs for that; what follows from it stays valid.
        signature = digest_of([work.signature, measured]) if measured else work.signature
        job = Job(
            rule=rule.name,
            wildcards=dict(zip(rule.wildcards, named, strict=True)),
            variation=item.label,
            signed_as=signed_as,
            measured=measured,
            **{**vars(work), "signature": signature},
        )
        rule.jobs[job.key] = job
        self._made[(rule.name, work.signature, place)] = job.folder
        self.folder_of[at] = job.folder
        self.signatures[job.folder] = work.signature

    def known(self, item: Variation, dataset: str | None) -> tuple[str, dict[str, NodeSignature]]:
        """Return the signatures of the nodes as a dataset has them, and a name for them.

        Datasets that the same stages apply to share them.
        """
        if dataset is None:
            return item.label, self.static[item.label]
        if (at := (item.label, dataset)) not in self._known:
            content, graph = item.dataset(dataset), item.graph
            inactive = tuple(node for node in graph.nodes if not graph.active(node, content))
            alike = (item.label, inactive)
            if alike not in self._known:
                self._known[alike] = (item.label, self.static[item.label])
                if inactive:
                    signatures = node_signatures(graph, item.name, content)
                    self._known[alike] = (f"{item.label}/{dataset}", signatures)
            self._known[at] = self._known[alike]
        return self._known[at]

    def context(self, item: Variation, dataset: str | None) -> str:
        """Return the signature of what ops see for a dataset."""
        at = (item.label, dataset)
        if at not in self._contexts:
            content = item.dataset(dataset) if dataset is not None else None
            self._contexts[at] = digest_of(context_content(item.graph, content))
        return self._contexts[at]

    def names(self, item: Variation) -> list[str]:
        return [str(name) for name in item.graph.plan.context.get("dataset_names") or ()]

    def digests(
        self, item: Variation, nodes: Iterable[str], dataset: str | None = None
    ) -> list[str]:
        _, signatures = self.known(item, dataset)
        return [signatures[node].digest for node in nodes]

    def all_files(self, item: Variation) -> list[str]:
        datasets = item.graph.plan.context.get("datasets") or {}
        listed = [str(file) for dataset in datasets.values() for file in dataset.get("files") or ()]
        return list(dict.fromkeys(listed))

    def identities(self, files: Iterable[str]) -> list[str]:
        return [self.identity(file) for file in files]

    def send(self, rule: Rule, item: Variation, nodes: Iterable[str], what: str) -> None:
        """Give a rule the route that its nodes ask for."""
        joint = joint_route(what, [item.graph.nodes[node] for node in nodes], self.router)
        rule.route = joint[0]
        rule.warnings.extend(text for text in joint[1] if text not in rule.warnings)


def _measured(item: Variation, nodes: Iterable[str]) -> tuple[str, ...]:
    """Return the stages among nodes that are measured, each with what measures it."""
    by_name = item.graph.nodes
    measured = [by_name[node] for node in nodes if node in by_name and by_name[node].diagnostics]
    return tuple(f"{node.stage} ({', '.join(node.measured_by)})" for node in measured)

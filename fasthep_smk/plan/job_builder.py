"""The jobs of a workflow while they are made: what is known of nodes, and which jobs there are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING

from fasthep_smk.config.routing import Router
from fasthep_smk.config.run_settings import Granularity
from fasthep_smk.flow.graph import Scope
from fasthep_smk.flow.shapes import Key
from fasthep_smk.plan.columns import live_columns
from fasthep_smk.plan.node_routes import joint_route
from fasthep_smk.plan.partitions import Partition, Place
from fasthep_smk.plan.product_keys import consumers_after_bypass
from fasthep_smk.plan.rules import Job, Rule, Variation
from fasthep_smk.plan.signatures import (
    NodeSignature,
    Origin,
    Origins,
    context_content,
    node_content,
    node_signatures,
)
from fasthep_smk.plan.tasks import cut
from fasthep_smk.plan.variations import unite_sources
from fasthep_smk.storage.task_table import JobScope, Read
from fasthep_smk.util.files import digest_of
from fasthep_smk.util.names import encode

if TYPE_CHECKING:
    from fasthep_smk.plan.sample import Sampled

#: With more partitions than this in a dataset, reducing them is a job of its own.
PARTITIONS_PER_FINISH = 32
#: The place of the only job of a task where there are no datasets.
NO_DATASET: Place = ("all", "all")


class Book:
    """What all jobs are made from, and where those made so far put their products.

    A job of one variation whose signature equals that of an earlier variation is not made: its
    readers are sent to the other's results. Partitions that are ``left_out`` are not reduced: those
    that the run goes ``without``, and those that are in no ``sample``.
    """

    def __init__(
        self,
        variations: list[Variation],
        granularity: Granularity,
        identity: Callable[[str], str],
        router: Router,
        without: Mapping[Place, str],
        sample: Sampled | None,
        exports: Iterable[str],
    ) -> None:
        self.variations, self.router, self.exports = variations, router, tuple(exports)
        self.without, self.sample = without, sample
        self.left_out = without.keys() | (sample.left_out if sample else frozenset())
        self.varied = variations[0].name is not None
        graphs = {item.label: item.graph for item in variations}
        # Variations have most datasets in common.
        datasets = {
            digest_of(content): content for item in variations for content in item.datasets()
        }
        self._live = {label: live_columns(graph) for label, graph in graphs.items()}
        closed = unite_sources(graphs, self._live)
        self._origins = {label: Origins(graph, closed) for label, graph in graphs.items()}
        self.static = {item.label: node_signatures(item.graph, item.name) for item in variations}
        self.tasks = cut(graphs, granularity, datasets.values(), router, self.static)
        self._task_of = {node: task.name for task in self.tasks for node in task.nodes}
        self.merges = granularity == "stage" or any(
            item.nodes_in("dataset")
            or max(Counter(part.dataset for part in item.partitions).values(), default=0)
            > PARTITIONS_PER_FINISH
            for item in variations
        )
        #: The folder of each job, by its rule, variation and place; the signature of each folder.
        self.folder_of: dict[tuple[str, ...], str] = {}
        self.signatures: dict[str, str] = {}
        #: What the nodes make of each partition, by variation and place: however they are joined.
        self.values: dict[tuple[str, ...], dict[str, str]] = {}
        self._made: dict[tuple[str, str, tuple[str, ...]], str] = {}
        #: The first dataset to which the same stages of a variation do not apply.
        self._first_alike: dict[tuple[Variation, tuple[str, ...]], str] = {}
        self.identity = cache(identity)
        self.known, self.context = cache(self._known), cache(self._context)
        self.origin, self.reduced = cache(self._origin), cache(self._reduced)
        self.readers = cache(consumers_after_bypass)

    # --- rules and jobs -----------------------------------------------------------------------

    def rule(
        self, name: str, scope: JobScope, wildcards: tuple[str, ...], *, archive: bool = False
    ) -> Rule:
        prefix = ("variation",) if self.varied else ()
        return Rule(name, scope, (), self.router.route([]), (*prefix, *wildcards), archive=archive)

    def send(self, rule: Rule, item: Variation, nodes: tuple[str, ...], what: str) -> None:
        """Let a rule run nodes of a variation, too, and give it the route that they ask for."""
        rule.stages = tuple(dict.fromkeys([*rule.stages, *nodes]))
        at = [item.graph.nodes[node] for node in nodes]
        rule.route, warnings = joint_route(what, at, self.router)
        rule.warnings += [text for text in warnings if text not in rule.warnings]

    def hand_on(self, rule: Rule, item: Variation, key: Key, file: str) -> None:
        """Let the jobs of a rule write an event stream for others, with the columns they need."""
        before, columns = rule.live.get(key, ()), self._live[item.label].get(key)
        both = None if before is None or columns is None else {*before, *columns}
        rule.streams[key], rule.live[key] = file, None if both is None else tuple(sorted(both))

    def add(self, rule: Rule, item: Variation, place: tuple[str, ...], job: Job) -> None:
        """Make a job, which is given without its place, unless there is one like it."""
        at, alike = (rule.name, item.label, *place), (rule.name, job.signature, place)
        signed_as, signatures = self.known(item, job.dataset)
        rule.nodes.setdefault(signed_as, {}).update({node: signatures[node] for node in job.nodes})
        if alike not in self._made:
            named = [*([encode(item.label)] if self.varied else []), *map(encode, place)]
            measured = _measured(item, job.nodes)
            # A job whose stages are measured runs for that; what follows from it stays valid.
            signature = digest_of([job.signature, measured]) if measured else job.signature
            made = replace(
                job,
                wildcards=dict(zip(rule.wildcards, named, strict=True)),
                signature=signature,
                signed_as=signed_as,
                measured=measured,
            )
            rule.jobs[made.key] = made
            self._made[alike] = made.folder
            self.signatures[made.folder] = job.signature
        self.folder_of[at] = self._made[alike]

    # --- what is read and reduced -------------------------------------------------------------

    def maker(self, item: Variation, node: str, place: Place) -> str | None:
        """Return the folder of the job that runs a node; ``None`` if none does."""
        if item.graph.nodes[node].scope == "global":
            return self.folder_of["side_products", item.label]
        return self.folder_of.get((self._task_of.get(node, ""), item.label, *place))

    def side(self, item: Variation) -> tuple[Read, ...]:
        """Return that a job runs after those before the partitions, if there are some."""
        folder = self.folder_of.get(("side_products", item.label))
        return (Read(folder, ()),) if folder else ()

    def before(self, item: Variation) -> str | None:
        """Return the signature of what ran before the partitions."""
        return next((self.signatures[read.folder] for read in self.side(item)), None)

    def _reduced(self, item: Variation, dataset: str | None) -> dict[Place, str]:
        """Return the partitions of a dataset that are reduced, in plan order, with their names."""
        if dataset is None:
            return {NO_DATASET: ""}
        return {
            part.place: part.id
            for part in item.partitions
            if part.dataset == dataset and part.place not in self.left_out
        }

    # --- what signatures are made of ----------------------------------------------------------

    def _known(self, item: Variation, dataset: str | None) -> tuple[str, dict[str, NodeSignature]]:
        """Return the signatures of the nodes as a dataset has them, and a name for them.

        Datasets that the same stages apply to share them.
        """
        if dataset is None:
            return item.label, self.static[item.label]
        content, graph = item.dataset(dataset), item.graph
        inactive = tuple(node for node in graph.nodes if not graph.active(node, content))
        if not inactive:
            return item.label, self.static[item.label]
        first = self._first_alike.setdefault((item, inactive), dataset)
        if first != dataset:
            return self.known(item, first)
        return f"{item.label}/{dataset}", node_signatures(graph, item.name, content)

    def _context(self, item: Variation, dataset: str | None) -> str:
        """Return the signature of what ops see for a dataset."""
        content = item.dataset(dataset) if dataset is not None else None
        return digest_of(context_content(item.graph, content))

    def _origin(self, item: Variation, partition: Partition | None) -> Origin:
        """Return where the events of a partition come from, for all tasks alike."""
        dataset = item.dataset(partition.dataset) if partition else None
        files = self.identities([partition.file] if partition else item.files)
        before = self.before(item)
        return self._origins[item.label].of(
            dataset, partition, files, [] if before is None else [before]
        )

    def names(self, item: Variation) -> list[str]:
        return [str(name) for name in item.graph.plan.context.get("dataset_names") or ()]

    def digests(
        self, item: Variation, nodes: Iterable[str], dataset: str | None = None
    ) -> list[str]:
        _, signatures = self.known(item, dataset)
        return [signatures[node].digest for node in nodes]

    def identities(self, files: Iterable[str]) -> list[str]:
        return [self.identity(file) for file in files]

    def contents(self, item: Variation, *scopes: Scope) -> list[str]:
        """Return what the nodes of these scopes do, and those whose products are reduced."""
        return [
            digest_of(node_content(node))
            for node in item.graph.nodes.values()
            if (node.retained and node.scope == "partition") or node.scope in scopes
        ]

    def made(self, item: Variation, dataset: str | None) -> list[object]:
        """Return the signatures of all values of a dataset's partitions.

        They are the same however nodes are joined into jobs, and so are the results.
        """
        return [
            [name, sorted(self.values.get((item.label, *place), {}).items())]
            for place, name in self.reduced(item, dataset).items()
        ]

    def sampled(self, item: Variation, dataset: str | None = None) -> list[list[str]]:
        """Return what sets apart the reduction of a sample of a dataset, or of the whole run."""
        if self.sample is None:
            return []
        lacks = any(
            part.place in self.sample.left_out
            for part in item.partitions
            if dataset in (None, part.dataset)
        )
        return [["sample", self.sample.asked]] if lacks else []


def _measured(item: Variation, nodes: Iterable[str]) -> tuple[str, ...]:
    """Return the stages among nodes that are measured, each with what measures it."""
    by_name = item.graph.nodes
    measured = [by_name[node] for node in nodes if node in by_name and by_name[node].diagnostics]
    return tuple(f"{node.stage} ({', '.join(node.measured_by)})" for node in measured)

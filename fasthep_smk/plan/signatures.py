"""Signatures: what decides whether a result is still valid.

The value of a node for a partition follows from what the node and all before it do (its *node
signature*) and from where the events come from (the *origin* of the partition). How nodes are
joined into jobs, formatting of the YAML, folders, pools and resources are in neither, so that a
product that exists is found again under another cut.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from fasthep_smk.flow.graph import Graph, Node
from fasthep_smk.flow.records import Sight
from fasthep_smk.plan.partitions import Partition
from fasthep_smk.plan.wiring import inputs_for
from fasthep_smk.storage.task_table import EventFacts, OwnFacts
from fasthep_smk.util.documents import YamlMapping
from fasthep_smk.util.files import digest_of

if TYPE_CHECKING:
    from fasthep_smk.flow.shapes import Dataset

#: The token of a stage that a user has asked to run again.
ASKED = "asked to run again"
#: Metadata of a dataset that change when files are added.
_OF_FILES = ("files", "nevents")
#: Parameters of a ROOT source that say what the origin of a partition says for itself.
_OF_PARTITIONS = ("datasets", "branches", "branches_by_dataset")


@dataclass(frozen=True)
class NodeSignature:
    """What a node does, with all before it. ``sees``: what one of them may see of the run.

    ``content`` and ``upstream`` (input, node, that node's digest) are what ``digest`` is made of.
    """

    digest: str
    sees: frozenset[Sight]
    content: Mapping[str, object]
    upstream: tuple[tuple[str, str, str | None], ...]


@dataclass(frozen=True)
class Origin:
    """Where the events of a job come from.

    ``own`` is what every node sees of it, ``seen`` what those see that look further. ``facts`` are
    what these digests are made of, in short, to tell what changed; ``contexts`` the longer ones
    among them, by their digest.
    """

    own: str
    seen: Mapping[Sight, str]
    facts: EventFacts
    contexts: Mapping[str, YamlMapping] = field(default_factory=dict)


def node_signatures(
    graph: Graph, variation: str | None, dataset: Dataset | None = None
) -> dict[str, NodeSignature]:
    """Return the signature of every node, before any partition is known.

    For a ``dataset``, nodes that do not apply to it are by-passed and have none: what they do
    does not matter to it.
    """
    signatures: dict[str, NodeSignature] = {}
    for node in graph.nodes.values():
        if dataset is not None and not graph.active(node.id, dataset):
            continue
        refs = list(node.inputs) if dataset is None else inputs_for(graph, node, dataset)
        upstream = tuple((f"{ref.name}.{ref.port}", ref.node) for ref in refs)
        inputs = [
            (name, ref, signatures[ref].digest if ref in signatures else None)
            for name, ref in upstream
        ]
        content = node_content(node)
        # What writes below the variation's own folder, or may read its name, is never shared.
        own = variation if node.sees_variation else None
        sees = node.sees.union(*(signatures[ref].sees for _, ref in upstream if ref in signatures))
        if node.scope == "global":
            sees |= {"run"}
        digest = digest_of([content, [list(item) for item in inputs], own])
        signatures[node.id] = NodeSignature(digest, sees, content, tuple(inputs))
    return signatures


def node_content(node: Node) -> dict[str, object]:
    """Return what a node does by itself, as plain data."""
    params = dict(node.params)
    if node.published:  # named arguments; within one, and for a user's ``**rest``, order counts
        params = dict(sorted(params.items()))
    if reads_root(node):
        params = {name: value for name, value in params.items() if name not in _OF_PARTITIONS}
        params["defaults"] = dict(sorted((params.get("defaults") or {}).items()))
    return {
        "id": node.id,
        "role": node.role,
        "impl": node.impl,
        "implementation": node.implementation,
        "params": params,
        "outputs": node.outputs,
        # FAST-HEP writes an empty list where a stage says anything about where it runs.
        "modifiers": node.modifiers,
        "applies_to": node.meta.get("applies_to"),
        **({ASKED: node.rerun} if node.rerun else {}),
    }


class Origins:
    """Makes the origins of a plan's partitions.

    What many of them share is looked at once: it names all files of the run. ``closed`` are the
    sources of which reading another branch as well changes nothing.
    """

    def __init__(self, graph: Graph, closed: frozenset[str] = frozenset()) -> None:
        context = graph.plan.context
        self._graph = graph
        self._open = [
            node for node in graph.nodes.values() if reads_root(node) and node.id not in closed
        ]
        self._run = {name: context.get(name) for name in ("datasets", "dataset_names")}
        self._run_name = digest_of(self._run)
        self._names = digest_of(self._run["dataset_names"])
        #: By dataset: its context with the digest of that, and its own digest.
        self._datasets: dict[str | None, tuple[dict[str, object], str, str]] = {}

    def of(
        self,
        dataset: Dataset | None,
        partition: Partition | None,
        files: Iterable[str],
        before: Iterable[str] = (),
    ) -> Origin:
        """Return where a partition's events come from.

        ``dataset`` is what ops see of the partition's; ``files`` are the identities of the input
        files, ``before`` the signatures of what ran before all partitions.
        """
        at = partition.dataset if partition else None
        if at not in self._datasets:
            context = context_content(self._graph, dataset)
            self._datasets[at] = (context, digest_of(context), digest_of(dataset))
        context, name, of_dataset = self._datasets[at]
        branches = {node.id: _branches_read(node, partition) for node in self._open}
        entries: Literal["all"] | list[int | None] = "all"
        if partition is not None and not partition.whole:
            entries = [partition.start, partition.stop]
        own_facts: OwnFacts = {
            "dataset": at,
            "context": name,
            "files": list(files),
            "entries": entries,
            "branches": {source: item for source, item in branches.items() if item},
        }
        earlier = list(before)
        place = partition.as_dict() if partition else None
        seen: dict[Sight, str] = {
            "names": self._names,
            "dataset": of_dataset,
            "place": digest_of(place),
            "run": digest_of([self._run_name, earlier, place]),
        }
        own = digest_of(own_facts)
        facts: EventFacts = {**own_facts, "run": self._run_name, "before": earlier}
        return Origin(own, seen, facts, {name: context, self._run_name: self._run})


def reads_root(node: Node) -> bool:
    return node.role == "source" and node.impl == "root_tree"


def _branches_read(node: Node, partition: Partition | None) -> list[str]:
    """Return the branches that FAST-HEP asks for: those listed, and those a dataset needs."""
    listed = [str(name) for name in node.params.get("branches") or ()]
    by_dataset = node.params.get("branches_by_dataset") or {}
    needed = by_dataset.get(partition.dataset) if partition else None
    return listed if needed is None else sorted({*listed, *map(str, needed)})


def context_content(graph: Graph, dataset: Dataset | None) -> dict[str, object]:
    """Return the part of the context that every op of a dataset's partitions can see."""
    plan = graph.plan
    own = {name: value for name, value in (dataset or {}).items() if name not in _OF_FILES}
    return {
        "globals": plan.context.get("globals"),
        "dataset": own if dataset is not None else None,
        "files": graph.named.identities([plan.context.get("globals"), own]),
        "hooks": plan.execution_hooks,
        "surroundings": graph.surroundings,
    }


def value_signature(node: NodeSignature, origin: Origin) -> str:
    """Return the signature of what a node makes of the events of an origin."""
    return digest_of([node.digest, *seen_of(origin.own, origin.seen, node.sees)])


def seen_of(own: str, seen: Mapping[Sight, str], sees: Iterable[Sight]) -> tuple[str, ...]:
    """Return the digests of what a node sees of an origin."""
    return (own, *(seen[sight] for sight in sorted(sees)))

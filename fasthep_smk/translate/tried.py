"""Which events a workflow is tried with before it runs, and whether that was done before."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from fasthep_smk.flow.graph import Graph
from fasthep_smk.plan.partitions import Partition, sources_of
from fasthep_smk.plan.rules import Variation
from fasthep_smk.storage.inputs import Inputs
from fasthep_smk.util import files
from fasthep_smk.util.errors import Finding
from fasthep_smk.util.remote import is_remote

__all__ = ["trial_findings"]


def trial_findings(
    variations: Sequence[Variation],
    document: Mapping[str, object],
    inputs: Inputs,
    *,
    workflow: str,
    folder: Path,
) -> tuple[list[Finding], list[str]]:
    """Try the workflow with the first events of local ROOT files; return findings and warnings.

    Datasets of which the same stages read the events are tried once. A trial that has found
    nothing is not made again for the same plans and files. ``folder`` is where operations may
    write.
    """
    chosen = [
        (variation.graph, partition)
        for variation in variations
        for partition in _first_of_each_kind(variation, inputs)
    ]
    what = files.digest_of(
        [[*_identity(graph), partition.as_dict()] for graph, partition in chosen]
    )
    which = [inputs.identity(partition.file) for _, partition in chosen]
    digest = files.digest_of([what, which])
    if not chosen or inputs.has_passed(digest):
        return [], []
    from fasthep_smk.flow.trial import Trial

    trial = Trial(document, workflow, folder)
    try:
        found = [
            finding
            for graph, partition in chosen
            for finding in trial.findings(graph, partition.as_dict())
        ]
    except Exception as error:  # what cannot be tried may be right
        said = f"{type(error).__name__}: {error}"
        return [], [f"the workflow was not tried with its first events ({said})"]
    if not found and not trial.warnings:
        inputs.note_passed(digest)
    return found, trial.warnings


def _first_of_each_kind(variation: Variation, inputs: Inputs) -> Iterator[Partition]:
    """Yield a partition with events of each kind of dataset: one that other stages run for."""
    graph = variation.graph
    trees = [source.tree for source in sources_of(graph.nodes.values())]
    named = [tree for tree in trees if tree is not None]
    if len(named) < len(trees):
        return  # other sources may have to be read whole
    done: set[frozenset[str]] = set()
    kinds: dict[str, frozenset[str]] = {}  # of a dataset, which may have very many partitions
    for partition in variation.partitions:
        if partition.dataset not in kinds:
            dataset = variation.dataset(partition.dataset)
            active = (node for node in graph.nodes if graph.active(node, dataset))
            kinds[partition.dataset] = frozenset(active)
        kind = kinds[partition.dataset]
        if kind in done or is_remote(partition.file):
            continue
        entries = inputs.look([partition.file], named)[partition.file].entries
        if max(entries.values(), default=0) > (partition.start or 0):
            done.add(kind)
            yield partition


def _identity(graph: Graph) -> Iterator[list[object]]:
    """Yield what the products of a plan's nodes follow from."""
    for node in graph.nodes.values():
        if node.role in ("source", "transform"):
            refs = [[ref.node, ref.port, ref.name] for ref in node.inputs]
            yield [node.id, node.impl, node.implementation, node.params, refs, node.meta]

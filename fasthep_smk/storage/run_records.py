"""What FAST-HEP recorded in one job, told as part of another: of fewer nodes, or renamed."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, cast

from fasthep_smk.storage.record import Content, Record, RunFacts
from fasthep_smk.util.documents import JsonObject

if TYPE_CHECKING:
    from fasthep_smk.flow.records import PartitionData
    from fasthep_smk.flow.summary import Run

#: Events of hooks that happen as often whichever nodes of a partition run.
_ONCE = frozenset({"partition_start", "on_node_error", "dataset_end", "run_end"})


def facts_of(run: Run) -> RunFacts:
    """Return what FAST-HEP recorded of a run (`fasthep_smk.flow.summary.Run`), for its record."""
    return cast("RunFacts", asdict(run))


def runs(
    record: Content, partition: PartitionData | None, nodes: Iterable[str]
) -> Iterator[RunFacts]:
    """Yield what a record says of some nodes, told of ``partition``."""
    wanted = set(nodes)
    for run in record["runs"]:
        old = run["partition"]["id"] if run["partition"] else None
        new = partition["id"] if partition else None
        yield {
            **run,
            "partition": partition,
            "boundary": [item for item in run["boundary"] if item["node"] in wanted],
            "warnings": [
                item
                for item in run["warnings"]
                if not _is_of_node(item) or item["node_id"] in wanted
            ],
            "operations": [
                _renamed(item, old, new)
                for item in run["operations"]
                if item.get("node_id") in wanted
            ],
        }


def outside_of(record: Record, nodes: Collection[str]) -> dict[str, dict[str, str]]:
    """Return what these nodes of a job have written outside the build folder."""
    return {node: made for node, made in record.get("outside", {}).items() if node in nodes}


def fits(record: Content, partition: PartitionData | None) -> bool:
    """Whether a record can be told as another partition's: it said nothing about its own."""
    return all(
        run["partition"] == partition or not (_of_no_node(run) or run["resources"])
        for run in record["runs"]
    )


def is_quiet(runs: Iterable[RunFacts]) -> bool:
    """Whether what was recorded says nothing that depends on which nodes ran together.

    Resources belong to no node, nor do FAST-HEP's warnings, and hooks of nodes count their calls.
    """
    return not any(
        _of_no_node(run) or run["resources"] or not are_quiet(run["hooks"]) for run in runs
    )


def _of_no_node(run: RunFacts) -> bool:
    return not all(map(_is_of_node, run["warnings"]))


def _is_of_node(warning: JsonObject) -> bool:
    """Whether a warning is that of a node, whatever its partition is called: one of ours."""
    return "node_id" in warning and "partition_id" not in warning


def are_quiet(hooks: Iterable[JsonObject]) -> bool:
    """Whether hooks, by what was recorded of them, do not see which nodes ran."""
    return all(_ONCE.issuperset(hook.get("events") or [""]) for hook in hooks)


def _renamed(operation: JsonObject, old: str | None, new: str | None) -> JsonObject:
    if old == new or old is None or new is None:
        return operation
    name = str(operation.get("id") or "")
    return {**operation, "id": name.replace(old, new), "partition": new}

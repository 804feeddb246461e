"""What of a run's context an operation may see, besides its events, dataset and globals.

An operation is handed a context (``ctx``) that holds everything: all datasets, all their files,
the partition's name. Most look at little of it. A result that depends on nothing but its events,
its dataset's metadata and the globals stands when a dataset or a file is added and when files are
cut otherwise.

======== ====================================================================================
sight    what is seen
======== ====================================================================================
names    the names of all datasets of the run, in their order
dataset  the whole entry of its own dataset, with its list of files and number of events
place    the partition: its name, file and range; what files are named after
run      everything, all datasets with their metadata and files included
======== ====================================================================================
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any, Literal

from fasthep_smk import files
from fasthep_smk.flow import identity

__all__ = ["SIGHTS", "Sight", "sights"]

Sight = Literal["names", "dataset", "place", "run"]
SIGHTS: tuple[Sight, ...] = ("names", "dataset", "place", "run")

#: Entries of the context that are the same for all partitions of a dataset, whatever else there
#: is in the run, or that say where files go, which no result may depend on.
_OWN = frozenset(
    {
        "dataset_name",
        "dataset_eventtype",
        "dataset_group",
        "dataset_is_data",
        "dataset_xs",
        "dataset_n_unskimmed_events",
        "dataset_filter_efficiency",
        "eventtype",
        "globals",
        "primary_stream",
        "expr_registry",
        "node_id",
        "stage_id",
        "variation",
        "outdir",
        "build_paths",
        "provenance",
        "_warnings",
        "runtime_resources",
        "resources",
        "resolved_resources",
    }
)


#: The source that reads its own partition and nothing else.
_ROOT_TREE = "fasthep_carpenter.sources.root_tree:"

#: Entries of the context that show more, and what they show.
_SHOWS: Mapping[str, Sight] = {
    "dataset_names": "names",
    "dataset": "dataset",
    "dataset_nevents": "dataset",
    "partition": "place",
}


def sights(
    *,
    role: str,
    implementation: str,
    params: Mapping[str, Any],
    modifiers: Iterable[str],
    known: Iterable[str] = (),
) -> frozenset[Sight]:
    """Return what an operation may see of the run besides its own events and dataset.

    ``implementation`` is its ``module:object``, ``modifiers`` those of its modifiers; ``known``
    names the workflow's globals.
    """
    found: set[Sight] = set()
    for reference in (implementation, *modifiers):
        module = reference.partition(":")[0]
        if not identity.is_published(module):
            found |= _seen_by(module, frozenset(known))
    if role == "source" and not implementation.startswith(_ROOT_TREE):
        found.add("run")  # one may read other files of its dataset than its partition's
    if role in ("sink", "observer"):
        found.add("place")  # it names its files after the partition
    if role == "observer":
        found.add("names")  # one may report on the first dataset only
    # The number of events of a dataset changes with its files; expressions can use it.
    if "nevents" in files.canonical_json(dict(params)):
        found.add("dataset")
    if any(_lists_datasets(axis) for axis in params.get("axes") or ()):
        found.add("names")
    return frozenset(found)


def _seen_by(module: str, known: frozenset[str]) -> set[Sight]:
    """Return what a user's module may see; one that cannot be read may see everything."""
    keys = context_keys(module)
    if keys is None:
        return {"run"}
    return {_SHOWS.get(key, "run") for key in keys - _OWN - known}


def _lists_datasets(axis: Any) -> bool:
    """Tell whether the bins of a histogram's axis are the datasets of the run."""
    return (
        isinstance(axis, Mapping) and axis.get("source") == "dataset_name" and not axis.get("bins")
    )


@cache
def context_keys(module: str) -> frozenset[str] | None:
    """Return the entries of ``ctx`` that a user's modules look up; ``None``: perhaps all.

    Only ``ctx["name"]`` and ``ctx.get("name")`` are understood. A context that is handed on, or
    looked at in any other way, may be used for everything.
    """
    if identity.is_installed(module):
        return None  # the operation may stand in another module of its package
    paths = identity.sources_of(module)
    found: set[str] = set()
    for path in paths:
        try:
            tree = ast.parse(path.read_bytes())
        except (OSError, SyntaxError, ValueError):
            return None
        keys = _keys(tree)
        if keys is None:
            return None
        found |= keys
    return frozenset(found) if paths else None


def _keys(tree: ast.AST) -> set[str] | None:
    found: set[str] = set()
    understood: set[ast.AST] = set()
    for node in ast.walk(tree):
        key: ast.AST | None = None
        if isinstance(node, ast.Subscript) and _is_context(node.value):
            key, name = node.slice, node.value
        elif (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr == "get"
            and node.args
            and _is_context(node.func.value)
        ):
            key, name = node.args[0], node.func.value
        if isinstance(key, ast.Constant) and isinstance(key.value, str):
            found.add(key.value)
            understood.add(name)
    for node in ast.walk(tree):
        if _is_context(node) and node not in understood and isinstance(node.ctx, ast.Load):  # type: ignore[attr-defined]
            return None
        if isinstance(node, ast.Constant) and node.value == "ctx":
            return None  # looked up by name, in **arguments perhaps
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and _uses_rest(node):
            return None
    return found


def _uses_rest(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Tell whether a function looks at its ``**rest``, where the context may be."""
    rest = function.args.kwarg
    named = [one.arg for one in (*function.args.args, *function.args.kwonlyargs)]
    if rest is None or "ctx" in named:
        return False
    return any(isinstance(node, ast.Name) and node.id == rest.arg for node in ast.walk(function))


def _is_context(node: ast.AST) -> bool:
    return isinstance(node, ast.Name) and node.id == "ctx"

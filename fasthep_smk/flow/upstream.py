"""The only module that imports ``hepflow``.

It has what ``contract`` lists, each by its name there, without an underscore at its start: some is
private upstream, which is the price of running a part of a plan (its own Dask package imports that,
too). A release that changes one of them fails in one place with a clear message.
"""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import Any

from fasthep_smk.flow import contract

#: Where each name is found. The compiler takes 0.15 s to import, which a job, that needs only the
#: runtime, would pay: it is imported when it is used.
_MODULES = {
    place.partition(":")[2].removeprefix("_"): place
    for place in (*contract.CALLS, *contract.METHODS)
}
_LATE = ("hepflow.api", "hepflow.compiler.", "fasthep_")


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, _, attribute = _MODULES[name].partition(":")
    try:
        return getattr(importlib.import_module(module), attribute)
    except AttributeError as error:
        raise ImportError(str(error), name=module) from error


globals().update(
    {name: __getattr__(name) for name, place in _MODULES.items() if not place.startswith(_LATE)}
)


def software_hook() -> ModuleType:
    """Return the module that notes, while a workflow is compiled, what software is there."""
    return importlib.import_module("hepflow.compiler.hooks.software")


def entries_hook() -> ModuleType:
    """Return the module that counts, while a workflow is compiled, the entries of its files."""
    return importlib.import_module("fasthep_curator.compile_hooks.root_tree_metadata")


def expression_parser() -> Any:
    """Return the module whose ``symbols_in_expr`` tells the names in every expression."""
    return importlib.import_module("hepflow.compiler.expr_symbols")


def evaluating_operation(impl: str) -> Any:
    """Return the module of an operation that calls ``eval_expr`` for its expressions."""
    return importlib.import_module(evaluating_module(impl))


def evaluating_module(impl: str) -> str:
    """Return the name of the module of one of FAST-HEP's operations on events."""
    name = impl.removeprefix("hep.").replace("selection.cutflow", "cutflow").replace(".", "_")
    return f"fasthep_carpenter.operations.{name}"

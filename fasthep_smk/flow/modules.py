"""Which modules a plan names: those of its operations, modifiers, hooks and handlers."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

from fasthep_smk.flow import op_identity
from fasthep_smk.flow.reads import entries_of, hook_entries

if TYPE_CHECKING:
    from fasthep_smk.flow.shapes import Plan

#: Of these, a run loads all that is registered.
_LOADED = ("functions", "constants", "product_handlers")
#: Packages whose functions FAST-HEP's own registry names, and this one.
_KNOWN = ("numpy", "awkward", "fasthep_smk")


def modules_of(plan: Plan) -> list[str]:
    """Return the modules that running a plan imports by their names, sorted."""
    loaded = _modules([plan.registry.get(section) for section in _LOADED])
    return sorted({*loaded, *_of_operations(plan)})


def own_modules_of(plan: Plan) -> list[str]:
    """Return those of a plan's modules that are the user's own, sorted.

    Of installed ones, those that declare operations; not libraries whose functions an expression
    uses.
    """
    operations = _of_operations(plan)
    return [
        name
        for name in modules_of(plan)
        if not op_identity.is_published(name)
        and name.partition(".")[0] not in sys.stdlib_module_names
        and (name in operations or not op_identity.is_installed(name))
    ]


def only_fasthep(plan: Plan) -> bool:
    """Whether a plan runs no code but FAST-HEP's own, and that of libraries which it names."""
    return bool(plan.nodes) and not any(map(is_of_user, modules_of(plan)))


def is_of_user(module: str) -> bool:
    """Whether a module is none of FAST-HEP, nor of a library that FAST-HEP's own registry names."""
    root = module.partition(".")[0]
    known = root in _KNOWN or root in sys.stdlib_module_names
    return not (known or op_identity.is_published(module))


def _of_operations(plan: Plan) -> set[str]:
    sinks = plan.registry.get("sinks") or {}
    entries = [*plan.execution_hooks, *hook_entries(plan)]
    entries += [entry for node in plan.nodes for entry in entries_of(plan, node)]
    entries += [sinks.get(str(report.get("op"))) for report in plan.reports]
    return set(_modules(entries))


def _modules(value: object) -> Iterator[str]:
    """Yield the modules of all ``module:object`` texts in a part of a registry."""
    if isinstance(value, dict):
        for item in value.values():
            yield from _modules(item)
    elif isinstance(value, list):
        for item in value:
            yield from _modules(item)
    elif isinstance(value, str) and ":" in value:
        module = value.partition(":")[0]
        if all(part.isidentifier() for part in module.split(".")):
            yield module

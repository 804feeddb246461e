"""What an operation *is*: the text of a user's module, the version of a published package.

Used to decide whether an earlier result still stands. The module is found without importing it.
"""

from __future__ import annotations

import hashlib
import importlib.util
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

__all__ = [
    "honours_ranges",
    "is_published",
    "mentions_variation",
    "module_file",
    "of_component",
    "of_object",
]

_PUBLISHED = {
    "hepflow": "fasthep-flow",
    "fasthep_carpenter": "fasthep-carpenter",
    "fasthep_curator": "fasthep-curator",
    "fasthep_render": "fasthep-render",
    "fasthep_workshop": "fasthep-workshop",
    "fasthep_distributed": "fasthep-distributed",
}


def of_component(registry: dict[str, Any], category: str, name: str) -> str:
    """Return the identity of a registered component, empty if it is not registered."""
    entry = (registry.get(category) or {}).get(name)
    if not isinstance(entry, dict):
        return ""
    return "|".join(of_object(str(entry.get(part) or "")) for part in ("spec", "impl"))


@cache
def of_object(reference: str) -> str:
    """Return the identity of ``module:object``: name and version, or name and source digest."""
    module = reference.partition(":")[0]
    package = module.partition(".")[0]
    if package in _PUBLISHED:
        return f"{reference}@{_version(_PUBLISHED[package])}"
    path = module_file(module)
    if path is None:
        return reference
    return f"{reference}@{hashlib.sha256(path.read_bytes()).hexdigest()[:16]}"


def mentions_variation(registry: dict[str, Any], category: str, name: str) -> bool:
    """Tell whether a user's component may look at the name of the systematic variation.

    Published components do not (they see it only in where files go); a user's may read
    ``ctx["variation"]``, so that one whose source contains the word is never shared between
    variations.
    """
    entry = (registry.get(category) or {}).get(name)
    reference = str(entry.get("impl") or "") if isinstance(entry, dict) else ""
    module = reference.partition(":")[0]
    if not module or is_published(module):
        return False
    path = module_file(module)
    return path is None or b"variation" in path.read_bytes()


def honours_ranges(registry: dict[str, Any], name: str) -> bool:
    """Tell whether a source reads only the entries of its partition.

    ``root_tree`` does. FAST-HEP has no declaration for it, and its other sources read the whole
    file whatever the range, so that cutting a file would count its events several times. A user's
    source is taken to honour ranges if its module speaks of a partition's ``start``.
    """
    if name == "root_tree":
        return True
    entry = (registry.get("sources") or {}).get(name)
    reference = str(entry.get("impl") or "") if isinstance(entry, dict) else ""
    path = module_file(reference.partition(":")[0])
    text = path.read_bytes() if path is not None else b""
    return b"partition" in text and b"start" in text


def is_published(module: str) -> bool:
    """Tell whether a module belongs to one of FAST-HEP's own packages."""
    return module.partition(".")[0] in _PUBLISHED


def module_file(module: str) -> Path | None:
    """Return the source file of a module, ``None`` if there is none that can be read."""
    try:
        spec = importlib.util.find_spec(module)
    except (ImportError, ValueError, AttributeError):
        return None
    if spec is None or spec.origin is None or not Path(spec.origin).is_file():
        return None
    return Path(spec.origin)


@cache
def _version(distribution: str) -> str:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return "not installed"

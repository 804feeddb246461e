"""What an operation *is*: the text of a user's module, the version of a published package.

Used to decide whether an earlier result still stands. The module is found without importing it.
"""

from __future__ import annotations

import ast
import contextlib
import hashlib
import importlib.util
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

__all__ = [
    "honours_ranges",
    "is_installed",
    "is_published",
    "mentions_variation",
    "module_file",
    "named_files",
    "of_component",
    "of_object",
    "own_sources",
]

#: Bytes above which a file that a parameter names is known by size and time.
_MAX_HASHED = 20_000_000
_NOT_INSTALLED = "not installed"
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
    return of_entry((registry.get(category) or {}).get(name))


def of_entry(entry: Any) -> str:
    """Return the identity of all ``module:object`` references in a registry entry."""
    if isinstance(entry, dict):
        return "|".join(of_entry(entry[key]) for key in sorted(entry, key=str))
    return of_object(entry) if isinstance(entry, str) and ":" in entry else ""


@cache
def of_object(reference: str) -> str:
    """Return the identity of ``module:object``: its name, and a digest of its source.

    The source of a user's module includes the user's other modules that it imports; that of an
    installed one is its own file, and the version of its package.
    """
    module = reference.partition(":")[0]
    package = module.partition(".")[0]
    digest = hashlib.sha256()
    if package in _PUBLISHED:
        path = module_file(module)
        digest.update(path.read_bytes() if path is not None else b"")
        return f"{reference}@{_version(_PUBLISHED[package])}@{digest.hexdigest()[:16]}"
    for path in sources_of(module):
        digest.update(path.read_bytes())
    version = "".join(f"@{_version(name)}" for name in _distributions(module))
    return f"{reference}{version}@{digest.hexdigest()[:16]}"


def is_installed(module: str) -> bool:
    """Tell whether a module stands in ``site-packages``: what it imports is not looked at."""
    path = module_file(module)
    return path is not None and _is_installed(path)


def _distributions(module: str) -> list[str]:
    """Return the distributions that an installed module came with."""
    package = module.partition(".")[0]
    if package in sys.stdlib_module_names or not is_installed(module):
        return []
    if _version(package) != _NOT_INSTALLED:
        return [package]
    # Its distribution has another name: to find it, those of all that is installed are read.
    return sorted(set(metadata.packages_distributions().get(package, ())))


@cache
def sources_of(module: str) -> tuple[Path, ...]:
    """Return the file of a module and of the user's own modules that it imports, sorted.

    Followed are modules outside the standard library and ``site-packages``: an installed package
    changes by its version.
    """
    return tuple(sorted(set(_closure(module).values())))


def own_sources(module: str) -> dict[str, Path]:
    """Return the user's own modules among a module and what it imports, by name."""
    return {name: path for name, path in _closure(module).items() if not _is_installed(path)}


def _closure(module: str) -> dict[str, Path]:
    found: dict[str, Path] = {}
    pending = [module]
    while pending:
        name = pending.pop()
        path = module_file(name)
        if name in found or path is None:
            continue
        found[name] = path
        if not _is_installed(path):
            pending.extend(_imports(path, name))
    return found


def of_named_files(value: Any, roots: Iterable[Path]) -> list[str]:
    """Return the identity of each existing file that a text in ``value`` names.

    Parameters such as ``path: weights.csv`` are read by the op: another content is another result.
    """
    found = []
    for name, path in _named(value, tuple(roots)):
        status = path.stat()
        if status.st_size > _MAX_HASHED:
            found.append(f"{name}|{status.st_size}|{status.st_mtime_ns}")
        else:
            found.append(f"{name}|{hashlib.sha256(path.read_bytes()).hexdigest()[:16]}")
    return found


def named_files(value: Any, roots: Iterable[Path]) -> list[Path]:
    """Return the existing files that texts in ``value`` name."""
    return list(dict.fromkeys(path for _, path in _named(value, tuple(roots))))


def _named(value: Any, roots: tuple[Path, ...]) -> Iterator[tuple[str, Path]]:
    if isinstance(value, dict):
        for item in value.values():
            yield from _named(item, roots)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _named(item, roots)
    elif isinstance(value, str) and 0 < len(value) < 1000 and value.isprintable():
        for root in roots:
            with contextlib.suppress(OSError):
                if (root / value).is_file():
                    yield value, root / value
                    break


def mentions_variation(registry: dict[str, Any], category: str, name: str) -> bool:
    """Tell whether a user's component may depend on the systematic variation it runs for.

    Published components do not (they see it only in where files go). A user's may read
    ``ctx["variation"]`` or write files of its own: one that speaks of either, or imports a module
    that does, is never shared between variations.
    """
    entry = (registry.get(category) or {}).get(name)
    reference = str(entry.get("impl") or "") if isinstance(entry, dict) else ""
    module = reference.partition(":")[0]
    if not module or is_published(module):
        return False
    texts = [path.read_bytes() for path in sources_of(module)]
    words = (b"variation", b"build_paths", b"outdir")
    return not texts or any(word in text for text in texts for word in words)


def honours_ranges(registry: dict[str, Any], name: str) -> bool:
    """Tell whether a source reads only the entries of its partition.

    ``root_tree`` does. FAST-HEP has no declaration for it, and its other sources read the whole
    file whatever the range, so that cutting a file would count its events several times. A user's
    source is taken to honour ranges if its module reads ``start`` of a partition.
    """
    if name == "root_tree":
        return True
    entry = (registry.get("sources") or {}).get(name)
    reference = str(entry.get("impl") or "") if isinstance(entry, dict) else ""
    path = module_file(reference.partition(":")[0])
    text = path.read_bytes() if path is not None else b""
    return b"partition" in text and (b'"start"' in text or b"'start'" in text)


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


def _is_installed(path: Path) -> bool:
    standard = Path(sysconfig.get_paths()["stdlib"])
    return (
        "site-packages" in path.parts or "dist-packages" in path.parts or (standard in path.parents)
    )


def _imports(path: Path, module: str) -> Iterator[str]:
    """Yield the modules that a source file imports."""
    try:
        tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError):
        return
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parts = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join(filter(None, [*parts, base]))
            yield base
            yield from (f"{base}.{alias.name}" for alias in node.names if base)


@cache
def _version(distribution: str) -> str:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return _NOT_INSTALLED

"""What an operation *is*: the text of a user's module, the version of a published package.

Used to decide whether an earlier result is still valid. The module is found without importing it.
"""

from __future__ import annotations

import ast
import importlib.util
import re
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from fasthep_smk.flow.distributions import is_installed_file, package_identity, version
from fasthep_smk.util import files

if TYPE_CHECKING:
    from fasthep_smk.flow.shapes import Registry

PUBLISHED = {
    "hepflow": "fasthep-flow",
    "fasthep_carpenter": "fasthep-carpenter",
    "fasthep_curator": "fasthep-curator",
    "fasthep_render": "fasthep-render",
    "fasthep_workshop": "fasthep-workshop",
    "fasthep_distributed": "fasthep-distributed",
}


#: A text in a module that may name a file: one with a suffix.
_FILE_NAME = re.compile(r"[\w~$@+./-]{0,200}[\w-]\.[A-Za-z]\w{0,7}")


def impl_of(registry: Registry, category: str, name: str) -> str:
    """Return the ``module:object`` of what is registered under a name, empty if nothing is."""
    entry = (registry.get(category) or {}).get(name)
    return str(entry.get("impl") or "") if isinstance(entry, dict) else ""


def of_entry(entry: object) -> str:
    """Return the identity of all ``module:object`` references in a registry entry."""
    if isinstance(entry, dict):
        return "|".join(of_entry(entry[key]) for key in sorted(entry, key=str))
    return of_object(entry) if isinstance(entry, str) and ":" in entry else ""


@cache
def of_object(reference: str) -> str:
    """Return the identity of ``module:object``: its name, and a digest of its source.

    Of a user's module also those of the user's other modules that it imports, with the packages
    above them, and the versions of the installed packages. Parts are joined by ``|``.
    """
    module = reference.partition(":")[0]
    if is_published(module):
        path = module_file(module)
        source = content_digest(path) if path is not None else ""
        return f"{reference}@{version(PUBLISHED[module.partition('.')[0]])}@{source}"
    modules, packages = _imported(module)
    sources = dict(modules)
    own = sources.pop(module, None)
    parts = [f"{reference}@{content_digest(own) if own is not None else ''}"]
    parts += [f"import:{name}@{content_digest(path)}" for name, path in sorted(sources.items())]
    parts += [f"import:{name}@{package_identity(name)}" for name in sorted(packages)]
    return "|".join(parts)


@cache
def content_digest(path: Path) -> str:
    """Return a digest of a source file as it is when this is asked first."""
    return files.sha256_file(path)[:16]


def is_installed(module: str) -> bool:
    """Whether a module is an installed one."""
    path = module_file(module)
    return path is not None and is_installed_file(str(path))


def sources_of(module: str) -> tuple[Path, ...]:
    """Return the files of a module and of the user's own modules that it imports, sorted.

    An installed module stands alone: its distribution has a version.
    """
    return tuple(sorted(set(_imported(module)[0].values())))


def own_sources(module: str) -> dict[str, Path]:
    """Return the modules that are not installed among a module and what it imports, by name."""
    modules = _imported(module)[0]
    return {name: path for name, path in modules.items() if not is_installed_file(str(path))}


@cache
def _imported(module: str) -> tuple[Mapping[str, Path], frozenset[str]]:
    """Return the user's own modules that importing a module runs, and installed packages."""
    top = module.partition(".")[0]
    sources: dict[str, Path] = {}
    packages: set[str] = set()
    seen: set[str] = set()
    if is_installed(module):  # its distribution knows when any of its modules changes
        path = module_file(module)
        known = top in sys.stdlib_module_names
        return {module: path} if path else {}, frozenset(() if known else [top])
    pending = [module]
    while pending:
        name = pending.pop()
        if name in seen:
            continue
        seen.add(name)
        package = name.partition(".")[0]
        # Python runs the packages above a module, too.
        if name != package:
            pending.append(name.rpartition(".")[0])
        if package != top and not _may_be_own(package):
            if package not in sys.stdlib_module_names:
                packages.add(package)
            continue
        path = module_file(name)
        if path is not None:
            sources[name] = path
            pending.extend(_imports(path, name))
    return sources, frozenset(packages)


@cache
def _may_be_own(package: str) -> bool:
    """Whether a top-level package is a user's own: it exists, and is not an installed one."""
    try:
        spec = importlib.util.find_spec(package)
    except (ImportError, ValueError, AttributeError):
        return False
    if spec is None or spec.origin in ("built-in", "frozen"):
        return False
    places = [spec.origin] if spec.origin else list(spec.submodule_search_locations or ())
    return any(not is_installed_file(f"{place}/") for place in places)


@cache
def named_texts(module: str) -> tuple[tuple[str, Path], ...]:
    """Return texts in a module's own sources that may name files, each with its source."""
    texts: dict[tuple[str, Path], None] = {}
    for path in sources_of(module):
        tree = _parsed(path)
        for node in ast.walk(tree) if tree is not None else ():
            text = node.value if isinstance(node, ast.Constant) else None
            if isinstance(text, str) and _FILE_NAME.fullmatch(text):
                texts[(text, path)] = None
    return tuple(texts)


def modules_of_entry(entry: object) -> list[str]:
    """Return the modules of the user's that a registry entry names."""
    if isinstance(entry, dict):
        return [name for item in entry.values() for name in modules_of_entry(item)]
    module = entry.partition(":")[0] if isinstance(entry, str) and ":" in entry else ""
    is_name = all(part.isidentifier() for part in module.split("."))
    return [module] if is_name and not is_published(module) else []


def forget() -> None:
    """Forget what modules were: they are looked at again."""
    importlib.invalidate_caches()
    for function in (
        of_object, content_digest, _imported, _may_be_own, named_texts, _parsed,
        package_identity, version,
    ):  # fmt: skip
        function.cache_clear()


def honours_ranges(registry: Registry, name: str) -> bool:
    """Whether a source reads only the entries of its partition.

    ``root_tree`` does. FAST-HEP has no declaration for it, and its other sources read the whole
    file whatever the range, so that cutting a file would count its events several times. A user's
    source is taken to honour ranges if its module reads ``start`` of a partition.
    """
    if name == "root_tree":
        return True
    path = module_file(impl_of(registry, "sources", name).partition(":")[0])
    text = path.read_bytes() if path is not None else b""
    return b"partition" in text and (b'"start"' in text or b"'start'" in text)


def is_published(module: str) -> bool:
    """Whether a module belongs to one of FAST-HEP's own packages."""
    return module.partition(".")[0] in PUBLISHED


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
def _parsed(path: Path) -> ast.AST | None:
    try:
        return ast.parse(path.read_bytes())
    except (OSError, SyntaxError, ValueError, RecursionError):
        return None


def _imports(path: Path, module: str) -> Iterator[str]:
    """Yield the modules that a source file imports."""
    tree = _parsed(path)
    if tree is None:
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
        elif isinstance(node, ast.Call) and node.args:
            called = getattr(node.func, "attr", getattr(node.func, "id", ""))
            first = node.args[0]
            text = first.value if isinstance(first, ast.Constant) else None
            if called in ("import_module", "__import__") and isinstance(text, str):
                yield text

"""Sources that are not installed: of editable installs, and the modules of an analysis."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from fasthep_smk.contrib.pack.entries import Entry, walk
from fasthep_smk.flow import op_identity
from fasthep_smk.util.errors import Findings

#: Bytes above which a folder of sources holds something else, such as results.
_MOST = 500_000_000
#: What lies beside a package in the folder of a project, and is not a part of it.
_BESIDE = (
    "tests", "test", "testing", "docs", "doc", "examples", "example", "benchmarks", "scripts",
    "tools", "build", "dist", "setup.py", "conftest.py", "noxfile.py", "tasks.py",
)  # fmt: skip


def editable_names(name: str, hooks: Iterable[Path]) -> dict[str, Path]:
    """Return what can be imported of an editable install, and where it lies.

    ``hooks`` are the files by which Python finds it.

    Raises:
        Findings: the install is of a kind that cannot be read.
    """
    places: dict[str, Path] = {}
    for hook in hooks:
        if hook.suffix == ".py":
            places |= _mapping(hook)
            continue
        for line in map(str.strip, hook.read_text(encoding="utf-8").splitlines()):
            if line and Path(line).is_dir():
                places |= _importable(Path(line))
    if not places:
        raise Findings.one(
            "is installed in editable mode, in a way that cannot be packed",
            key="the package",
            value=name,
            expected="an editable install that uses a .pth file or a mapping of packages",
            hint="install it without -e",
        )
    return places


def own_entries(
    modules: Iterable[str], editable: dict[str, Path], site: str
) -> dict[str, list[Entry]]:
    """Return the entries of what is imported from outside of the environment, by package.

    ``modules`` are followed through what they import; ``editable`` is packed in any case.

    Raises:
        Findings: there is more in a package than sources.
    """
    by_package: dict[str, list[Entry]] = {}
    for name, place in editable.items():
        file = op_identity.module_file(name)  # another one, if PYTHONPATH says so
        by_package[name] = list(_package(name, place if file is None else _top(file), site))
    for module in modules:
        top = module.partition(".")[0]
        if top in by_package or top in sys.stdlib_module_names:
            continue
        for name, path in op_identity.own_sources(module).items():
            _add(name, path, by_package, editable, site)
    for name, entries in by_package.items():
        _check_size(name, entries)
    return by_package


def _add(
    name: str, path: Path, by_package: dict[str, list[Entry]], editable: dict[str, Path], site: str
) -> None:
    package = name.partition(".")[0]
    first = op_identity.module_file(package)
    if package in editable or (package in by_package and first is not None):
        return
    if first is not None:
        by_package[package] = list(_package(package, _top(first), site))
        return
    # A folder without __init__.py: only what is imported of it.
    inside = name.replace(".", "/")
    inside += "/__init__.py" if path.name == "__init__.py" else path.suffix
    by_package.setdefault(package, []).append(Entry(f"{site}/{inside}", path))


def _top(file: Path) -> Path:
    return file.parent if file.name == "__init__.py" else file


def _package(name: str, place: Path, site: str) -> Iterator[Entry]:
    if place.is_dir():
        yield from walk(place, f"{site}/{name}", skip=lambda inside: _is_no_source(place / inside))
    else:
        yield Entry(f"{site}/{name}{''.join(place.suffixes)}", place)


def _is_no_source(path: Path) -> bool:
    """Whether this is hidden, as what version control keeps, or holds results of runs."""
    return path.name.startswith(".") or (path / "smk" / "tasks").is_dir()


def _importable(root: Path) -> dict[str, Path]:
    project = any((root / name).exists() for name in ("pyproject.toml", "setup.py", "setup.cfg"))
    places: dict[str, Path] = {}
    for path in sorted(root.iterdir()):
        if path.name.startswith((".", "_")) or not path.stem.isidentifier():
            continue
        if project and path.name in _BESIDE:
            continue
        if path.suffix == ".py" or (path / "__init__.py").is_file():
            places[path.stem] = path
        elif not project and path.is_dir() and any(path.rglob("*.py")):
            places[path.name] = path
    return places


def _mapping(finder: Path) -> dict[str, Path]:
    """Return the mapping of packages in what setuptools writes for an editable install."""
    for node in ast.parse(finder.read_bytes()).body:
        if not isinstance(node, ast.Assign | ast.AnnAssign) or node.value is None:
            continue
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        if any(isinstance(target, ast.Name) and target.id == "MAPPING" for target in targets):
            value = ast.literal_eval(node.value)
            places = {str(name): Path(place) for name, place in value.items() if "." not in name}
            return {
                name: place if place.exists() else place.with_suffix(".py")
                for name, place in places.items()
            }
    return {}


def _check_size(name: str, entries: list[Entry]) -> None:
    sizes = {entry: entry.source.stat().st_size for entry in entries if entry.source is not None}
    if sum(sizes.values()) > _MOST:
        largest = max(sizes, key=lambda entry: sizes[entry])
        raise Findings.one(
            f"holds {sum(sizes.values()) / 1e6:.0f} MB, which is too much for source code",
            key="the package",
            value=name,
            expected=f"at most {_MOST / 1e6:.0f} MB in a package that is not installed",
            hint=f"move data such as {largest.source} out of the package, or install the package",
        )

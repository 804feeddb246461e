"""docs/processes.md names each place of the package that starts a process."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "fasthep_smk"
PAGE = (ROOT / "docs/processes.md").read_text()

#: Names of what starts a process, as they are called or handed on.
STARTS = re.compile(
    r"Popen|posix_spawn\w*|fork|exec(v|ve|vp|l|le|lp)|system|ProcessPoolExecutor|get_context"
    r"|create_subprocess_\w+"
)


def starts(path: Path) -> set[str]:
    """Return by which names a module starts processes."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if not isinstance(node, ast.Call):
            continue
        of, name = None, ""
        if isinstance(node.func, ast.Attribute):
            of, name = ast.unparse(node.func.value), node.func.attr
        elif isinstance(node.func, ast.Name):
            name = node.func.id
        run = of == "subprocess" and name in ("run", "call", "check_call", "check_output")
        if run or (STARTS.fullmatch(name) and not (name == "system" and of != "os")):
            found.add(name)
    return found


def by_module() -> dict[str, set[str]]:
    found = {path: starts(path) for path in sorted(PACKAGE.rglob("*.py"))}
    return {str(path.relative_to(PACKAGE)): names for path, names in found.items() if names}


def test_places_are_found() -> None:
    assert {"run/snakemake_process.py", "worker/job_end.py", "worker/plots.py"} <= set(by_module())


def is_named(module: str) -> bool:
    """Whether the page names a module, by its path or as Python runs it."""
    dotted = f"fasthep_smk.{module.removesuffix('.py').replace('/', '.')}"
    in_pack = module.startswith("contrib/pack/") and "`contrib/pack/`" in PAGE
    return f"`{module}" in PAGE or f"`{dotted.removesuffix('.__main__')}`" in PAGE or in_pack


@pytest.mark.parametrize("module", by_module())
def test_each_module_that_starts_a_process_is_on_the_page(module: str) -> None:
    assert is_named(module), f"{module} starts a process: {', '.join(by_module()[module])}"


def run_by_python() -> set[str]:
    """Return the modules that are more than imported: `-m` or a file's name starts them."""
    files = {str(path.relative_to(PACKAGE)): path.read_text() for path in PACKAGE.rglob("*.py")}
    return {
        name
        for name, text in files.items()
        if name.endswith("__main__.py") or 'if __name__ == "__main__":' in text
    }


@pytest.mark.parametrize("module", sorted(run_by_python()))
def test_each_module_that_python_runs_is_on_the_page(module: str) -> None:
    assert is_named(module) or "/templates/" in module, "who starts it?"


def test_what_is_started_by_name_can_be_run() -> None:
    texts = [path.read_text() for path in PACKAGE.rglob("*") if path.suffix in (".py", ".sh")]
    named = {name for text in texts for name in re.findall(r"-m[\"', ]+(fasthep_smk[\w.]*)", text)}
    can = {f"fasthep_smk.{one.removesuffix('.py').replace('/', '.')}" for one in run_by_python()}
    assert "fasthep_smk.worker.fork_server" in named
    assert named <= {one.removesuffix(".__main__") for one in can}

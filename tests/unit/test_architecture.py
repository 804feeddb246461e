"""The rooms of docs/architecture.md are those of the code, and imports go one way."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "fasthep_smk"
#: What stands beside the rooms: the command, and the public names.
ENTRANCES = {"__init__", "__main__", "api", "py"}  # py.typed
#: Modules that are named by a text in a room below theirs: each is started or read by another
#: process, or opened as a file, so nothing is imported upwards.
NAMED_BELOW = {
    # The optional parts, which are imported when they are used.
    ("fasthep_smk.cli.main", "fasthep_smk.contrib.export.bundle"),
    ("fasthep_smk.cli.main", "fasthep_smk.contrib.measure.forecast"),
    ("fasthep_smk.cli.main", "fasthep_smk.contrib.measure.ops"),
    ("fasthep_smk.cli.run", "fasthep_smk.contrib.measure.forecast"),
    ("fasthep_smk.cli.init", "fasthep_smk.contrib.measure.from_root"),
    ("fasthep_smk.flow.reads", "fasthep_smk.contrib.measure.modifiers"),
    ("fasthep_smk.cli.main", "fasthep_smk.contrib.measure.sizes"),
    ("fasthep_smk.cli.main", "fasthep_smk.contrib.report.command"),
    ("fasthep_smk.run.report_page", "fasthep_smk.contrib.report"),
    ("fasthep_smk.cli.main", "fasthep_smk.contrib.pack.command"),
    ("fasthep_smk.worker.reduction", "fasthep_smk.contrib.export.histograms"),
    ("fasthep_smk.transfer.setup", "fasthep_smk.contrib.pack.build"),
    ("fasthep_smk.executors.start", "fasthep_smk.contrib.pilots.executor"),
    ("fasthep_smk.translate.placement", "fasthep_smk.contrib.pilots.crews"),
    # Files of the build folder say what Snakemake starts or imports.
    ("fasthep_smk.translate.result_rules", "fasthep_smk.cli.hand_over"),
    # A run starts Snakemake through the module that its batch system names.
    ("fasthep_smk.sites.htcondor", "fasthep_smk.executors.htcondor"),
    ("fasthep_smk.sites.local", "fasthep_smk.executors.local"),
    ("fasthep_smk.sites.other", "fasthep_smk.executors.other"),
    ("fasthep_smk.sites.slurm", "fasthep_smk.executors.slurm"),
    # The schema of FAST-HEP's language is a file beside the code that follows it.
    ("fasthep_smk.config.schema", "fasthep_smk.flow"),
}


def rooms() -> list[str]:
    """The rooms of the table, the highest first."""
    text = (ROOT / "docs/architecture.md").read_text()
    return re.findall(r"^\| `([a-z_]+)/` \|", text, re.MULTILINE)


def modules() -> dict[str, Path]:
    found = {}
    for path in PACKAGE.rglob("*.py"):
        parts = path.relative_to(ROOT).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


@cache
def imports() -> list[tuple[str, str]]:
    """Each import of a module of ours by another, those inside functions too."""
    known, found = modules(), set()
    for name, path in known.items():
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                named = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                assert not node.level, f"{path}: a relative import"
                named = [f"{node.module}.{alias.name}" for alias in node.names]
            else:
                continue
            for one in named:
                target = one if one in known else one.rpartition(".")[0]
                if target in known and target != name:
                    found.add((name, target))
    return sorted(found)


def named() -> set[tuple[str, str]]:
    """Each module or package of ours that a text of another module names, docstrings left out."""
    found = set()
    for name, path in modules().items():
        tree = ast.parse(path.read_text())
        said = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        for node in ast.walk(tree):
            if not isinstance(node, ast.Constant) or id(node) in said:
                continue
            if isinstance(node.value, str):
                targets = re.findall(r"\bfasthep_smk(?:\.[a-z_]+)+", node.value)
                found |= {(name, target) for target in targets}
    return found


def room_of(module: str) -> str:
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else "__init__"


def test_the_table_names_all_rooms() -> None:
    there = {path.stem for path in PACKAGE.iterdir() if path.name != "__pycache__"}
    assert there - ENTRANCES == set(rooms())


@pytest.mark.parametrize("room", rooms())
def test_a_room_imports_only_rooms_below_it(room: str) -> None:
    order = rooms()
    below = set(order[order.index(room) :])
    upwards = [
        f"{name} imports {target}"
        for name, target in imports()
        if room_of(name) == room and room_of(target) not in below | ENTRANCES
    ]
    assert upwards == []


def test_optional_parts_import_of_each_other_no_more_than_a_door() -> None:
    between = [
        f"{name} imports {target}"
        for name, target in imports()
        if room_of(name) == room_of(target) == "contrib"
        if name.split(".")[2] != target.split(".")[2]
    ]
    # What is known of the jobs of a build folder is told there, and forecast from.
    door = "fasthep_smk.contrib.measure.forecast imports fasthep_smk.contrib.report.facts"
    assert between == [door]


def test_a_room_names_modules_above_it_only_where_other_processes_use_them() -> None:
    order = rooms()
    upwards = {
        (name, target)
        for name, target in named()
        if room_of(name) in order and room_of(target) in order
        if order.index(room_of(target)) < order.index(room_of(name))
    }
    assert upwards == NAMED_BELOW


def test_nothing_else_imports_an_optional_part() -> None:
    """Not inside a function either: it is named by a text, and loaded when it is used."""
    taken = [pair for pair in imports() if room_of(pair[1]) == "contrib"]
    assert [pair for pair in taken if room_of(pair[0]) != "contrib"] == []


def test_no_room_imports_an_entrance() -> None:
    version = {("fasthep_smk.cli.parser", "fasthep_smk")}  # which is printed
    taken = {(name, target) for name, target in imports() if room_of(target) in ENTRANCES}
    assert {pair for pair in taken if room_of(pair[0]) not in ENTRANCES} <= version


def test_no_modules_import_each_other_in_a_circle() -> None:
    left: dict[str, set[str]] = {name: set() for name in modules()}
    del left["fasthep_smk"]  # its public names are looked up when they are used
    for name, target in imports():
        left.get(name, set()).add(target)
    while free := [name for name, targets in left.items() if not targets & left.keys()]:
        for name in free:
            del left[name]
    assert left == {}, "these import each other"


def test_one_module_alone_imports_hepflow() -> None:
    others = [
        str(path.relative_to(ROOT))
        for path in modules().values()
        if re.search(r"^\s*(from|import) hepflow", path.read_text(), re.MULTILINE)
    ]
    assert others in ([], ["fasthep_smk/flow/upstream.py"])


def test_each_unit_test_of_a_room_is_that_of_a_module() -> None:
    """``test_MODULE.py``, or ``test_MODULE_WHAT.py`` for a part of it."""
    folder = ROOT / "tests" / "unit"
    lost = []
    for path in sorted(folder.rglob("test_*.py")):
        room = path.relative_to(folder).parent
        words = path.stem.split("_")[1:]
        names = ["_".join(words[:end]) for end in range(1, len(words) + 1)]
        modules = ["__init__.py" if name == room.name else f"{name}.py" for name in names]
        if room.parts and not any((PACKAGE / room / module).is_file() for module in modules):
            lost.append(str(path.relative_to(ROOT)))
    assert lost == []


def test_the_picture_shows_the_steps_of_a_run() -> None:
    from fasthep_smk.run.pipeline import STEPS

    shown = (ROOT / "docs/architecture.md").read_text().partition("```text\n")[2].partition("\n")[0]
    assert shown.split(" ─► ") == [step.__name__.removesuffix("_plans") for step in STEPS]

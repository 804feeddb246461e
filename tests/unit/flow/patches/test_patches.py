"""The register of patches lists all that we change in other people's code, as it is today."""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fasthep_smk.flow import patches
from fasthep_smk.flow.patches import Patch
from tests.support.faults import entries

ROOT = Path(__file__).parents[4]
PACKAGE = ROOT / "fasthep_smk"
ENTRIES = {script: entry for entry in entries() for script in entry.scripts}
REGISTER = {name: one for name, one in vars(patches).items() if isinstance(one, Patch)}
#: What a module is made for, in the words of its own documentation; that is no patch.
SETTINGS = {"sys.stdin", "sys.stdout", "sys.stderr", "sys.argv", "tempfile.tempdir"}
#: What cannot make its change through the register: it is that of ``sys.modules``.
BY_HAND = {patches.LATE_IMPORTS.module, patches.BARE_PARSL.module}

#: A module that is asked for by name, or of FAST-HEP's by a function of ours without arguments.
_ASKED_FOR = re.compile(r"import_module\(|\bupstream\.[a-z_]+\(\)")

each_patch = pytest.mark.parametrize("patch", REGISTER.values(), ids=REGISTER)


@each_patch
@pytest.mark.filterwarnings("ignore:The environment variable CONDOR_CONFIG")
def test_what_is_replaced_is_there(patch: Patch) -> None:
    importlib.import_module("snakemake.cli")  # the modules below it import each other
    for name in patch.replaces:
        module, _, attributes = name.partition(":")
        owner: Any = importlib.import_module(module)
        for attribute in attributes.split("."):
            owner = getattr(owner, attribute)


@each_patch
def test_its_entry_names_the_module(patch: Patch) -> None:
    assert f"fasthep_smk/{patch.module}" in ENTRIES[patch.upstream].modules


@each_patch
def test_it_is_made_and_tested_where_the_register_says(patch: Patch) -> None:
    name = next(name for name, one in REGISTER.items() if one is patch)
    assert name in (PACKAGE / patch.module).read_text()
    tested = (ROOT / patch.test).read_text()
    assert re.search(r"^(async )?def test_", tested, re.MULTILINE)


def test_each_patch_of_fasthep_or_snakemake_is_in_a_room_for_it() -> None:
    rooms = {name: one.module.rpartition("/")[0] for name, one in REGISTER.items()}
    assert rooms.pop("ENVIRONMENT") == "worker"  # of Python: jobs look who reads a variable
    assert set(rooms.values()) == {"flow/patches", "executors", "contrib/pilots"}


def test_nothing_else_is_changed() -> None:
    changes = [
        f"{path.relative_to(PACKAGE)}: {change}"
        for path in sorted(PACKAGE.rglob("*.py"))
        if str(path.relative_to(PACKAGE)) not in BY_HAND
        for change in foreign_changes(ast.parse(path.read_text()))
    ]
    assert changes == [], "use a Patch of fasthep_smk/flow/patches/__init__.py"


def test_no_private_field_of_a_job_of_snakemakes_is_set() -> None:
    for path in PACKAGE.rglob("*.py"):
        assert not re.search(r"\bjob\._\w+ = |\bsetattr\(job, ", path.read_text()), path


@pytest.mark.parametrize(
    "code",
    [
        "import yaml\nyaml.safe_load = print",
        "import yaml\nyaml.SafeLoader.name, one = 1, 2",
        "import yaml\nsetattr(yaml, 'safe_load', print)",
        "import yaml\nvars(yaml)['safe_load'] = print",
        "import yaml\nyaml.__dict__['safe_load'] = print",
        "from yaml import SafeLoader as kind\nkind.name: str = ''",
        "import importlib\nscheduler = importlib.import_module('a.b').Scheduler\nscheduler.x = 1",
        "import sys\nsys.modules['yaml'] = 1",
        "import os\nfor one in (os.environ, os.environb):\n    one.__class__ = 1",
        "from fasthep_smk.flow import upstream\nmodule = upstream.parser()\nmodule.parse = 1",
        "from unittest import mock\nmock.patch.object(1, 'a')",
    ],
)
def test_a_change_is_found(code: str) -> None:
    assert len(list(foreign_changes(ast.parse(code)))) == 1


@pytest.mark.parametrize(
    "code",
    [
        "from fasthep_smk.storage import layout\nlayout.name = 1",
        "import sys\nsys.stdout = None",
        "class A:\n    def f(self): self.a.b = 1",
        "import threading\ntimer = threading.Timer(1, print)\ntimer.daemon = True",
    ],
)
def test_what_is_our_own_is_no_change(code: str) -> None:
    assert list(foreign_changes(ast.parse(code))) == []


def foreign_changes(tree: ast.Module) -> Iterator[str]:
    """Yield the statements that replace an attribute of something that was imported."""
    foreign = _names_of_others(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            called = ast.unparse(node.func)
            is_set = called in ("setattr", "delattr") and _is_of(node.args[0], foreign)
            if is_set or called.endswith(("patch.object", "patch.dict")):
                yield ast.unparse(node)
        for target in _targets(node):
            if _is_of(target, foreign) and ast.unparse(target) not in SETTINGS:
                yield ast.unparse(node)


def _targets(node: ast.AST) -> Iterator[ast.expr]:
    """Yield what a statement assigns to, without names."""
    match node:
        case ast.Assign(targets=targets):
            pass
        case ast.AugAssign(target=target) | ast.AnnAssign(target=target):
            targets = [target]
        case _:
            return
    for target in targets:
        for one in target.elts if isinstance(target, ast.Tuple | ast.List) else [target]:
            if isinstance(one, ast.Attribute):
                yield one
            elif isinstance(one, ast.Subscript) and _is_namespace(one.value):
                yield one.value


def _is_namespace(value: ast.expr) -> bool:
    """Whether something holds the attributes of a module or class, or all modules."""
    text = ast.unparse(value)
    return text.startswith("vars(") or text.endswith((".__dict__", "sys.modules"))


def _names_of_others(tree: ast.Module) -> set[str]:
    """Return the names that stand for modules of other packages, and for what is taken of them."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {
                alias.asname or alias.name.partition(".")[0]
                for alias in node.names
                if not alias.name.startswith("fasthep_smk")
            }
        elif isinstance(node, ast.ImportFrom):
            ours = str(node.module).startswith("fasthep_smk")
            names = [alias.asname or alias.name for alias in node.names]
            found |= {name for name in names if not ours or name == "upstream"}
    for node in ast.walk(tree):  # scheduler = importlib.import_module(…).JobScheduler
        if isinstance(node, ast.Assign | ast.AnnAssign | ast.For) and _is_taken(node, found):
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            found |= {target.id} if isinstance(target, ast.Name) else set()
    return found


def _is_taken(node: ast.Assign | ast.AnnAssign | ast.For, foreign: set[str]) -> bool:
    """Whether the value is a part of a module of others, or a module that is asked for."""
    value = node.iter if isinstance(node, ast.For) else node.value
    values = value.elts if isinstance(value, ast.Tuple | ast.List) else [value]
    return any(
        (one is not None and bool(_ASKED_FOR.search(ast.unparse(one))))
        or (isinstance(one, ast.Attribute) and _is_of(one, foreign))
        for one in values
    )


def _is_of(value: ast.expr, foreign: set[str]) -> bool:
    """Whether an expression begins with one of these names."""
    while not isinstance(value, ast.Name):
        if isinstance(value, ast.Attribute | ast.Subscript | ast.Starred):
            value = value.value
        elif isinstance(value, ast.Call):
            if "import_module(" in ast.unparse(value):
                return True
            value = value.args[0] if ast.unparse(value.func) == "vars" else value.func
        else:
            return False
    return value.id in foreign

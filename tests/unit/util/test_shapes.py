"""Types that msgspec reads into: ready before several threads use them."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[3]
PACKAGE = ROOT / "fasthep_smk"
SHOWS_IT = ROOT / "docs" / "upstream" / "msgspec-types-crash-threads.py"


def test_several_threads_read_into_a_new_type() -> None:
    """The script that crashes, but for one call."""
    parts = ast.parse(SHOWS_IT.read_text()).body
    code = next(ast.literal_eval(part.value) for part in parts if isinstance(part, ast.Assign))
    assert "type=whole)" in code
    code = code.replace("type=whole)", "type=ready(whole))")
    code = f"from fasthep_smk.util.shapes import ready\n{code}"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr


def types_read_into(path: Path) -> Iterator[ast.expr]:
    """Yield the type in each call of a module that lets msgspec read into one."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call):
            match ast.unparse(node.func).split("."):
                case ["msgspec", *_, "decode"]:
                    yield from (word.value for word in node.keywords if word.arg == "type")
                case ["msgspec", "convert"]:
                    yield node.args[1]
                case ["msgspec", *_, "Decoder"]:
                    yield node


def test_each_type_that_the_package_reads_into_is_ready() -> None:
    types = {
        ast.unparse(shape)
        for path in PACKAGE.rglob("*.py")
        if path.name != "shapes.py"
        for shape in types_read_into(path)
    }
    assert len(types) >= 8
    assert [name for name in types if not name.startswith("ready(")] == []

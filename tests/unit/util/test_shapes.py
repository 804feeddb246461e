"""Types that msgspec reads into: ready before several threads use them."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

PACKAGE = Path(__file__).parents[3] / "fasthep_smk"

#: As docs/upstream/msgspec-types-crash-threads.py, which crashes.
THREADS = """\
import sys
import threading
from typing import TypedDict

import msgspec

from fasthep_smk.util.shapes import ready

sys.setswitchinterval(1e-6)
KEYS = {f"key{number}": "int" for number in range(40)}
for _ in range(50):
    parts = [TypedDict(f"Part{number}", KEYS) for number in range(3)]
    whole = TypedDict("Whole", {part.__name__: part for part in parts})
    content = msgspec.json.encode({part.__name__: dict.fromkeys(KEYS, 1) for part in parts})
    start = threading.Barrier(4)

    def read():
        start.wait()
        msgspec.json.decode(content, type=ready(whole))

    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
"""


def test_several_threads_read_into_a_new_type() -> None:
    ran = subprocess.run([sys.executable, "-c", THREADS], capture_output=True, text=True)
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

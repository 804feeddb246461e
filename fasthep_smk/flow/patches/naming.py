"""What FAST-HEP compiles in one folder names another one, the build folder that it is meant for.

Its compiler writes the folder that it writes into, and the path of the workflow, into what it
writes, hashes the texts, and hands them on to plans, which operations may see.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from fasthep_smk.flow.patches import NAMING
from fasthep_smk.util import files


@contextlib.contextmanager
def naming(aside: Path, build: Path) -> Iterator[None]:
    """Let ``yaml.safe_dump`` write ``build`` for the folder ``aside`` in the block."""
    dump, names = yaml.safe_dump, (str(aside), str(build))

    def dump_named(data: object, *rest: Any, **options: Any) -> Any:
        return dump(_named(data, *names), *rest, **options)

    with NAMING.made(yaml, safe_dump=dump_named):
        yield


def told_of_graph(aside: Path, build: Path) -> None:
    """Let what FAST-HEP's graph renderer has left in ``aside`` name the files in ``build``.

    The manifest of what was compiled knows its checksum.
    """
    for path in (aside / "compile").rglob("graph_render.json"):
        before = path.read_bytes()
        renamed = _named(json.loads(before), str(aside), str(build))
        path.write_text(json.dumps(renamed, indent=2, sort_keys=True), encoding="utf-8")
        manifest = path.with_name("inputs.manifest.yaml")
        if manifest.is_file():
            digests = files.sha256_bytes(before), files.sha256_file(path)
            text = manifest.read_text(encoding="utf-8")
            manifest.write_text(text.replace(*digests), encoding="utf-8")


def _named(data: Any, old: str, new: str) -> Any:
    """Return plain data with another folder at the start of paths; the same if none is there."""
    if isinstance(data, str):
        if data.startswith(old) and data[len(old) : len(old) + 1] in ("", "/"):
            return new + data[len(old) :]
        return data
    if isinstance(data, dict):
        renamed = {key: _named(value, old, new) for key, value in data.items()}
        return data if all(renamed[key] is value for key, value in data.items()) else renamed
    if isinstance(data, list | tuple):
        items = [_named(item, old, new) for item in data]
        same = all(item is other for item, other in zip(items, data, strict=True))
        return data if same else type(data)(items)
    return data

"""FAST-HEP reads no workflow or profile that would hold it up, and not too many of them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from fasthep_smk.flow.patches import BOUNDED_YAML
from fasthep_smk.util.bounded_yaml import checked
from fasthep_smk.util.errors import Findings

__all__ = ["bounded_yaml"]

#: Files that a workflow may read with what it includes; each is read as often as it is named.
_FILES = 1_000


@contextlib.contextmanager
def bounded_yaml(workflow: Path) -> Iterator[None]:
    """Let ``yaml.safe_load`` refuse too much in the block, in one file or in too many files."""
    original, count = yaml.safe_load, 0

    def bounded_load(stream: Any) -> object:
        nonlocal count
        count += 1
        if count > _FILES:
            raise Findings.one(
                f"more than {_FILES} files are read with what it includes",
                file=str(workflow),
                key="include",
                expected="files that include each other a few times",
                hint="a file that is included twice is read twice, with all that it includes",
            )
        checked(stream, f"a profile that {workflow} uses")  # what has no name of its own
        return original(stream)

    with BOUNDED_YAML.made(yaml, safe_load=bounded_load):
        yield

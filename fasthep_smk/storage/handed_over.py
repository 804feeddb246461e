"""What is handed over to other workflows, as JSON: which files, and which jobs make them.

A translation writes one file for each group of results, and leaves it alone as long as nothing in
it changes: its time says since when these results are wanted.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from fasthep_smk.storage import layout

__all__ = ["HandedOver", "marker"]


@dataclass(frozen=True)
class HandedOver:
    """Files for the user, relative to the build folder, and the rules and keys of their jobs.

    ``signature`` changes whenever that of a job does.
    """

    signature: str
    jobs: tuple[tuple[str, str], ...]
    files: tuple[str, ...]

    def to_text(self) -> str:
        """Return it as its file holds it."""
        return json.dumps(asdict(self), indent=1 if len(self.files) < 1000 else None) + "\n"

    @classmethod
    def read(cls, build: Path, group: str) -> HandedOver:
        """Return what a group of results is made of.

        Raises:
            OSError, ValueError, KeyError: there is no such group, or its file is damaged.
        """
        found = json.loads((build / layout.RESULTS / f"{group}.json").read_text(encoding="utf-8"))
        jobs = tuple((str(rule), str(key)) for rule, key in found["jobs"])
        return cls(str(found["signature"]), jobs, tuple(map(str, found["files"])))


def marker(group: str) -> str:
    """Return the file that says that all results of a group were there when it was written."""
    return f"{layout.RESULTS}/{group}.made"

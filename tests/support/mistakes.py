"""The right workflow of ``tests/mistakes``, and what its cases make of it."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import yaml

from . import events

__all__ = ["BASE", "FOLDER", "changed", "make_data"]

FOLDER = Path(__file__).parents[1] / "mistakes"
BASE = yaml.safe_load((FOLDER / "workflow.yaml").read_text())


def make_data(folder: Path) -> Path:
    """Write the files that the workflow reads, and one more; return their folder."""
    for seed, name in enumerate(("data", "dy", "ttbar", "other")):
        events.zmumu_file(folder / f"{name}.root", 10, seed)
    return folder


def changed(case: dict[str, Any]) -> dict[str, Any]:
    """The right workflow with what a case sets; what it sets to null is taken out."""
    document = copy.deepcopy(BASE)
    for path, value in case["set"].items():
        *above, last = path.split("/")
        holder = document
        for step in above:
            holder = _below(holder, step)
        if isinstance(holder, list):
            held = _below(holder, last) if last != "+" else None
            if value is None:
                holder.remove(held)
            elif held is None:
                holder.append(value)
            else:
                holder[holder.index(held)] = value
        elif value is None:
            del holder[last]
        else:
            holder[last] = value
    return document


def _below(holder: Any, step: str) -> Any:
    if isinstance(holder, dict):
        return holder.setdefault(step, {})
    if step.isdigit():
        return holder[int(step)]
    return next(item for item in holder if step in (item.get("id"), item.get("name")))

"""The right workflow of ``tests/mistakes``, and what its cases make of it."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from . import events

__all__ = ["BASE", "FOLDER", "base_for", "cases", "changed", "make_data", "write"]

FOLDER = Path(__file__).parents[1] / "mistakes"
BASE = yaml.safe_load((FOLDER / "workflow.yaml").read_text())
#: Each of these is one or two plans more, which take FAST-HEP's compiler most of the time.
_MORE = ("weight_{side}", "generator")
#: What plots are made of, in words of the workflow. To lay them out takes most of a check: a case
#: about none of these has none.
_OF_PLOTS = ("render", "style", "Met", "Plane", "Projected", "datasets", "groups")


def make_data(folder: Path) -> Path:
    """Write the files that the workflow reads, and one more; return their folder."""
    for seed, name in enumerate(("data", "dy", "ttbar", "other")):
        events.zmumu_file(folder / f"{name}.root", 10, seed)
    return folder


def cases(kind: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the cases that are ``wrong``, ``right`` or ``warned``, each with its file."""
    for path in sorted(FOLDER.glob("*.yaml")):
        for case in yaml.safe_load(path.read_text()).get(kind) or ():
            yield path.stem, case


def write(case: Mapping[str, Any], data: Path, folder: Path) -> None:
    """Write the workflow of a case, and what lies beside it."""
    (folder / "data").symlink_to(data)
    for name, text in case.get("files", {}).items():
        (folder / name).write_text(text)
    text = yaml.safe_dump(changed(case), sort_keys=False)
    (folder / "workflow.yaml").write_text(text)


def base_for(section: object) -> dict[str, Any]:
    """The right workflow for what is wrong in one section: all variations if it is theirs.

    Otherwise it has two plans, the nominal one and one more: what is said of both is said once.
    """
    document = copy.deepcopy(BASE)
    if section != "systematics":
        variations = document["systematics"]["variations"]
        variations[:] = [one for one in variations if one["name"] not in _MORE]
    return document


def changed(case: Mapping[str, Any]) -> dict[str, Any]:
    """The right workflow with what a case sets; what it sets to null is taken out."""
    document = base_for("systematics" if "systematics" in str(case) else None)
    if not any(word in str(case["set"]) for word in _OF_PLOTS):
        del document["styles"]
        stages = document["analysis"]["stages"]
        stages[:] = [one for one in stages if not one["op"].startswith("hep.render")]
        for stage in stages:
            stage.pop("render", None)
    for path, value in copy.deepcopy(case["set"]).items():  # cases of a file may share values
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

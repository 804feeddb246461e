"""The examples of the reference, from ``docs/examples.yaml``, each as a workflow that can run."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from copy import deepcopy
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import awkward as ak
import uproot
import yaml

from . import events

__all__ = ["FIRST", "Example", "load", "make_data", "write"]

ROOT = Path(__file__).parents[2]
#: The whole workflow that the others are added to.
FIRST = "Sections/A workflow"
#: Where the stages begin that do not say from where.
_AFTER = "Jets"


@dataclass(frozen=True)
class Example:
    """An example, and what it needs besides.

    ``part`` is that of a schema: a stage, or what stands in a file of its own; if empty, it is
    sections of a workflow. ``makes`` are columns.
    """

    name: str
    part: str
    content: dict[str, Any]
    makes: tuple[str, ...]
    around: dict[str, Any]
    after: tuple[str, ...] = ()
    files: tuple[tuple[str, str], ...] = ()

    def sections(self) -> dict[str, Any]:
        """Return it as sections of a workflow; nothing if it stands in a file of its own."""
        if self.part == "stage":
            content = {"analysis": {"stages": [self.content]}}
        else:
            content = {} if self.part else self.content
        return deepcopy(_joined(self.around, content))


@cache
def load() -> dict[str, Example]:
    """Return all examples by their names, such as ``Operations/hep.hist``."""
    text = (ROOT / "docs/examples.yaml").read_text(encoding="utf-8")
    return {
        name: _example(name, entry)
        for name, entry in _entries(yaml.safe_load(text))
        if "none" not in entry
    }


def _entries(document: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for heading, content in document.items():
        named = {"": content} if isinstance(content, str) else content
        for name, entry in named.items():
            shown = {"example": entry} if isinstance(entry, str) else entry
            yield f"{heading}/{name}".rstrip("/"), shown


def _example(name: str, entry: dict[str, Any]) -> Example:
    content = yaml.safe_load(entry["example"])
    return Example(
        name,
        entry.get("part") or ("stage" if "op" in content else ""),
        content,
        _columns(entry["example"]),
        yaml.safe_load(entry.get("with", "{}")),
        tuple(entry.get("after", ())),
        tuple(entry.get("files", {}).items()),
    )


def _columns(text: str) -> tuple[str, ...]:
    """Return what the comment at the end names."""
    told = re.search(r"^# makes ((?:\w+(?:,\s+#?\s*)?)+)", text, re.MULTILINE)
    return tuple(re.findall(r"\w+", told[1])) if told else ()


def write(names: Iterable[str], folder: Path, data: Path) -> list[str]:
    """Write a workflow with these examples, and what lies beside it; return options for it."""
    known, options = load(), list[str]()
    wanted = dict.fromkeys([FIRST])
    for name in names:
        wanted |= dict.fromkeys([*known[name].after, name])
    (folder / "data").symlink_to(data)
    document: dict[str, Any] = {}
    for example in map(known.__getitem__, wanted):
        sections = example.sections()
        stages = sections.get("analysis", {}).get("stages", [])
        if example.name != FIRST and stages and not {"from", "needs"} & stages[0].keys():
            stages[0]["from"] = _AFTER
        document = _joined(document, sections)
        for name, text in example.files:
            _put(folder / name, text)
        if example.part == "site":
            _put(folder / "site/config.yaml", "cores: all\n")
            _put(folder / "site/pools.yaml", yaml.safe_dump(example.content))
            options += ["--profile", "site"]
        elif example.part == "sizes":
            _put(folder / "sizes.yaml", yaml.safe_dump(example.content))
            options += ["--sizes", "sizes.yaml"]
    _put(folder / "workflow.yaml", yaml.safe_dump(document, sort_keys=False))
    return options


def _put(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def _joined(content: Any, more: Any) -> Any:
    """Return both: mappings key by key, lists one after the other."""
    if isinstance(content, dict) and isinstance(more, dict):
        both = {key: _joined(content[key], more[key]) for key in content.keys() & more.keys()}
        return {**content, **more, **both}
    if isinstance(content, list) and isinstance(more, list):
        return [*content, *more]
    assert type(content) is type(more), f"two examples differ in kind: {content!r} and {more!r}"
    return more


def make_data(folder: Path) -> Path:
    """Write the files that the examples read, each with all of their trees; return the folder."""
    others = folder / "others.root"
    for seed, name in enumerate(("run", "ttbar", "dy_0", "dy_1")):
        path = events.nanoaod_file(folder / f"{name}.root", 60, seed)
        for write_others in (events.zmumu_file, events.l1_file):
            with uproot.open(write_others(others, 60, seed)) as file, uproot.update(path) as out:
                for tree in file.keys(cycle=False, filter_classname="TTree"):
                    columns = file[tree].arrays()
                    out.mktree(tree, dict(zip(columns.fields, ak.unzip(columns), strict=True)))
    others.unlink()
    return folder

"""In which file and line of a workflow something stands, for messages.

FAST-HEP merges the files that a workflow includes. To name a line they are read once more, with
keys and texts that know their places: FAST-HEP's own merge keeps them.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import yaml

from fasthep_smk.config import schema
from fasthep_smk.flow import upstream
from fasthep_smk.flow.patches.yaml_places import yaml_places
from fasthep_smk.flow.places import mapping, named
from fasthep_smk.util.errors import Finding
from fasthep_smk.util.yaml_files import key_findings
from fasthep_smk.util.yaml_values import as_yaml

__all__ = ["located", "located_in", "yaml_slips"]

#: A step of a key as messages write it: ``.name``, ``[3]``, ``['a name']``, or ``[true]`` of a key
#: that is no text.
_STEP = re.compile(r"(?:^|\.)([^.\[\]]+)|\[(\d+)\]|\[(['\"])(.*?)\3\]|\[([^\[\]'\"]+)\]")
#: What the items of a list are named by.
_NAMES = ("id", "name")
_YAML = (".yaml", ".yml")

#: What is none of a mapping's keys: ``None`` may be one.
_NONE = object()


class _Text(str):
    """A text that knows its file and line."""

    __slots__ = ("file", "line")
    file: str
    line: int


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """Makes texts that know their places."""


def _text(loader: yaml.SafeLoader, node: yaml.ScalarNode) -> _Text:
    text = _Text(loader.construct_scalar(node))
    text.file, text.line = str(node.start_mark.name), node.start_mark.line + 1
    return text


_Loader.add_constructor("tag:yaml.org,2002:str", _text)


def located(findings: Iterable[Finding], workflow: Path, *, shown: str) -> list[Finding]:
    """Return findings with the file and line that each is about.

    ``shown`` is how they call the workflow; others may be about a profile, or a file of a site.
    """
    found = [_in_other_file(one, shown) for one in findings]
    keys = {id(one): one.place or (one.key if one.file == shown else None) for one in found}
    wanted = [one for one in found if keys[id(one)] and one.at is None]
    if not wanted:
        return found
    document = _read(workflow)
    places = {id(one): _place(document, keys[id(one)] or "") for one in wanted}
    return [_with_place(one, places.get(id(one)), workflow, shown) for one in found]


def _in_other_file(finding: Finding, shown: str) -> Finding:
    file = finding.file
    if finding.at or not finding.key or file in (None, shown) or finding.place:
        return finding
    path = Path(str(file))
    return located_in([finding], path)[0] if path.suffix in _YAML and path.is_file() else finding


def located_in(findings: Iterable[Finding], file: Path) -> list[Finding]:
    """Return findings about one file, which includes no others, with their lines."""
    found = list(findings)
    content: object = None
    with contextlib.suppress(yaml.YAMLError, OSError, UnicodeError, RecursionError):
        content = yaml.load(file.read_bytes(), Loader=_Loader) if found else None
    places = [_place(content, one.key or "") for one in found]
    return [
        replace(one, at=f"{one.file}, line {place.line}") if place is not None else one
        for one, place in zip(found, places, strict=True)
    ]


def yaml_slips(
    files: Iterable[Path], *, workflow: Path, shown: str, part: str = "workflow"
) -> list[Finding]:
    """Return what YAML's readers silently take for something else than is written.

    Of a key that stands twice in one mapping, they take the last; ``036`` is 30 to them, ``1:30``
    is 90 (https://yaml.org/type/int.html), and a name ``on`` is ``true``.
    """
    found: list[Finding] = []
    for file in files:
        name = shown if file.resolve() == workflow.resolve() else str(file)
        with contextlib.suppress(yaml.YAMLError, OSError, UnicodeError, RecursionError):
            with file.open(encoding="utf-8") as stream:
                root = yaml.compose(stream, Loader=_Loader)
            found += key_findings(root, name)
            misread = [*schema.misread(root, part, file=name)]
            content = mapping(_Loader("").construct_document(root)) if misread else {}
            found += [replace(one, key=named(one.key or "", content)) for one in misread]
    return found


def _with_place(finding: Finding, text: _Text | None, workflow: Path, shown: str) -> Finding:
    if text is None:
        return finding
    file = shown if Path(text.file).resolve() == workflow.resolve() else text.file
    return replace(finding, at=f"{file}, line {text.line}")


def _read(workflow: Path) -> object:
    """Return the merged document; nothing if it cannot be read any more."""
    with contextlib.suppress(Exception), yaml_places(_Loader):
        return upstream.load_workflow_with_includes(str(workflow)).doc
    return None  # a message without a line is better than none


def _place(document: object, key: str) -> _Text | None:
    """Return the text nearest to what a key names: its own, or one above it."""
    nearest: _Text | None = None
    content = document
    for step in _STEP.finditer(key):
        name = step[1] if step[1] is not None else step[4]
        if isinstance(content, dict):
            own = _key(content, name, step[5] or step[2])
            if own is _NONE:
                break
            content = content[own]
            # Where a file replaces a value of one that it includes, the key is still that one's.
            found = next((one for one in (content, own) if isinstance(one, _Text)), None)
            nearest = found or (nearest if isinstance(own, str) else _first(content) or nearest)
        elif isinstance(content, list):
            content = _item(content, step[2], name)
            if content is None:
                break
            nearest = _first(content) or nearest
        else:
            break
    return nearest


def _key(content: dict[object, object], name: str | None, other: str | None) -> object:
    """Return the key of a mapping that a message writes so; ``other`` is one that is no text."""
    for one in content:
        if (name is not None and str(one) == name) or (
            other is not None and not isinstance(one, str) and as_yaml(one) == other
        ):
            return one
    return _NONE


def _item(content: list[object], number: str | None, name: str | None) -> object:
    if number is not None:
        return content[int(number)] if int(number) < len(content) else None
    named = (one for one in content if isinstance(one, dict) and name in map(one.get, _NAMES))
    return next(named, None)


def _first(content: object) -> _Text | None:
    """Return the first text of an item of a list."""
    texts = content if isinstance(content, dict) else [content]
    return next((one for one in texts if isinstance(one, _Text)), None)

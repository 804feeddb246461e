"""In which file and line of a workflow something stands, for messages."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import yaml

from fasthep_smk.config import schema
from fasthep_smk.flow import upstream
from fasthep_smk.flow.places import mapping, named
from fasthep_smk.util.errors import Finding
from fasthep_smk.util.yaml_files import key_findings
from fasthep_smk.util.yaml_values import as_yaml

#: A step of a key as messages write it: ``.name``, ``[3]``, ``['a name']``, or ``[true]`` of a key
#: that is not text.
_STEP = re.compile(r"(?:^|\.)([^.\[\]]+)|\[(\d+)\]|\[(['\"])(.*?)\3\]|\[([^\[\]'\"]+)\]")
#: What the items of a list are named by.
_NAMES = ("id", "name")
_YAML = (".yaml", ".yml")
_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def located(findings: Iterable[Finding], workflow: Path, *, shown: str) -> list[Finding]:
    """Return findings with the file and line that each is about.

    ``shown`` is how they call the workflow; others may be about a profile, or a file of a site. A
    key stands in that file of those that the workflow includes which has most of its steps.
    """
    listed, roots = list(findings), dict[str, yaml.Node | None]()
    if any(finding.at is None for finding in listed):
        with contextlib.suppress(Exception):  # a message without a line is better than none
            files = upstream.load_workflow_with_includes(str(workflow)).files
            workflow_first = sorted(map(Path, files), key=lambda file: not _same(file, workflow))
            for file in workflow_first:
                roots[shown if _same(file, workflow) else str(file)] = _composed(file)
    return [_located(finding, roots, shown) for finding in listed]


def _located(finding: Finding, roots: dict[str, yaml.Node | None], shown: str) -> Finding:
    key = finding.place or finding.key
    if finding.at or not key:
        return finding
    if finding.file not in (None, shown) and not finding.place:
        path = Path(str(finding.file))
        is_yaml = path.suffix in _YAML and path.is_file()
        return located_in([finding], path)[0] if is_yaml else finding
    lines = {file: [*_lines(root, key)] for file, root in roots.items()}
    file = max(lines, key=lambda file: len(lines[file]), default=shown)
    return replace(finding, at=f"{file}, line {lines[file][-1]}") if lines.get(file) else finding


def located_in(findings: Iterable[Finding], file: Path) -> list[Finding]:
    """Return findings about one file, which includes no others, with their lines."""
    listed = list(findings)
    root = _composed(file) if listed else None
    return [_located(finding, {str(finding.file): root}, str(finding.file)) for finding in listed]


def yaml_slips(
    files: Iterable[Path], *, workflow: Path, shown: str, part: str = "workflow"
) -> list[Finding]:
    """Return what YAML's readers silently take for something else than is written.

    Of a key that stands twice in one mapping, they take the last; ``036`` is 30 to them, ``1:30``
    is 90 (https://yaml.org/type/int.html), and a name ``on`` is ``true``.
    """
    slips: list[Finding] = []
    for file in files:
        name = shown if _same(file, workflow) else str(file)
        if (root := _composed(file)) is not None:
            slips += key_findings(root, name)
            misread = [*schema.misread(root, part, file=name)]
            content = mapping(_Loader("").construct_document(root)) if misread else {}
            slips += [replace(slip, key=named(slip.key or "", content)) for slip in misread]
    return slips


def _same(file: Path, other: Path) -> bool:
    return file.resolve() == other.resolve()


def _composed(file: Path) -> yaml.Node | None:
    """Return what a file holds, with lines; nothing if it cannot be read."""
    with contextlib.suppress(yaml.YAMLError, OSError, UnicodeError, RecursionError):
        return yaml.compose(file.read_text(encoding="utf-8"), Loader=_Loader)
    return None


def _lines(root: yaml.Node | None, key: str) -> Iterator[int]:
    """Yield the line of each step of a key, as far as there is one: the last is the nearest."""
    node = root
    for step in _STEP.finditer(key):
        name = step[1] if step[1] is not None else step[4]
        if isinstance(node, yaml.SequenceNode):
            number = int(step[2]) if step[2] else _number(node, name)
            node = node.value[number] if number < len(node.value) else None
            at = node
        else:
            at, value = _entry(node, name, step[5] or step[2])
            if value is None and step[2] == "0":
                continue  # one instead of a list of them
            if value is None and key.startswith("styles."):
                at, value = _inherited(root, node, name)
            node = value
        if node is None or at is None:
            return
        yield (node if isinstance(node, yaml.ScalarNode) else at).start_mark.line + 1


def _inherited(
    root: yaml.Node | None, style: yaml.Node | None, name: str | None
) -> tuple[yaml.Node | None, yaml.Node | None]:
    """Return the key and the value that a style has from ``with``, or from the one in ``use``."""
    styles, seen = _entry(root, "styles", None)[1], set[int]()
    while style is not None and id(style) not in seen:
        seen.add(id(style))
        for node in (style, _entry(style, "with", None)[1]):
            at, value = _entry(node, name, None)
            if value is not None:
                return at, value
        used = _entry(style, "use", None)[1]
        style = _entry(styles, used.value, None)[1] if isinstance(used, yaml.ScalarNode) else None
    return None, None


def _number(node: yaml.SequenceNode, name: str | None) -> int:
    """Return the number of the item that is called so; that of none if there is not."""
    items = ([_entry(item, word, None)[1] for word in _NAMES] for item in node.value)
    called = ([scalar.value for scalar in names if scalar is not None] for names in items)
    return next((n for n, names in enumerate(called) if name in names), len(node.value))


def _entry(
    node: yaml.Node | None, name: str | None, other: str | None
) -> tuple[yaml.Node | None, yaml.Node | None]:
    """Return the key and the value that a message writes so; ``other``: a key that is not text."""
    for key, value in node.value if isinstance(node, yaml.MappingNode) else ():
        if key.tag == "tag:yaml.org,2002:merge":
            for merged in value.value if isinstance(value, yaml.SequenceNode) else [value]:
                if (entry := _entry(merged, name, other))[0] is not None:
                    return entry
        elif key.value == name or (
            other is not None and as_yaml(yaml.safe_load(key.value)) == other
        ):
            return key, value
    return None, None

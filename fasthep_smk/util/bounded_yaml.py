"""Read YAML of people's without being held up: aliases that multiply, deep nesting, huge files.

PyYAML reads a text of a kilobyte for hours if its aliases are nested and merged, and gives up on
some hundred levels with an error of Python's. Such a text is refused before it is read, by what
libyaml's parser says of it, which takes little time and memory.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import yaml

from fasthep_smk.util.errors import Finding, Findings
from fasthep_smk.util.yaml_messages import readable_errors
from fasthep_smk.util.yaml_values import as_yaml

__all__ = ["check", "checked", "key_findings", "load", "load_each_key_once", "read_as"]

#: Bytes of a file; 100,000 input files are listed in some 15 MB.
_LARGEST = 20_000_000
#: Levels, also through aliases; PyYAML itself ends at some 200.
_DEEPEST = 100
#: Values in a file, with those that aliases stand for; for PyYAML, that many are some 500 MB. Where
#: an alias stands for a long text, it counts once more for each 100 characters.
_MOST = 500_000
#: What stands before the first value of a line; how a line ends besides with a line feed, and
#: what a text may begin with.
_PREFIX = re.compile(r"^[ \t?:-]*", re.MULTILINE)
_UNUSUAL = re.compile("[\r\x85\u2028\u2029\ufeff]")
#: PyYAML takes hours for a number of that many digits to the base of 60.
_ENDLESS = re.compile(r"[-+0-9:_.]{200}")
_PARSER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
#: What makes values of texts without quotes that are no text, by the kinds of values.
_CONSTRUCTOR = yaml.constructor.SafeConstructor()
_MAKE = {
    tag: make
    for tag, make in yaml.constructor.SafeConstructor.yaml_constructors.items()
    if tag and tag.rpartition(":")[2] in ("bool", "int", "float", "null", "timestamp")
}


def load(path: Path) -> object:
    """Return the value of a YAML file of a person's.

    Raises:
        Findings: it is too large, too deep, or it or its aliases hold too much.
    """
    with path.open(encoding="utf-8") as stream:
        return yaml.safe_load(checked(stream, str(path)))


def load_each_key_once(
    path: Path, wrong: Callable[[yaml.Node | None], Iterable[Finding]] = lambda _: ()
) -> object:
    """Return the value of a YAML file of a person's; ``wrong`` finds more that is misread in it.

    Raises:
        Findings: the same, or it is no file or not YAML, or a key is read otherwise than written.
        FileNotFoundError: it is not there.
    """
    with readable_errors(path):
        with path.open(encoding="utf-8") as stream:
            text = checked(stream, str(path))
        value = yaml.safe_load(text)
        root = yaml.compose(text, Loader=_PARSER)
    if found := [*key_findings(root, str(path)), *wrong(root)]:
        raise Findings(found)
    return value


def read_as(node: yaml.Node) -> str | None:
    """Return what YAML's readers make of a text, if that is another one: ``true`` of ``on``."""
    make = _MAKE.get(node.tag)
    if make is None or not isinstance(node, yaml.ScalarNode):
        return None
    try:
        value = make(_CONSTRUCTOR, node)
    except ValueError:  # who reads it says so
        return None
    return None if str(value) == node.value else as_yaml(value)


def key_findings(root: yaml.Node | None, file: str) -> Iterator[Finding]:
    """Yield keys that are not what YAML's readers make of them, or that stand twice in a mapping.

    Of the latter they take the last.
    """
    left, seen = [root], set()
    while left:
        node = left.pop()
        if id(node) in seen:  # an alias
            continue
        seen.add(id(node))
        if isinstance(node, yaml.SequenceNode):
            left += node.value
        if not isinstance(node, yaml.MappingNode):
            continue
        lines: dict[str, int] = {}
        for key, value in node.value:
            left += [key, value]
            if not isinstance(key, yaml.ScalarNode) or key.value == "<<":
                continue
            line = key.start_mark.line + 1
            if read := read_as(key):
                yield Finding(
                    file=file,
                    key=key.value or None,
                    problem=f"this key is no text to YAML, which reads it as {read}",
                    at=f"{file}, line {line}",
                    value=key.value or None,
                    hint=f"write {as_yaml(key.value)}, in quotes",
                )
            if key.value in lines:
                yield Finding(
                    file=file,
                    key=key.value,
                    problem="stands twice in one mapping: only the last would count",
                    at=f"{file}, lines {lines[key.value]} and {line}",
                    expected="each key once",
                )
            lines[key.value] = line


def checked(stream: object, file: str) -> str:
    """Return the text of a stream, which is left where it was."""
    if isinstance(stream, str):
        check(stream, file)
        return stream
    assert isinstance(stream, io.TextIOBase)
    name = str(getattr(stream, "name", file))
    _check_size(os.fstat(stream.fileno()).st_size, name)
    text = stream.read()
    stream.seek(0)
    check(text, name)
    return text


def check(text: str, file: str) -> None:
    """Raise ``Findings`` if a text is too large, too deep, or it or its aliases hold too much.

    A text that is no YAML is let pass: who reads it says so.
    """
    _check_size(len(text), file)
    if _is_harmless(text):
        return
    try:
        _check_events(text, file, _PARSER)
    except (yaml.YAMLError, ValueError):
        # PyYAML's own parser may understand more of it, or less.
        with contextlib.suppress(yaml.YAMLError, ValueError):
            _check_events(text, file, yaml.SafeLoader)


def _is_harmless(text: str) -> bool:
    """Whether it can be seen without parsing that a text is neither deep nor multiplied.

    Without anchors it holds no more values than characters. A block is deeper than the one around
    it by its indentation or by the indicators before it, a flow by its bracket.
    """
    if "&" in text or len(text) > _MOST or _UNUSUAL.search(text):
        return False
    if _ENDLESS.search(text):
        return False
    # A sequence may stand as far to the right as the key that it belongs to.
    deepest = 2 * max((len(found[0]) for found in _PREFIX.finditer(text)), default=0)
    return deepest + text.count("[") + text.count("{") < _DEEPEST


def _check_size(size: int, file: str) -> None:
    if size > _LARGEST:
        raise Findings.one(
            "is too large",
            file=file,
            value=f"{size / 1e6:.0f} MB",
            expected=f"at most {_LARGEST / 1e6:.0f} MB",
            hint="a workflow, part of one, or a site's settings; is it another file?",
        )


def _check_events(text: str, file: str, parser: type[yaml.SafeLoader]) -> None:
    known: dict[str, tuple[int, int]] = {}  # of each anchor: how many values, how many levels
    opened: list[tuple[list[int], str | None]] = []
    count = 0
    for event in yaml.parse(text, Loader=parser):
        weight, levels, anchor = 1, 0, getattr(event, "anchor", None)
        if isinstance(event, yaml.CollectionStartEvent):
            opened.append(([1, 0], anchor))
            if anchor is not None:
                known.pop(anchor, None)  # it may be an alias of itself in what follows
        elif isinstance(event, yaml.CollectionEndEvent):
            (weight, levels), anchor = opened.pop()
            levels += 1
        elif isinstance(event, yaml.ScalarEvent):
            weight += len(event.value) // 100
            if _ENDLESS.match(event.value) and event.implicit[0]:
                _refuse(event, file, "is not a number", "fewer digits, or quotes around a text")
        elif isinstance(event, yaml.AliasEvent):
            weight, levels = known.get(anchor or "", (1, 0))
        else:
            continue
        # What an alias is in an alias counts again: so often will it be looked at.
        count += weight if isinstance(event, yaml.AliasEvent) else 1
        if len(opened) + levels > _DEEPEST:
            _refuse(event, file, "is nested too deeply", f"at most {_DEEPEST} levels")
        if count > _MOST:
            expected = f"at most {_MOST:,}, with those that aliases stand for"
            _refuse(event, file, "holds too many values", expected)
        if isinstance(event, yaml.CollectionStartEvent):
            continue
        if anchor is not None and not isinstance(event, yaml.AliasEvent):
            known[anchor] = (weight, levels)
        if opened:
            own = opened[-1][0]
            own[0], own[1] = own[0] + weight, max(own[1], levels)


def _refuse(event: yaml.Event, file: str, problem: str, expected: str) -> None:
    mark = event.start_mark
    assert mark is not None  # a parser has made it
    raise Findings.one(
        problem,
        file=file,
        key=f"line {mark.line + 1}, column {mark.column + 1}",
        expected=expected,
        hint="check brackets, indentation, anchors (&) and aliases (*) around that line",
    )

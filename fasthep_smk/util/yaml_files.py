"""Read YAML of people's, and find what its readers take otherwise than it is written."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import yaml

from fasthep_smk.util.errors import Finding, Findings
from fasthep_smk.util.yaml_values import as_yaml

_PARSER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
#: What makes values of texts without quotes that are no text, by the kinds of values.
_CONSTRUCTOR = yaml.constructor.SafeConstructor()
_MAKE = {
    tag: make
    for tag, make in yaml.constructor.SafeConstructor.yaml_constructors.items()
    if tag and tag.rpartition(":")[2] in ("bool", "int", "float", "null", "timestamp")
}


def load_each_key_once(
    path: Path, wrong: Callable[[yaml.Node | None], Iterable[Finding]] = lambda _: ()
) -> object:
    """Return the value of a YAML file of a person's; ``wrong`` finds more that is misread in it.

    Raises:
        Findings: it is no file or not YAML, or a key is read otherwise than written.
        FileNotFoundError: it is not there.
    """
    try:
        text = path.read_text(encoding="utf-8")
        value = yaml.safe_load(text)
        root = yaml.compose(text, Loader=_PARSER)
    except FileNotFoundError:
        raise
    except (yaml.YAMLError, OSError, ValueError, RecursionError) as error:
        raise unreadable(path, error) from error
    if findings := [*key_findings(root, str(path)), *wrong(root)]:
        raise Findings(findings)
    return value


def unreadable(path: Path, error: Exception) -> Findings:
    """Return what was raised while a file was read, in the words of its reader, and in which line.

    A file that ``path`` includes is named itself.
    """
    file = str(path)
    if isinstance(error, yaml.MarkedYAMLError):
        mark = error.problem_mark or error.context_mark
        if mark and (named := Path(str(mark.name))).exists() and named.resolve() != path.resolve():
            file = str(named)
        words = ", ".join(part for part in (error.context, error.problem) if part)
        return Findings.one(
            f"is not valid YAML: {words}",
            file=file,
            at=f"{file}, line {mark.line + 1}, column {mark.column + 1}" if mark else None,
            hint="look for quotes, brackets and indentation around that line",
        )
    if isinstance(error, UnicodeDecodeError):
        return Findings.one(
            f"holds a byte that is not UTF-8 text: 0x{error.object[error.start]:02X}",
            file=file,
            at=f"{file}, line {error.object.count(10, 0, error.start) + 1}",
            expected="UTF-8 text",
        )
    if isinstance(error, yaml.reader.ReaderError):
        before = path.read_text(encoding="utf-8")[: error.position]
        return Findings.one(
            f"holds a character that YAML does not allow: U+{error.character:04X}",
            file=file,
            at=f"{file}, line {before.count(chr(10)) + 1}",
            hint="delete it",
        )
    if isinstance(error, RecursionError):
        return Findings.one("is nested too deeply to be read", file=file)
    reason = getattr(error, "strerror", None) or " ".join(str(error).split())
    return Findings.one(f"cannot be read: {reason}", file=file)


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
                    problem=f"this key must be text, but YAML reads it as {read}",
                    at=f"{file}, line {line}",
                    value=key.value or None,
                    hint=f"write {as_yaml(key.value)}, in quotes",
                )
            if key.value in lines:
                yield Finding(
                    file=file,
                    key=key.value,
                    problem="appears twice in one mapping: only the last one would count",
                    at=f"{file}, lines {lines[key.value]} and {line}",
                    expected="each key once",
                )
            lines[key.value] = line

"""Check settings against our published JSON schema; say in one line what is wrong with each."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cache
from importlib import resources
from typing import Any

import yaml
from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError
from jsonschema.validators import create, extend

from fasthep_smk.util.documents import JsonObject
from fasthep_smk.util.errors import Doubt, Finding, is_slip, nearest
from fasthep_smk.util.yaml_files import read_as
from fasthep_smk.util.yaml_values import as_yaml, key_of

#: The schema of FAST-HEP's language, which refers to that of what this package reads by its path,
#: so that editors find it. No definition has a name in both.
_LANGUAGE = ("fasthep_smk.flow", "language.schema.json")
_EXECUTION = ("fasthep_smk.config", "execution.schema.json")


def _is_number(_: object, value: object) -> bool:
    """Whether a value is a finite number: JSON has no others."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


#: JSON takes 2.0 for a whole number; where people write YAML it is more likely a mistake.
_TYPES = Draft202012Validator.TYPE_CHECKER.redefine_many(
    {
        "integer": lambda _, value: isinstance(value, int) and not isinstance(value, bool),
        "number": _is_number,
    }
)
#: Keys that are free everywhere.
_COMMENTS = "^x-"
_COMMENT_KEYS = (_COMMENTS, "^(comment|description)$")
_COMMENT = re.compile("x-.*|comment|description", re.DOTALL)
#: Keys of many mappings that are not among what is expected first.
_SELDOM = ("use", "with", "stream_id")
#: The problem of a key that a mapping cannot have.
UNKNOWN = "unknown key"
#: A number with a zero before it, or with colons in it.
_OTHER_NUMBER = re.compile(r"[-+]?(0[0-9_]+)|[-+]?[0-9][0-9_]*(?::[0-5]?[0-9])+(?:\.[0-9_]*)?")
#: Kinds of YAML's values, as JSON schema calls them.
_KINDS = {
    "bool": "boolean", "int": "integer", "float": "number", "null": "null", "timestamp": "date"
}  # fmt: skip
#: What is wrong with a value that a keyword of the schema refuses.
_PROBLEMS = {
    "minimum": "is too small",
    "maximum": "is too large",
    "maxItems": "is too long",
    "uniqueItems": "contains an item twice",
}
#: The end of a text. Python takes one before a newline for it, too; JSON schema does not.
_END = re.compile(r"\$(?=[|)]|$)")


def _pattern(
    _validator: object, pattern: str, value: object, _schema: object
) -> Iterator[ValidationError]:
    """Yield an error if a text does not hold what a schema's pattern says (ECMA-262)."""
    if isinstance(value, str) and not re.search(_END.sub(r"\\Z", pattern), value):
        yield ValidationError(f"{value!r} does not match {pattern!r}")


_Validator = create(
    Draft202012Validator.META_SCHEMA,
    {**Draft202012Validator.VALIDATORS, "pattern": _pattern},
    type_checker=_TYPES,
)

#: Yields what a keyword of ours refuses: validator, value of the keyword, instance, schema.
Keyword = Callable[[Any, Any, Any, Any], Iterator[ValidationError]]


class Refusal(ValidationError):
    """What a keyword of ours refuses, in its own words. ``path`` leads on from where it stands."""

    def __init__(
        self, problem: str, *, path: Iterable[str | int] = (), **details: str | None
    ) -> None:
        super().__init__(problem, path=path)
        self.finding = Finding(problem=problem, **details)


def validator(keywords: Mapping[str, Keyword]) -> Any:
    """Return what validates with keywords of ours, too."""
    return extend(_Validator, keywords)  # type: ignore[no-untyped-call]


def is_comment(key: str) -> bool:
    """Whether a key is free everywhere."""
    return _COMMENT.fullmatch(key) is not None


@cache
def bundled() -> JsonObject:
    """Return the schema of a whole workflow, and of all else that people write, as one document."""
    text = _text(_LANGUAGE).replace(f"../config/{_EXECUTION[1]}#", "#")
    language = json.loads(text, object_hook=_written_out)
    return {**language, "$defs": {**language["$defs"], **json.loads(_text(_EXECUTION))["$defs"]}}


def _text(schema: tuple[str, str]) -> str:
    package, name = schema
    return resources.files(package).joinpath(name).read_text(encoding="utf-8")


@cache
def load(part: str) -> JsonObject:
    """Return the schema of one of the definitions: ``workflow``, ``execution``, ``site`` …"""
    return {"$defs": bundled()["$defs"], "$ref": f"#/$defs/{part}"}


def holds(part: str) -> bool:
    """Whether there is a definition of this name."""
    return part in bundled()["$defs"]


def _listed(keys: Mapping[str, JsonObject]) -> str:
    """Return the keys of a mapping in words, without those that few need."""
    *names, last = [
        name
        for name, said in keys.items()
        if name not in _SELDOM and not str(said.get("description")).startswith("not read")
    ]
    return f"{', '.join(names)} and {last}" if names else last


def _written_out(part: JsonObject) -> JsonObject:
    """Return a part of the schema of FAST-HEP's language, which does not say again and again:

    - a mapping can have no keys but those that are listed, if nothing is said of others;
    - one that can have no others can have comments;
    - what is expected of a mapping are its keys.
    """
    if "type" in part and "properties" in part:
        part.setdefault("additionalProperties", False)
        if "description" not in part:
            part["description"] = _listed(part["properties"])
    if part.get("additionalProperties") is False:
        part.setdefault("patternProperties", dict.fromkeys(_COMMENT_KEYS, True))
    return part


def findings_of(
    content: object,
    part: str,
    *,
    file: str,
    key: str = "",
    validator: Any = _Validator,
    is_newer: Callable[[], bool] = lambda: False,
) -> list[Finding]:
    """Return what is wrong with ``content``, which stands at ``key`` of ``file``.

    If what reads it ``is_newer`` than the schema, it may know other keys: each is a warning,
    unless it is one edit away from a known one.
    """
    try:
        odd = list(_odd_keys(content, file, key))
    except RecursionError:
        problem = "contains itself: an alias (*) is inside its own anchor (&)"
        odd = [Finding(file=file, key=key or None, problem=problem)]
    if odd:
        return odd
    errors = sorted(
        validator(load(part)).iter_errors(content),
        key=lambda error: (str(error.json_path), error.validator != "type"),
    )
    findings: list[Finding] = []
    wrong: set[str] = set()
    unknown: dict[str, dict[str, str | None]] = {}
    for error in errors:
        if error.validator == "additionalProperties" and isinstance(error.schema, dict):
            unknown.setdefault(error.json_path, {}).update(_unknown(error.instance, error.schema))
    for error in errors:
        # What is of the wrong type is not also too small.
        if error.json_path not in wrong:
            findings += _findings(error, file, key, unknown.get(error.json_path, {}), is_newer)
        if error.validator == "type":
            wrong.add(str(error.json_path))
    return findings


def misread(root: yaml.Node | None, part: str, *, file: str) -> Iterator[Finding]:
    """Yield names that are no text to YAML, and numbers to the base of 8 or 60.

    ``root`` is a workflow, a profile or a site, as ``part`` says.
    """
    seen = set[int]()

    def below(
        node: yaml.Node, path: tuple[str | int, ...], parts: list[JsonObject]
    ) -> Iterator[Finding]:
        if id(node) in seen or (path and str(path[-1]).startswith("x-")):
            return
        seen.add(id(node))
        if isinstance(node, yaml.SequenceNode):
            for number, item in enumerate(node.value):
                yield from below(item, (*path, number), _below(parts, number, ""))
        elif isinstance(node, yaml.MappingNode):
            named = [(name.value, value) for name, value in node.value]
            op = str(next((value.value for name, value in named if name == "op"), ""))
            if op and not op.startswith("hep."):  # a style for a renderer of the user's
                parts = [part for part in parts if part is not bundled()["$defs"]["style"]]
            for name, value in named:
                if name == "<<":
                    yield from below(value, path, parts)
                elif isinstance(name, str):
                    yield from below(value, (*path, name), _below(parts, name, op))
        elif (read := read_as(node)) is not None:
            # In a site and below execution, numbers with two colons are times.
            counts = (part != "site" and "execution" not in path) or node.value.count(":") == 1
            if finding := _misread(node, read, parts, counts=counts):
                at = f"{file}, line {node.start_mark.line + 1}"
                yield replace(finding, file=file, key=key_of("", path) or None, at=at)

    if root is not None:
        yield from below(root, (), [*_with_referred(bundled()["$defs"][part], "")])


def _misread(
    node: yaml.Node, read: str, parts: list[JsonObject], *, counts: bool
) -> Finding | None:
    """Return what is wrong with a text that YAML reads as something else, if that is not meant."""
    kind = _KINDS[node.tag.rpartition(":")[2]]
    if _takes_text(parts, kind):
        problem = f"must be text, but YAML reads it as {read}"
        hint = f"write {as_yaml(node.value)}, in quotes"
        return Finding(problem=problem, value=node.value, hint=hint)
    digits = node.value.replace("_", "").lstrip("+-0") or "0"
    plain = f"-{digits}" if node.value.startswith("-") else digits
    number = _OTHER_NUMBER.fullmatch(node.value)
    if kind not in ("integer", "number") or not counts or plain == read or not number:  # 007 is 7
        return None
    return Finding(
        problem=f"YAML reads this as {read}",
        value=node.value,
        hint=f"write {plain}, or put the value in quotes if it is a text" if number[1] else None,
    )


def _with_referred(part: JsonObject, op: str) -> Iterator[JsonObject]:
    """Yield a part of the schema with what it refers to; ``op`` is that of the stage it is in."""
    yield part
    name = str(part.get("$ref", "")).removeprefix("#/$defs/") or part.get("x-part", "")
    if name == "op":
        name = op if "." in op else ""
    for more in (bundled()["$defs"].get(name), part.get("then")):
        if isinstance(more, dict):
            yield from _with_referred(more, op)


def _below(parts: Iterable[JsonObject], step: str | int, op: str) -> list[JsonObject]:
    """Return what the schema says of a key, or of an item, below some ``parts``."""
    below: list[object] = []
    for part in parts:
        if isinstance(step, int):
            below.append(part.get("items"))
        else:
            named = part.get("properties", {})
            below.append(named.get(step, part.get("additionalProperties")))
    return [more for item in below if isinstance(item, dict) for more in _with_referred(item, op)]


def _takes_text(parts: Iterable[JsonObject], kind: str) -> bool:
    """Whether a text belongs there, so that a value of another ``kind`` would be taken for one."""
    for part in parts:
        listed = part.get("type", ())
        types = {listed} if isinstance(listed, str) else set(listed)
        values = types & {"integer", "number", "boolean"}
        # FAST-HEP makes a text of any value there, or of one in a list.
        any_value = values == {"number", "boolean"} or (values == {"number"} and "array" in types)
        text = part.get("x-text") or ()
        is_text = text is True or kind in text or ("string" in types and (not values or any_value))
        if is_text and (kind != "null" or ("string" in types and kind not in types)):
            return True
    return False


def _findings(
    error: ValidationError,
    file: str,
    start: str,
    unknown: Mapping[str, str | None],
    is_newer: Callable[[], bool],
) -> Iterator[Finding]:
    """Yield what an error says. ``unknown`` are the keys there that nothing reads."""
    key = key_of(start, error.absolute_path)
    if isinstance(error, Refusal):
        yield replace(error.finding, file=file, key=key or None)
        return
    value: Any = error.instance
    schema: JsonObject = error.schema if isinstance(error.schema, dict) else {}
    expected = str(schema.get("description") or "something else")
    if error.validator == "additionalProperties":
        known = [str(name) for name in schema.get("properties", {})]
        described = schema.get("properties", {})
        shown = [name for name in known if "of Dask" not in str(described[name].get("description"))]
        # Which keys there are may depend on the value of another one.
        other = f" with {schema['x-with']}" if "x-with" in schema else ""
        for name, close in _unknown(value, schema).items():
            is_sure = any(is_slip(name, word) for word in known) or not is_newer()
            unless = "" if is_sure else ", unless a newer FAST-HEP reads it"
            yield (Finding if is_sure else Doubt)(
                file=file,
                key=key_of(key, [name]),
                problem=f"{UNKNOWN}{other}{unless}",
                expected=", ".join(shown),
                hint=f"did you mean {close!r}?" if close else None,
            )
        return
    if error.validator == "required":
        required = schema["required"]
        name = next(name for name in required if error.message.startswith(repr(name)))
        # A key that is misspelt, or that stands in the place of all others, is told as such.
        meant = set(filter(None, unknown.values()))
        instead = unknown and not meant and len(required) > 1 and not value.keys() & set(required)
        if name not in meant and not instead:
            there = schema.get("properties", {}).get(name, {}).get("description")
            yield Finding(file=file, key=key_of(key, [name]), problem="is missing", expected=there)
        return
    yield Finding(
        file=file,
        key=key or None,
        problem=_problem(error),
        value=as_yaml(value),
        expected=expected,
        hint=_hint(error, schema),
    )


def _unknown(value: JsonObject, schema: JsonObject) -> dict[str, str | None]:
    """Return the keys that a mapping cannot have, and for each the one that may be meant."""
    known = [str(name) for name in schema.get("properties", {})]
    free = list(schema.get("patternProperties", {}))
    # Where keys may also be free, one that is far from all is not a slip of them.
    cutoff = 0.7 if set(free) - {_COMMENTS} else 0.5
    return {
        name: nearest(name, known, cutoff=cutoff)
        for name in value
        if name not in known and not any(re.search(pattern, name) for pattern in free)
    }


def _hint(error: ValidationError, schema: JsonObject) -> str | None:
    value: object = error.instance
    if isinstance(value, str) and value.strip().isdigit() and error.validator == "type":
        return "a number in quotes is text: remove the quotes"
    if isinstance(value, str) and error.validator == "enum":
        close = nearest(value, [name for name in schema["enum"] if name is not None])
        return f"did you mean {close!r}?" if close else None
    return None


def _problem(error: ValidationError) -> str:
    if error.validator == "type" and isinstance(error.instance, dict | list):
        return "is a mapping" if isinstance(error.instance, dict) else "is a list"
    if error.validator in ("minItems", "minProperties"):
        return "is too short" if error.instance else "is empty"
    return _PROBLEMS.get(str(error.validator), "is not a valid value")


def _odd_keys(content: object, file: str, key: str) -> Iterator[Finding]:
    """Yield keys that YAML did not read as text (``on:``, ``1:``)."""
    if isinstance(content, dict):
        for name, value in content.items():
            if not isinstance(name, str):
                yield Finding(
                    file=file,
                    key=f"{key}[{as_yaml(name)}]",
                    problem="this key is not text",
                    value=as_yaml(name),
                    expected="a name; put quotes around it if it looks like a number or a yes/no",
                )
            else:
                yield from _odd_keys(value, file, key_of(key, [name]))
    elif isinstance(content, list):
        for number, value in enumerate(content):
            yield from _odd_keys(value, file, key_of(key, [number]))

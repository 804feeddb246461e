"""What FAST-HEP's language means: the annotations of ``language.schema.json``, read in one place.

JSON schema says which keys there are. ``"type": "text"`` is what FAST-HEP makes a text of, and a
mapping whose keys are listed has no others but comments (``config.schema`` writes both out).
FAST-HEP passes over names that match nothing, and over keys that it does not read beside others:
both change results without an error. Where that can happen, the schema has one of these keywords:

``x-one-of`` (a name, a list of names, or the keys of a mapping)
    each is one of what the workflow has: its ``datasets``, ``eventtypes``
    (``lower eventtypes``: in any case), ``stages``, ``streams``, or what a plot has to draw:
    ``axes``, ``drawn`` and ``drawn datasets`` or ``groups``. Of several, some may be left from
    elsewhere.
``x-slip-of``
    the same, or a list of words: none is nearly one of these, and not it.
``x-no-slip-of``
    keys of a mapping that is free: no other key is nearly one of these that is missing.
``x-first-of``
    lists of keys: of each, FAST-HEP reads only the first that is there.
``x-beside``
    keys, and what alone is read beside each.
``x-unread``
    why keys are not read here, and which; under ``if``, as a rule.
``x-ascending``
    two keys: the first is the smaller number.
``x-apart``
    keys whose values have no name in common.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import combinations
from typing import Any

from fasthep_smk.config import schema
from fasthep_smk.config.schema import Refusal
from fasthep_smk.flow import release
from fasthep_smk.flow.places import datasets_at, mapping, stages_of
from fasthep_smk.util.documents import YamlMapping
from fasthep_smk.util.errors import Finding, is_slip, nearest, slips_among
from fasthep_smk.util.yaml_values import as_yaml

#: Names by what they are names of.
NamesByKind = Mapping[str, Sequence[str]]

_FREE = "nothing reads this key; you may use any key that begins with x-"
_ABSENT = {
    "datasets": "no dataset has this name",
    "drawn": "no dataset has this name",
    "drawn datasets": "no dataset has this name",
    "drawn groups": "no group of datasets has this name",
    "eventtypes": "no dataset has this eventtype (spelt exactly like this)",
    "lower eventtypes": "no dataset has this eventtype",
    "stages": "the workflow has no such stage",
    "streams": "no source or join has this name",
    "axes": "the histogram has no axis of this name",
}


class Vocabulary:
    """The names that a workflow has, to which others may be added; and what is said with them."""

    def __init__(self, document: YamlMapping) -> None:
        self.names = _names_of(document)
        self._validator = schema.validator(
            {keyword: partial(_check, check, self.names) for keyword, check in _KEYWORDS.items()}
        )

    def findings(self, content: object, part: str, *, file: str, key: str = "") -> list[Finding]:
        """Return what is wrong with ``content``, which stands at ``key`` of ``file``."""
        findings = schema.findings_of(
            content,
            part,
            file=file,
            key=key,
            validator=self._validator,
            is_newer=release.is_newer,
        )
        return [
            replace(finding, hint=finding.hint or _FREE)
            if finding.problem == schema.UNKNOWN
            else finding
            for finding in findings
        ]


def _names_of(document: YamlMapping) -> dict[str, Sequence[str]]:
    defaults = mapping(mapping(document.get("data")).get("defaults"))
    datasets = [(name, {**defaults, **content}) for _, name, content in datasets_at(document)]
    eventtypes = [str(content.get("eventtype", "mc")).strip() for _, content in datasets]
    lower = [eventtype.lower() for eventtype in eventtypes]
    # A run may happen to have no data, or no simulation.
    absent = [eventtype for eventtype in ("data", "mc") if eventtype not in lower]
    sources = document.get("sources")
    streams = ["events"] if sources is None else list(mapping(sources))  # FAST-HEP's default
    return {
        "datasets": [name for name, _ in datasets],
        "eventtypes": [*eventtypes, *absent],
        "lower eventtypes": [*lower, *absent],
        "stages": [str(stage.get("id")) for _, stage in stages_of(document)],
        "streams": [*streams, *mapping(document.get("joins"))],
    }


def _check(
    check: Callable[..., Iterator[Refusal]],
    names: NamesByKind,
    _validator: object,
    argument: object,
    value: object,
    _schema: object,
) -> Iterator[Refusal]:
    """Yield what a keyword refuses, as a validator asks for it: ``argument`` is its own value."""
    return check(names, argument, value)


def _named(value: object) -> list[str]:
    """Return the names that a value holds; not those with what a matrix fills in."""
    listed = value if isinstance(value, list | dict) else [value]
    texts = [text.strip() for text in listed if isinstance(text, str)]
    return [text for text in texts if text and "{" not in text]


def _one_of(names: NamesByKind, kind: str, value: object) -> Iterator[Refusal]:
    if not names.get(kind):  # that there are none is told itself
        return
    known, texts = names[kind], _named(value)
    if kind.startswith("lower "):
        texts = [text.lower() for text in texts]
    elif kind == "stages":  # with a dot it is the name of a node
        texts = [text for text in texts if "." not in text]
    several = isinstance(value, list | dict)
    for text in texts:
        if text not in known and (not several or text in slips_among(texts, known)):
            yield _refusal(text, known, _ABSENT[kind])


def _slip_of(names: NamesByKind, kind: str | list[str], value: object) -> Iterator[Refusal]:
    known = kind if isinstance(kind, list) else names.get(kind, ())
    there, texts = {name.lower() for name in known}, _named(value)
    for text in texts:
        close = nearest(text, known, cutoff=0.75)
        if close is None or text.lower() in there or close in texts:
            continue
        if len(close) > 2 or set(text.lower()) == set(close):
            yield _refusal(text, known, _ABSENT.get(str(kind), f"is spelt almost like {close!r}"))


def _refusal(text: str, known: Sequence[str], problem: str) -> Refusal:
    close = nearest(text, known)
    return Refusal(
        problem,
        value=as_yaml(text),
        expected=", ".join(dict.fromkeys(known)),
        hint=f"did you mean {close!r}?" if close else None,
    )


def _no_slip_of(_: NamesByKind, known: list[str], value: object) -> Iterator[Refusal]:
    held = mapping(value)
    for key in held:
        meant = next((name for name in known if name not in held and _is_meant(key, name)), None)
        if meant is not None and key not in known:
            hint = f"did you mean {meant!r}?"
            expected = ", ".join(known)
            yield Refusal("nothing reads this key", path=[key], expected=expected, hint=hint)


def _is_meant(key: str, name: str) -> bool:
    """Whether a key is a slip of a name; hardly any other key of one or two letters is."""
    lower = key.lower()
    return lower == name or (is_slip(lower, name) and (len(name) > 2 or set(lower) == set(name)))


def _first_of(_: NamesByKind, groups: list[list[str]], value: object) -> Iterator[Refusal]:
    for keys in groups:
        there = [key for key in keys if key in mapping(value)]
        for key in there[1:]:
            expected = f"one of {', '.join(keys)}"
            yield Refusal(f"is ignored next to {there[0]!r}", path=[key], expected=expected)


def _beside(_: NamesByKind, keys: Mapping[str, list[str]], value: object) -> Iterator[Refusal]:
    for key, others in keys.items():
        read = (key, *others)
        for name in mapping(value) if key in mapping(value) else ():
            if name not in read and not schema.is_comment(name):
                expected = " and ".join(read)
                yield Refusal(f"is ignored next to {key!r}", path=[name], expected=expected)


def _unread(_: NamesByKind, reasons: Mapping[str, list[str]], value: object) -> Iterator[Refusal]:
    for why, keys in reasons.items():
        for key in keys:
            if held := mapping(value).get(key):
                yield Refusal(why, path=[key], value=as_yaml(held), expected=f"no {key}")


def _ascending(_: NamesByKind, keys: tuple[str, str], value: object) -> Iterator[Refusal]:
    (low, high), held = keys, mapping(value)
    try:
        is_wrong = float(held.get(low) or 0) >= float(held[high])
    except (KeyError, TypeError, ValueError):
        return
    if is_wrong:
        shown = f"{held.get(low, 0)} to {held[high]}"
        yield Refusal(f"is not above {low}", path=[high], value=shown, expected=f"{low} < {high}")


def _apart(_: NamesByKind, keys: list[str], value: object) -> Iterator[Refusal]:
    for key, other in combinations(keys, 2):
        for name in _named(mapping(value).get(other)):
            if name in _named(mapping(value).get(key)):
                problem = f"is also in {key!r}: it would be drawn twice"
                expected = f"each name once, in {' or '.join(keys)}"
                yield Refusal(problem, path=[other], value=as_yaml(name), expected=expected)


_KEYWORDS: Mapping[str, Callable[..., Iterator[Any]]] = {
    "x-one-of": _one_of,
    "x-slip-of": _slip_of,
    "x-no-slip-of": _no_slip_of,
    "x-first-of": _first_of,
    "x-beside": _beside,
    "x-unread": _unread,
    "x-ascending": _ascending,
    "x-apart": _apart,
}

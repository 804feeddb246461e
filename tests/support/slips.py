"""Slips of the keyboard: every key of the language, and of a workflow, misspelt."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from typing import Any

from fasthep_smk.config.schema import bundled

__all__ = [
    "Place",
    "keys_of",
    "keys_of_language",
    "only",
    "renamed",
    "slip",
    "words_of_language",
    "words_of_part",
]

#: The way to a key from the top of a document.
Place = tuple[str | int, ...]
#: Stands for a name that people give.
_OWN = "own_name"
#: Other names of a key (``parents``) that FAST-HEP takes without saying so.
_SYNONYMS = frozenset({"parent"})


def slip(name: str, seed: int) -> str:
    """Return a name with one letter too few or too many, or two of them in the wrong order.

    It is not one that FAST-HEP reads as the same, nor what may be a name of its own: a letter.
    """
    chance = random.Random(f"{name} {seed}")
    while True:
        at = chance.randrange(len(name))
        made = chance.choice(
            [
                name[:at] + name[at + 1 :],
                name[:at] + name[at] + name[at:],
                name[:at] + name[at : at + 2][::-1] + name[at + 2 :],
            ]
        )
        if made != name and len(made) > 1 and made not in _SYNONYMS:
            return made


def keys_of(content: object, at: Place = ()) -> Iterator[Place]:
    """Yield the place of every key of a document."""
    if isinstance(content, dict):
        for name, value in content.items():
            yield (*at, name)
            yield from keys_of(value, (*at, name))
    elif isinstance(content, list):
        for number, value in enumerate(content):
            yield from keys_of(value, (*at, number))


def keys_of_language() -> list[Place]:
    """Return a place of every key that the published schema knows."""
    schema = bundled()
    found = _keys(schema, schema["$defs"], (), frozenset())
    return list(dict.fromkeys(found))


def _keys(part: object, parts: Any, at: Place, above: frozenset[str]) -> Iterator[Place]:
    if not isinstance(part, Mapping):
        return
    if "$ref" in part:
        name = str(part["$ref"]).removeprefix("#/$defs/")
        if name not in above:
            yield from _keys(parts[name], parts, at, above | {name})
    for name, below in part.get("properties", {}).items():
        yield (*at, name)
        yield from _keys(below, parts, (*at, name), above)
    for below in (part.get("additionalProperties"), *part.get("patternProperties", {}).values()):
        yield from _keys(below, parts, (*at, _OWN), above)
    yield from _keys(part.get("items"), parts, (*at, 0), above)
    same = [part.get(word) for word in ("if", "then", "else")]
    for below in (
        *same,
        *(one for word in ("anyOf", "oneOf", "allOf") for one in part.get(word, ())),
    ):
        yield from _keys(below, parts, at, above)


def words_of_language() -> dict[Place, list[str]]:
    """Return the words of every key of the published schema that takes one of a list."""
    schema = bundled()
    return dict(_words(schema, schema["$defs"], (), frozenset()))


def words_of_part(name: str) -> dict[Place, list[str]]:
    """Return the same of one of its parts, such as an operation."""
    parts = bundled()["$defs"]
    return dict(_words(parts[name], parts, (), frozenset()))


def _words(
    part: object, parts: Any, at: Place, above: frozenset[str]
) -> Iterator[tuple[Place, list[str]]]:
    if not isinstance(part, Mapping):
        return
    if "$ref" in part:
        name = str(part["$ref"]).removeprefix("#/$defs/")
        if name not in above:
            yield from _words(parts[name], parts, at, above | {name})
    words = [one for one in part.get("enum", ()) if isinstance(one, str) and len(one) > 2]
    if words:
        yield at, words
    for name, below in part.get("properties", {}).items():
        yield from _words(below, parts, (*at, name), above)
    for below in (part.get("additionalProperties"), *part.get("patternProperties", {}).values()):
        yield from _words(below, parts, (*at, _OWN), above)
    yield from _words(part.get("items"), parts, (*at, 0), above)
    for word in ("anyOf", "oneOf", "allOf"):
        for below in part.get(word, ()):
            yield from _words(below, parts, at, above)


def renamed(document: Any, place: Place, name: str) -> Any:
    """Return a document in which the key at a place has another name, in the same order."""
    if not place:
        return document
    first, *rest = place
    if isinstance(document, list):
        return [
            renamed(one, tuple(rest), name) if number == first else one
            for number, one in enumerate(document)
        ]
    return {
        (name if key == first and not rest else key): (
            renamed(value, tuple(rest), name) if key == first else value
        )
        for key, value in document.items()
    }


def only(place: Place, value: object) -> Any:
    """Return a document that holds nothing but what leads to one key."""
    for step in reversed(place):
        value = [value] if isinstance(step, int) else {step: value}
    return value

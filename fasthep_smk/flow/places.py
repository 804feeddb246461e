"""Where the stages, datasets and variations of a workflow's document stand, as messages say it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from fasthep_smk.util.documents import YamlMapping
from fasthep_smk.util.yaml_values import as_yaml, key_of

if TYPE_CHECKING:
    from fasthep_smk.flow.shapes import PlanNode

#: A key of an item of one of these lists.
_NUMBERED = re.compile(
    r"(analysis\.stages|data\.datasets|datasets|systematics\.variations)\[(\d+)\](.*)", re.DOTALL
)

PlacedMappings = Iterator[tuple[str, YamlMapping]]


def mapping(value: object) -> YamlMapping:
    """Return a value where a mapping belongs; an empty one if it is something else."""
    return value if isinstance(value, dict) else {}


def stages_of(document: Mapping[str, object]) -> PlacedMappings:
    """Yield the key and the content of each stage."""
    return _items(mapping(document.get("analysis")).get("stages"), "analysis.stages", "id")


def stages_by_id(document: Mapping[str, object]) -> dict[str, tuple[str, YamlMapping]]:
    """Return the key and the content of each stage, by its id."""
    return {str(stage.get("id")): (key, stage) for key, stage in stages_of(document)}


def variations_of(document: Mapping[str, object]) -> PlacedMappings:
    """Yield the key and the content of each systematic variation."""
    listed = mapping(document.get("systematics")).get("variations")
    return _items(listed, "systematics.variations", "name")


def datasets_at(document: Mapping[str, object]) -> Iterator[tuple[str, str, YamlMapping]]:
    """Yield the key, the name and the content of each dataset."""
    blocks = {
        "datasets": document.get("datasets"),
        "data.datasets": mapping(document.get("data")).get("datasets"),
    }
    for key, block in blocks.items():
        if isinstance(block, dict):
            for name, content in block.items():
                yield f"{key}[{str(name)!r}]", str(name).strip(), mapping(content)
        for place, content in _items(block, key, "name"):
            yield place, str(content.get("name") or "").strip(), content


def _items(listed: object, key: str, named_by: str) -> PlacedMappings:
    for number, item in enumerate(listed if isinstance(listed, list) else ()):
        if isinstance(item, dict):
            name = item.get(named_by)
            is_named = isinstance(name, str) and name
            yield f"{key}[{name!r}]" if is_named else f"{key}[{number}]", item


def place_of(key: str, content: object, text: str) -> str:
    """Return the key of a text below ``content``, which stands at ``key``; that if it is absent."""
    for place, value, is_key in scalars(key, content):
        if (
            not is_key
            and isinstance(value, str)
            and as_python(value).split() == as_python(text).split()
        ):
            return place
    return key


def as_python(text: str) -> str:
    """Return an expression as FAST-HEP hands it to Python."""
    return text.replace("&&", " and ").replace("||", " or ").strip()


def written(document: YamlMapping, stage: str | None, text: str) -> str | None:
    """Return the key of a whole text of a stage, as for :func:`quoted`; ``None`` if it has none."""
    key, content = _part(document, stage)
    place = place_of(key, content, text)
    return None if place == key else named(place, document)


def quoted(document: YamlMapping, stage: str | None, message: str) -> str | None:
    """Return the key of the longest value or name of a stage that a message quotes, if of any.

    ``stage`` is its id, or the id of a node that reads a source or join (``read.events``); without
    one, all of the workflow is looked through. Values count where they stand as a whole word, but
    short ones, numbers and names of keys only in quotation marks; a value also after a colon at the
    end. Where nothing is quoted as a whole, the first expression with a name that stands in
    quotation marks is the place.
    """
    key, content = _part(document, stage)
    plain = re.sub(r"\[(?:'[^']*', )+'[^']*'\]", "", " ".join(message.split()))  # what there is
    names = re.findall(r"(?<!\w)['\"]([A-Za-z_]\w*)['\"]", plain)
    best, place = (0, 0, 0), None
    uses = Counter(value for _, value, is_key in scalars(key, content) if is_key)
    for where, value, is_key in scalars(key, content):
        text = " ".join(str(value).split())
        is_word = isinstance(value, str) and not is_key and len(text) > 2
        if stage is None:  # a word of letters may be any
            is_word &= not text.isalpha()
        at = max(plain.find(f"'{text}'"), plain.find(f'"{text}"'))
        if not is_key and at < 0 and len(text) > 2 and plain.endswith(f": {text}"):
            at = len(plain)
        if is_key and (where in document or (stage is None and uses[value] > 1)):
            continue  # the name of a section, or of keys in several places
        if at >= 0 or (is_word and _has_word(plain, text)):
            last = where.rpartition(".")[2]
            is_what = not is_key and (text == stage or last in ("id", "name", "op", "kind"))
            rank = (2 if last == "id" else 3 if is_what else 4, len(text), -at)
        elif isinstance(value, str) and any(_has_word(text, name) for name in names):
            rank = (0 if is_key else 1, 0, 0)
        else:
            continue
        if rank > best:
            best, place = rank, where
    return None if place is None else named(place, document)


def _part(document: YamlMapping, stage: str | None) -> tuple[str, object]:
    """Return the key and the content of a stage, of a source or join, or of all."""
    if stage is None:
        return "", document
    kind, _, name = stage.partition("@")[0].partition(".")
    section = {"read": "sources", "project": "sources", "join": "joins"}.get(kind, "")
    if name in mapping(document.get(section)):
        return key_of(section, [name]), mapping(document[section])[name]
    return stages_by_id(document).get(stage.partition("@")[0], ("", None))


def _has_word(text: str, word: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(word)}(?!\w)", text) is not None


def scalars(key: str, content: object) -> Iterator[tuple[str, object, bool]]:
    """Yield each value and each name of a key, with its key and whether it is a name."""
    if isinstance(content, dict):
        for name, value in content.items():
            step = key_of(key, [name]) if isinstance(name, str) else f"{key}[{as_yaml(name)}]"
            yield step, name, True
            yield from scalars(step, value)
    elif isinstance(content, list):
        for number, value in enumerate(content):
            yield from scalars(f"{key}[{number}]", value)
    elif content is not None:
        yield key, content, False


def node_place(node: PlanNode) -> str:
    """Return the key at which a node's parameters stand."""
    meta = dict(node.meta or {})
    stage = meta.get("stage_id")
    kind, _, rest = node.id.partition(".")
    name, _, number = rest.rpartition(".")
    if kind in ("write", "render") and number.isdigit():
        return f"analysis.stages[{name!r}].{kind}[{number}]"
    if kind == "inspect" and number.isdigit():
        parent = str(meta.get("parent_name"))
        if meta.get("parent_kind") == "source":
            return f"sources.{parent}.inspect"
        return f"analysis.stages[{parent!r}].inspect"
    if kind == "observe":
        match = re.search(r"\.(\d+)\.", node.id)
        return f"observers[{match[1]}]" if match else "observers"
    if node.role == "source":
        return f"sources.{meta.get('source_name')}"
    variation = mapping(meta.get("variation")).get("name")
    if variation and not stage:
        return f"systematics.variations[{variation!r}]"
    return f"analysis.stages[{stage!r}].params" if stage else str(node.id)


def named(key: str, content: YamlMapping) -> str:
    """Return a key with the names of stages, datasets and variations instead of their numbers."""
    match = _NUMBERED.match(key)
    if match is None:
        return key
    start, number, rest = match.groups()
    held: object = content
    for step in start.split("."):
        held = mapping(held).get(step)
    listed = held if isinstance(held, list) else []
    item = mapping(listed[int(number)]) if int(number) < len(listed) else {}
    name = item.get("id", item.get("name"))
    return f"{start}[{name!r}]{rest}" if isinstance(name, str) and name else key

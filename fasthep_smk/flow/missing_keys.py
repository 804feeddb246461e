"""Keys that FAST-HEP's compiler cannot do without, and keys that were to be these.

Without them it stops with a bare message that names neither line nor misspelt key.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from fasthep_smk.config.schema import key_of
from fasthep_smk.flow.places import mapping, stages_of
from fasthep_smk.util.documents import YamlMapping
from fasthep_smk.util.errors import Finding, is_slip, nearest
from fasthep_smk.util.yaml_values import as_yaml

__all__ = ["entry_findings", "missing_findings", "missing_parameter"]

_PARAMETER = re.compile(r"\S+ node (?P<node>.+?)(?:@[^@]*)? parameter '(?P<name>\w+)' is required")
_OF_WRITER = re.compile(r"write\.(?P<stage>.+)\.(?P<number>\d+)")


def missing_findings(document: YamlMapping, *, workflow: str) -> list[Finding]:
    """Return writers, plots and observers without the key that says what they are."""
    return list(_all_of(document, workflow))


def missing_parameter(document: YamlMapping, message: str, *, workflow: str) -> Finding | None:
    """Return the parameter that is missing according to the compiler; ``None`` if it says not."""
    found = _PARAMETER.fullmatch(message)
    if found is None:
        return None
    writer = _OF_WRITER.fullmatch(found["node"])
    stage = writer["stage"] if writer else found["node"].removeprefix("stage.")
    for key, content in stages_of(document):
        if content.get("id") == stage:
            if not writer:
                params = mapping(content.get("params"))
                return _lacking(f"{key}.params", params, found["name"], workflow)
            entries = [*_entries(content, "write", key)]
            if int(writer["number"]) < len(entries):
                place, entry = entries[int(writer["number"])]
                return _lacking(place, entry, found["name"], workflow)
    return None


def _of_resources(document: YamlMapping, workflow: str) -> Iterator[Finding]:
    """Yield resources of a kind, or with a path, that is one letter away from the registered one.

    FAST-HEP leaves such a path as it is, and the operation does not find it.
    """
    kinds = mapping(mapping(document.get("registry")).get("resource_kinds"))
    resources = mapping(mapping(document.get("execution")).get("resources"))
    for name, resource in resources.items():
        held = mapping(resource)
        kind = held.get("kind")
        place = key_of("execution.resources", [str(name)])
        meant = next((one for one in kinds if is_slip(str(kind), str(one))), None)
        if isinstance(kind, str) and kind not in kinds and meant is not None:
            yield Finding(
                file=workflow,
                key=f"{place}.kind",
                problem="no kind of resource has this name",
                value=as_yaml(kind),
                expected=", ".join(map(str, kinds)),
                hint=f"did you mean {meant!r}?",
            )
        paths = mapping(kinds.get(kind)).get("path_fields") if isinstance(kind, str) else None
        for path in paths if isinstance(paths, list) else ():
            if slip := _slip(held, str(path)):
                yield _unknown(place, slip, str(path), workflow)


def _all_of(document: YamlMapping, workflow: str) -> Iterator[Finding]:
    yield from _of_resources(document, workflow)
    yield from entry_findings(mapping(document.get("registry")), workflow)
    layouts, styles = mapping(document.get("outputs")), mapping(document.get("styles"))
    for key, stage in stages_of(document):
        for place, entry in _entries(stage, "write", key):
            layout = entry.get("use")
            if "kind" not in entry and "kind" not in mapping(layouts.get(str(layout))):
                expected = "which writer it is, such as root_tree"
                yield _lacking(place, entry, "kind", workflow, expected)
        for place, entry in _entries(stage, "render", key):
            if "style" not in entry:
                expected = "the name of a style, or a style"
                yield _lacking(place, entry, "style", workflow, expected)
            else:
                yield from _of_style(entry["style"], f"{place}.style", styles, workflow)
        yield from _of_observers(stage, "inspect", key, workflow)
        params = mapping(stage.get("params"))
        for place, entry in _entries(params, "outputs", f"{key}.params"):
            for part in ("path", "format"):
                if isinstance(params["outputs"], list) and (slip := _slip(entry, part)):
                    yield _unknown(place, slip, part, workflow)
    for name, source in mapping(document.get("sources")).items():
        yield from _of_observers(mapping(source), "inspect", f"sources.{name}", workflow)
    yield from _of_observers(document, "observers", "", workflow)
    for place, entry in _entries(document, "observers", ""):
        if "at" not in entry:
            expected = "what is observed, such as stage.NAME"
            yield _lacking(place, entry, "at", workflow, expected)
    for place, entry in _entries(document, "execution_hooks", ""):
        if "kind" not in entry:
            yield _lacking(place, entry, "kind", workflow, "which hook it is")


def entry_findings(registry: YamlMapping, workflow: str) -> Iterator[Finding]:
    """Yield entries whose ``impl``, ``spec`` or ``path`` is misspelt."""
    for section, entries in registry.items():
        for name, entry in mapping(entries).items():
            for part in ("impl", "spec", "path"):
                held = mapping(entry)
                if slip := _slip(held, part):
                    yield _unknown(key_of("registry", [section, name]), slip, part, workflow)


def _of_observers(holder: YamlMapping, name: str, key: str, workflow: str) -> Iterator[Finding]:
    for place, entry in _entries(holder, name, key):
        if "kind" not in entry:
            yield _lacking(place, entry, "kind", workflow, "which observer it is")


def _entries(holder: YamlMapping, name: str, key: str) -> Iterator[tuple[str, YamlMapping]]:
    """Yield the place and the content of what may be a list or one mapping."""
    raw, place = holder.get(name), f"{key}.{name}" if key else name
    if isinstance(raw, dict):
        yield place, raw
    for number, one in enumerate(raw if isinstance(raw, list) else ()):
        if isinstance(one, dict):
            yield f"{place}[{number}]", one


def _of_style(style: object, place: str, styles: YamlMapping, workflow: str) -> Iterator[Finding]:
    """Yield the style that says neither by itself nor by what it is made from how to plot."""
    seen: list[tuple[str, YamlMapping]] = []
    while True:
        if isinstance(style, str):
            place, style = f"styles.{style}", styles.get(style)
        if not isinstance(style, dict) or (place, style) in seen:
            return  # told by others
        seen.append((place, style))
        if "op" in style or "op" in mapping(style.get("with")):
            return
        if "use" not in style:
            break
        style = style["use"]
    parts = [(place, style, name) for place, style in seen for name in ("use", "with", "op")]
    parts += [(f"{place}.with", mapping(style.get("with")), "op") for place, style in seen]
    for place, held, name in parts:
        if slip := _slip(held, name):
            yield _unknown(place, slip, name, workflow)
            return
    place, style = seen[-1]
    expected = "op: a renderer such as hep.render.hist1d, or use: another style"
    yield _lacking(place, style, "op", workflow, expected)


def _lacking(
    place: str, holder: YamlMapping, name: str, workflow: str, expected: str | None = None
) -> Finding:
    """Return that a key is missing, or which one was to be it."""
    if slip := _slip(holder, name):
        return _unknown(place, slip, name, workflow)
    close = nearest(name, (key for key in holder if isinstance(key, str)), cutoff=0.6)
    return Finding(
        file=workflow,
        key=f"{place}.{name}",
        problem="is missing",
        expected=expected or "a value",
        hint=f"is {close!r} meant to be it?" if close else None,
    )


def _slip(holder: YamlMapping, name: str) -> str | None:
    if name in holder:
        return None
    return next((key for key in holder if isinstance(key, str) and is_slip(key, name)), None)


def _unknown(place: str, slip: str, name: str, workflow: str) -> Finding:
    return Finding(
        file=workflow,
        key=f"{place}.{slip}",
        problem="unknown key",
        expected=name,
        hint=f"did you mean {name!r}?",
    )

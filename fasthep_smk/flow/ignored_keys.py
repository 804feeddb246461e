"""Findings about keys that FAST-HEP knows, and does not read where they stand.

It passes over them silently: beside another key that says the same, on a stage of another
kind, or in a mapping of which it takes only a part.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from fasthep_smk.flow.places import mapping, stages_of
from fasthep_smk.util.documents import YamlMapping
from fasthep_smk.util.errors import Finding, not_among

__all__ = ["ignored_findings", "ignored_params_findings"]

_RENDERERS = "hep.render."
#: What only a stage that plots reads.
_OF_PLOTS = ("when", "out", "variations")
#: What hangs on a stage, and is dropped where the stage is a plot or a writer.
_ATTACHED = ("inspect", "write", "render")


def ignored_findings(document: Mapping[str, object], *, workflow: str) -> list[Finding]:
    """Return keys of stages, fields and styles that FAST-HEP does not read where they stand."""
    found: list[Finding] = []
    stages = dict(stages_of(document))
    for key, stage in stages.items():
        found += _of_stage(stage, key, workflow)
        found += _of_sources(stage, [str(one.get("id")) for one in stages.values()], key, workflow)
    found += _of_fields(document, workflow)
    for name, style in mapping(document.get("styles")).items():
        found += _of_use(style, f"styles.{name}", workflow, top=True)
    return found


def ignored_params_findings(stage: YamlMapping, key: str, *, workflow: str) -> list[Finding]:
    """Return the same of the parameters of one of FAST-HEP's operations."""
    params = mapping(stage.get("params"))
    found: list[Finding] = []
    if stage.get("op") == "hep.selection.cutflow":
        for name, group in mapping(params.get("selection")).items():
            place = f"{key}.params.selection.{name}"
            found += _second(group, ("steps", "cuts"), place, workflow)
            found += _second(group, ("parents", "from", "parent"), place, workflow)
            steps = group if isinstance(group, list) else None
            if isinstance(group, dict):
                steps = group.get("steps", group.get("cuts"))
                place += ".steps" if "steps" in group else ".cuts"
            for number, step in enumerate(steps if isinstance(steps, list) else ()):
                found += _second(step, ("expr", "reduce"), f"{place}[{number}]", workflow)
    if stage.get("op") == "hep.define":
        listed = params.get("variables")
        for number, variable in enumerate(listed if isinstance(listed, list) else ()):
            place = f"{key}.params.variables[{number}]"
            found += _second(variable, ("expr", "reduce"), place, workflow)
    return found


def _second(content: object, names: tuple[str, ...], key: str, workflow: str) -> Iterator[Finding]:
    """Yield all but the first of the keys, of which FAST-HEP reads only that."""
    present = [name for name in names if name in mapping(content)]
    for name in present[1:]:
        yield Finding(
            file=workflow,
            key=f"{key}.{name}",
            problem=f"is not read beside {present[0]!r}",
            expected=f"one of {', '.join(names)}",
        )


def _of_stage(stage: YamlMapping, key: str, workflow: str) -> Iterator[Finding]:
    yield from _second(stage, ("from", "in"), key, workflow)
    sink = str(stage.get("role") or "transform").strip() == "sink"
    plot = not sink and str(stage.get("op")).startswith(_RENDERERS)
    for name in _OF_PLOTS:
        if plot or stage.get(name) is None or (sink and name == "when"):
            continue
        attached = [one for one in ("render", "write") if stage.get(one)]
        yield Finding(
            file=workflow,
            key=f"{key}.{name}",
            problem="only a stage that plots reads this key"
            if name != "when"
            else "only a stage that plots or writes reads this key",
            expected=f"{name} below render or write of the stage"
            if attached and name != "variations"
            else f"no {name}",
            hint=f"it belongs below {attached[0]}" if attached and name != "variations" else None,
        )
    for name in _ATTACHED if plot or sink else ():
        if stage.get(name):
            yield Finding(
                file=workflow,
                key=f"{key}.{name}",
                problem=f"nothing is attached to a stage that {'writes' if sink else 'plots'}",
                expected=f"{name} at the stage whose result it is to take",
            )


def _of_sources(
    stage: YamlMapping, stages: list[str], key: str, workflow: str
) -> Iterator[Finding]:
    """Yield what a writer or a plot of the stage takes from a stage that does not exist."""
    for section in ("write", "render"):
        raw = stage.get(section)
        for number, item in enumerate(raw if isinstance(raw, list) else [raw]):
            name = mapping(item).get("from")
            if isinstance(name, str) and name not in stages:
                yield not_among(
                    name,
                    stages,
                    problem="the workflow has no such stage",
                    file=workflow,
                    key=f"{key}.{section}[{number}].from"
                    if isinstance(raw, list)
                    else f"{key}.{section}.from",
                )


def _of_fields(document: Mapping[str, object], workflow: str) -> Iterator[Finding]:
    sources = document.get("sources")
    streams = [str(name) for name in mapping(sources)]
    streams += ["events"] if sources is None else []  # FAST-HEP's default source
    streams += [str(name) for name in mapping(document.get("joins"))]
    for name, field in mapping(document.get("fields")).items():
        stream = mapping(field).get("stream")
        if str(stream or "") not in streams:
            yield not_among(
                stream,
                streams,
                problem="no source or join has this name: there would be no such field",
                file=workflow,
                key=f"fields.{name}.stream",
            )


def _of_use(content: object, key: str, workflow: str, *, top: bool = False) -> Iterator[Finding]:
    """Yield what stands beside ``use`` inside a style: FAST-HEP takes only what is below with."""
    if isinstance(content, list):
        for number, item in enumerate(content):
            yield from _of_use(item, f"{key}[{number}]", workflow)
    if not isinstance(content, dict):
        return
    for name, value in content.items():
        if "use" in content and not top and name not in ("use", "with"):
            if str(name).startswith("x-") or name in ("comment", "description"):
                continue
            yield Finding(
                file=workflow,
                key=f"{key}.{name}",
                problem="is not read beside 'use'",
                expected="use and with",
                hint=f"write with: {{{name}: …}}",
            )
        elif not isinstance(value, str):
            yield from _of_use(value, f"{key}.{name}", workflow)

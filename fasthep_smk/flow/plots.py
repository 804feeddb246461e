"""Findings about plots that would lack a dataset, or fail when all events have been processed.

The style of each plot stands complete in the compiled plan: FAST-HEP has put together what styles
take from each other, and has found the histogram that is drawn.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from fasthep_smk.config import schema
from fasthep_smk.flow import upstream
from fasthep_smk.flow.places import mapping, stages_of
from fasthep_smk.flow.plot_values import wrong_values
from fasthep_smk.flow.reads import is_published
from fasthep_smk.flow.upstream import ExecutionNode, ExecutionPlan
from fasthep_smk.util.documents import YamlMapping
from fasthep_smk.util.errors import Finding, is_slip, nearest, not_among, slips_among
from fasthep_smk.util.yaml_values import as_yaml

__all__ = ["plot_findings"]

_RENDERERS = "hep.render."
_HISTOGRAMS = tuple(
    f"{_RENDERERS}{name}" for name in ("hist1d", "data_mc", "heatmap2d", "project", "comparison")
)
_DATASET_AXES = ("dataset", "dataset_name")


@dataclass(frozen=True)
class _Plot:
    """A plot: where its style stands, what is drawn, and the datasets there are."""

    key: str
    workflow: str
    op: str
    spec: YamlMapping
    axes: tuple[str, ...] | None
    inputs: tuple[str, ...]
    datasets: tuple[str, ...]
    groups: tuple[str, ...]
    eventtypes: tuple[str, ...]

    @property
    def physics(self) -> list[str]:
        """The axes but that of the datasets."""
        return [name for name in self.axes or () if name not in _DATASET_AXES]

    def finding(self, path: str, problem: str, **details: str | None) -> Finding:
        return Finding(file=self.workflow, key=f"{self.key}.{path}", problem=problem, **details)

    def not_among(self, path: str, value: object, known: Iterable[str], problem: str) -> Finding:
        key = f"{self.key}.{path}"
        return not_among(value, known, problem=problem, file=self.workflow, key=key)


def plot_findings(
    plan: ExecutionPlan, document: Mapping[str, object], *, workflow: str, told: Iterable[str] = ()
) -> list[Finding]:
    """Return what is wrong with the plots of a plan.

    ``told`` are keys that others have told of: the style of a plot is made from what they are in.
    """
    found: list[Finding] = []
    last = {key.rpartition(".")[2] for key in told}
    for node in plan.nodes:
        published = node.impl.startswith(_RENDERERS) and is_published(
            plan.registry, "sinks", node.impl
        )
        if node.role != "sink" or not published:
            continue
        plot = _plot(plan, node, document, workflow)
        unknown = _unknown(plot)
        found += [one for one in unknown if (one.key or "").rpartition(".")[2] not in last]
        if plot.op in _HISTOGRAMS:
            of_plot = [
                *_of_input(plan, node, plot),
                *_of_plot(plot, plot.op, plot.spec, ""),
                *_of_values(plot),
            ]
            found += of_plot or (_refused(plan, plot) if not unknown else [])
    return list({(one.key, one.problem, one.value): one for one in found}.values())


def _plot(
    plan: ExecutionPlan, node: ExecutionNode, document: Mapping[str, object], workflow: str
) -> _Plot:
    datasets = mapping(plan.context.get("datasets"))
    axes = None
    inputs = [ref for ref in node.inputs if ref.input_name != "dependency"]
    for ref in inputs:
        made = plan.get_node(ref.node_id)
        if made.impl == "hep.hist" and is_published(plan.registry, "transforms", made.impl):
            listed = made.params.get("axes")
            axes = tuple(str(mapping(one).get("name")) for one in listed or ())
    return _Plot(
        key=_key(node, document),
        workflow=workflow,
        op=str(node.impl),
        spec=mapping(node.params.get("spec")),
        axes=axes,
        inputs=tuple(str(ref.input_name) for ref in inputs),
        datasets=tuple(map(str, datasets)),
        groups=tuple(str(mapping(one).get("group") or name) for name, one in datasets.items()),
        eventtypes=tuple(str(mapping(one).get("eventtype")) for one in datasets.values()),
    )


def _key(node: ExecutionNode, document: Mapping[str, object]) -> str:
    """Return where the style of a plot stands: among the styles, or at its stage."""
    meta = dict(node.meta or {})
    style = meta.get("style_ref")
    number = str(node.id).rpartition(".")[2]
    place = f"analysis.stages[{meta.get('stage_id')!r}]"
    for key, stage in stages_of(document):
        # A stage that plots several variations has its name before theirs.
        if str(stage.get("op")).startswith(_RENDERERS) and str(meta.get("stage_id")).startswith(
            str(stage.get("id"))
        ):
            params = mapping(stage.get("params"))
            place, style = f"{key}.params", params.get("style")
            if isinstance(style, dict):
                return f"{place}.style"
            return f"styles.{style}" if isinstance(style, str) and len(params) == 1 else place
        if stage.get("id") == meta.get("stage_id") and isinstance(stage.get("render"), dict):
            place, number = f"{key}.render", ""
    if isinstance(style, str):
        return f"styles.{style}"
    return f"{place}.style" if not number else f"{place}.render[{number}].style"


def _unknown(plot: _Plot) -> list[Finding]:
    """Return keys of the complete style that no renderer reads."""
    found = schema.findings_of(
        plot.spec, "style", file=plot.workflow, key=plot.key, schema=schema.LANGUAGE
    )
    return [
        *found,
        *(
            plot.finding(path, "is read beside 'use' only", expected="use and with")
            for path in _withs(plot.spec, "")
        ),
    ]


def _refused(plan: ExecutionPlan, plot: _Plot) -> list[Finding]:
    """Return what FAST-HEP's own reading of a style ends with, if it fails."""
    try:
        upstream.read_style(plan.registry, plot.op, dict(plot.spec))
    except Exception as error:
        # Whatever it raises now it would raise when all events have been processed.
        problem = f"the renderer refuses it: {error}"
        return [Finding(file=plot.workflow, key=plot.key, problem=problem)]
    return []


def _of_values(plot: _Plot) -> Iterator[Finding]:
    for wrong in wrong_values(plot.spec):
        hint = f"did you mean {wrong.meant!r}?" if wrong.meant else None
        details = {"value": as_yaml(wrong.value), "expected": wrong.expected, "hint": hint}
        yield plot.finding(wrong.path, wrong.problem, **details)


def _withs(content: object, path: str) -> Iterator[str]:
    if isinstance(content, dict):
        for name, value in content.items():
            below = f"{path}.{name}" if path else str(name)
            if name == "with" and path:
                yield below
            else:
                yield from _withs(value, below)


def _of_input(plan: ExecutionPlan, node: ExecutionNode, plot: _Plot) -> Iterator[Finding]:
    """Yield inputs that are no histograms."""
    for ref in node.inputs:
        made = plan.get_node(ref.node_id)
        kind = made.outputs.get(ref.output_name)
        if ref.input_name == "dependency" or kind is None or kind == "histogram":
            continue
        stage = dict(made.meta or {}).get("stage_id") or made.id
        yield plot.finding(
            "op",
            f"plots a histogram, but stage {stage!r} ({made.impl}) makes none there",
            value=f"{ref.output_name}: {kind}",
            expected="a stage with op: hep.hist",
        )


def _of_plot(plot: _Plot, op: str, spec: YamlMapping, path: str) -> Iterator[Finding]:
    """Yield what is wrong with a style; ``path`` is where it stands in that of the plot."""
    name = op.removeprefix(_RENDERERS)
    own = mapping(spec.get(name))
    available = list(dict.fromkeys([*plot.datasets, *plot.groups]))
    if plot.datasets:
        transforms = spec.get("transforms")
        for number, transform in enumerate(transforms if isinstance(transforms, list) else ()):
            place = f"{path}transforms[{number}]"
            available += yield from _of_transform(plot, mapping(transform), place)
        styled = mapping(mapping(spec.get("style")).get("datasets"))
        for one in styled:
            close = None if one in available else nearest(one, available, cutoff=0.75)
            if close is not None and close not in styled:
                key = f"{path}style.datasets.{one}"
                yield plot.not_among(key, one, available, "no dataset has this name")
        if name == "data_mc":
            yield from _of_data_mc(plot, own, available, f"{path}data_mc")
    if plot.axes is not None:
        yield from _of_axes(plot, name, own, mapping(spec.get("axes")), path)


def _of_transform(
    plot: _Plot, transform: YamlMapping, path: str
) -> Generator[Finding, None, list[str]]:
    """Yield what is wrong with a transform; return the names of the groups that it makes."""
    kind = transform.get("kind")
    if kind not in ("group", "scale"):
        yield plot.not_among(f"{path}.kind", kind, ("group", "scale"), "is no kind of transform")
        return []
    known = ("group", "by") if kind == "group" else ("by", "mode", "factors", "factors_ref")
    for name in transform:
        if name not in ("kind", *known):
            yield plot.not_among(f"{path}.{name}", name, known, "nothing reads this key")
    problem = "no dataset has this name"
    if kind == "group":
        by = mapping(transform.get("group")).get("by", transform.get("by"))
        if not isinstance(by, dict):
            if by != "dataset_group":
                words = ("dataset_group", "lists of datasets by the names of groups")
                yield plot.not_among(f"{path}.by", by, words, "is no way to group datasets")
            return []
        for group, members in by.items():
            listed = members if isinstance(members, list) else [members]
            for one in slips_among(listed, plot.datasets):
                yield plot.not_among(f"{path}.by.{group}", one, plot.datasets, problem)
        return list(map(str, by))
    by = transform.get("by")
    names = {"dataset_name": plot.datasets, "dataset_group": plot.groups}
    if not isinstance(by, str) or by not in names:
        yield plot.not_among(f"{path}.by", by, names, "is no way to tell datasets apart")
        return []
    if transform.get("mode", "overall") != "overall":
        yield plot.not_among(f"{path}.mode", transform["mode"], ("overall",), "does not exist yet")
    for one in slips_among(mapping(transform.get("factors")), names[by]):
        yield plot.not_among(
            f"{path}.factors.{one}", one, names[by], f"{problem}: nothing would be scaled"
        )
    return []


def _of_data_mc(
    plot: _Plot, own: YamlMapping, available: list[str], path: str
) -> Iterator[Finding]:
    data = own.get("data", "data")
    if str(data) not in available:
        yield plot.not_among(f"{path}.data", data, available, "no dataset has this name")
    for key in ("backgrounds", "signals"):
        raw = own.get(key)
        listed = raw if isinstance(raw, list) else []
        slips = slips_among(listed, available)
        if key == "signals":  # a style may serve several workflows, some without any of these
            slips = [one for one in slips if nearest(one, available, cutoff=0.75)]
        for one in slips:
            problem = "no dataset has this name: the plot would be without it"
            yield plot.not_among(f"{path}.{key}", one, available, problem)
    seen = [str(data)]
    for key in ("signals", "backgrounds"):
        raw = own.get(key)
        for one in raw if isinstance(raw, list) else []:
            if str(one) in seen:
                yield plot.finding(
                    f"{path}.{key}",
                    "the plot has this dataset already: it would be drawn twice",
                    value=as_yaml(one),
                    expected="each dataset once, in data, signals or backgrounds",
                )
            seen.append(str(one))


def _of_axes(
    plot: _Plot,
    name: str,
    own: YamlMapping,
    axes: YamlMapping,
    path: str,
) -> Iterator[Finding]:
    """Yield names of axes that the histogram does not have, and axes too many."""
    held = plot.axes or ()
    missing = "the histogram has no axis of this name"
    names = {one: mapping(axes.get(one)).get("name") for one in ("x", "y")}
    if name == "heatmap2d":
        for one, axis in names.items():
            if axis not in held:
                yield plot.not_among(f"{path}axes.{one}.name", axis, plot.physics, missing)
    elif name == "project":
        axis, then = own.get("axis"), mapping(own.get("then"))
        if axis not in held:
            yield plot.not_among(f"{path}project.axis", axis, plot.physics, missing)
            return
        op = then.get("op")
        if op not in _HISTOGRAMS:
            key = f"{path}project.then.op"
            yield plot.not_among(key, op, _HISTOGRAMS, "no renderer of histograms has this name")
            return
        kept = [one for one in held if one in _DATASET_AXES and own.get("keep_dataset", True)]
        inner = replace(plot, axes=(*kept, str(axis)))
        yield from _of_plot(inner, str(op), {"axes": axes, **then}, f"{path}project.then.")
    elif name == "comparison" and own.get("variation_axis") is not None:
        for key in ("variation_axis", "dataset_axis"):
            axis = own.get(key, "dataset")
            if axis not in held:
                yield plot.not_among(f"{path}comparison.{key}", axis, held, missing)
        for key, usual in (("reference_eventtype", "data"), ("target_eventtype", "mc")):
            eventtype = own.get(key, usual)
            number = plot.eventtypes.count(str(eventtype))
            if number != 1:
                counted = f"{number} datasets have" if number else "no dataset has"
                problem = f"{counted} this eventtype: exactly one is compared"
                place = f"{path}comparison.{key}"
                yield plot.not_among(place, eventtype, dict.fromkeys(plot.eventtypes), problem)
    elif name in ("hist1d", "data_mc") and len(plot.physics) != 1:
        yield plot.finding(
            f"{path}op",
            f"plots one axis, but the histogram has {len(plot.physics)}",
            value=", ".join(plot.physics),
            expected="one axis besides that of the datasets",
            hint="op: hep.render.project takes one axis of several",
        )
    elif name == "data_mc" and not set(_DATASET_AXES) & set(held):
        yield plot.finding(
            f"{path}op",
            "tells datasets apart, but the histogram has no axis for them",
            value=", ".join(held),
            expected="dataset_axis: true in the histogram",
        )
    # There it is only a name to be shown; but one that is nearly right was meant to be right.
    elif (
        names["x"] not in (None, *held)
        and plot.physics
        and is_slip(str(names["x"]), plot.physics[0])
    ):
        yield plot.not_among(f"{path}axes.x.name", names["x"], plot.physics, missing)

"""A compiled plan as the rest of the project sees it: nodes, ports, scopes, what each reads.

All decisions that belong to FAST-HEP (which node is active for a dataset, which reference replaces
that to an inactive node, when a sink runs, which products outlive a partition) are asked of
FAST-HEP here, so that the planning rooms work on plain data.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from fasthep_smk.flow import op_identity, plan_files, upstream
from fasthep_smk.flow.context_use import sees_variation, sights
from fasthep_smk.flow.files_written import files_written
from fasthep_smk.flow.named_files import NamedFiles
from fasthep_smk.flow.reads import (
    CATEGORY,
    columns_read,
    diagnostics_of,
    entries_of,
    hook_entries,
    is_published,
    modifiers_of,
    references,
    user_hooks,
)
from fasthep_smk.flow.records import Sight
from fasthep_smk.util.documents import YamlMapping

if TYPE_CHECKING:
    from fasthep_smk.flow.shapes import Dataset, Key, Plan, PlanNode, RuntimeRegistry

Scope = Literal["global", "partition", "dataset", "final"]
#: How the names of modifiers begin that work on GPUs.
OF_GPUS = ("gpu.", "cuda.")
#: Of these sections of the registry, every node can see all that is registered.
_FOR_ALL = ("functions", "constants", "product_handlers")
_WHEN_TO_SCOPE: Mapping[str, Scope] = {"dataset_end": "dataset", "run_end": "final"}


@dataclass(frozen=True)
class Ref:
    """One input of a node: the port it reads. ``dependency`` inputs order nodes, no more."""

    node: str
    port: str
    name: str

    @property
    def key(self) -> Key:
        return (self.node, self.port)

    @property
    def is_dependency(self) -> bool:
        return self.name == "dependency"


@dataclass(frozen=True)
class Node:
    """One operation of the plan. ``reads`` is ``None`` if it may look at every column.

    ``sees_variation`` tells whether its result may depend on the variation's name, ``sees`` on
    what of the run it may depend besides its own events and dataset. ``sources`` are the files
    that its signature knows: of the user's modules, and those that its parameters name. ``rerun``
    differs each time that a user asks for the stage to run again. ``writes`` are the files that it
    is known to write, relative to the build folder, with FAST-HEP's names in braces where there is
    one for each dataset or partition. ``diagnostics`` are modifiers that measure it.
    """

    id: str
    role: str
    impl: str
    scope: Scope
    inputs: tuple[Ref, ...]
    outputs: Mapping[str, str]
    params: YamlMapping
    meta: YamlMapping
    reads: frozenset[str] | None
    retained: frozenset[str]
    implementation: str
    sees_variation: bool
    sees: frozenset[Sight] = frozenset({"run"})
    honours_ranges: bool = False
    makes: frozenset[str] = frozenset()
    published: bool = True
    sources: frozenset[str] = frozenset()
    rerun: str = ""
    product_id: str = ""
    product_kinds: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    needs_gpu: bool = False
    diagnostics: tuple[str, ...] = ()

    @property
    def stage(self) -> str:
        """The id of the stage this node was made from, or its own id."""
        return str(self.meta.get("stage_id") or self.id.removeprefix("stage."))

    @property
    def execution(self) -> YamlMapping:
        """What the stage says under ``execution`` (``require``, ``modifiers`` …)."""
        return dict(self.meta.get("execution") or {})

    @property
    def modifiers(self) -> list[object]:
        """The modifiers of the stage, with their parameters; those that measure are left out."""
        return [
            modifier for modifier in self._modifiers if modifier["name"] not in self.diagnostics
        ]

    @property
    def measured_by(self) -> list[str]:
        """What measures the stage, in words: modifiers, and what is said to them."""
        return [
            " ".join([str(modifier["name"]), *(f"{key}={value}" for key, value in params.items())])
            for modifier in self._modifiers
            if modifier["name"] in self.diagnostics
            for params in [dict(modifier.get("params") or {})]
        ]

    @property
    def _modifiers(self) -> list[YamlMapping]:
        """What the compiler has made of the modifiers of a stage: each with its name."""
        return list(self.execution.get("modifiers") or [])

    def streams(self) -> list[str]:
        """The ports that carry event streams."""
        return [port for port, kind in self.outputs.items() if kind == "event_stream"]


@dataclass
class Graph:
    """The nodes of one plan in topological order.

    ``surroundings`` identifies what every node can see besides its parameters (functions, hooks,
    product handlers, resource files), ``reporting`` what the reports are made with. ``hooked`` says
    that a user's own hook is handed what nodes read and make. ``named`` looks up files that texts
    of the workflow name; ``sources`` are those that every node can see.
    """

    plan: Plan
    surroundings: str = ""
    reporting: str = ""
    hooked: bool = False
    named: NamedFiles = field(default_factory=lambda: NamedFiles(()))
    sources: frozenset[str] = frozenset()
    nodes: dict[str, Node] = field(default_factory=dict)

    def identity_of(self, path: str) -> str | None:
        """Return what identified a source when signatures were made."""
        if path.endswith((".py", ".so")):
            return op_identity.content_digest(Path(path))
        return self.named.identity(Path(path))

    def active(self, node_id: str, dataset: Dataset | None) -> bool:
        """Whether ``applies_to`` lets a node run for a dataset."""
        node = self.plan.get_node(node_id)
        return bool(upstream.node_applies_to_plan_dataset(node, dataset=_as_dict(dataset)))

    def resolve(self, ref: Ref, dataset: Dataset | None, *, consumer: str) -> Ref | None:
        """Return the reference that stands in for ``ref`` where its node is inactive.

        ``None`` where the consumer leaves inactive inputs out or FAST-HEP finds no substitute.
        """
        if self.active(ref.node, dataset):
            return ref
        node = self.plan.get_node(consumer)
        if upstream.inactive_inputs_behavior_for_node(self.plan, node) == "omit":
            return None
        original = upstream.PlanInputRef(
            node_id=ref.node, output_name=ref.port, input_name=ref.name
        )
        try:
            substitute = upstream.resolve_active_input_ref(
                self.plan, original, dataset=_as_dict(dataset)
            )
        except (KeyError, ValueError):
            return None
        return Ref(substitute.node_id, substitute.output_name, substitute.input_name)

    def metadata_only(
        self,
        source: str,
        dataset: Dataset | None,
        nodes: Iterable[str] | None = None,
    ) -> bool:
        """Whether FAST-HEP reads no events here: all that follows looks at the schema.

        With ``nodes`` the answer is for a plan that has been reduced to them.
        """
        plan = self.plan if nodes is None else plan_files.subset(self.plan, nodes)
        ctx = {"dataset": _as_dict(dataset)}
        return bool(upstream.source_should_read_metadata_only(plan, plan.get_node(source), ctx=ctx))

    def with_readers(self, nodes: Iterable[str]) -> set[str]:
        """Return nodes, and all that need what they make."""
        names = set(nodes)
        for node in self.nodes.values():
            if any(ref.node in names for ref in node.inputs):
                names.add(node.id)
        return names

    def with_inputs(self, nodes: Iterable[str]) -> set[str]:
        """Return nodes, and all that they need."""
        names = set(nodes)
        for node in reversed(self.nodes.values()):
            if node.id in names:
                names |= {ref.node for ref in node.inputs}
        return names


def describe(
    plan: Plan, named: NamedFiles | None = None, reruns: Mapping[str, str] | None = None
) -> Graph:
    """Return the plan's nodes in plain form.

    ``named`` looks up files that texts name; ``reruns`` are tokens of stages that run again.
    """
    named = named or NamedFiles(())
    registry: RuntimeRegistry = upstream.runtime_registry_from_config(plan.registry)
    retained: dict[str, set[str]] = {}
    for spec in upstream.plan_partition_boundary(plan, runtime_registry=registry):
        if spec.policy.retain:
            retained.setdefault(spec.node_id, set()).add(spec.output_name)
    reads = columns_read(plan)
    hooked = user_hooks(plan, plan.registry)
    templates, resources = plan.registry.get("report_templates"), plan.execution.get("resources")
    for_all = [*map(plan.registry.get, _FOR_ALL), *hook_entries(plan)]
    graph = Graph(
        plan,
        hooked=hooked,
        named=named,
        surroundings=_identity(for_all, named.identities(resources)),
        sources=_sources(for_all, [resources, *_said(plan)], named),
        reporting=_identity([templates], named.identities([templates, plan.reports])),
    )
    global_nodes: set[str] = set()
    for item in plan.nodes:
        inputs = tuple(Ref(ref.node_id, ref.output_name, ref.input_name) for ref in item.inputs)
        scope = _scope(item, inputs, global_nodes)
        if scope == "global":
            global_nodes.add(item.id)
        category = CATEGORY[item.role]
        entries, params = entries_of(plan, item), _read_params(item)
        graph.nodes[item.id] = Node(
            id=item.id,
            role=item.role,
            impl=item.impl,
            scope=scope,
            inputs=inputs,
            outputs=dict(item.outputs),
            params=dict(item.params),
            meta=dict(item.meta),
            reads=reads[item.id][0],
            makes=reads[item.id][1],
            retained=frozenset(retained.get(item.id, ())),
            implementation=_identity(entries, named.identities(params, by=item.impl)),
            sees_variation=item.role in ("observer", "sink")
            or sees_variation(*references(plan, item, category)),
            sees=frozenset({"run"}) if hooked else _sights(plan, item, category),
            sources=_sources(entries, params, named, by=item.impl),
            rerun=(reruns or {}).get(str(dict(item.meta).get("stage_id") or ""), ""),
            published=is_published(plan.registry, category, item.impl),
            product_id=upstream.product_id(item),
            product_kinds=tuple(
                kind
                for port, kind in item.outputs.items()
                if port in retained.get(item.id, ()) and _is_written(registry, kind)
            ),
            writes=files_written(plan, item),
            honours_ranges=item.role == "source"
            and op_identity.honours_ranges(plan.registry, item.impl),
            needs_gpu=_needs_gpu(plan, item),
            diagnostics=tuple(diagnostics_of(item, plan.registry)),
        )
    return graph


def _identity(entries: Iterable[object], files: Iterable[str]) -> str:
    """Return the identity of what is registered, and of files that are named."""
    return "|".join([*map(op_identity.of_entry, entries), *files])


def _read_params(item: PlanNode) -> YamlMapping:
    """Return the parameters that may name files that an op reads."""
    if item.role != "sink":
        return dict(item.params)
    return {key: value for key, value in item.params.items() if key not in ("path", "out")}


def _said(plan: Plan) -> list[object]:
    """Return the globals, and what datasets say of themselves besides their files."""
    datasets = dict(plan.context.get("datasets") or {}).values()
    own = [{key: value for key, value in facts.items() if key != "files"} for facts in datasets]
    return [plan.context.get("globals"), own]


def _sources(
    entries: Iterable[object], texts: object, named: NamedFiles, *, by: str | None = None
) -> frozenset[str]:
    """Return the files of the user's modules in registry entries, and those that texts name."""
    modules = {name for entry in entries for name in op_identity.modules_of_entry(entry)}
    code = {str(path) for name in modules for path in op_identity.own_sources(name).values()}
    return frozenset(code | {str(path) for path in named.find(texts, by=by).values()})


def _sights(plan: Plan, item: PlanNode, category: str) -> frozenset[Sight]:
    implementation, modifiers = references(plan, item, category)
    return sights(
        role=item.role,
        implementation=implementation,
        params=item.params,
        modifiers=modifiers,
        known=plan.context.get("globals") or (),
    )


def _needs_gpu(plan: Plan, item: PlanNode) -> bool:
    """Whether a modifier works on GPUs, or the op's spec says ``requires: {resources: gpu}``.

    FAST-HEP has no word for the latter; ``requires`` is a free mapping that it passes on.
    """
    if any(name.startswith(OF_GPUS) for name in modifiers_of(item, plan.registry)):
        return True
    if item.role != "transform" or is_published(plan.registry, "transforms", item.impl):
        return False
    spec = upstream.component_spec_for_node(item, plan.registry)
    wanted = (spec.requires or {}).get("resources") if spec is not None else None
    return "gpu" in ([wanted] if isinstance(wanted, str) else wanted or [])


def _is_written(registry: RuntimeRegistry, kind: str) -> bool:
    """Whether FAST-HEP writes products of a kind to a file at the end of the run."""
    handler = registry.product_handlers.get(kind)
    return handler is not None and handler.materialize is not None


def _scope(item: PlanNode, inputs: Iterable[Ref], global_nodes: set[str]) -> Scope:
    if item.role == "sink":
        return _WHEN_TO_SCOPE.get(upstream.sink_when(item), "partition")
    if item.role != "transform" or item.input_scope != "global" or item.output_scope != "global":
        return "partition"
    # FAST-HEP's policy calls every transform without an event stream, histogram or cutflow among
    # its outputs "global" and then runs it before the partitions. One that reads the products of
    # partitions cannot run there; it belongs to them.
    depends = [ref for ref in inputs if not ref.is_dependency]
    return "global" if all(ref.node in global_nodes for ref in depends) else "partition"


def _as_dict(dataset: Dataset | None) -> dict[str, object] | None:
    return dict(dataset) if dataset is not None else None

"""Run parts of a plan with FAST-HEP's own runtime: its ops, hooks, modifiers and provenance."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar

from fasthep_smk.flow import plan_files, upstream
from fasthep_smk.flow.isolation import Isolation, copy_arguments
from fasthep_smk.flow.modules import only_fasthep
from fasthep_smk.flow.operation import enter_operation
from fasthep_smk.flow.own_modules import random_state
from fasthep_smk.flow.patches.evaluated import forget_evaluated, look_at_inputs
from fasthep_smk.flow.rng import FILE
from fasthep_smk.flow.stage_error import Exited, StageError, stage_of
from fasthep_smk.flow.summary import CHANGED, Run, listed
from fasthep_smk.util.masking import masked

if TYPE_CHECKING:
    from fasthep_smk.flow.records import PartitionData, ProductOutline
    from fasthep_smk.flow.shapes import (
        BoundaryProduct,
        BoundarySpec,
        Context,
        Key,
        Plan,
        PlanNode,
        Recorder,
        RuntimeRegistry,
        Store,
    )

_Made = TypeVar("_Made")

__all__ = ["Session", "StageError"]


class _Hooks(upstream.HookManager):  # type: ignore[misc]
    """FAST-HEP's hook manager that also remembers which node raised."""

    #: Whether operations that follow each other may share a weight.
    share_weights: bool = False
    isolation: Isolation | None = None
    entered: PlanNode | None = None
    #: What the node that runs has returned.
    outputs: object = None
    failed: PlanNode | None = None
    #: What the node that failed was given.
    inputs: Mapping[str, object] = MappingProxyType({})
    ctx: Mapping[str, object] = MappingProxyType({})

    @contextmanager
    def around_node(
        self, *, node: PlanNode, inputs: dict[str, object], ctx: Context
    ) -> Iterator[None]:
        self.entered, self.outputs = node, None
        enter_operation(node.impl, stage_of(node))
        isolation = self.isolation
        if isolation is not None:
            isolation.enter(node, inputs, ctx)
            if not isolation.has_hooks:
                isolation.enter_modules(node)
        names = ctx.keys() & self.modified_by(node)
        before = {name: ctx[name] for name in names}
        with super().around_node(node=node, inputs=inputs, ctx=ctx), _only_here():
            yield
        if isolation is not None and not isolation.has_hooks:
            self._tell(node, isolation.leave_modules(node, self.outputs), ctx)
        # Other jobs do not see what modifiers of this node have put there.
        for name in self.modified_by(node) - names:
            ctx.pop(name, None)
        ctx.update(before)

    def before_node(
        self, *, node: PlanNode, inputs: dict[str, object], ctx: Context, **details: object
    ) -> None:
        super().before_node(node=node, inputs=inputs, ctx=ctx, **details)
        look_at_inputs(node, inputs, ctx, share=self.share_weights)
        if self.isolation is not None and self.isolation.has_hooks:
            self.isolation.enter_modules(node)

    def after_node(
        self, *, node: PlanNode, outputs: object, ctx: Context, **details: object
    ) -> None:
        self.outputs = outputs
        if self.isolation is not None:
            changes = self.isolation.leave(node, outputs, ctx)
            if self.isolation.has_hooks:
                changes += self.isolation.leave_modules(node, outputs)
            self._tell(node, changes, ctx)
        super().after_node(node=node, outputs=outputs, ctx=ctx, **details)

    def _tell(self, node: PlanNode, changes: list[str], ctx: Context) -> None:
        if changes:
            warning = {"category": CHANGED, "node_id": node.id, "changes": changes}
            ctx["_warnings"].append(warning)

    def modified_by(self, node: PlanNode) -> set[str]:
        """Return the names that modifiers of a node put into its context."""
        bindings = self._node_modifier_bindings_for(node)
        return {name for binding in bindings for name in binding["spec"]["params"]}

    def has_event(self, event: str, *, node: PlanNode | None = None) -> bool:
        return True if event == "on_node_error" else bool(super().has_event(event, node=node))

    def on_node_error(
        self, *, node: PlanNode, inputs: Mapping[str, object], ctx: Context, **details: object
    ) -> None:
        if self.failed is None:
            self.failed, self.inputs, self.ctx = node, inputs, ctx
        super().on_node_error(node=node, inputs=inputs, ctx=ctx, **details)


class Session:
    """One job's use of FAST-HEP's runtime: a plan, a context, one set of hooks.

    ``outdir`` is where operations write; a job hands a folder of its own and moves the files when
    it has succeeded.
    """

    def __init__(self, plan: Plan, outdir: Path) -> None:
        self.plan = plan
        self._unseeded = random_state()
        self.registry: RuntimeRegistry = upstream.runtime_registry_from_config(plan.registry)
        self.hooks: _Hooks = _Hooks.from_plan(plan)
        self.hooks.share_weights = only_fasthep(plan)
        self.ctx: Context = dict(plan.context)
        self.write_to(outdir)
        self.ctx["execution"] = plan.execution
        self.ctx.update(dict(self.ctx.get("globals") or {}))
        self.ctx["_warnings"] = []
        self.recorder: Recorder = upstream.ensure_runtime_provenance(self.ctx)
        self.ctx.setdefault("runtime_resources", {})
        self.ctx.setdefault("resources", self.ctx.setdefault("resolved_resources", {}))
        upstream.ensure_expr_registry(self.ctx, plan.registry)
        copy_arguments(plan.registry, self.ctx["expr_registry"].functions)
        self.ctx.setdefault("dataset_names", list(self.ctx.get("datasets") or {}))

    # --- steps of a run, in FAST-HEP's order ----------------------------------------------------

    def side_products(self, nodes: Iterable[str]) -> tuple[Store, list[ProductOutline]]:
        """Run the global side products (nodes that no partition feeds).

        Returns them and what FAST-HEP's summary says of those that outlive the partitions.
        """
        plan = plan_files.subset(self.plan, nodes)
        self._isolate(plan, None)
        products: Store = self._watched(
            upstream.execute_global_side_product_nodes,
            plan,
            ctx=self.ctx,
            registry_cfg=plan.registry,
            hook_manager=self.hooks,
        )
        kept: Iterable[BoundarySpec] = upstream.plan_partition_boundary(
            self.plan, runtime_registry=self.registry
        )
        return products, [
            _outline(spec, spec.policy.representation, products[spec.key()])
            for spec in kept
            if spec.key() in products
        ]

    def partition(
        self,
        nodes: Iterable[str],
        partition: PartitionData | None,
        given: Store,
        file_digest: str | None = None,
        kept: Collection[Key] | None = None,
    ) -> tuple[Store, list[ProductOutline]]:
        """Run nodes for one partition, or unpartitioned.

        ``file_digest`` stands for the partition's file in the seeds of random numbers, where its
        name is not the one in the workflow. ``kept`` are the products that will be looked at (all,
        if it is ``None``). Returns their products and what FAST-HEP's summary
        says of those that outlive a partition.
        """
        wanted = set(nodes)
        plan = plan_files.subset(self.plan, wanted)
        self._isolate(plan, kept)
        ctx = self.ctx
        described = None
        if partition is not None:
            described = plan_files.partition_from(partition)
            ctx = upstream.build_partition_context(plan, base_ctx=ctx, partition=described)
            if file_digest is not None:
                ctx[FILE] = file_digest
        store = self._watched(
            upstream.execute_plan_partition,
            plan,
            ctx=ctx,
            registry_cfg=plan.registry,
            initial_values=given,
            hook_manager=self.hooks,
        )
        fresh = {key: value for key, value in store.items() if key not in given}
        self._name_dataset(fresh, ctx)
        boundary = [
            spec
            for spec in upstream.plan_partition_boundary(self.plan, runtime_registry=self.registry)
            if spec.node_id in wanted
        ]
        products: list[BoundaryProduct] = upstream.extract_boundary_products(
            self.plan,
            fresh,
            partition=described,
            boundary=boundary,
            runtime_registry=self.registry,
            ctx=ctx,
        )
        fresh.update({item.key(): item.value for item in products})
        if described is None:
            return fresh, listed(fresh)
        return fresh, [_outline(item, item.representation, item.value) for item in products]

    def reduce(self, stores: Iterable[Mapping[Key, object]], dataset: str | None) -> Store:
        """Combine the products of partitions (or, without ``dataset``, of datasets), in order.

        Every kind of product that can be merged is merged at once, also if there is one value
        only: that is what tags a cutflow with its dataset.
        """
        grouped: dict[Key, list[object]] = {}
        for store in stores:
            for key, value in store.items():
                grouped.setdefault(key, []).append(value)
        return {key: self._reduced(key, values, dataset) for key, values in grouped.items()}

    def dataset_end(self, dataset: str, store: Store) -> Store:
        """Run what comes at the end of a dataset: its writers, renders and hooks."""
        ctx = upstream.build_dataset_context(self.plan, base_ctx=self.ctx, dataset_name=dataset)
        handed_out = self._isolate(self.plan, None).handing_out(store)
        self._watched(
            upstream.execute_dataset_sinks,
            self.plan,
            dataset_name=dataset,
            dataset_value_store=handed_out,
            ctx=ctx,
            registry_cfg=self.plan.registry,
            hook_manager=self.hooks,
        )
        store.update({key: value for key, value in handed_out.items() if key not in store})
        self._name_dataset(store, ctx)
        return store

    def write_products(self, store: Store) -> None:
        """Write histograms, cutflows and other final products."""
        items = upstream.materialize_final_products(
            self.plan,
            value_store=store,
            outdir=str(self.outdir),
            registry_cfg=self.plan.registry,
        )
        upstream.register_product_bindings(self.ctx, items)

    def end_nodes(self) -> list[str]:
        """Return the nodes that come at the end of the run, in order: plots, tables, writers."""
        earlier = ("partition_end", "dataset_end")
        sinks = [node for node in self.plan.nodes if node.role == "sink"]
        return [node.id for node in sinks if upstream.sink_when(node) not in earlier]

    def import_ops(self, nodes: Iterable[str]) -> None:
        """Import what declares these nodes, for all processes that are forked afterwards."""
        for node in nodes:
            upstream.component_spec_for_node(self.plan.get_node(node), self.plan.registry)

    def run_end_nodes(self, store: Store, nodes: Iterable[str]) -> None:
        """Run nodes that come at the end of the run; their products are put into ``store``."""
        plan = plan_files.subset(self.plan, nodes)
        handed_out = self._isolate(plan, None).handing_out(store)
        self._watched(
            upstream.execute_final_nodes,
            plan,
            value_store=handed_out,
            ctx=self.ctx,
            registry_cfg=self.plan.registry,
            hook_manager=self.hooks,
        )
        store.update({key: value for key, value in handed_out.items() if key not in store})

    def write_manifests(self, store: Mapping[Key, object], build: Path) -> None:
        """Write the provenance records and the writers' manifests of the run into ``build``."""
        upstream.write_writer_manifests(
            self.plan, stores=[dict(store)], outdir=str(build), runtime_provenance=self.recorder
        )

    def write_to(self, outdir: Path) -> None:
        """Let operations write to another folder from here on."""
        self.outdir = outdir
        self.ctx.update(
            outdir=str(outdir),
            build_paths=upstream.BuildPaths.from_plan(self.plan, outdir=outdir),
        )

    def settle(self, build: Path, runs: Iterable[Run]) -> None:
        """Go on in the build folder itself, with what all jobs recorded, this one included."""
        self.write_to(build)
        del self.ctx["provenance"]
        self.recorder = upstream.ensure_runtime_provenance(self.ctx)
        self.replay(runs)

    def run_end(self) -> None:
        """Tell the hooks that the run is over."""
        self.hooks.run_end(plan=self.plan, ctx=self.ctx, summary={})

    # --- records --------------------------------------------------------------------------------

    def replay(self, runs: Iterable[Run]) -> None:
        """Take over what other jobs recorded, as if it had happened here."""
        for run in runs:
            for operation in run.operations:
                self.recorder.record_operation_record(operation)
            for name, resource in run.resources.items():
                self.recorder.record_resource_record(name, resource)

    def record(
        self,
        *,
        partition: PartitionData | None = None,
        boundary: Iterable[ProductOutline] = (),
        replayed: int = 0,
    ) -> Run:
        """Return what this job did; the first ``replayed`` operations were other jobs'."""
        return Run(
            partition=partition,
            boundary=list(boundary),
            operations=list(self.recorder.operation_records())[replayed:],
            resources=dict(self.recorder.serialise_resources()),
            hooks=list(self.hooks.usage_summary()["enabled"]),
            warnings=list(self.ctx["_warnings"]),
        )

    # --- helpers --------------------------------------------------------------------------------

    def _isolate(self, plan: Plan, kept: Collection[Key] | None) -> Isolation:
        """Let own operations among the nodes of ``plan`` change nothing that others see."""
        self.hooks.isolation = Isolation(plan, kept, self._unseeded)
        return self.hooks.isolation

    def _watched(self, call: Callable[..., _Made], plan: Plan, **arguments: object) -> _Made:
        """Call into the runtime; say which node failed if one does."""
        self.hooks.failed, self.hooks.inputs = None, {}
        try:
            return call(plan, **arguments)
        except SystemExit as error:  # it would end the job, and seem to have succeeded
            if self.hooks.entered is None:
                raise
            exited = Exited(error.code).with_traceback(error.__traceback__)
            raise self._error(self.hooks.entered, exited) from error
        except Exception as error:
            if self.hooks.failed is not None:
                raise self._error(self.hooks.failed, error) from error
            raise
        finally:
            forget_evaluated()

    def _error(self, node: PlanNode, cause: BaseException) -> StageError:
        hooks = self.hooks
        return StageError(node, cause, plan=self.plan, inputs=hooks.inputs, ctx=hooks.ctx)

    def _reduced(self, key: Key, values: list[object], dataset: str | None) -> object:
        node = self.plan.get_node(key[0])
        kind = str(node.outputs.get(key[1]))
        if kind == "event_stream":
            joined = _concatenated(values)
            if joined is not None:
                return joined
        handler = self.registry.product_handlers.get(kind)
        if handler is not None and handler.merge is None and handler.combine is not None:
            result = values[0]
            for value in values[1:]:
                result = handler.combine(
                    result, value, node=node, output_name=key[1], dataset_name=dataset
                )
            return result
        return upstream.reduce_product_values(
            self.plan, self.registry, key=key, values=values, dataset_name=dataset
        )

    def _name_dataset(self, store: Store, ctx: Context) -> None:
        """Give artifact references the dataset and partition they belong to, where they lack it.

        FAST-HEP's reduction refuses a partition's artifact without a dataset, which all sinks but
        its ROOT writer return.
        """
        partition = dict(ctx.get("partition") or {})
        for (node, port), value in store.items():
            if isinstance(value, upstream.ArtifactReference):
                value.producer_node = value.producer_node or node
                value.output_name = value.output_name or port
                value.dataset_name = value.dataset_name or ctx.get("dataset_name")
                value.partition_id = value.partition_id or partition.get("id")


def _outline(
    item: BoundarySpec | BoundaryProduct, representation: str, value: object
) -> ProductOutline:
    """Return how FAST-HEP's summary lists a product."""
    return {
        "node": item.node_id,
        "port": item.output_name,
        "kind": item.kind,
        "representation": representation,
        "type": type(value).__name__,
    }


@contextmanager
def _only_here() -> Iterator[None]:
    """End what an operation has forked in the block, and that leaves it: it is not the job."""
    me, status = os.getpid(), 0
    try:
        yield
    except SystemExit as error:
        status = error.code if isinstance(error.code, int) else int(error.code is not None)
        raise
    except BaseException:
        status = 1
        raise
    finally:
        if os.getpid() != me:
            if status == 1:
                print(masked(traceback.format_exc()), end="", file=sys.stderr)
            sys.stdout.flush()
            os._exit(status & 0xFF)


def _concatenated(values: list[Any]) -> object:
    """Return event streams as one, in order; ``None`` if they are something else."""
    import awkward as ak

    if all(isinstance(value, ak.Array) for value in values):
        return values[0] if len(values) == 1 else ak.concatenate(values)
    names = {next(iter(v)) if isinstance(v, dict) and len(v) == 1 else None for v in values}
    if len(names) == 1 and None not in names:
        name = names.pop()
        inner = _concatenated([value[name] for value in values])
        return None if inner is None else {name: inner}
    return None

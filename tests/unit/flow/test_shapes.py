"""The protocols of FAST-HEP's objects say nothing that is untrue of FAST-HEP's own classes."""

from __future__ import annotations

import dataclasses
import importlib
import inspect

import pytest

from fasthep_smk.flow import records, shapes

#: What we read -> the module and the class of FAST-HEP's that it stands for.
CLASSES: dict[type, str] = {
    shapes.BoundaryPolicy: "hepflow.model.products:ProductBoundaryPolicy",
    shapes.BoundaryProduct: "hepflow.model.products:BoundaryProduct",
    shapes.BoundarySpec: "hepflow.model.products:BoundaryOutputSpec",
    shapes.ComponentSpec: "hepflow.model.component_spec:RuntimeComponentSpec",
    shapes.DependencyContext: "hepflow.model.data_flow:DependencyContext",
    shapes.Plan: "hepflow.model.plan:ExecutionPlan",
    shapes.PlanInput: "hepflow.model.plan:PlanInputRef",
    shapes.PlanNode: "hepflow.model.plan:ExecutionNode",
    shapes.PlanPartitioning: "hepflow.model.plan:PartitionSpec",
    shapes.PlanPartition: "hepflow.model.plan:ExecutionPartition",
    shapes.ProductHandler: "hepflow.model.products:ProductHandlerEntry",
    shapes.Recorder: "hepflow.runtime.provenance.recorder:ProvenanceRecorder",
    shapes.RuntimeRegistry: "hepflow.registry.runtime:RuntimeRegistry",
}


def theirs(protocol: type) -> type:
    module, _, name = CLASSES[protocol].partition(":")
    found: type = getattr(importlib.import_module(module), name)
    return found


def attributes(protocol: type) -> dict[str, str]:
    found = inspect.get_annotations(protocol)
    return {name: str(kind) for name, kind in found.items() if not name.startswith("__")}


def test_each_protocol_is_held_against_a_class() -> None:
    protocols = {one for one in vars(shapes).values() if getattr(one, "_is_protocol", False)}
    assert {one for one in protocols if one.__module__ == shapes.__name__} == CLASSES.keys()


@pytest.mark.parametrize("protocol", CLASSES, ids=lambda one: one.__name__)
def test_the_class_has_the_attributes(protocol: type) -> None:
    cls = theirs(protocol)
    found = {}
    if dataclasses.is_dataclass(cls):
        found = {one.name: str(one.type) for one in dataclasses.fields(cls)}
    for name, kind in attributes(protocol).items():
        assert name in found, f"FAST-HEP's {cls.__name__} has no {name}"
        if "None" in found[name]:
            assert "None" in kind or kind == "object", f"{cls.__name__}.{name} may be None"


@pytest.mark.parametrize("protocol", CLASSES, ids=lambda one: one.__name__)
def test_the_class_has_the_methods(protocol: type) -> None:
    for name, method in vars(protocol).items():
        if inspect.isfunction(method) and not name.startswith("_"):
            there = inspect.signature(getattr(theirs(protocol), name)).parameters
            assert len(there) == len(inspect.signature(method).parameters), f"{name}{there}"


def test_a_partition_has_the_keys_of_the_plans_own() -> None:
    keys = {one.name for one in dataclasses.fields(theirs(shapes.PlanPartition))}
    assert keys == records.PartitionData.__required_keys__

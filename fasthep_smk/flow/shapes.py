"""What is read of FAST-HEP's objects, as types: mypy does not look into FAST-HEP itself.

A plan, its nodes and what goes with them are FAST-HEP's own objects. These protocols name the
attributes that this project reads; ``tests/unit/flow/test_shapes.py`` holds them against FAST-HEP's
classes. What a person has written in the workflow, and the plan carries along, is a mapping.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import Field
from typing import ClassVar, Protocol, TypeAlias, TypedDict

from fasthep_smk.util.documents import JsonObject, YamlMapping

#: A product: the id of the node that makes it, and the name of the port.
Key: TypeAlias = tuple[str, str]
#: Products by their keys. What they are is known to the operations that make and read them.
Store: TypeAlias = dict[Key, object]
#: What is registered, by section and name: mostly mappings with ``spec`` and ``impl``.
Registry: TypeAlias = Mapping[str, Mapping[str, object] | None]
#: What operations are handed besides what they read: FAST-HEP and they add to it as they like.
Context: TypeAlias = JsonObject
#: A dataset as operations see it: its name, files and whatever else the workflow says of it.
Dataset: TypeAlias = YamlMapping


class _VariationContext(TypedDict):
    name: str


class PlanContext(TypedDict, total=False):
    """What a plan knows of the whole workflow; read here are these."""

    datasets: dict[str, Dataset]
    dataset_names: list[str]
    globals: YamlMapping
    variation: _VariationContext


class PlanInput(Protocol):
    """One input of a node: the port that it reads, and its own name for it."""

    node_id: str
    output_name: str
    input_name: str


class PlanPartitioning(Protocol):
    """How a node's events are cut."""

    chunk_size: int | None


class PlanNode(Protocol):
    """One operation of a plan."""

    id: str
    role: str
    impl: str
    inputs: Sequence[PlanInput]
    params: YamlMapping
    outputs: Mapping[str, str]
    input_scope: str
    output_scope: str
    partitioning: PlanPartitioning
    meta: YamlMapping


class PlanPartition(Protocol):
    """One partition of a plan."""

    id: str
    dataset: str
    file: str
    source: str
    part: str
    start: int | None
    stop: int | None


class Plan(Protocol):
    """A compiled plan; :func:`dataclasses.replace` takes it."""

    __dataclass_fields__: ClassVar[dict[str, Field[object]]]

    nodes: Sequence[PlanNode]
    node_index: Mapping[str, PlanNode]
    partitions: Sequence[PlanPartition]
    context: PlanContext
    registry: Registry
    provenance: YamlMapping
    execution: YamlMapping
    execution_hooks: Sequence[object]
    reports: Sequence[YamlMapping]
    data_flow: YamlMapping

    def get_node(self, node_id: str) -> PlanNode: ...

    def to_dict(self) -> JsonObject: ...


class ComponentSpec(Protocol):
    """What an operation declares of itself."""

    params: YamlMapping | None
    requires: YamlMapping | None
    provides: YamlMapping | None
    result: YamlMapping | None
    dependency_parser: object


class DependencyContext(Protocol):
    """The names in an expression that are no columns."""

    known_functions: AbstractSet[str]
    known_constants: AbstractSet[str]
    context_symbols: AbstractSet[str]


class BoundaryPolicy(Protocol):
    """Whether and how a product outlives its partition."""

    retain: bool
    representation: str


class BoundarySpec(Protocol):
    """A product that may outlive its partition."""

    node_id: str
    output_name: str
    kind: str
    policy: BoundaryPolicy

    def key(self) -> Key: ...


class BoundaryProduct(Protocol):
    """A product that has outlived its partition."""

    node_id: str
    output_name: str
    kind: str
    representation: str
    value: object

    def key(self) -> Key: ...


class ProductHandler(Protocol):
    """What is done with products of one kind; ``None``: nothing."""

    combine: Callable[..., object] | None
    merge: Callable[..., object] | None
    materialize: Callable[..., object] | None


class RuntimeRegistry(Protocol):
    """What is registered, loaded."""

    product_handlers: Mapping[str, ProductHandler]


class Recorder(Protocol):
    """What notes, for FAST-HEP's provenance, which operations ran and what they used."""

    def record_operation_record(self, record: JsonObject) -> object: ...

    def record_resource_record(self, name: str, record: object) -> object: ...

    def operation_records(self) -> Sequence[JsonObject]: ...

    def serialise_resources(self) -> JsonObject: ...

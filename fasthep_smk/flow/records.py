"""What FAST-HEP writes in plans and summaries, and our records repeat: partitions and products.

And by which names records say what of a run an operation sees (`fasthep_smk.flow.context_use`).
"""

from __future__ import annotations

from typing import Annotated, Literal, NotRequired, TypedDict

from msgspec import Meta

Sight = Literal["names", "dataset", "place", "run"]
#: The number of an entry of a file, from 0.
_Entry = Annotated[int, Meta(ge=0)]


class PartitionData(TypedDict):
    """A partition as a plan has it: entries ``[start, stop)`` of one file."""

    id: str
    dataset: str
    file: str
    source: str
    part: str
    start: _Entry | None
    stop: _Entry | None


class MissingPartition(TypedDict):
    """A partition that results lack, as summaries and manifests say it."""

    dataset: str
    file: str
    start: _Entry | None
    stop: _Entry | None
    id: str
    reason: str


class SampleFacts(TypedDict):
    """Of how many partitions results are, where only a sample was asked for, as manifests say."""

    asked: str
    partitions: int
    total: int


class ProductOutline(TypedDict):
    """A product as a summary lists it."""

    node: str
    port: str
    type: str
    kind: NotRequired[str]
    representation: NotRequired[str]

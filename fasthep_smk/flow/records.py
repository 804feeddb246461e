"""What FAST-HEP writes in plans and summaries, and our records repeat: partitions and products."""

from __future__ import annotations

from typing import NotRequired, TypedDict

__all__ = ["MissingPartition", "PartitionData", "ProductOutline", "SampleFacts"]


class PartitionData(TypedDict):
    """A partition as a plan has it: entries ``[start, stop)`` of one file."""

    id: str
    dataset: str
    file: str
    source: str
    part: str
    start: int | None
    stop: int | None


class MissingPartition(TypedDict):
    """A partition that results lack, as summaries and manifests say it."""

    dataset: str
    file: str
    start: int | None
    stop: int | None
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

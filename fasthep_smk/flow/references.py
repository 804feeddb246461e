"""FAST-HEP's artifact references as JSON and back, without loss.

Upstream's own ``from_dict`` turns partition index 0 into ``None``; here every field is kept.
"""

from __future__ import annotations

from typing import Any

from fasthep_smk.flow import upstream
from fasthep_smk.util import plain_values
from fasthep_smk.util.documents import JsonObject

_FIELDS = (
    "uri",
    "product_kind",
    "format",
    "metadata",
    "provenance",
    "producer_node",
    "output_name",
    "dataset_name",
    "partition_id",
    "partition_index",
)


def to_plain(value: Any) -> JsonObject | None:
    """Return an artifact reference or manifest as tagged JSON; ``None`` for anything else."""
    if type(value) in (upstream.ArtifactReference, upstream.OutputResult):
        fields = {name: getattr(value, name) for name in _FIELDS}
        return {"$": type(value).__name__, "v": plain_values.to_plain(fields, leaf=to_leaf)}
    if type(value) is upstream.ArtifactManifest:
        fields = {
            "product_kind": value.product_kind,
            "format": value.format,
            "producer_node": value.producer_node,
            "output_name": value.output_name,
            "dataset_name": value.dataset_name,
            "parts": list(value.parts),
            "metadata": dict(value.metadata),
        }
        return {"$": "ArtifactManifest", "v": plain_values.to_plain(fields, leaf=to_leaf)}
    return None


def to_leaf(value: object) -> JsonObject:
    """Return a nested reference as JSON, for :func:`fasthep_smk.util.plain_values.to_plain`."""
    plain = to_plain(value)
    if plain is None:
        raise plain_values.NotPlainError(
            f"no plain form for {type(value).__qualname__} in a reference"
        )
    return plain


def from_plain(item: JsonObject) -> object:
    """Return the reference that :func:`to_plain` wrote."""
    kind = item["$"]
    fields = plain_values.from_plain(item["v"], leaf=from_plain)
    if kind == "OutputResult":
        fields["kind"], fields["path"] = fields.pop("product_kind"), fields.pop("uri")
        return upstream.OutputResult(**fields)
    if kind == "ArtifactReference":
        return upstream.ArtifactReference(**fields)
    if kind == "ArtifactManifest":
        fields["parts"] = tuple(fields["parts"])
        return upstream.ArtifactManifest(**fields)
    raise plain_values.NotPlainError(f"unknown kind of value {kind!r}")

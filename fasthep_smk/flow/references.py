"""FAST-HEP's artifact references as JSON and back, without loss.

Upstream's own ``from_dict`` turns partition index 0 into ``None``; here every field is kept.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from fasthep_smk.flow import upstream
from fasthep_smk.util import plain_values
from fasthep_smk.util.documents import JsonObject

_KINDS = ("ArtifactReference", "OutputResult", "ArtifactManifest")


def to_plain(value: Any) -> JsonObject | None:
    """Return an artifact reference or manifest as tagged JSON; ``None`` for anything else."""
    kind = type(value)
    if kind not in [getattr(upstream, name) for name in _KINDS]:
        return None
    held = {field.name: getattr(value, field.name) for field in fields(value)}
    held["metadata"] = dict(value.metadata)
    if "parts" in held:
        held["parts"] = list(value.parts)
    return {"$": kind.__name__, "v": plain_values.to_plain(held, leaf=to_leaf)}


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
    if kind not in _KINDS:
        raise plain_values.NotPlainError(f"unknown kind of value {kind!r}")
    held = plain_values.from_plain(item["v"], leaf=from_plain)
    if kind == "OutputResult":
        held["kind"], held["path"] = held.pop("product_kind"), held.pop("uri")
    return getattr(upstream, kind)(**held)

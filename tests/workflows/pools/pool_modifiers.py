"""A modifier that changes nothing, to see that it is applied where the stage runs."""

from __future__ import annotations

from typing import Any


class Noop:
    """Leave a mark in the context."""

    def before_node(self, *, ctx: dict[str, Any], **_: Any) -> None:
        ctx["noop_seen"] = True

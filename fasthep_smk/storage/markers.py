"""The file that says that all jobs of a bundle are done."""

from __future__ import annotations

import json
from collections.abc import Mapping

__all__ = ["text"]


def text(signature: str, used: Mapping[str, object] | None = None) -> str:
    """Return its content: what signs the bundle, and what its jobs ``used`` if they ran in it."""
    return json.dumps({"signature": signature, **({"used": used} if used else {})}) + "\n"

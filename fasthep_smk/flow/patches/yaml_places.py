"""FAST-HEP merges what a workflow includes; here with keys and texts that know their places."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import yaml

from fasthep_smk.flow.patches import YAML_PLACES

__all__ = ["yaml_places"]


@contextlib.contextmanager
def yaml_places(loader: type[yaml.SafeLoader]) -> Iterator[None]:
    """Let ``yaml.safe_load`` read with ``loader`` in the block: its texts have file and line."""
    with YAML_PLACES.made(yaml, safe_load=lambda stream: yaml.load(stream, Loader=loader)):
        yield

"""What digests stand for: the content of signatures, kept to say in words what changed.

``smk/ledger.json`` is for messages only; without it a run goes on, and says less.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from fasthep_smk.plan.rules import Rule
from fasthep_smk.storage import layout
from fasthep_smk.util import files, plain_values
from fasthep_smk.util.documents import JsonObject, YamlMapping

#: How many digests are remembered; those that were not seen for longest are forgotten.
_MOST = 2000


class NodeContent(NamedTuple):
    """What a node's signature is made of (`plan.signatures.NodeSignature`), as plain data."""

    content: JsonObject
    upstream: list[tuple[str, str, str]]


@dataclass(frozen=True)
class Ledger:
    """What digests stand for, as far as it is known; ``found`` is it as JSON."""

    found: JsonObject = field(default_factory=dict)

    def node(self, digest: str) -> NodeContent | None:
        """Return what the digest of a node stands for."""
        item = self.found.get(digest)
        return item and NodeContent(item["content"], list(map(tuple, item["upstream"])))

    def context(self, digest: str) -> YamlMapping | None:
        """Return what the digest of a context stands for: what operations see of a workflow."""
        item: YamlMapping | None = self.found.get(digest)
        return item


def read(build: Path) -> Ledger:
    """Return what was known when jobs were translated last."""
    try:
        return Ledger(files.unseal((build / layout.LEDGER).read_bytes()))
    except (OSError, files.Altered):
        return Ledger()


def write(build: Path, rules: Iterable[Rule], earlier: Ledger) -> Ledger:
    """Add what the digests of a translation stand for; return it with all that was known."""
    now: JsonObject = {}
    for rule in rules:
        for nodes in rule.nodes.values():
            for item in nodes.values():
                content = {name: _plain(value) for name, value in item.content.items()}
                now[item.digest] = {"content": content, "upstream": item.upstream}
        for job in rule.jobs.values():
            if job.origin is not None:
                for name, context in job.origin.contexts.items():
                    if name not in now:  # they name all files
                        now[name] = _plain(context)
    merged = {digest: item for digest, item in earlier.found.items() if digest not in now}
    kept = dict(list(merged.items())[-max(_MOST - len(now), 0) :]) if len(now) < _MOST else {}
    files.write_text(build / layout.LEDGER, files.seal({**kept, **now}, indent=None))
    return Ledger({**merged, **now})


def _plain(value: object) -> object:
    return plain_values.to_plain(value, leaf=lambda item: {"$": "repr", "v": repr(item)})

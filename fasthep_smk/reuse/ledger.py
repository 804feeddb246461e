"""What digests stand for: the content of signatures, kept to say in words what changed.

``smk/ledger.json`` is for messages only; without it a run goes on, and says less.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from fasthep_smk.plan.rules import Rule
from fasthep_smk.plan.signatures import NodeSignature
from fasthep_smk.storage import layout
from fasthep_smk.util import files, plain_values
from fasthep_smk.util.documents import JsonObject, YamlMapping

#: How many digests are remembered; those that were not seen for longest are forgotten.
_MOST = 2000


@dataclass(frozen=True)
class NodeContent:
    """What a node's signature is made of (`NodeSignature`), as plain data."""

    content: JsonObject
    upstream: Sequence[tuple[str, str, str | None]]


@dataclass(frozen=True)
class Ledger:
    """What digests stand for, as far as it is known; ``found`` is it as JSON."""

    found: JsonObject = field(default_factory=dict)

    def node(self, digest: str | None) -> NodeContent | None:
        """Return what the digest of a node stands for."""
        item = None if digest is None else self.found.get(digest)
        if item is None:
            return None
        return NodeContent(item["content"], [(at, node, of) for at, node, of in item["upstream"]])

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
                now[item.digest] = vars(described(item))
        for job in rule.jobs.values():
            if job.origin is not None:
                for name, content in job.origin.contexts.items():
                    if name not in now:  # they name all files
                        now[name] = plain(content)
    merged = {digest: item for digest, item in earlier.found.items() if digest not in now}
    kept = dict(list(merged.items())[-max(_MOST - len(now), 0) :]) if len(now) < _MOST else {}
    files.write_text(build / layout.LEDGER, files.seal({**kept, **now}, indent=None))
    return Ledger({**merged, **now})


def described(item: NodeSignature) -> NodeContent:
    """Return what a node's signature is made of."""
    content = {name: plain(value) for name, value in item.content.items()}
    return NodeContent(content, item.upstream)


def plain(value: object) -> object:
    """Return a value as the ledger has it."""
    return plain_values.to_plain(value, leaf=lambda item: {"$": "repr", "v": repr(item)})

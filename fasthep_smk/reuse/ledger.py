"""What digests stand for: the content of signatures, kept to say in words what changed.

``smk/ledger.json`` is for messages only; without it a run goes on, and says less.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from fasthep_smk.plan.rules import Rule
from fasthep_smk.plan.signatures import NodeSignature
from fasthep_smk.storage import layout
from fasthep_smk.util import files, plain_values
from fasthep_smk.util.documents import JsonObject

__all__ = ["described", "plain", "read", "write"]

#: How many digests are remembered; those that were not seen for longest are forgotten.
_MOST = 2000


def read(build: Path) -> JsonObject:
    """Return the content of each digest that is known."""
    try:
        return files.unseal((build / layout.LEDGER).read_bytes())
    except (OSError, files.Altered):
        return {}


def write(build: Path, rules: Iterable[Rule], known: JsonObject) -> None:
    """Add what the digests of a translation stand for."""
    now: JsonObject = {}
    for rule in rules:
        for nodes in rule.nodes.values():
            for item in nodes.values():
                now[item.digest] = described(item)
        for job in rule.jobs.values():
            if job.origin is not None:
                for name, content in job.origin.contexts.items():
                    if name not in now:  # they name all files
                        now[name] = plain(content)
    merged = {digest: item for digest, item in known.items() if digest not in now}
    kept = dict(list(merged.items())[-max(_MOST - len(now), 0) :]) if len(now) < _MOST else {}
    files.write_text(build / layout.LEDGER, files.seal({**kept, **now}, indent=None))


def described(item: NodeSignature) -> JsonObject:
    """Return what a node's signature is made of, as plain data."""
    return {"content": plain(item.content), "upstream": [list(one) for one in item.upstream]}


def plain(value: object) -> object:
    """Return a value as the ledger has it."""
    return plain_values.to_plain(value, leaf=lambda item: {"$": "repr", "v": repr(item)})

"""Random numbers for operations: one generator for each stage of each partition.

Imported by the modules of an analysis, and by every start of ours: NumPy and the rest are
imported where they are used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np

    from fasthep_smk.flow.shapes import Context

#: Entry of the context that identifies the partition's file where it has another name than in
#: the workflow: on a worker that it was sent to.
FILE = "_fasthep_smk_file"
#: Entry of the context that holds the generators of one call of an operation.
_MADE = "_fasthep_smk_rng"


def rng(ctx: Context, name: str = "") -> np.random.Generator:
    """Return the random generator of an operation, by the context that FAST-HEP hands to it.

    Its seed follows from the dataset, the partition's file as the workflow writes it, the first of
    its entries, the stage, ``name`` and ``seed`` among ``analysis.globals``: the numbers are the
    same in every run, however jobs are cut and wherever they run, also with ``fasthep run``. They
    differ between partitions, stages and names, and are the same in all systematic variations.
    A second call in the same operation returns the same generator, which goes on where it was.

    Raises:
        ValueError: ``ctx`` is not the context of an operation.
    """
    import json

    import numpy as np

    if not ctx.get("node_id"):
        raise ValueError(
            "rng(ctx) needs the ctx of an operation: this ctx has no 'node_id'. In a hook or "
            "modifier, call rng({**ctx, 'node_id': node.id}, name), with a name that nothing else "
            "uses"
        )
    partition = ctx.get("partition") or {}
    seed = json.dumps(
        [
            (ctx.get("globals") or {}).get("seed"),
            str(ctx.get("dataset_name") or ""),
            ctx.get(FILE) or file_digest(str(partition.get("file") or "")),
            # Not the last one: with a larger chunk size the first partition stays what it is.
            int(partition.get("start") or 0),
            # An inline variation clones the node ``stage.A`` as ``stage.A@name``.
            str(ctx["node_id"]).partition("@")[0],
            str(name),
        ],
        default=str,
    )
    generators = ctx.setdefault(_MADE, {})
    if seed not in generators:
        generators[seed] = np.random.default_rng(int(_sha256(seed), 16))
    generator: np.random.Generator = generators[seed]
    return generator


def file_digest(file: str) -> str:
    """Return what stands for an input file's name, as the workflow writes it, in a seed."""
    return _sha256(file)


def _sha256(text: str) -> str:
    import hashlib

    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()

"""The small analysis of the integration tests with an operation of its own."""

from __future__ import annotations

from pathlib import Path

__all__ = ["add_own_op"]


def add_own_op(analysis: Path, source: str = "") -> Path:
    """Let ``own.op`` run before the first stage; ``source`` is its module, with SPEC and run."""
    if source:
        (analysis / "own_ops.py").write_text(source)
    workflow = analysis / "workflow.yaml"
    text = workflow.read_text().replace(
        "    - id: Scale\n", "    - {id: Own, op: own.op}\n    - id: Scale\n"
    )
    registry = "registry: {transforms: {own.op: {spec: 'own_ops:SPEC', impl: 'own_ops:run'}}}\n"
    workflow.write_text(registry + text)
    return analysis

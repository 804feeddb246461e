"""The backend ``snakemake`` of FAST-HEP: what ``fasthep run --backend snakemake`` calls.

The profile ``fasthep_smk:registry`` names it. A run is the same as that of our own command: from
the same workflow, in the same build folder, of which either finds what the other has done.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fasthep_smk.backend.strategy import validate_execution

if TYPE_CHECKING:
    from fasthep_smk.flow.shapes import Plan
    from fasthep_smk.util.documents import YamlMapping


class Backend:
    """Runs the workflow that a plan was compiled from."""

    name = "snakemake"

    def run(self, plan: Plan, *, ctx: YamlMapping | None = None, progress: Any = None) -> Any:
        """Run the workflow of a plan, in the build folder of ``ctx``.

        Raises:
            RunFailed: the workflow is wrong, or jobs failed: what was printed says it.
        """
        from fasthep_smk.backend.run import run

        return run(plan, ctx or {}, progress)


@dataclass(frozen=True)
class Spec:
    """What FAST-HEP asks of a backend before a run."""

    validate_execution: Callable[[YamlMapping], None]
    build_directories: tuple[str, ...]


SPEC = Spec(validate_execution, build_directories=("smk",))

"""``execution.staging``: whether jobs see this machine's files, or are sent what they need."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from fasthep_smk.config.environment import Environment
from fasthep_smk.config.layers import Merged
from fasthep_smk.util.errors import Finding

#: Where jobs can be sent what they need.
_SENDERS = ("slurm", "htcondor")
_CURRENT = ("shared-prefix", "current")


@dataclass(frozen=True)
class Staging:
    """How files reach jobs. ``file`` is where the mode is said.

    ``shared`` are folders that jobs see under the same path all the same; ``folder`` is such a one
    for what they are sent, where the batch system itself sends nothing.
    """

    mode: str = "shared"
    shared: tuple[str, ...] = ()
    folder: str | None = None
    file: str = ""

    @property
    def transfers(self) -> bool:
        """Whether jobs are sent what they need."""
        return self.mode == "transfer"

    def sends(self, system: str) -> bool:
        """Whether jobs of a batch system are sent what they need; this machine's are not."""
        return self.transfers and system != "local"


def read_staging(merged: Merged) -> Staging:
    """Return how files reach jobs, by what a site and a workflow say together."""
    mode = merged.origin("staging", "mode")
    return Staging(
        merged.get("staging", "mode") or "shared",
        tuple(merged.get("staging", "shared") or ()),
        merged.get("staging", "folder"),
        mode.file if mode else "",
    )


def staging_findings(
    staging: Staging, environment: Environment | None, system: str
) -> Iterator[Finding]:
    """Yield why jobs cannot be sent what they need, on a batch system."""
    if not staging.sends(system):
        return
    mode = {"file": staging.file, "key": "staging.mode", "value": "'transfer'"}
    if system not in _SENDERS:
        problem = f"fasthep-smk cannot send files to jobs of executor {system!r}"
        yield Finding(problem=problem, expected="shared, or a site with Slurm or HTCondor", **mode)
        return
    if system == "slurm" and not staging.folder:
        yield Finding(
            file=staging.file,
            key="staging.folder",
            problem="is missing: Slurm itself does not send files to jobs",
            expected="a folder that this machine and all nodes see under the same path, for the "
            "files that go to jobs and come back",
        )
    if environment is None or (environment.type, environment.prefix) == _CURRENT:
        yield Finding(
            problem="jobs that do not see this machine's files need an environment of their own",
            expected="environment: {type: packed-venv}, or a shared-prefix that exists on workers",
            **mode,
        )

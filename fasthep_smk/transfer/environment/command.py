"""``fasthep-smk pack``: which environment, for which modules, and what became of it."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable
from pathlib import Path

from fasthep_smk.config.environment import Environment
from fasthep_smk.flow.modules import modules_of
from fasthep_smk.transfer.environment.conda import is_conda
from fasthep_smk.transfer.environment.pack import archive_path, contents_of, pack
from fasthep_smk.translate.translation import Options, execution_of, plan
from fasthep_smk.util.errors import UsageError
from fasthep_smk.util.names import shell

__all__ = ["describe_environment", "pack_environment", "workflow_modules"]


def pack_environment(options: argparse.Namespace, *, root: Path) -> str:
    """Build the archive that the options ask for; return what to print.

    Raises:
        SmkError: it cannot be packed, or the workflow or the site is wrong.
    """
    asked = None
    if options.workflow is not None or options.profile is not None:
        asked = execution_of(options.workflow, options.profile, root=root).environment
    kind = options.environment or _kind(asked)
    modules = workflow_modules(options.workflow, options.profile, root=root)
    contents = contents_of(kind, modules)
    found = pack(contents, options.output)
    how = "was there" if found.seconds is None else f"built and tested in {found.seconds:.0f} s"
    start = shell(["sh", str(found.path), "--", "-c", "import fasthep_smk"])
    return (
        f"{found.path}: {found.size / 1e6:.0f} MB, {how}\n"
        f"    key:    {found.key}\n"
        f"    try it: {start}"
    )


def workflow_modules(workflow: Path | None, profile: str | None, *, root: Path) -> list[str]:
    """Return the modules that the plans of a workflow name; without one there are none.

    Raises:
        Findings: something is wrong with the workflow.
    """
    if workflow is None:
        return []
    options = Options(workflow=workflow, outdir=Path("build"), profile=profile)
    planned = plan(options, root=root)
    return _united(modules_of(one.graph.plan) for one in planned.variations)


def describe_environment(
    environment: Environment, modules: Iterable[str], folder: Path
) -> tuple[bool, str]:
    """Return whether a packed environment is built, and a line on it.

    Raises:
        Findings: it cannot be packed.
    """
    contents = contents_of(environment.type, modules)
    path = archive_path(contents, folder)
    if not path.is_file():
        return False, f"{environment.type} {contents.key}: not packed yet"
    return True, f"{environment.type} {contents.key}: {path.stat().st_size / 1e6:.0f} MB"


def _kind(asked: Environment | None) -> str:
    if asked is None:
        return "packed-conda" if is_conda(Path(sys.prefix)) else "packed-venv"
    if not asked.is_packed:
        raise UsageError(
            f"{asked.file} asks for {asked.type}, of which nothing is packed; "
            "--environment packed-venv packs all the same"
        )
    return asked.type


def _united(groups: Iterable[list[str]]) -> list[str]:
    return sorted({name for group in groups for name in group})

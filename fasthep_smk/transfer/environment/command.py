"""``fasthep-smk pack``: which environment, for which modules, and what became of it."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable
from pathlib import Path

from fasthep_smk.config.environment import Environment
from fasthep_smk.storage import layout
from fasthep_smk.transfer.environment.conda import is_conda
from fasthep_smk.transfer.environment.pack import archive_path, contents_of, pack
from fasthep_smk.util.errors import UsageError
from fasthep_smk.util.names import shell

__all__ = ["describe_environment", "pack_environment"]


def pack_environment(
    options: argparse.Namespace, asked: Environment | None, modules: Iterable[str]
) -> str:
    """Build the archive that the options ask for; return what to print.

    ``asked`` is the environment that the workflow or the site asks for; ``modules`` are those that
    the workflow names.

    Raises:
        SmkError: it cannot be packed.
    """
    kind = options.environment or _kind(asked)
    contents = contents_of(kind, modules)
    folder = options.output or options.outdir / layout.ARCHIVES
    found = pack(contents, folder, tell=sys.stderr)
    how = "was there" if found.seconds is None else f"built and tested in {found.seconds:.0f} s"
    start = shell(["sh", str(found.path), "--", "-c", "import fasthep_smk"])
    return (
        f"{found.path}: {found.size / 1e6:.0f} MB, {how}\n"
        f"    key:    {found.key}\n"
        f"    try it: {start}"
    )


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

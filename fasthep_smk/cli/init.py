"""A first analysis that works: a workflow, an operation of one's own, and events to run it on.

And the profile of a project by which ``fasthep run`` finds the backend: ``enable``, ``disable``.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import json
import os
import runpy
import tempfile
from collections.abc import Callable
from importlib import resources
from pathlib import Path

from fasthep_smk.backend import project_profile
from fasthep_smk.config.schema import bundled
from fasthep_smk.util.errors import UsageError
from fasthep_smk.util.names import shell
from fasthep_smk.util.ownership import is_open, make_own

#: The schema lies beside the workflow, so that an editor finds it on any machine.
SCHEMA = "workflow.schema.json"
_TEMPLATES = ("workflow.yaml", "my_ops.py", "make_events.py")
_MAKES_EVENTS = "make_events.py"


def do_init(options: argparse.Namespace) -> int:
    """Write a first analysis, and say what to do next."""
    if options.from_root is not None:
        from_root = importlib.import_module("fasthep_smk.contrib.measure.from_root")
        held, written = from_root.init_from_root(options.from_root, options.folder, options.tree)
        print(held, end="")
    elif options.tree is not None:
        raise UsageError("--tree needs --from-root FILE")
    else:
        written = init_analysis(options.folder)
    print(as_text(options.folder, written), end="")
    return 0


def do_enable(options: argparse.Namespace) -> int:
    """Write the profile of a project, and say how FAST-HEP uses it."""
    path, written = project_profile.enable(options.folder)
    print(f"{'written' if written else 'there already'}: {path}")
    print("fasthep run workflow.yaml --outdir build --backend snakemake --strategy local")
    return 0


def do_disable(options: argparse.Namespace) -> int:
    """Remove the profile of a project."""
    removed = project_profile.disable(options.folder)
    print("nothing to remove" if removed is None else f"removed: {removed}")
    return 0


def init_analysis(folder: Path) -> list[Path]:
    """Write a first analysis with its events into a folder; return the paths of its files.

    Raises:
        UsageError: a file is in the way.
    """
    templates = resources.files("fasthep_smk.cli").joinpath("templates", "first")

    def write(stage: Path) -> None:
        for name in _TEMPLATES:
            (stage / name).write_bytes(templates.joinpath(name).read_bytes())
        runpy.run_path(str(stage / _MAKES_EVENTS))["main"](stage / "data")

    return write_new(folder, [*_TEMPLATES, "data"], write)


def write_new(folder: Path, names: list[str], write: Callable[[Path], None]) -> list[Path]:
    """Let ``write`` fill a folder, and add the schema; return the paths of all files.

    ``names`` are what will be in it: refused before anything is done if it is there.

    Raises:
        UsageError: a file is in the way; nothing was written.
    """
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{folder} is a file: choose a new or empty folder")
    names = [*names, SCHEMA]
    _refuse_to_overwrite(folder, names)
    is_new = not folder.exists()
    make_own(folder)  # modules in it are run
    try:
        with tempfile.TemporaryDirectory(prefix=".fasthep-smk-", dir=folder) as temporary:
            stage = Path(temporary)
            write(stage)
            (stage / SCHEMA).write_text(json.dumps(bundled(), indent=1) + "\n", encoding="utf-8")
            paths = [path for path in stage.rglob("*") if path.is_file()]
            written = sorted(path.relative_to(stage) for path in paths)
            _refuse_to_overwrite(folder, names)  # to write them takes a while
            for path in sorted(stage.iterdir()):
                path.rename(folder / path.name)
    except BaseException:
        if is_new:
            with contextlib.suppress(OSError):
                folder.rmdir()
        raise
    return [folder / path for path in written]


def _refuse_to_overwrite(folder: Path, names: list[str]) -> None:
    paths = [folder / name for name in names if os.path.lexists(folder / name)]
    if paths:
        more = f" (and {len(paths) - 1} more)" if len(paths) > 1 else ""
        raise UsageError(
            f"{paths[0]} already exists{more}: nothing was written\n"
            f"    hint: {shell(['fasthep-smk', 'init', 'NEW_FOLDER'])} writes into a new folder"
        )


def as_text(folder: Path, written: list[Path]) -> str:
    """Return which files were written, and what to do next."""
    lines = [f"written: {path}" for path in written]
    lines.append("\nnext:")
    if is_open(folder):
        why = "# other users could change my_ops.py; fasthep-smk would not import it"
        lines.append(f"    {shell(['chmod', 'go-w', folder])}    {why}")
    if folder.resolve() != Path.cwd():
        lines.append(f"    {shell(['cd', folder])}")
    lines.append("    fasthep-smk workflow.yaml")
    return "\n".join(lines) + "\n"

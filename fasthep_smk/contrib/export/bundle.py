"""A bundle of an analysis: plans, sources, environment, and how to launch it.

It holds the Snakemake workflow too, in ``build``. Event files stay where they are.
"""

from __future__ import annotations

import argparse
import json
import platform
import shutil
import sys
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

from fasthep_smk.cli.steps import begin
from fasthep_smk.flow.modules import own_modules_of
from fasthep_smk.flow.op_identity import own_sources
from fasthep_smk.run import pipeline
from fasthep_smk.util import files
from fasthep_smk.util.errors import Findings
from fasthep_smk.util.names import shell
from fasthep_smk.util.scratch import scratch

if TYPE_CHECKING:
    from fasthep_smk.translate.translation import Translation

MANIFEST = "bundle.json"
#: Where parts of a bundle lie in it.
BUILD, _ANALYSIS, _REQUIREMENTS = "build", "analysis", "requirements.txt"


def do_export(options: argparse.Namespace) -> int:
    """Translate a workflow into a new folder, and add what it needs elsewhere."""
    _require_new(options.out)
    options.outdir = options.out / BUILD
    build = options.outdir.absolute()
    with scratch() as folder:
        loaded = pipeline.load(begin(options, build, folder / "aside"))
        translation = pipeline.accepted(pipeline.placed(loaded))
        pipeline.warn(translation.warnings)
        _write_bundle(translation, options.out)
    print(f"bundle:  {options.out / MANIFEST}")
    return 0


def _require_new(folder: Path) -> None:
    """Refuse a folder that holds something.

    Raises:
        Findings: it does, or it is a file.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise Findings.one(
            "this folder is not empty: nothing was written",
            key="OUT",
            value=str(folder),
            expected="a new or an empty folder",
        )


def _write_bundle(translation: Translation, folder: Path) -> None:
    """Write a bundle of what was translated into ``folder/build``."""
    analysis = _copied(translation, folder / _ANALYSIS)
    named = [package for package in metadata.distributions() if package.metadata["Name"]]
    versions = {package.metadata["Name"]: package.version for package in named}
    pinned = "".join(f"{name}=={versions[name]}\n" for name in sorted(versions, key=str.lower))
    files.write_text(folder / _REQUIREMENTS, pinned)
    environment = translation.placement.environment
    workflow = translation.settings.workflow
    manifest = {
        "fasthep_smk": metadata.version("fasthep-smk"),
        "workflow": str(workflow),
        "plans": [
            {
                "variation": variant.variation,
                "path": str(Path(BUILD, "compile", variant.variation or "", "plan.yaml")),
            }
            for variant in translation.plans
        ],
        "analysis": analysis,
        "environment": {
            "python": platform.python_version(),
            "requirements": _REQUIREMENTS,
            "asked": environment.type if environment else None,
            "image": environment.image if environment else None,
        },
        "launch": {
            "folder": str(translation.root),
            "python": sys.executable,
            "commands": {
                "snakemake": shell(["snakemake", "--profile", "smk/profile"]),
                "fasthep-smk": shell(["fasthep-smk", workflow]),
            },
            "snakefile": str(Path(BUILD, "smk", "Snakefile")),
            "snakemake_in": BUILD,
        },
    }
    files.write_text(folder / MANIFEST, json.dumps(manifest, indent=1) + "\n")


def _copied(translation: Translation, goal: Path) -> list[dict[str, object]]:
    """Copy the files that an analysis is made of; say which they are."""
    entries = []
    for path in _sources(translation):
        inside = path.is_relative_to(translation.root)
        name = path.relative_to(translation.root) if inside else Path("elsewhere", *path.parts[1:])
        copy = goal / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, copy)
        entries.append({"path": str(name), "from": str(path), **files.described(copy)})
    return entries


def _sources(translation: Translation) -> Iterable[Path]:
    """Return the workflow with its includes and local profiles, and own modules."""
    plans = [variant.plan for variant in translation.plans]
    noted = [entry for plan in plans for entry in plan.provenance.get("inputs") or ()]
    paths = [Path(name) for name in translation.digests]
    paths += [Path(str(entry["resolved"])) for entry in noted if entry.get("resolved")]
    for name in sorted({name for plan in plans for name in own_modules_of(plan)}):
        paths += own_sources(name).values()
    aside = (translation.aside.resolve(), translation.build.resolve())
    return sorted(
        path
        for path in {source.resolve() for source in paths}
        if path.is_file() and not any(path.is_relative_to(folder) for folder in aside)
    )

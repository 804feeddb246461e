"""Write everything that Snakemake and the jobs need into ``<build>/smk``."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from fasthep_smk import files, layout
from fasthep_smk.flow import documents
from fasthep_smk.names import shell
from fasthep_smk.plan.rules import Rule, Variation
from fasthep_smk.translate import snakefile, tables

__all__ = ["ENVIRONMENT", "Written", "write"]

#: The environment a job needs, for ``--software-deployment-method conda``.
ENVIRONMENT = """\
channels:
  - conda-forge
dependencies:
  - python >=3.11,<3.14
  - pip
  - pip:
      - fasthep-smk
      - fasthep-flow >=2026.10.1,<2026.11
      - fasthep-carpenter >=2026.10.1,<2026.11
      - fasthep-curator >=2026.10.1,<2026.11
      - fasthep-render >=2026.10.1,<2026.11
"""


@dataclass(frozen=True)
class Written:
    """Where a translation went."""

    build: Path
    snakefile: Path
    profile: Path

    @classmethod
    def below(cls, build: Path) -> Written:
        """Return the places of a translation in a build folder."""
        return cls(build, build / "smk" / "Snakefile", build / "smk" / "profile")


def write(
    rules: Iterable[Rule],
    variations: Iterable[Variation],
    *,
    build: Path,
    workflow: Path,
    root: Path,
) -> Written:
    """Write the translation of a workflow; files that would not change are left alone.

    ``root`` is the folder the run was started in: relative paths of the workflow start there.
    """
    rules = list(rules)
    smk = build / "smk"
    for variation in variations:
        target = build / layout.plan(variation.label)
        files.write_text(target, documents.slim_text(variation.graph.plan))
    texts = tables.table_texts(rules, root=root)
    for name, text in texts.items():
        files.write_text(build / layout.table(name), text)
    for stale in (build / layout.TASKS).glob("*.json"):
        if stale.stem not in texts:
            stale.unlink()
    files.write_text(build / layout.RUN, json.dumps(_run(root, workflow), indent=1) + "\n")
    files.write_text(smk / "common.smk", snakefile.COMMON)
    files.write_text(smk / "envs" / "fasthep-smk.yaml", ENVIRONMENT)
    files.write_text(smk / "worker", _worker_script(), executable=True)
    written = Written.below(build)
    # Snakemake takes braces in the path of an environment file for wildcards.
    conda = not set(str(build)) & set("{}")
    text = snakefile.render(rules, workflow=workflow.name, conda=conda)
    files.write_text(written.snakefile, text)
    files.write_text(written.profile / "config.yaml", _profile())
    return written


def _run(root: Path, workflow: Path) -> dict[str, Any]:
    """Return what every job needs to know about where the run was started."""
    search = [str(root), str(workflow.resolve().parent)]
    search += [item for item in os.environ.get("PYTHONPATH", "").split(os.pathsep) if item]
    return {
        "launch_folder": str(root),
        "workflow": str(workflow.resolve()),
        "python_path": list(dict.fromkeys(str(Path(item).absolute()) for item in search)),
    }


def _worker_script() -> str:
    # -P: the build folder, where Snakemake starts jobs, must not be searched for modules.
    command = shell([sys.executable, "-P", "-m", "fasthep_smk.worker"])
    return (
        "#!/bin/sh\n"
        "# Starts one job: worker RULE [VARIATION] [DATASET] [PARTITION], in the build folder.\n"
        f'exec {command} "$@"\n'
    )


def _profile() -> str:
    settings: Mapping[str, Any] = {
        # Relative to the profile's own folder: the build folder can move, and no character of its
        # path can mean anything to Snakemake.
        "snakefile": "../Snakefile",
        "directory": "../..",
        "cores": "all",
        # Thousands of short jobs: the default scheduler and rate limit cost more than they do.
        "scheduler": "greedy",
        "max-jobs-per-timespan": "10000/1s",
        # A job that was killed half-way leaves no record: run it again without being asked.
        "rerun-incomplete": True,
        "printshellcmds": False,
        "retries": 0,
    }
    header = "# Run this workflow with: snakemake --profile THIS_FOLDER\n"
    text: str = yaml.safe_dump(dict(settings), sort_keys=False, allow_unicode=True)
    return header + text

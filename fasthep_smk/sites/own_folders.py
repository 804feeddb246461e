"""Keep Snakemake from removing folders that are not its own.

At the end of a run, Snakemake (9.27) removes the folders of missing files of its jobs that are
empty, and their parents: also that of input files which were moved away in the meantime.
"""

from __future__ import annotations

import importlib

__all__ = ["keep_folders"]


def keep_folders() -> None:
    """Let Snakemake remove no folder at the end of a run."""
    importlib.import_module("snakemake.cli")  # the modules below it import each other
    dag = importlib.import_module("snakemake.dag").DAG
    if hasattr(dag, "cleanup_workdir"):
        dag.cleanup_workdir = lambda _self: None

"""Which folders Snakemake removes: its temporary one, also if it is killed, and none of others.

At the end of a run, Snakemake (9.27) removes the folders of missing files of its jobs that are
empty, and their parents: also that of input files which were moved away in the meantime.
"""

from __future__ import annotations

import functools
import importlib
import os
import tempfile
from types import SimpleNamespace

from fasthep_smk.flow import patches
from fasthep_smk.util.scratch import VARIABLE


def keep_folders() -> None:
    """Let Snakemake remove no folder at the end of a run."""
    importlib.import_module("snakemake.cli")  # the modules below it import each other
    dag = importlib.import_module("snakemake.dag").DAG
    if hasattr(dag, "cleanup_workdir"):
        patches.KEPT_FOLDERS.make(dag, cleanup_workdir=lambda _self: None)


def lend_to_snakemake() -> None:
    """Let Snakemake, in this process, make its temporary folder in that of the run.

    Its jobs see nothing of that: theirs are where they would be.
    """
    folder = os.environ.pop(VARIABLE, None)
    if folder is None:
        return
    make = functools.partial(tempfile.TemporaryDirectory, dir=folder)
    importlib.import_module("snakemake.cli")  # in any other order, Snakemake's imports fail
    workflow = importlib.import_module("snakemake.workflow")
    lent = SimpleNamespace(**{**vars(tempfile), "TemporaryDirectory": make})
    patches.TEMPORARY_FOLDER.make(workflow, tempfile=lent)

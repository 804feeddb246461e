"""What is read of Snakemake's jobs is there, in the release that is installed."""

from __future__ import annotations

import dataclasses
import importlib
import inspect

from fasthep_smk.util.snakemake_types import SnakemakeJob, SnakemakeJobInfo


def test_a_job_has_what_is_read_of_it() -> None:
    importlib.import_module("snakemake.cli")  # the modules below it import each other
    job = importlib.import_module("snakemake.jobs").Job
    names = inspect.get_annotations(SnakemakeJob)
    assert [name for name in names if not hasattr(job, name)] == []


def test_a_submitted_job_has_what_is_read_of_it() -> None:
    base = importlib.import_module("snakemake_interface_executor_plugins.executors.base")
    there = {one.name for one in dataclasses.fields(base.SubmittedJobInfo)}
    assert inspect.get_annotations(SnakemakeJobInfo).keys() <= there

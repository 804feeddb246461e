"""Where things lie in a build folder: all paths of ours, relative to it."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import PurePosixPath

from fasthep_smk.names import encode

__all__ = ["RUN", "SMK", "TASKS", "benchmark", "job_folder", "log", "plan", "table"]

SMK = "smk"
RUN = "smk/run.json"
TASKS = "smk/tasks"


def job_folder(rule: str, place: Iterable[str]) -> str:
    """Return the folder of a job's products; ``place`` are its wildcards' values."""
    return str(PurePosixPath("smk/work", rule, *place))


def log(rule: str, place: Iterable[str]) -> str:
    """Return the log of a job, in the folder that FAST-HEP's documentation shows."""
    return _file("debug/distributed/logs", rule, place, "log")


def benchmark(rule: str, place: Iterable[str]) -> str:
    """Return Snakemake's record of a job's time and memory."""
    return _file("smk/benchmarks", rule, place, "tsv")


def plan(variation: str) -> str:
    """Return the slim plan of a variation."""
    return f"smk/plans/{encode(variation)}.json"


def table(rule: str) -> str:
    """Return the task table of a rule."""
    return f"{TASKS}/{rule}.json"


def _file(top: str, rule: str, place: Iterable[str], suffix: str) -> str:
    *folders, name = [rule, *(list(place) or [rule])]
    return str(PurePosixPath(top, *folders, f"{name}.{suffix}"))

"""The page on a build folder of many jobs: simulated from the records of a real run."""

from __future__ import annotations

import json
import random
import shutil
import statistics
from pathlib import Path

from fasthep_smk.storage import layout
from fasthep_smk.storage.task_table import TaskTable
from fasthep_smk.util import files
from tests.support.programs import program

from . import workflows
from .measure import Measured
from .report import Figure, Result, Row
from .steps import Settings, Step, fresh, run, smk

__all__ = ["page"]

_JOBS, _SLOTS = 10_000, 150


def page(settings: Settings) -> Result:
    """Return what the page of 10,000 jobs costs: to write, in bytes, and to load."""
    folder = settings.folder
    workflows.write(workflows.zmumu(100_000), folder)
    ours, many = folder / "ours", folder / "many"
    options = ("-o", "ours", "-j", "2", "--granularity", "stage", "--chunk-size", "50k")
    steps = [Step("ours", smk("workflow.yaml", *options), fresh(ours))]
    small = Settings(folder, 1, settings.events, settings.files, settings.other)
    run(steps, small)
    _simulate(ours, many, _JOBS)
    browser = [
        program("chromium"), "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom",
        "--disable-background-networking", (many / layout.REPORT).as_uri(),
    ]  # fmt: skip
    blank = [*browser[:-1], "about:blank"]
    found = run(
        [
            Step("version", smk("--version")),
            Step("write", smk("report", "many")),
            Step("blank", blank),
            Step("load", browser),
        ],
        settings,
    )
    took = {name: Row(name, runs).wall for name, runs in found.items()}
    size = (many / layout.REPORT).stat().st_size / 1e6
    return Result(
        "page",
        f"The page on a build folder of {_JOBS:,} jobs, from the records of a real run.",
        [Row("`fasthep-smk report`", found["write"]), Row("Chromium, the page", found["load"])],
        [
            Figure("to write it", took["write"] - took["version"], 2.0, "s"),
            Figure("its size", size, 5.0, "MB"),
            Figure("to load and draw it", took["load"] - took["blank"], 2.0, "s"),
        ],
        [
            f"CPU: {_cpu(found, 'write', 'version'):.2f} s to write it, "
            f"{_cpu(found, 'load', 'blank'):.2f} s to load and draw it"
        ],
    )


def _cpu(found: dict[str, list[Measured]], one: str, other: str) -> float:
    """Return how many seconds of CPU a step takes more than another: others' load counts less."""
    more, less = (statistics.median(run.cpu for run in found[name]) for name in (one, other))
    return more - less


def _simulate(build: Path, goal: Path, number: int) -> None:
    """Copy a build folder, with so many jobs of partitions as if they had run on a cluster."""
    shutil.copytree(build, goal)
    chance = random.Random(1)
    tables = [TaskTable.read(build, path.stem) for path in (build / layout.TASKS).glob("*.json")]
    rules = [table for table in tables if table.scope == "partition" and not table.bundles]
    rules = rules or [table for table in tables if table.scope == "partition"]
    free = [0.0] * _SLOTS
    for table in rules:
        found = json.loads((build / layout.table(table.rule)).read_text())
        known, jobs = list(found["jobs"]), {}
        for at in range(number // len(rules)):
            old = known[at % len(known)]
            key = f"{old.rpartition('/')[0]}/{at}_0"
            text = json.dumps(found["jobs"][old]).replace(f"/{old}", f"/{key}")
            jobs[key] = json.loads(text)
            record = json.loads((build / table.jobs[old].record).read_text())
            del record["checksum"]
            slot = free.index(min(free))
            begins = record["started"] + free[slot]
            free[slot] += chance.lognormvariate(4, 0.5)
            record |= {"key": key, "host": f"node{slot // 20}", "submitted": record["started"]}
            record |= {"started": begins, "ended": record["started"] + free[slot]}
            folder = goal / jobs[key]["folder"]
            folder.mkdir(parents=True, exist_ok=True)
            (folder / layout.RECORD).write_text(files.seal(record), encoding="utf-8")
        found |= {"jobs": jobs, "bundles": {}}
        (goal / layout.table(table.rule)).write_text(json.dumps(found), encoding="utf-8")

"""One job from start to end: read its entry, run it, write its record or say why not."""

from __future__ import annotations

import json
import os
import shutil
import socket
import sys
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fasthep_smk import failures, layout
from fasthep_smk.errors import SmkError
from fasthep_smk.names import encode

__all__ = ["Job", "main", "staging"]


@dataclass(frozen=True)
class Job:
    """A job's entry in its task table, with the folders it works in."""

    build: Path
    rule: str
    scope: str
    key: str
    entry: dict[str, Any]
    keeps: tuple[dict[str, Any], ...]
    outputs: tuple[str, ...]
    results: list[str] = field(default_factory=list)

    @property
    def folder(self) -> Path:
        """Where the job's products go."""
        return self.build / str(self.entry["folder"])

    @property
    def plan_file(self) -> Path:
        """The slim plan of the job's variation."""
        return self.build / str(self.entry["plan"])


def main(arguments: list[str]) -> int:
    """Run the job that ``arguments`` name (rule, then its wildcards); return the exit status."""
    build = Path.cwd()
    if not arguments:
        print("usage: worker RULE [VALUE ...]", file=sys.stderr)
        return 2
    try:
        job = _load(build, arguments[0], "/".join(arguments[1:]))
    except (OSError, ValueError, KeyError) as error:
        print(f"no such job: {' '.join(arguments)} ({error})", file=sys.stderr)
        return 2
    failures.clear(build, job.rule, job.key)
    try:
        _enter_launch_folder(build)
        _run(job)
    except Exception as error:
        if not isinstance(error, SmkError):
            traceback.print_exc()
        failures.write(build, job.rule, job.key, job.entry, error)
        print(failures.one_line(error), file=sys.stderr)
        return 1
    return 0


@contextmanager
def staging(job: Job) -> Iterator[Path]:
    """Yield a folder for what operations write; move the files into the build on success.

    A job that dies leaves no half-written skim or plot where a person would look for it. After a
    failure only FAST-HEP's diagnostics are kept.
    """
    parent = job.build / "smk" / "stage" / job.rule
    name = encode(job.key or job.rule)
    for stale in parent.glob(f"{name}.*"):  # of a job that was killed
        shutil.rmtree(stale, ignore_errors=True)
    folder = parent / f"{name}.{os.getpid()}"
    folder.mkdir(parents=True)
    try:
        yield folder
        job.results.extend(_move_files(folder, job))
    except BaseException:
        _move_files(folder, job, below="reports/diagnostics")
        raise
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _run(job: Job) -> None:
    from fasthep_smk import products

    started = time.time()
    shutil.rmtree(job.folder, ignore_errors=True)
    runner = _runner(job.scope)
    content = runner(job)
    record = {
        "rule": job.rule,
        "key": job.key,
        "signature": job.entry["signature"],
        "host": socket.gethostname(),
        "pid": os.getpid(),
        "started": round(started, 3),
        "ended": round(time.time(), 3),
        "results": sorted(set(job.results)),
        **content,
    }
    products.write_record(job.folder, record)


def _runner(scope: str) -> Any:
    # Imported when needed: a merge does not pay for what a partition needs.
    if scope in ("partition", "side"):
        from fasthep_smk.worker import partition

        return partition.run_partition if scope == "partition" else partition.run_side_products
    from fasthep_smk.worker import reduction

    return {
        "merge": reduction.run_merge,
        "finish": reduction.run_finish,
        "publish": reduction.run_publish,
    }[scope]


def _load(build: Path, rule: str, key: str) -> Job:
    table = json.loads((build / layout.table(rule)).read_text(encoding="utf-8"))
    return Job(
        build=build,
        rule=rule,
        scope=str(table["scope"]),
        key=key,
        entry=table["jobs"][key],
        keeps=tuple(table["keeps"]),
        outputs=tuple(table["outputs"]),
    )


def _enter_launch_folder(build: Path) -> None:
    """Go where the run was started: FAST-HEP's relative paths and local modules start there."""
    run = json.loads((build / layout.RUN).read_text(encoding="utf-8"))
    sys.path.extend(path for path in run["python_path"] if path not in sys.path)
    if Path(run["launch_folder"]).is_dir():
        os.chdir(run["launch_folder"])


def _move_files(source: Path, job: Job, *, below: str = "") -> list[str]:
    """Move what operations wrote into the build; return the paths relative to it."""
    moved: list[str] = []
    for path in sorted((source / below).rglob("*")):
        if path.is_dir() and not path.is_symlink():
            continue
        goal = _goal(path.relative_to(source), job)
        (job.build / goal).parent.mkdir(parents=True, exist_ok=True)
        path.replace(job.build / goal)
        moved.append(str(goal))
    return moved


def _goal(path: Path, job: Job) -> Path:
    """Return where a file goes: reports of variations go below the variation's own folder.

    FAST-HEP's observers write to the same place whatever the variation; the plain place belongs
    to the nominal plan.
    """
    variation = str(job.entry["variation"])
    if variation == "nominal" or path.parts[0] != "reports" or path.parts[1:2] == (variation,):
        return path
    return Path("reports", variation, *path.parts[1:])

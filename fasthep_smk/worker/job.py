"""One job from start to end: read its entry, run it, write its record or say why not."""

from __future__ import annotations

import json
import os
import shutil
import socket
import sys
import time
import traceback
from pathlib import Path
from typing import Any

from fasthep_smk import failures, layout
from fasthep_smk.errors import SmkError
from fasthep_smk.worker.entry import Job

__all__ = ["main"]


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

"""What records and the page cost a run, of all that it takes: measured within that run.

This file is also the program that is measured: ``fasthep-smk``, in which each call that writes the
page or notes how the run goes is timed. The share is of one run, so that other users of the machine
change it little.
"""

from __future__ import annotations

import json
import resource
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

if __package__:
    from . import workflows
    from .report import Figure, Result, Row
    from .steps import Settings, Step, fresh, jobs_done, run

__all__ = ["overhead"]

_LIMIT = 2.0
_TIMES = 1000


def overhead(settings: Settings) -> Result:
    """Return which share of a run goes to records and the page: a short run, and a long one."""
    folder, rows, figures = settings.folder, [], []
    cases = {
        "the tutorial": (workflows.tutorial(100_000), ()),
        f"the demo, {settings.events:,} events": (
            workflows.zmumu(settings.events),
            ("--chunk-size", "500000"),
        ),
    }
    for name, (workflow, options) in cases.items():
        shares: dict[str, list[float]] = {"CPU": [], "wall time": []}
        notes, build = folder / "notes.json", folder / "ours"
        workflows.write(workflow, folder)

        def look(measured: Any, notes: Path = notes, shares: Any = shares) -> None:
            spent = json.loads(notes.read_text())
            records = jobs_done(measured) * spent["record"]
            shares["CPU"].append(100 * (spent["cpu"] + records) / measured.cpu)
            shares["wall time"].append(100 * (spent["wall"] + records) / measured.wall)

        command = [sys.executable, "-P", __file__, str(notes)]
        command += ["workflow.yaml", "-o", "ours", "-j", "2", *options]
        found = run([Step(name, command, fresh(build), look)], settings)
        rows.append(Row(name, found[name]))
        figures += [
            Figure(f"{name}: share of the {what}", statistics.median(values), _LIMIT, " %")
            for what, values in shares.items()
        ]
    return Result(
        "overhead",
        "Records and the page, of all that a run takes; of wall time, what the run waits for.",
        rows,
        figures,
    )


def _main(notes: Path, arguments: list[str]) -> int:
    from fasthep_smk.cli.main import main
    from fasthep_smk.run import report_page
    from fasthep_smk.storage import last_run
    from fasthep_smk.worker import limits

    spent = {"cpu": 0.0, "wall": 0.0}

    def cpu_time() -> float:
        """Also that of processes that have ended: the one that writes the page ends with it."""
        ended = resource.getrusage(resource.RUSAGE_CHILDREN)
        return time.thread_time() + ended.ru_utime + ended.ru_stime

    def timed(call: Callable[..., Any]) -> Callable[..., Any]:
        def inner(*given: Any, **named: Any) -> Any:
            wall, cpu = time.perf_counter(), cpu_time()
            try:
                return call(*given, **named)
            finally:
                spent["cpu"] += cpu_time() - cpu
                spent["wall"] += time.perf_counter() - wall

        return inner

    report_page.Page.write = timed(report_page.Page.write)  # type: ignore[method-assign]
    last_run.write = timed(last_run.write)
    sys.argv[1:] = arguments
    status = main()
    before = time.thread_time()
    for _ in range(_TIMES):
        limits.bytes_moved()
    # A job looks twice: when it starts, and when it has ended.
    spent["record"] = 2 * (time.thread_time() - before) / _TIMES
    notes.write_text(json.dumps(spent), encoding="utf-8")
    return status


if __name__ == "__main__":
    sys.exit(_main(Path(sys.argv[1]), sys.argv[2:]))

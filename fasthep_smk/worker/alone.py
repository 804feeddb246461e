"""What is left to a job whose command no Snakemake has started."""

from __future__ import annotations

import datetime
import os
import sys
import time
from collections.abc import Iterable
from pathlib import Path

from fasthep_smk.storage import layout
from fasthep_smk.util import files
from fasthep_smk.worker.job import WorkerJob
from fasthep_smk.worker.limits import cpu_time, peak_memory

#: For how many seconds what another node has written may not be seen on this one.
_LATE = 60.0
_PAUSE = 0.5


def is_alone() -> bool:
    """Whether no Snakemake has started this job's command, which would also measure it."""
    return bool(os.environ.get(layout.IS_ALONE))


def submitted() -> float | None:
    """Return when this process was submitted to a batch system, if that is known."""
    try:
        return float(os.environ[layout.SUBMITTED])
    except (KeyError, ValueError):
        return None


def wait_for_inputs(job: WorkerJob) -> None:
    """Wait until the file system shows what a job reads; after a minute it says itself what lacks.

    A network file system may show for some time what was there before.
    """
    reads = [job.build / read.folder / layout.RECORD for read in job.entry.reads]
    end, told = time.monotonic() + _LATE, False
    while (
        late := next((path for path in reads if not path.exists()), None)
    ) and time.monotonic() < end:
        if not told:
            print(f"waiting for {late}, which another node has written", file=sys.stderr)
        told = True
        for folder in {path.parent for path in reads}:
            if folder.parent.is_dir():
                os.listdir(folder.parent)  # noqa: PTH208 (this lets NFS look again)
        time.sleep(_PAUSE)


def write_benchmark(build: Path, rule: str, place: Iterable[str], seconds: float) -> None:
    """Write what a job took: its rule declares the file as an output."""
    text = benchmark_text(seconds, memory=peak_memory(), cpu=cpu_time())
    files.write_text(build / layout.benchmark(rule, place), text)


def benchmark_text(seconds: float, *, memory: float, cpu: float) -> str:
    """Return what Snakemake writes on a job: seconds, also of CPU, and the largest memory in bytes.

    Source: https://snakemake.readthedocs.io/en/stable/snakefiles/rules.html#benchmark-rules
    """
    values = {
        "s": f"{seconds:.4f}",
        "h:m:s": str(datetime.timedelta(seconds=int(seconds))),
        "max_rss": f"{memory / 2**20:.2f}",
        **dict.fromkeys(("max_vms", "max_uss", "max_pss", "io_in", "io_out"), "NA"),
        "mean_load": f"{100 * cpu / max(seconds, 0.01):.2f}",
        "cpu_time": f"{cpu:.2f}",
    }
    return "\t".join(values) + "\n" + "\t".join(values.values()) + "\n"

"""What is left to a job whose command no Snakemake has started."""

from __future__ import annotations

import os
import sys
import time

from fasthep_smk.storage import layout
from fasthep_smk.worker.job import WorkerJob

#: For how many seconds what another node has written may not be seen on this one.
_LATE = 60.0
_PAUSE = 0.5


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

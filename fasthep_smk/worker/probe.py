"""``python -m fasthep_smk.worker.probe FILE``: say what a worker is like, for the doctor."""

from __future__ import annotations

import json
import os
import platform
import socket
import subprocess
import sys
import time
from importlib import metadata
from pathlib import Path
from typing import TypedDict

from fasthep_smk import sites
from fasthep_smk.config.requests import SYSTEMS
from fasthep_smk.util import files

#: What a job imports: it must be the same here and there.
PACKAGES = (
    "fasthep-smk", "fasthep-flow", "fasthep-carpenter", "fasthep-curator", "fasthep-render",
    "awkward", "hist", "numpy", "pyarrow", "uproot",
)  # fmt: skip


class WorkerFacts(TypedDict):
    """What has to be the same, or is told, of a worker."""

    host: str
    python: str
    packages: dict[str, str | None]
    clock: float
    cpus: int | None
    gpus: int
    #: The partition or slot, and what the GPUs are called.
    where: str
    models: list[str]


class Worker(WorkerFacts):
    """All that is said of a worker."""

    executable: str
    user: int


def describe_worker() -> Worker:
    """Return host, interpreter, package versions, clock and what the job may use."""
    import fasthep_smk.worker.partition  # noqa: F401 - all that a job imports is there, or we fail

    return {
        "host": socket.gethostname(),
        "python": platform.python_version(),
        "executable": sys.executable,
        "packages": {name: _version(name) for name in PACKAGES},
        "clock": time.time(),
        "cpus": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None,
        "gpus": _gpus(),
        "where": next(filter(None, (sites.system(name).slot() for name in SYSTEMS)), ""),
        "models": _models(),
        "user": os.getuid(),
    }


def _gpus() -> int:
    """Return how many GPUs a job may use; one without is told a number that there is not."""
    gpus = os.environ.get("CUDA_VISIBLE_DEVICES")
    if gpus is None:
        return len(list(Path("/dev").glob("nvidia[0-9]*")))
    return len([gpu for gpu in gpus.split(",") if gpu.strip() not in ("", "10000", "NoDevFiles")])


def _models() -> list[str]:
    command = ["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError):
        return []
    return done.stdout.splitlines()


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


if __name__ == "__main__":
    files.write_text(Path(sys.argv[1]), json.dumps(describe_worker(), indent=1) + "\n")

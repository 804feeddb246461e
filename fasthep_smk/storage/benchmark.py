"""Snakemake's file on the time and memory of a job, for jobs that it does not measure itself.

Source: https://snakemake.readthedocs.io/en/stable/snakefiles/rules.html#benchmark-rules
"""

from __future__ import annotations

import datetime

__all__ = ["text"]


def text(seconds: float, *, memory: float, cpu: float) -> str:
    """Return its content: the time and that of the CPU in seconds, the largest memory in bytes."""
    values = {
        "s": f"{seconds:.4f}",
        "h:m:s": str(datetime.timedelta(seconds=int(seconds))),
        "max_rss": f"{memory / 2**20:.2f}",
        **dict.fromkeys(("max_vms", "max_uss", "max_pss", "io_in", "io_out"), "NA"),
        "mean_load": f"{100 * cpu / max(seconds, 0.01):.2f}",
        "cpu_time": f"{cpu:.2f}",
    }
    return "\t".join(values) + "\n" + "\t".join(values.values()) + "\n"

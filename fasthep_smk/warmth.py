"""Keep a warm worker for a run on one machine; see ``worker.warm`` for what it does."""

from __future__ import annotations

import contextlib
import csv
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fasthep_smk import files, layout
from fasthep_smk.worker.process import ONE_THREAD

__all__ = ["VARIABLE", "WarmWorker", "Warmth", "correct_benchmarks", "warm_worker"]

#: Names the socket of the warm worker to ``smk/worker``; empty or missing: jobs start cold.
VARIABLE = "FASTHEP_SMK_WARM"


@dataclass(frozen=True)
class Warmth:
    """What Snakemake is started with: variables, and the descriptors that it shares."""

    environment: Mapping[str, str] = field(default_factory=dict)
    shared: tuple[int, ...] = ()


class WarmWorker:
    """A warm worker, from its start to its end; it also ends with all who share its lifeline."""

    def __init__(self, process: subprocess.Popen[bytes], path: Path, held: int) -> None:
        self._process = process
        self._path = path
        self._held = held

    @classmethod
    def start(cls, environment: Mapping[str, str]) -> WarmWorker | None:
        """Start one for a run with this environment; ``None`` if jobs are to start cold."""
        if os.environ.get(VARIABLE) == "":
            return None
        path = Path(tempfile.mkdtemp(prefix="fasthep-smk-")) / "worker"
        lifeline, held = os.pipe()
        command = [sys.executable, "-P", "-m", "fasthep_smk.worker.warm", str(path), str(lifeline)]
        try:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env={**environment, **ONE_THREAD},
                pass_fds=(lifeline,),
                start_new_session=True,
            )
        finally:
            os.close(lifeline)
        return cls(process, path, held)

    @property
    def warmth(self) -> Warmth:
        """What Snakemake has to be started with."""
        return Warmth({VARIABLE: str(self._path)}, (self._held,))

    def expect_plots(self) -> None:
        """Let it import what plots need, as soon as it has nothing else to do."""
        with contextlib.suppress(OSError):  # it was killed
            os.write(self._held, b"p")

    def end(self) -> None:
        """End it, or let it end with Snakemake."""
        os.close(self._held)
        with contextlib.suppress(subprocess.TimeoutExpired):  # Snakemake still shares the lifeline
            self._process.wait(timeout=10)
        self._clear()

    def discard(self) -> None:
        """End it at once: it has had no job."""
        os.close(self._held)
        self._clear()

    def _clear(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        shutil.rmtree(self._path.parent, ignore_errors=True)


@contextlib.contextmanager
def warm_worker(
    environment: Mapping[str, str], *, wanted: bool = True, ahead: WarmWorker | None = None
) -> Iterator[WarmWorker | None]:
    """Start a warm worker and end it with the block, or with Snakemake if we are killed before.

    ``environment`` is that of the run; ``ahead`` one that was started for it before. Where it
    cannot be started, jobs start cold.
    """
    worker = ahead or (WarmWorker.start(environment) if wanted else None)
    try:
        yield worker
    finally:
        if worker is not None:
            worker.end()


def correct_benchmarks(build: Path) -> None:
    """Write into Snakemake's benchmarks what jobs of the warm worker really took.

    Snakemake has measured the client that waited for them.
    """
    for path in (build / layout.BENCHMARKS).rglob("*.tsv"):
        record = _record(build, path)
        if not record.get("used", {}).get("warm"):
            continue
        with contextlib.suppress(OSError, csv.Error, StopIteration, ValueError):
            with path.open(newline="", encoding="utf-8") as stream:
                rows = csv.DictReader(stream, delimiter="\t")
                row = next(rows)
                names = list(rows.fieldnames or ())
            real = {"max_rss": record["used"]["memory"] / 2**20, "cpu_time": record["used"]["cpu"]}
            if row["max_vms"] == "NA":
                continue  # done before
            row.update(dict.fromkeys(("max_vms", "max_uss", "max_pss", "io_in", "io_out"), "NA"))
            row.update({name: f"{value:.2f}" for name, value in real.items()})
            row["mean_load"] = f"{100 * real['cpu_time'] / max(float(row['s']), 0.01):.2f}"
            lines = ["\t".join(names), "\t".join(row[name] for name in names)]
            files.write_text(path, "\n".join(lines) + "\n")


def _record(build: Path, benchmark: Path) -> dict[str, Any]:
    """Return the record of the job that a benchmark is of."""
    *folders, name = benchmark.relative_to(build / layout.BENCHMARKS).with_suffix("").parts
    place = [] if [name] == folders else [name]
    places = (
        Path(build, layout.WORK, *folders, *place, layout.RECORD),
        Path(build, layout.BUNDLES, *folders, f"{name}.json"),
    )
    for path in places:
        with contextlib.suppress(OSError, ValueError):
            found = json.loads(path.read_text(encoding="utf-8"))
            return found if isinstance(found, dict) else {}
    return {}

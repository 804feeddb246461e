"""The commands of a case, run in turn and again, and the checks that what they did is right."""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.support.cases import CUTFLOW_FILES
from tests.support.compare import compare_builds

from .measure import Failed, Measured, measure

__all__ = [
    "Settings", "Step", "check_equal", "fasthep", "fresh", "jobs_done", "records", "run", "smk",
]  # fmt: skip

_DONE = re.compile(r"^(\d+) jobs? done; results in", re.MULTILINE)


@dataclass(frozen=True)
class Settings:
    """What the command line says. ``folder`` is for builds; it is empty at the start of a case."""

    folder: Path
    repeats: int
    events: int
    files: int


@dataclass(frozen=True)
class Step:
    """A command, what is done before it and looked at after it, neither of them measured."""

    name: str
    command: list[str]
    before: Callable[[], object] = lambda: None
    after: Callable[[Measured], object] = lambda _: None


def run(steps: Sequence[Step], settings: Settings) -> dict[str, list[Measured]]:
    """Run all steps in their order, and again; return what each took, by its name.

    Raises:
        Failed: a command, or a check after one, has failed.
    """
    found: dict[str, list[Measured]] = {step.name: [] for step in steps}
    for repeat in range(settings.repeats):
        for step in steps:
            step.before()
            measured = measure(step.command, settings.folder)
            print(f"    {repeat + 1}: {step.name}: {measured.wall:.2f} s", file=sys.stderr)
            found[step.name].append(measured)
            step.after(measured)
    return found


def smk(*arguments: str) -> list[str]:
    """Return a command of ours."""
    return [sys.executable, "-P", "-m", "fasthep_smk", *arguments]


def fasthep(*arguments: str) -> list[str]:
    """Return a command of FAST-HEP's."""
    return [str(Path(sys.executable).parent / "fasthep"), *arguments]


def fresh(folder: Path) -> Callable[[], None]:
    """Return what removes a build folder."""
    return lambda: shutil.rmtree(folder, ignore_errors=True)


def check_equal(reference: Path, ours: Path) -> None:
    """Compare two builds; cutflows, which ``fasthep run`` mixes up, are left out.

    Raises:
        Failed: they differ, or there is nothing to compare.
    """
    if not any(reference.glob("artifacts/**/histograms/*.pkl")):
        raise Failed(f"{reference} holds no histograms")
    ignored = [*CUTFLOW_FILES, "artifacts/provenance/*", "reports/*"]
    if differences := compare_builds(reference, ours, ignore=ignored):
        raise Failed("the results differ:\n" + "\n".join(differences[:20]))


def jobs_done(measured: Measured) -> int:
    """Return how many jobs a run of ours has done, by what it says at its end."""
    said = _DONE.search(measured.output)
    return int(said[1]) if said else 0


def records(build: Path) -> dict[str, int]:
    """Return when each finished job of a build folder was finished."""
    found = (build / "smk" / "work").rglob("record.json")
    return {str(path.relative_to(build)): path.stat().st_mtime_ns for path in found}

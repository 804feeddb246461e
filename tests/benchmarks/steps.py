"""The commands of a case, run in turn and again, and the checks that what they did is right."""

from __future__ import annotations

import json
import re
import shutil
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.support.cases import CUTFLOW_FILES
from tests.support.compare import compare_builds

from .measure import Failed, Measured, measure

__all__ = [
    "Pairs", "Settings", "Step", "check_equal", "fasthep", "fresh", "job_records", "jobs_done",
    "records", "run", "smk",
]  # fmt: skip

_DONE = re.compile(r"^(\d+) jobs? done; results in", re.MULTILINE)


#: What each command took with the other installation, and right beside it with this one.
Pairs = dict[str, list[tuple[Measured, Measured]]]


@dataclass(frozen=True)
class Settings:
    """What the command line says. ``folder`` is for builds; it is empty at the start of a case.

    ``other`` is the Python of another installation of this package; what its commands and ours
    took goes to ``pairs``. ``traces`` is where the records of other people's workflows are.
    """

    folder: Path
    repeats: int
    events: int
    files: int
    other: str | None = None
    pairs: Pairs = field(default_factory=dict)
    traces: Path | None = None


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
        if settings.other:
            _pair(steps, settings, repeat, found)
            continue
        for step in steps:
            found[step.name].append(_one(step, settings, repeat))
    return found


def _one(step: Step, settings: Settings, repeat: int, python: str = sys.executable) -> Measured:
    """Run a step; one of ours with that Python."""
    step.before()
    ours = step.command[0] == sys.executable
    command = [python, *step.command[1:]] if ours else step.command
    measured = measure(command, settings.folder)
    told = step.name if python == sys.executable else f"{step.name}, the other"
    print(f"    {repeat + 1}: {told}: {measured.wall:.2f} s", file=sys.stderr)
    step.after(measured)
    return measured


def _pair(
    steps: Sequence[Step], settings: Settings, repeat: int, found: dict[str, list[Measured]]
) -> None:
    """Run our steps with both installations; which one goes first changes with each repeat.

    FAST-HEP's steps run once, as the results to compare with.
    """
    assert settings.other
    if repeat == 0:
        for step in steps:
            if step.command[0] != sys.executable:
                found[step.name].append(_one(step, settings, repeat))
    ours = [step for step in steps if step.command[0] == sys.executable]
    pythons = [settings.other, sys.executable]
    took = {}
    for python in pythons if repeat % 2 else reversed(pythons):
        for step in ours:
            took[python, step.name] = _one(step, settings, repeat, python)
    for step in ours:
        found[step.name].append(took[sys.executable, step.name])
        pair = took[settings.other, step.name], took[sys.executable, step.name]
        settings.pairs.setdefault(step.name, []).append(pair)


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


def job_records(build: Path) -> list[dict[str, Any]]:
    """Return the record of each finished job of a build folder."""
    found = (build / "smk" / "work").rglob("record.json")
    return [json.loads(path.read_text(encoding="utf-8")) for path in found]

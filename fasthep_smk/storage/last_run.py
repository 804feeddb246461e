"""What a run leaves about itself in its build folder: ``smk/last_run.json``, of the last one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Literal, NotRequired, TypedDict

import msgspec

from fasthep_smk.storage import layout
from fasthep_smk.util import files
from fasthep_smk.util.shapes import ready

#: ``stopped``: by Ctrl-C or a signal. A run that was killed leaves ``running``.
#: ``unfinished``: it has ended well, but Snakemake was told to leave jobs out.
Outcome = Literal["running", "finished", "unfinished", "failed", "stopped"]
#: What an unfinished run means for its user.
UNFINISHED = "Snakemake has not run all jobs: an option after -- or in the profile left some out"


class LastRun(TypedDict):
    """When it ran (seconds since 1970, UTC), how it ended, what it was and why its jobs ran.

    ``problem`` is what it died of. ``reasons`` are those for which jobs had to run: by rule, how
    many for each. ``digests`` are the SHA-256 of the workflow's files. ``cores`` are those that
    jobs share on one machine, ``limits`` how many jobs of a pool run at a time, ``variation`` is
    the only one that ran, if one was asked for; an older version has noted none of these.
    """

    outcome: Outcome
    problem: str
    started: float
    ended: float | None
    command: str
    site: str
    system: str
    versions: dict[str, str]
    workflow: str
    folder: str
    digests: dict[str, str]
    reasons: dict[str, dict[str, int]]
    cores: NotRequired[int | None]
    limits: NotRequired[dict[str, int]]
    variation: NotRequired[str | None]


def write(build: Path, run: LastRun) -> None:
    """Replace what stands there."""
    files.write_text(build / layout.LAST_RUN, json.dumps(run, indent=1) + "\n")


def read(build: Path) -> LastRun | None:
    """Return what the last run has left; ``None`` if none has, or it cannot be understood."""
    try:
        content = files.read_plain(build / layout.LAST_RUN)
        return msgspec.convert(json.loads(content), ready(LastRun))
    except (OSError, ValueError, RecursionError, msgspec.ValidationError):
        return None


def is_unfinished(build: Path) -> bool:
    """Whether Snakemake was told to leave out jobs of the last run."""
    run = read(build)
    return run is not None and run["outcome"] == "unfinished"

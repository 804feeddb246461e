"""What failed jobs leave for the end of the run: which stage, which events, which log."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from fasthep_smk import files, layout
from fasthep_smk.names import encode, shell

__all__ = ["Failure", "clear", "forget", "log_of", "message", "one_line", "read_all", "write"]


@dataclass(frozen=True, kw_only=True)
class Failure:
    """One failed job. ``start`` and ``stop`` are entries of ``file``."""

    rule: str
    key: str
    record: str
    problem: str
    stage: str | None = None
    op: str | None = None
    dataset: str | None = None
    file: str | None = None
    start: int | None = None
    stop: int | None = None
    variation: str | None = None


def write(build: Path, rule: str, key: str, entry: Mapping[str, Any], error: BaseException) -> None:
    """Note that a job failed."""
    partition = dict(entry.get("partition") or {})
    failure = Failure(
        rule=rule,
        key=key,
        record=str(entry["record"]),
        problem=one_line(error),
        stage=getattr(error, "stage", None),
        op=getattr(error, "impl", None),
        dataset=entry.get("dataset"),
        file=partition.get("file"),
        start=partition.get("start"),
        stop=partition.get("stop"),
        variation=entry.get("variation"),
    )
    files.write_text(_path(build, rule, key), json.dumps(asdict(failure), indent=1) + "\n")


def clear(build: Path, rule: str, key: str) -> None:
    """Forget that a job failed: it runs again."""
    _path(build, rule, key).unlink(missing_ok=True)


def read_all(build: Path) -> list[Failure]:
    """Return the failures that no later success has cleared."""
    found: list[Failure] = []
    for path in sorted((build / "smk" / "failures").glob("*/*.json")):
        try:
            found.append(Failure(**json.loads(path.read_text(encoding="utf-8"))))
        except (OSError, ValueError, TypeError):
            continue  # another version's note
    return found


def message(failure: Failure, build: Path, *, log: Path, profile: Path) -> str:
    """Return the lines that tell a person what failed, where, and how to run it alone."""
    what = f"stage {failure.stage!r} ({failure.op})" if failure.stage else f"rule {failure.rule}"
    lines = [f"{what} failed: {failure.problem}"]
    if failure.dataset is not None:
        lines.append(f"    dataset: {failure.dataset}")
    if failure.file is not None:
        lines.append(f"    file:    {failure.file} ({_entries(failure)})")
    if failure.variation not in (None, "nominal"):
        lines.append(f"    varied:  {failure.variation}")
    lines.append(f"    log:     {build / log}")
    command = shell(["snakemake", "--profile", profile.relative_to(build), "--", failure.record])
    lines.append(f"    alone:   {shell(['cd', build])} && {command}")
    return "\n".join(lines)


def log_of(failure: Failure) -> Path:
    """Return the log of a failed job, relative to the build folder."""
    return Path(layout.log(failure.rule, failure.key.split("/") if failure.key else ()))


def one_line(error: BaseException) -> str:
    """Return an error as a single readable line."""
    text = " ".join(str(error).split()) or type(error).__name__
    known = type(error).__module__.startswith("fasthep_smk")
    text = text if known else f"{type(error).__name__}: {text}"
    return text if len(text) <= 600 else f"{text[:597]}..."


def forget(build: Path) -> None:
    """Drop the notes of an earlier run: its failed jobs run again, or are no longer needed."""
    shutil.rmtree(build / "smk" / "failures", ignore_errors=True)


def _entries(failure: Failure) -> str:
    if failure.start is None and failure.stop is None:
        return "all entries"
    return f"entries {failure.start or 0} to {failure.stop if failure.stop is not None else 'end'}"


def _path(build: Path, rule: str, key: str) -> Path:
    return build / "smk" / "failures" / rule / f"{encode(key or rule)}.json"

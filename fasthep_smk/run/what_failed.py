"""What has failed in a run, in words: jobs, those that no batch system took, Snakemake itself."""

from __future__ import annotations

import contextlib
import functools
import itertools
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from fasthep_smk import sites
from fasthep_smk.executors.read_as_text import (
    CRASHED_IN,
    IS_FRAME,
    IS_MISSING,
    IS_REFUSED_BY_SYSTEM,
    IS_UNUSABLE,
    REFUSED,
)
from fasthep_smk.storage import failures, layout
from fasthep_smk.storage.job_settings import read_requests
from fasthep_smk.storage.task_table import TaskTable
from fasthep_smk.util import disk_full
from fasthep_smk.util.errors import JobsFailed, RunFailed, SmkError
from fasthep_smk.util.masking import masked
from fasthep_smk.util.names import shell
from fasthep_smk.util.processes import in_words
from fasthep_smk.util.units import format_bytes

if TYPE_CHECKING:
    from fasthep_smk.run.snakemake_output import Reader
    from fasthep_smk.storage.task_table import JobEntry
    from fasthep_smk.translate.write import Written

#: Number of failed jobs that are reported in full; the batch system is asked about these only.
_SHOWN = 10
_WITHOUT_A_WORD = "ended without an error message: it was killed, perhaps because memory ran out"
#: So many datasets are named.
_NAMED = 5
#: So many frames are shown.
_FRAMES = 8
#: What to do about a job that ran out of something; and also if it reads a file.
_MORE = {
    "memory": "give its pool or stage more memory",
    "time": "give its pool a longer walltime, or its stage a longer timeout",
}
_SMALLER = "; or cut its files into smaller partitions, for example with --chunk-size 100k"


def what_failed(
    written: Written, log: Path, status: int, reader: Reader, system: sites.System
) -> RunFailed:
    """Return what a run has failed of: Snakemake has ended with ``status``, and printed ``log``."""
    failed = failures.read_all(written.build)
    is_full = reader.disk_full or disk_full.is_full(log.parent)
    if is_full or any(item.kind == "disk" for item in failed):
        return RunFailed(_no_space(written.build, failed))
    under_way = [item for item in failed if item.system == "local"]  # others go on
    killed = _killed(status, under_way, log) if status < 0 else []
    if status < 0:  # jobs under way have not failed: they have ended with it
        failed = [item for item in failed if item.kind != "killed"]
        if not failed:
            return RunFailed("\n".join(killed))
    noted = {log for item in failed for log in failures.logs_of(item)}
    silent = [
        item
        for item in dict.fromkeys(reader.failed_logs.values())
        if item not in noted and not killed
    ]
    _link_logs(written.build, [*noted, *silent])
    count = len(failed) + len(silent)
    if not count and any(IS_UNUSABLE.match(line) for line in reader.tail):
        return RunFailed(refusal(reader))
    if not count and (gone := dict.fromkeys(_matches(IS_MISSING, reader.tail))):
        return RunFailed(_moved_away(list(gone)))
    last = next((line.strip() for line in reversed(reader.tail) if line.strip()), "")
    if not count and (refused := IS_REFUSED_BY_SYSTEM.match(last)):
        path = _in_the_way(written.build / refused[2])
        return RunFailed(f"Snakemake cannot use {path}: {refused[1]}\n    log:     {log}")
    if not count:
        tail = [f"    {line}" for line in reader.tail]
        title = f"Snakemake ended with status {status} (log: {log}):"
        return RunFailed("\n".join([title, *tail]))
    fate = functools.cache(lambda job: masked(system.fate(job) or "") or None)
    title = f"{count} job{'s' if count != 1 else ''} failed; finished jobs are kept:"
    shown = [
        message(item, written.build, profile=written.profile, fate=fate) for item in failed[:_SHOWN]
    ]
    heard = {item: reader.messages.get(item) or _WITHOUT_A_WORD for item in silent}
    for item in silent:
        if (path := _in_the_way(written.build / item)) != written.build / item:
            heard[item] = f"cannot write its log: {path} is not a folder; move it away"
    words: dict[str, list[str]] = {}
    for item in silent[: _SHOWN - len(shown)]:
        words.setdefault(heard[item], []).append(item)
    for sentence, items in words.items():
        if sentence.startswith(REFUSED):
            shown.append(of_refused(sentence, items, written.build, system))
        else:
            logs = [written.build / item for item in items]
            facts = [("log", str(path)) for path in logs if path.exists()]
            shown.append(_told(f"{_jobs(len(items))}: {sentence}", facts))
    more = [f"... and {count - _SHOWN} more, see {log}"] if count > _SHOWN else []
    text = "\n".join([*killed, title, *shown, *more])
    if status != 1:  # it was killed itself: what would still have run is unknown
        return RunFailed(text)
    reasons = {
        str(failures.log_of(item)): failures.in_short(item, fate if place < _SHOWN else None)
        for place, item in enumerate(failed)
    }
    return JobsFailed(text, {**reasons, **heard}, reader.tally.done)


def _link_logs(build: Path, logs: Iterable[str]) -> None:
    """Link the logs of failed jobs in ``err``, where FAST-HEP's documentation says to look."""
    for log in logs:
        # The name of a log comes from a note, which a worker may have sent.
        if not layout.place_of_log(log) or ".." in Path(log).parts or not (build / log).is_file():
            continue
        link = build / layout.CAPTURED[1] / Path(log).relative_to(layout.LOGS)
        with contextlib.suppress(OSError):
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(os.path.relpath(build / log, link.parent))


def message(
    failure: failures.Failure,
    build: Path,
    *,
    profile: Path,
    fate: Callable[[str], str | None] | None = None,
) -> str:
    """Return the lines that tell a person what failed, where, and how to run it alone.

    ``fate`` is asked what the batch system says of a job that was killed.
    """
    failure = failures.with_fate(failure, fate)
    earlier = {str(item["problem"]): item["attempt"] for item in reversed(failure.earlier)}
    variation = "" if failure.variation == "nominal" else failure.variation
    span = failures.span(failure.start, failure.stop)
    # A last attempt that was not worth trying used next to nothing.
    most = max([failure.used or 0, *(item.get("used") or 0 for item in failure.earlier)])
    asked = format_bytes(failure.memory) if failure.memory else "nothing"
    used = f"{most // 1000**2} MB used" if most else "use unknown"
    command = shell(["snakemake", "--profile", profile.relative_to(build), "--", failure.record])
    more = _MORE.get(failure.kind, "")
    facts = [
        ("at", failure.at or ""),
        *(
            ("earlier", f"attempt {attempt}: {problem}")
            for problem, attempt in reversed(earlier.items())
            if problem != failure.problem
        ),
        ("dataset", failure.dataset or ""),
        ("file", f"{failure.file} ({span})" if failure.file else ""),
        ("variation", variation or ""),
        ("where", failures.where(failure) if failure.pool else ""),
        ("memory", f"{asked} asked for, {used}" if failure.memory is not None or most else ""),
        ("fix", failure.fix or f"{more}{_SMALLER if more and failure.file else ''}"),
        ("log", str(build / failures.log_of(failure))),
        ("rerun", f"{shell(['cd', build])} && {command}"),
    ]
    return _told(failures.headline(failure), facts)


def _told(title: str, facts: Iterable[tuple[str, str]]) -> str:
    return "\n".join([title, *(f"    {label + ':':11}{text}" for label, text in facts if text)])


def _jobs(count: int) -> str:
    return "a job" if count == 1 else f"{count} jobs"


def of_refused(said: str, logs: Sequence[str], build: Path, system: sites.System) -> str:
    """Return the lines for jobs, by their logs, of which Snakemake was told the same."""
    places = [place for log in sorted(logs) if (place := layout.place_of_log(log))]
    entries = list(_entries(places, build))
    datasets = list(dict.fromkeys(entry.dataset for entry in entries if entry.dataset))
    files = [entry for entry in entries if entry.file]
    facts = [
        ("dataset", ", ".join(datasets[:_NAMED]) + (", ..." if len(datasets) > _NAMED else "")),
        ("file", _file(files[0], len(files) - 1) if files else ""),
        ("where", ", ".join(f"pool {pool!r}" for pool in _pools(places, build))),
        ("fix", system.remedy(said.removeprefix(REFUSED)) or ""),
    ]
    return _told(f"{_jobs(len(logs))} {said}", facts)


def _file(entry: JobEntry, others: int) -> str:
    of = entry.partition
    text = f"{entry.file} ({failures.span(of.get('start'), of.get('stop'))})" if of else ""
    return f"{text} and {others} more" if others else text


def _entries(places: Iterable[tuple[str, str]], build: Path) -> Iterator[JobEntry]:
    """Yield what is known of jobs; of a bundle, those in it."""
    for rule, key in places:
        # What cannot be read says nothing: the sentence is told all the same.
        with contextlib.suppress(OSError, KeyError, ValueError, SmkError):
            yield from TaskTable.read(build, rule, key).jobs.values()


def _pools(places: Iterable[tuple[str, str]], build: Path) -> list[str]:
    """Return the pools of jobs at their first attempts."""
    with contextlib.suppress(OSError, KeyError, ValueError):
        requests = read_requests(build)
        rules = dict.fromkeys(rule for rule, _ in places)
        return list(dict.fromkeys(requests["rules"][rule][0]["pool"] for rule in rules))
    return []


def refusal(reader: Reader) -> str:
    """Return why Snakemake did not start: its own line of it if there is one."""
    lines = [line for line in reader.tail if IS_UNUSABLE.match(line)]
    return "\n    ".join(["Snakemake refuses to start:", *(lines or reader.tail)])


def _matches(pattern: re.Pattern[str], lines: Iterable[str]) -> list[str]:
    return [match[1] for line in lines if (match := pattern.match(line.strip()))]


def _in_the_way(path: Path) -> Path:
    """Return what stands in the place of a folder above a path; the path itself if nothing does."""
    above = (parent for parent in path.parents if parent.is_symlink() or parent.exists())
    nearest = next(above, path)
    return path if nearest.is_dir() else nearest


def _moved_away(paths: list[str]) -> str:
    """Return which files were there when the run began, and were not when a job needed them."""
    return "\n".join(
        [
            "input files were moved or deleted during the run; finished jobs are kept:",
            *(f"    {path}" for path in paths[:_SHOWN]),
            *([f"    ... and {len(paths) - _SHOWN} more"] if len(paths) > _SHOWN else []),
            "    hint: put them back, then run the same command again",
        ]
    )


def _no_space(build: Path, failed: list[failures.Failure]) -> str:
    """Return that the disk is full, and which jobs that has cost."""
    lost = [
        f"    {f'stage {item.stage!r}' if item.stage else f'rule {item.rule}'}"
        f"{f', {item.key}' if item.key else ''}: {item.problem}"
        for item in failed[:_SHOWN]
    ]
    return "\n".join([str(disk_full.finding(build)), *lost])


def _killed(status: int, failed: list[failures.Failure], log: Path) -> list[str]:
    """Return that Snakemake was killed, and what became of its jobs."""
    ended = sum(item.kind == "killed" for item in failed)
    return [
        f"Snakemake was ended by {in_words(status)}: finished jobs are kept, run the same command "
        "again to continue",
        *([f"    jobs:    {_jobs(ended)} will run again"] if ended else []),
        *[f"    at:      {place}" for place in _where_it_crashed(log)],
        f"    log:     {log}",
    ]


def _where_it_crashed(log: Path) -> list[str]:
    """Return the innermost frames of a Snakemake that has crashed, as Python has written them."""
    try:
        _, _, stack = log.read_text(errors="replace").rpartition(CRASHED_IN)
    except OSError:
        return []
    frames = itertools.takewhile(IS_FRAME.match, stack.splitlines()[1:])
    return [frame.strip() for frame in itertools.islice(frames, _FRAMES)]

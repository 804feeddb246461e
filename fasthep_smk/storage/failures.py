"""What failed jobs leave for the end of the run: which stage, which events, where, which log.

A job leaves its note when it starts and takes it back when it succeeds: one that is killed, or
whose machine goes away, has left it too.
"""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import socket
from collections.abc import Callable, Collection
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, cast

from msgspec import ValidationError, convert

from fasthep_smk.storage import layout
from fasthep_smk.storage.record import EarlierAttempt
from fasthep_smk.util import disk_full, files
from fasthep_smk.util.masking import masked
from fasthep_smk.util.names import encode, printable
from fasthep_smk.util.units import format_bytes, format_duration

#: ``error``: an operation failed; ``memory``, ``time``: it took more than it asked for;
#: ``killed``: no reason is known; ``damaged``: a file that it reads is not what was written;
#: ``changed``: an input or source was edited while the run goes on;
#: ``disk``: there was no space left for what it writes; ``credential``: a proxy, token or ticket
#: has ended, or a server has refused it.
FailureKind = Literal[
    "error", "memory", "time", "killed", "damaged", "changed", "disk", "credential"
]
#: How the file ends that holds what is to be known of a job that is done.
_WARNING, _LONGEST_WARNING = ".txt", 1000
#: Of a longer text of an error, only this many characters are looked at: some 600 are shown.
_LONGEST = 1_000_000
#: What batch systems say of a job that they have ended.
_FOR_MEMORY = re.compile("memory|oom", re.IGNORECASE)
_FOR_TIME = re.compile("timeout|time limit|(job|execute) duration|walltime", re.IGNORECASE)


@dataclass(frozen=True, kw_only=True)
class Failure:
    """One failed job. ``start`` and ``stop`` are entries of ``file``; memory is in bytes.

    ``record`` is the file that Snakemake waits for, ``bundle`` the key of the bundle that the job
    is in, if any; ``fix`` is what to do about it, where that can be told, and ``at`` the line of
    the user's own module. ``pid`` and ``born`` (its start in the kernel's clock ticks) tell its
    process from a later one of the same number; ``walltime`` is in seconds. ``in_pilot``: the batch
    job is not its own, but runs one after the other. Times are seconds since 1970 (UTC): of a job
    that was killed, when it ended is unknown.
    """

    rule: str
    key: str
    record: str
    problem: str
    bundle: str | None = None
    kind: FailureKind = "error"
    stage: str | None = None
    op: str | None = None
    stages: list[str] = field(default_factory=list)
    dataset: str | None = None
    file: str | None = None
    start: int | None = None
    stop: int | None = None
    variation: str | None = None
    pool: str | None = None
    attempt: int = 1
    host: str | None = None
    pid: int | None = None
    born: int | None = None
    system: str = "local"
    batch_job: str | None = None
    memory: int | None = None
    walltime: int | None = None
    used: int | None = None
    fix: str | None = None
    in_pilot: bool = False
    at: str | None = None
    started: float | None = None
    ended: float | None = None
    earlier: list[EarlierAttempt] = field(default_factory=list)


def note(build: Path, failure: Failure) -> None:
    """Leave a job's note, without the secrets that its texts may quote."""
    fix = masked(failure.fix) if failure.fix else failure.fix
    failure = replace(failure, problem=masked(failure.problem), fix=fix)
    text = json.dumps(asdict(failure), indent=1) + "\n"
    path = path_of(build, failure.rule, failure.key)
    try:
        files.write_text(path, text)
    except OSError as error:
        if not disk_full.shown(error) or not path.exists():
            raise
        with path.open("r+", encoding="utf-8") as stream:  # the disk is full: where it stands
            stream.write(text)
            stream.truncate()


def earlier(
    build: Path, rule: str, key: str, fate: Callable[[str], str | None] | None = None
) -> list[EarlierAttempt]:
    """Return what the earlier attempts of a job died of, first to last, for its record.

    ``fate`` is asked as for :func:`with_fate`.
    """
    failure = read(path_of(build, rule, key))
    return [] if failure is None else attempts(with_fate(failure, fate))


def attempts(failure: Failure) -> list[EarlierAttempt]:
    """Return all attempts that a note tells of, first to last."""
    fields = {name: getattr(failure, name) for name in EarlierAttempt.__annotations__}
    last = cast("EarlierAttempt", fields)
    return [*failure.earlier, last]


def born(pid: int) -> int | None:
    """Return when a process of this machine started, in clock ticks; ``None`` if it has ended."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        state, *fields = text.rpartition(")")[2].split()
        return None if state in ("Z", "X") else int(fields[18])
    except (OSError, ValueError, IndexError):
        return None


def lives(failure: Failure) -> bool:
    """Whether the process of a job that left this note still runs on this machine."""
    if failure.kind != "killed" or failure.host != socket.gethostname():
        return False
    return failure.pid is not None and failure.born == born(failure.pid) is not None


def clear(build: Path, rule: str, key: str) -> None:
    """Forget that a job failed: it has succeeded."""
    path_of(build, rule, key).unlink(missing_ok=True)


def warn(build: Path, rule: str, key: str, text: str) -> None:
    """Say of a job that is done, in its log and for the end of the run, what to know of it."""
    place = key.split("/") if key else []
    log = layout.log(rule, place)
    with contextlib.suppress(OSError), (build / log).open("a", encoding="utf-8") as stream:
        stream.write(f"{text}\n")
    warning = f"job {' '.join([rule, *place])}: {text}: {log}"
    files.write_text(warning_of(build, rule, key), warning)


def warnings(build: Path) -> list[str]:
    """Return what is to be known of jobs of this run that are done."""
    paths = sorted((build / "smk" / "failures").glob(f"*/*{_WARNING}"))
    raw = (path.read_text(encoding="utf-8", errors="replace")[:_LONGEST_WARNING] for path in paths)
    return [printable(text) for text in raw]


def read_all(build: Path) -> list[Failure]:
    """Return the failures that no later success has cleared."""
    paths = sorted((build / "smk" / "failures").glob("*/*.json"))
    return [failure for path in paths if (failure := read(path)) is not None]


def headline(failure: Failure) -> str:
    """Return in one line what failed and why."""
    if failure.stage:
        subject = f"stage {failure.stage!r} ({failure.op})"
    else:
        stages = f" (stages {', '.join(failure.stages)})" if failure.stages else ""
        subject = f"rule {failure.rule}{stages}"
    return f"{subject} failed: {failure.problem}"


def in_short(failure: Failure, fate: Callable[[str], str | None] | None = None) -> str:
    """Return one line that says what failed; ``fate`` is asked as for :func:`with_fate`."""
    text = headline(with_fate(failure, fate))
    if failure.variation not in (None, "nominal"):
        text += f" (variation {failure.variation})"
    return text


def with_fate(failure: Failure, fate: Callable[[str], str | None] | None) -> Failure:
    """Return a failure with what the batch system, which ``fate`` asks, says of a killed job."""
    if failure.kind != "killed" or fate is None or failure.batch_job is None or failure.in_pilot:
        return failure
    cause = masked(fate(failure.batch_job) or "")
    return _ended_by(failure, cause) if cause else failure


def without_pilot(failure: Failure, why: str, cause: str | None, fix: str | None = None) -> Failure:
    """Return the note of a job that has lost its pilots; ``cause`` is the fate of the last one."""
    last = f"{why}; the last one: {cause}" if cause else why
    ended = _ended_by(failure, masked(cause or ""))
    return replace(failure, kind=ended.kind, problem=last, fix=fix)


def is_of_time(cause: str) -> bool:
    """Return whether a batch system says of a job that it was over its time limit."""
    return _FOR_TIME.search(cause) is not None


def _ended_by(failure: Failure, cause: str) -> Failure:
    """Return a failure with what the batch system says of the end of its batch job."""
    of_pool = f" of pool {failure.pool!r}" if failure.pool else ""
    if _FOR_MEMORY.search(cause):
        had = f", {format_bytes(failure.memory)}," if failure.memory else ""
        return replace(failure, kind="memory", problem=f"over its memory{had}{of_pool} ({cause})")
    if is_of_time(cause):
        had = f", {format_duration(failure.walltime)}," if failure.walltime else ""
        return replace(failure, kind="time", problem=f"over its time limit{had}{of_pool} ({cause})")
    return replace(failure, problem=cause)


def span(start: int | None, stop: int | None) -> str:
    """Return in words which entries of a file a partition is."""
    if start is None and stop is None:
        return "all entries"
    return f"entries {start or 0} to {stop if stop is not None else 'end'}"


def log_of(failure: Failure) -> Path:
    """Return the log of a failed job, relative to the build folder."""
    return Path(layout.log(failure.rule, failure.key.split("/") if failure.key else ()))


def logs_of(failure: Failure) -> list[str]:
    """Return the logs that tell of a failed job: its own, and that of its bundle."""
    bundle = [layout.log(failure.rule, failure.bundle.split("/"))] if failure.bundle else []
    return [str(log_of(failure)), *bundle]


def one_line(error: BaseException) -> str:
    """Return an error as a single readable line."""
    message = str(error)
    if len(message) > _LONGEST:  # cut between two words: half a secret is not known for one
        message = message[:_LONGEST].rpartition(" ")[0] or message[:_LONGEST]
    text = " ".join(message.split()) or type(error).__name__
    ours = type(error).__module__.startswith("fasthep_smk")
    text = masked(text if ours else f"{type(error).__name__}: {text}")
    return text if len(text) <= 600 else f"{text[:597]}..."


def forget(build: Path, but: Collection[str] = ()) -> None:
    """Drop the notes of an earlier run: its failed jobs run again, or are no longer needed.

    Those of the batch jobs in ``but`` stay: they go on.
    """
    for path in (build / layout.CAPTURED[1]).rglob("*.log"):
        if path.is_symlink():  # to the log of a job that had failed
            path.unlink(missing_ok=True)
    kept = [note for note in read_all(build) if note.batch_job in but] if but else []
    folder = build / "smk" / "failures"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True, exist_ok=True)  # jobs could not say that they cannot make it
    for failure in kept:
        note(build, failure)


def where(failure: Failure) -> str:
    """Return where a job failed: pool, host, the number of its batch job, at which attempt."""
    text = f"pool {failure.pool!r} on {failure.host}"
    if failure.batch_job:
        text += f", {failure.system} job {failure.batch_job}"
    return f"{text}, attempt {failure.attempt}" if failure.attempt > 1 else text


def read(path: Path) -> Failure | None:
    """Return a note; ``None`` if there is none, or it is another version's, or none at all.

    A worker may have sent it: its texts are for a terminal, and are masked once more.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        convert(content, Failure)
        return Failure(**_shown(content))
    except (OSError, ValueError, RecursionError, TypeError, ValidationError):
        return None


def _shown(content: Any) -> Any:
    """Return a note, or a part of it, with its texts as they may be shown."""
    if isinstance(content, list):
        return [_shown(item) for item in content]
    if not isinstance(content, dict):
        return printable(content) if isinstance(content, str) else content
    shown = {name: _shown(item) for name, item in content.items()}
    errors = {name: masked(shown[name]) for name in ("problem", "fix") if shown.get(name)}
    return {**shown, **errors}


def path_of(build: Path, rule: str, key: str) -> Path:
    """Return where a job leaves its note."""
    return build / "smk" / "failures" / rule / f"{encode(key or rule)}.json"


def warning_of(build: Path, rule: str, key: str) -> Path:
    """Return where it is noted what is to be known of a job that is done."""
    return path_of(build, rule, key).with_suffix(_WARNING)

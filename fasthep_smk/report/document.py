"""What the report on a build folder says, as plain data; ``tables.py`` makes tables of it.

No text in it holds a secret: what jobs, servers and users have said is masked.
"""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import asdict, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from fasthep_smk.report import measures, results, rules
from fasthep_smk.report.estimate import Pace, seconds_left
from fasthep_smk.report.facts import Facts
from fasthep_smk.report.numbers import (
    duration,
    percent,
    when,
)
from fasthep_smk.storage import failures, missing_report
from fasthep_smk.util.documents import JsonObject
from fasthep_smk.util.files import read_plain
from fasthep_smk.util.masking import masked
from fasthep_smk.util.names import printable, shell

__all__ = ["as_data", "clean", "cleaned"]

#: How many failed jobs are told in full, and how much of each log.
_FAILED, _LINES, _WIDTH, _LOG = 20, 15, 200, 20_000
#: How many of the jobs are shown that took longest.
_SLOWEST = 10


def as_data(facts: Facts) -> JsonObject:
    """Return all that the report says as plain data; times are seconds since 1970, sizes bytes."""
    run, build = facts.run, facts.build
    counts = Counter(job.state for job in facts.jobs)
    data = {
        "build": str(build),
        "made": round(time.time(), 3),
        "counts": {state: counts[state] for state in ("done", "running", "failed", "to do")},
        "earlier": len(facts.done) - len(facts.new),
        "in_part": sum(job.in_part for job in facts.new),
        "missing": [asdict(one) for one in facts.lacking],
        "missing_share": _missing_share(facts),
        "sample": facts.sample,
        "seconds_left": _seconds_left(facts),
        "cutflows": results.cutflows(build),
        "histograms": results.histograms(build),
        "skims": results.skims(build),
        "files": results.result_files(build),
        "measured": results.measured(build),
        "rules": measures.rules(facts.done),
        "each_rule": rules.of_each(facts),
        "pools": measures.pools(
            facts.ran,
            run.get("limits", {}) if run else {},
            run.get("cores") if run else None,
            facts.waited,
        ),
        "requested": [
            {**asdict(one), "saved": one.saved} for one in measures.requested(facts.done)
        ],
        "critical_path": [
            {
                "rule": step.job.rule,
                "key": step.job.key,
                "waited": step.waited,
                "seconds": step.job.seconds,
                "ended": step.job.ended,
            }
            for step in measures.critical_path(facts.new)
        ],
        "slowest": [
            {
                "rule": job.rule,
                "key": job.key,
                "host": job.host,
                "seconds": job.seconds,
                "memory": job.memory,
                "events": job.events,
            }
            for job in sorted(facts.done, key=lambda job: -job.seconds)[:_SLOWEST]
        ],
        "reasons": run["reasons"] if run else {},
        "failures": [_failure(build, one) for one in facts.failed[:_FAILED]],
        "failed": len(facts.failed),
        "run": dict(run) if run else None,
        "inputs": [
            {"file": path, "size": size, "time_ns": changed} for path, size, changed in facts.inputs
        ],
    }
    data["verdict"] = _verdict(facts, data)
    return cleaned(data)


def cleaned(data: JsonObject) -> JsonObject:
    """Return plain data whose texts hold no secret, and nothing that a terminal would obey."""
    found: JsonObject = _clean(data)
    return found


def _missing_share(facts: Facts) -> float | None:
    """Return the share of all events that the results lack; ``None`` if it is not known."""
    counts = list(facts.events.values())
    if None in counts:
        return None
    total = sum(many or 0 for many in counts)
    return sum(one.events or 0 for one in facts.lacking) / total if total else None


def _seconds_left(facts: Facts) -> float | None:
    """Return how long the run may still take, by the jobs that it has done so far."""
    if not facts.is_running:
        return None
    now, paces = time.time(), dict[str, Pace]()
    for job in facts.jobs:
        pace = paces.get(job.rule, Pace())
        if job.state == "to do":
            pace = replace(pace, waiting=pace.waiting + 1)
        elif job.is_new:
            pace = replace(pace, done=pace.done + 1, seconds=pace.seconds + job.seconds)
        paces[job.rule] = pace
    running = [(job.rule, now - job.started) for job in facts.jobs if job.state == "running"]
    return seconds_left(paces, running)


def _verdict(facts: Facts, data: JsonObject) -> JsonObject:
    """Return in a word and a sentence how it stands."""
    found = _outcome(facts, data)
    if facts.sample is None or found["state"] == "running":
        return found
    text = f"A sample: {missing_report.said_of_sample(facts.sample)}."
    if found["state"] in ("finished", "to do"):
        return {"state": "sample", "text": f"{text} These are not the results of all of it."}
    return {**found, "text": f"{text} {found['text']}"}


def _outcome(facts: Facts, data: JsonObject) -> JsonObject:
    """Return how the last run stands, in a word and a sentence."""
    counts, run = data["counts"], facts.run
    total = sum(counts.values())
    done = f"{counts['done']} of {total} jobs are done"
    outcome = run["outcome"] if run else None
    if facts.is_running:
        text = f"{done}, {counts['running']} run now." if total else "It begins."
        if (left := data["seconds_left"]) is not None:
            soon = f"{max(1, round(left))} s" if left < 59.5 else duration(left)
            text += f" About {soon} left: it may end at {when(data['made'] + left)}."
        return {"state": "running", "text": text}
    if not total:
        return {"state": "to do", "text": "Nothing is translated yet."}
    if outcome == "stopped":
        return {"state": "stopped", "text": f"It was stopped: {done}. Run again to go on."}
    if outcome == "running":
        return {"state": "failed", "text": f"The run was killed: {done}. Run again to go on."}
    if outcome == "failed" or counts["failed"]:
        failed = counts["failed"]
        said = f"{failed} job{'s' if failed != 1 else ''} failed; " if failed else ""
        return {"state": "failed", "text": f"{said}{done}."}
    if facts.lacking:
        lost, parts = len(facts.lacking), len(facts.events)
        share = data["missing_share"]
        events = "" if share is None else f", {percent(share)} of the events"
        text = f"The results lack {lost} of {parts} partitions{events}."
        return {"state": "partial", "text": text}
    if counts["done"] < total:
        return {"state": "to do", "text": f"{done}."}
    return {"state": "finished", "text": f"All {total} jobs are done."}


def _failure(build: Path, one: failures.Failure) -> JsonObject:
    command = shell(["snakemake", "--profile", "smk/profile", "--", one.record])
    # A last attempt that was not worth trying used next to nothing.
    most = max([one.used or 0, *(earlier.get("used") or 0 for earlier in one.earlier)])
    return {
        "rule": one.rule,
        "key": one.key,
        "stage": one.stage or ", ".join(one.stages),
        "kind": one.kind,
        "problem": one.problem,
        "fix": one.fix or "",
        "dataset": one.dataset or "",
        "file": one.file or "",
        "entries": failures.span(one.start, one.stop) if one.file else "",
        "at": one.at or "",
        "where": failures.where(one) if one.pool else "",
        "memory": one.memory,
        "used": most or None,
        "log": str(failures.log_of(one)),
        "tail": _tail(build / failures.log_of(one)),
        "rerun": f"{shell(['cd', build])} && {command}",
    }


def _tail(log: Path) -> list[str]:
    """Return the last lines of a log, without the secrets that they quote."""
    try:
        text = read_plain(log)[-_LOG:].decode(errors="replace")
    except OSError:
        return []
    lines = masked(text).splitlines()[-_LINES:]
    return [line if len(line) <= _WIDTH else f"{line[: _WIDTH - 3]}..." for line in lines]


def _clean(value: Any) -> Any:
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, dict):
        return {clean(str(name)): _clean(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_clean(one) for one in value]
    return value


@lru_cache(maxsize=4096)
def clean(text: str) -> str:
    """Return a text without secrets, and without what a terminal would obey."""
    return printable(masked(text))

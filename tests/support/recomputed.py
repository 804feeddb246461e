"""Every number of a report, computed again from what a run has left: none of the report's code.

It reads records, task tables, notes of failed jobs, manifests and input files as they are.
``python -m tests.support.recomputed BUILD`` compares all numbers of a build folder; it needs the
input files where they were.
"""

from __future__ import annotations

import json
import math
import pickle
import statistics
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import uproot

__all__ = ["differences"]

#: When it was asked, and what is asked of a run that goes on.
_OF_NOW = {("made",), ("seconds_left",)}
Json = dict[str, Any]


def differences(build: Path, data: Json) -> list[str]:
    """Return which numbers of ``report --json`` are not those that follow from the build folder.

    A number that is not computed here is a difference, too, and so is one that is left out there.
    """
    wanted = dict(_leaves(_computed(build, data)))
    told = dict(_leaves(data))
    found = [
        f"{place}: {value!r} is not told" for place, value in wanted.items() if place not in told
    ]
    for place, value in told.items():
        if place in _OF_NOW or isinstance(value, str):
            continue
        if place not in wanted:
            found.append(f"{place}: {value!r} was not computed")
        elif not _is_same(value, wanted[place]):
            found.append(f"{place}: {value!r}, and not {wanted[place]!r}")
    return found


def _sample(entries: list[tuple[str, str, Json]], records: Json) -> Json | None:
    """Return how many partitions a sample is, and of how many; ``None`` if all were to run."""
    if not any(entry.get("sample") for _, _, entry in entries):
        return None
    places = {
        (rule, key): (entry["partition"]["dataset"], entry["partition"]["part"])
        for rule, key, entry in entries
        if entry.get("partition")
    }
    ran = {place for name, place in places.items() if name in records}
    return {"partitions": len(ran), "total": len(set(places.values()))}


def _is_same(one: Any, other: Any) -> bool:
    if None in (one, other):
        return one is other
    return math.isclose(one, other, rel_tol=1e-6, abs_tol=1e-6)


def _leaves(value: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    if isinstance(value, dict | list):
        items = value.items() if isinstance(value, dict) else enumerate(value)
        for name, one in items:
            yield from _leaves(one, (*place, name))
    else:
        yield place, value


def _computed(build: Path, data: Json) -> Json:
    run = json.loads((build / "smk/last_run.json").read_text())
    entries = [
        (json.loads(path.read_text())["rule"], key, entry)
        for path in sorted((build / "smk/tasks").glob("*.json"))
        for key, entry in json.loads(path.read_text())["jobs"].items()
    ]
    records = {}
    for rule, key, entry in entries:
        path = build / entry["folder"] / "record.json"
        if path.exists():
            record = json.loads(path.read_text())
            if record["signature"] == entry["signature"]:
                records[rule, key] = record
    notes = [json.loads(path.read_text()) for path in (build / "smk/failures").rglob("*.json")]
    if run["outcome"] == "stopped":  # what was stopped has not failed
        notes = [note for note in notes if note["kind"] != "killed"]
    failed = {(note["rule"], note["key"]): note for note in notes}
    failed = {name: note for name, note in failed.items() if name not in records}
    events = {(rule, key): _events(run, entry) for rule, key, entry in entries}
    new = {name: one for name, one in records.items() if one["started"] >= run["started"] - 2}
    lost = {
        (one["dataset"], one["file"], one["start"], one["stop"]): one
        for _, _, entry in entries
        for one in entry.get("missing", ())
    }
    missing = [{**one, "events": _events(run, {"partition": one})} for one in lost.values()]
    parts = {
        tuple(entry["partition"][name] for name in ("dataset", "file", "start", "stop")): many
        for rule, key, entry in entries
        if (many := events[rule, key]) is not None
    }
    parts |= {place: one["events"] for place, one in zip(lost, missing, strict=True)}
    lacking = sum(one["events"] for one in missing)
    return {
        "counts": {
            "done": len(records),
            "failed": len(failed),
            "running": 0,
            "to do": len(entries) - len(records) - len(failed),
        },
        "sample": _sample(entries, records),
        "earlier": len(records) - len(new),
        "missing": [{name: one[name] for name in ("start", "stop", "events")} for one in missing],
        "missing_share": lacking / sum(parts.values()) if sum(parts.values()) else None,
        "rules": [_rule(row, records, new, events) for row in data["rules"]],
        "each_rule": [
            {
                "states": _states(row["rule"], entries, records, failed),
                "jobs": [_job(row["rule"], job["key"], records, failed) for job in row["jobs"]],
            }
            for row in data["each_rule"]
        ],
        "reasons": run["reasons"],
        "failed": len(failed),
        "failures": [_failure(failed[one["rule"], one["key"]]) for one in data["failures"]],
        "run": run,
        "inputs": [_input(run, one["file"]) for one in data["inputs"]],
        "cutflows": [_cutflow(build, one) for one in data["cutflows"]],
        "histograms": [_histogram(build, one) for one in data["histograms"]],
        "skims": [_skim(build, one) for one in data["skims"]],
        "files": [
            {"size": (build / one["file"]).stat().st_size, "shown": _shown(one["file"])}
            for one in data["files"]
        ],
    }


def _seconds(record: Json) -> float:
    return float(record["ended"] - record["started"])


def _events(run: Json, entry: Json) -> int | None:
    part = entry.get("partition")
    if part is None:
        return None
    stop = part["stop"]
    if stop is None:
        with uproot.open(Path(run["folder"], part["file"])) as file:
            (tree,) = (one for one in file.keys(cycle=False) if hasattr(file[one], "num_entries"))
            stop = file[tree].num_entries
    return int(stop - (part["start"] or 0))


def _rule(
    row: Json, records: dict[Any, Json], new: dict[Any, Json], events: dict[Any, Any]
) -> Json:
    mine = {
        name: one
        for name, one in records.items()
        if (name[0], one["asked"]["pool"]) == (row["rule"], row["pool"])
    }
    of = list(mine.values())
    times = [_seconds(one) for one in of]
    # Jobs of a bundle were submitted as one: the first of them has waited.
    queue: dict[Any, float] = {}
    for one in of:
        if one.get("submitted") is not None:
            name = (one["submitted"], one["host"])
            queue[name] = min(queue.get(name, math.inf), one["started"] - one["submitted"])
    counted = {name: events[name] for name in mine if events[name] is not None}
    ran = sum(_seconds(mine[name]) for name in counted)
    return {
        "jobs": len(of),
        "earlier": sum(name not in new for name in mine),
        "retries": sum(len(one["earlier"]) for one in of),
        "wait": statistics.median(max(0.0, one) for one in queue.values()) if queue else None,
        "least": min(times),
        "median": statistics.median(times),
        "most": max(times),
        "asked_time": max(one["asked"]["walltime"] or 0 for one in of) or None,
        "total": sum(times),
        "cpu": sum(one["used"]["cpu"] for one in of)
        / sum(time * one["threads"] for time, one in zip(times, of, strict=True)),
        "memory": max(one["used"]["memory"] for one in of),
        "asked_memory": max(one["asked"]["memory"] or 0 for one in of) or None,
        "read": sum(one["used"]["read"] for one in of),
        "written": sum(one["used"]["written"] for one in of),
        "events": sum(counted.values()) if counted else None,
        "speed": sum(counted.values()) / ran if counted else None,
    }


def _states(rule: str, entries: list[Any], records: Json, failed: Json) -> Counter[str]:
    states = Counter({"done": 0, "running": 0, "failed": 0, "to do": 0})
    for name in ((one, key) for one, key, _ in entries if one == rule):
        states["done" if name in records else "failed" if name in failed else "to do"] += 1
    return states


def _job(rule: str, key: str, records: dict[Any, Json], failed: dict[Any, Json]) -> Json:
    one = records.get((rule, key))
    if one is None:
        tried = failed[rule, key]["attempt"] - 1 if (rule, key) in failed else 0
        return {"started": None, "seconds": None, "memory": None, "retries": tried}
    return {
        "started": one["started"],
        "seconds": _seconds(one),
        "memory": one["used"]["memory"],
        "retries": len(one["earlier"]),
    }


def _failure(note: Json) -> Json:
    used = max([note["used"] or 0, *(one.get("used") or 0 for one in note["earlier"])])
    return {"memory": note["memory"], "used": used or None}


def _input(run: Json, file: str) -> Json:
    found = Path(run["folder"], file).stat()
    return {"size": found.st_size, "time_ns": found.st_mtime_ns}


def _cutflow(build: Path, row: Json) -> Json:
    told = json.loads((build / row["file"]).read_text())
    rows = []
    for dataset in told["datasets"]:
        first: Json = {}
        for node in told["nodes"]:
            if (stats := node["stats"].get(dataset)) is None:
                continue
            before, after = stats["n_unweighted_in"], stats["n_unweighted_out"]
            total = first.setdefault(node["selection"], before)
            rows.append(
                {
                    "before": before,
                    "after": after,
                    "share": after / before if before else None,
                    "total": after / total if total else None,
                    "weights": stats["sumw_out"],
                    "error": math.sqrt(stats["sumw2_out"]),
                }
            )
    return {"rows": rows}


def _histogram(build: Path, row: Json) -> Json:
    """Add up the bins one by one, from the array that the histogram is."""
    made = pickle.loads((build / row["file"]).read_bytes())
    if row["dataset"]:
        made = made[{"dataset": row["dataset"]}]
    view = made.view(flow=True)
    total = inside = squares = 0.0
    for place in [*_places(view.shape)]:
        value = view[place]
        weight = float(value["value"] if view.dtype.names else value)
        squares += float(value["variance"] if view.dtype.names else 0)
        total += weight
        within = all(
            0 <= at - axis.traits.underflow < len(axis)
            for at, axis in zip(place, made.axes, strict=True)
        )
        inside += weight if within else 0
    known = view.dtype.names is not None
    return {
        "sum": total,
        "outside": total - inside,
        "error": math.sqrt(squares) if known else None,
        "entries": total**2 / squares if known and squares else None,
    }


def _places(shape: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    if not shape:
        yield ()
        return
    for at in range(shape[0]):
        for rest in _places(shape[1:]):
            yield (at, *rest)


def _skim(build: Path, row: Json) -> Json:
    many, size = 0, 0
    for name in row["files"]:
        size += (build / name).stat().st_size
        with uproot.open(build / name) as file:
            many += sum(file[one].num_entries for one in file.keys(cycle=False))
    return {"events": many, "size": size}


def _shown(name: str) -> bool:
    return name.endswith((".png", ".svg", ".jpg", ".gif"))


def _main(build: Path) -> int:
    command = [sys.executable, "-m", "fasthep_smk", "report", str(build), "--json", "--trust-build"]
    data = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    found = differences(build, data)
    numbers = sum(not isinstance(value, str) for _, value in _leaves(data))
    print(*found, f"{numbers} numbers, {len(found)} differ", sep="\n")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(_main(Path(sys.argv[1])))

"""Which jobs would run, and why, in words."""

from __future__ import annotations

import argparse
import json
import textwrap
from collections.abc import Collection, Iterable
from pathlib import Path

from fasthep_smk.cli.steps import imagined
from fasthep_smk.flow.workflow_checks import exports_of
from fasthep_smk.plan.results import results_of
from fasthep_smk.plan.rules import Job, Rule
from fasthep_smk.reuse.store import read
from fasthep_smk.run import pipeline
from fasthep_smk.run.engine import JobsRun
from fasthep_smk.storage.damage import GONE
from fasthep_smk.storage.missing_report import said_of_sample
from fasthep_smk.translate.translation import Translation

_WIDTH = 100


def do_why(options: argparse.Namespace) -> int:
    """Print of each job that would run why it would."""
    with imagined(options) as translation:
        outcome = unbundled(pipeline.dry_run(translation), translation)
    if options.json:
        print(json.dumps(as_data(outcome, translation), indent=1))
    else:
        print(as_text(outcome, translation, each=True), end="")
    return 0


def unbundled(outcome: JobsRun, translation: Translation) -> JobsRun:
    """Return the jobs that would run, where Snakemake has named bundles of them."""
    folders = set(outcome.folders)
    for bundles in translation.written.bundles.values():
        inside = {folder for marker in bundles.keys() & folders for folder in bundles[marker]}
        folders = folders - bundles.keys() | inside
    return JobsRun(outcome.jobs, frozenset(folders))


def as_text(outcome: JobsRun, translation: Translation, *, each: bool = False) -> str:
    """Return the jobs that would run, grouped by rule and reason; ``each`` names every job."""
    count, sample = _wanted(translation), translation.sample
    head = [f"Sample: {said_of_sample(sample.as_data())}"] if sample else []
    if outcome.total == 0:
        return "\n".join([*head, f"Nothing to do: all {count} jobs are up to date."]) + "\n"
    lines = [*head, f"{outcome.total} of {count} jobs would run:"]
    for rule in translation.rules:
        if not outcome.jobs.get(rule.name):
            continue
        stages = ", ".join(rule.stages)
        shown = stages if len(stages) <= 60 else f"{stages[:57]}..."
        lines.append(f"    {outcome.jobs[rule.name]:6d} x {rule.name}  ({shown})")
        for reason, jobs in _by_reason(rule, outcome, translation).items():
            many = f"{len(jobs)} of them: " if len(jobs) < outcome.jobs[rule.name] else ""
            lines += _wrapped(f"{many}{reason}", 15)
            if each:
                lines += _wrapped(", ".join(job.key or rule.name for job in jobs), 19)
    restored, adopted = translation.reuse.restored, translation.reuse.adopted
    kept = [f"{restored} restored from an earlier version of the workflow"] if restored else []
    kept += [f"{adopted} took results from other jobs"] if adopted else []
    brackets = f" ({', '.join(kept)})" if kept else ""
    lines.append(f"up to date: {count - outcome.total}{brackets}")
    return "\n".join(lines) + "\n"


def as_data(outcome: JobsRun, translation: Translation) -> dict[str, object]:
    """Return the same as plain data: each job that would run, with its reason.

    ``sample`` tells which part of the partitions is wanted, ``None`` for all.

    ``made`` are the files for the user that are then there, as far as they are known, ``left_over``
    those that are there now and that nothing makes; both relative to the build folder.
    """
    files = _made(translation)
    return {
        "to_run": [
            {"rule": rule.name, "job": job.key, "reason": _reason(job, translation)}
            for rule in translation.rules
            for job in _running(rule, outcome)
        ],
        "up_to_date": _wanted(translation) - outcome.total,
        "restored": translation.reuse.restored,
        "sample": translation.sample.as_data() if translation.sample else None,
        "made": files,
        "left_over": sorted(_in_artifacts(translation.earlier) - {*files}),
    }


def _made(translation: Translation) -> list[str]:
    def recorded(job: Job) -> Collection[str] | None:
        record = read(translation.build / job.folder) if job.folder in valid else None
        return None if record is None else record["results"].keys()

    valid = translation.reuse.valid
    return results_of(
        translation.rules,
        translation.variations,
        recorded=recorded,
        without=translation.left_out,
        exports=exports_of(translation.document),
    )


def _wanted(translation: Translation) -> int:
    """Return how many jobs there are, but for those that a sample leaves out."""
    left_out = translation.sample.unneeded(translation.rules) if translation.sample else set()
    return sum(len(rule.jobs) for rule in translation.rules) - len(left_out)


def _in_artifacts(build: Path) -> set[str]:
    """Return the files among the results, but for those that tell of the run itself."""
    paths = (path for path in (build / "artifacts").rglob("*") if path.name != "manifest.json")
    names = {str(path.relative_to(build)) for path in paths if not path.is_dir()}
    return {name for name in names if not name.startswith("artifacts/provenance/")}


def _by_reason(rule: Rule, outcome: JobsRun, translation: Translation) -> dict[str, list[Job]]:
    by_reason: dict[str, list[Job]] = {}
    for job in _running(rule, outcome):
        by_reason.setdefault(_reason(job, translation), []).append(job)
    return by_reason


def _running(rule: Rule, outcome: JobsRun) -> Iterable[Job]:
    return [job for job in rule.jobs.values() if job.folder in outcome.folders]


def _reason(job: Job, translation: Translation) -> str:
    reuse = translation.reuse
    if job.folder in reuse.reasons:
        return reuse.reasons[job.folder]
    for path, how in reuse.deleted.items():
        if how != GONE and path.startswith(f"{job.folder}/"):
            return f"its product {path.removeprefix(f'{job.folder}/')} {how}, and a job needs it"
    return "a file that another job needs is missing"


def _wrapped(text: str, indent: int) -> list[str]:
    return textwrap.wrap(
        text,
        _WIDTH,
        initial_indent=" " * indent,
        subsequent_indent=" " * (indent + 2),
        break_long_words=False,
        break_on_hyphens=False,
    )

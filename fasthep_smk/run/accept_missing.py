"""Going on without some partitions: how many may be missing, which are, and how that is said.

A partition is known by its dataset and part. If any task fails for it in any systematic variation,
all reductions are made without it, so that variations stay comparable.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fasthep_smk.config.run_settings import Limit
from fasthep_smk.plan.partitions import Place, missing_entries
from fasthep_smk.storage import layout
from fasthep_smk.storage.missing_report import PART, count, line, said_of_sample
from fasthep_smk.util.errors import JobsFailed, RunFailed

if TYPE_CHECKING:
    from fasthep_smk.translate.translation import Translation


def to_leave_out(error: JobsFailed, translation: Translation, limit: Limit) -> dict[Place, str]:
    """Return the partitions to go on without, each with what went wrong with it in one line.

    ``error`` ended the run of ``translation``, which may lack partitions already.

    Raises:
        RunFailed: something else failed too, too much is missing, or all of a dataset.
    """
    without = translation.settings.without
    missing = {**without, **_failed(error, translation)}
    if len(missing) == len(without):
        raise error
    wanted = _places(translation)
    total = len(wanted)
    if len(missing) > limit.of(total):
        raise RunFailed(f"{error}\n{count(len(missing), total)}; {limit.said(total)}")
    for item in translation.variations:
        places = {(partition.dataset, partition.part) for partition in item.partitions} & wanted
        there = {dataset for dataset, _ in places - missing.keys()}
        for dataset in sorted({dataset for dataset, _ in places} - there):
            varied = f" of variation {item.name!r}" if item.name else ""
            raise RunFailed(
                f"{error}\nall partitions of dataset {dataset!r}{varied} are missing: results "
                "that lack a whole dataset are not accepted"
            )
    return missing


def lost_with_others(error: JobsFailed, translation: Translation) -> bool:
    """Whether partitions are missing only because they shared a batch job with a failed one.

    A batch job ends with the first of its partitions that fails: the rest of them has not run.
    """
    if not translation.placement.together:
        return False
    lost = {
        (job.partition.dataset, job.partition.part)
        for rule in translation.rules
        for job in rule.jobs.values()
        if job.partition and not (translation.build / job.folder / layout.RECORD).exists()
    }
    return bool(lost - translation.left_out - _failed(error, translation).keys())


def last_word(translation: Translation, limit: Limit) -> str:
    """Return what a run must say last if its results lack partitions: which, and why."""
    without = translation.settings.without
    lacking = {
        (partition.dataset, partition.file, partition.start, partition.stop): partition
        for item in translation.variations
        for partition in item.partitions
        if (partition.dataset, partition.part) in without
    }
    total, sample = len(_places(translation)), translation.sample
    return "\n".join(
        [
            f"THE RESULTS ARE INCOMPLETE: {count(len(without), total)}:",
            *(f"    {line(entry)}" for entry in missing_entries(lacking.values(), without)),
            f"{limit.said(total)}; the next run tries the missing partitions again",
            *([f"{PART}: {said_of_sample(sample.as_data())}"] if sample else []),
        ]
    )


def _failed(error: JobsFailed, translation: Translation) -> dict[Place, str]:
    """Return the partitions of the failed jobs.

    Raises:
        JobsFailed: other jobs failed, too.
    """
    jobs = {
        layout.log(rule.name, job.wildcards.values()): job
        for rule in translation.rules
        for job in rule.jobs.values()
    }
    failed: dict[Place, str] = {}
    for log, reason in error.reasons.items():
        job = jobs.get(log)
        if job is None and translation.placement.together:
            continue  # what the batch system captured of several jobs at once
        if job is None or job.partition is None:
            raise error
        failed.setdefault((job.partition.dataset, job.partition.part), reason)
    return failed


def _places(translation: Translation) -> set[Place]:
    """Return the partitions of a run, or of the sample that is wanted of it."""
    every = {
        (partition.dataset, partition.part)
        for item in translation.variations
        for partition in item.partitions
    }
    return every - translation.sample.left_out if translation.sample else every

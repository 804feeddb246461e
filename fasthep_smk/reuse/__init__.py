"""What of earlier runs still stands, and why the rest does not."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from fasthep_smk.plan.rules import Job, Rule
from fasthep_smk.products import RECORD, write_record
from fasthep_smk.reuse import ledger, reasons
from fasthep_smk.reuse.ending import part_of_end
from fasthep_smk.reuse.part import Part, part_of
from fasthep_smk.reuse.store import Record, Store
from fasthep_smk.reuse.takeover import Index, retold, take_over

__all__ = ["Settled", "retire_results", "settle"]


@dataclass
class Settled:
    """The folders of jobs that are done, and for those of the others why they are not.

    ``deleted`` are files of theirs that are gone, relative to the build folder. ``returned`` jobs
    were done before and superseded, ``taken_over`` ones are made of products that other jobs had
    made. Of some that are not done only a part has to run: ``parts``, by folder. ``unreadable`` are
    records that say nothing any more.
    """

    standing: frozenset[str] = frozenset()
    deleted: frozenset[str] = frozenset()
    returned: int = 0
    taken_over: int = 0
    unreadable: list[Path] = field(default_factory=list)
    reasons: dict[str, str] = field(default_factory=dict)
    parts: dict[str, Part] = field(default_factory=dict)


def settle(rules: Iterable[Rule], build: Path, *, partial: bool = False) -> Settled:
    """Make what lies in ``smk/work`` agree with a translation.

    A ``partial`` one, of one variation of several, leaves the jobs of others alone.

    Afterwards a job's record exists if, and only if, its results stand: Snakemake runs what is
    missing. Results of another signature are put away, not removed; those that are wanted again
    come back; products that another job has made are taken over. All by renames and hard links.
    """
    return _Settling(list(rules), build, partial).run()


def retire_results(rules: Iterable[Rule], build: Path) -> list[str]:
    """Put away what superseded jobs made for the user and no job of a finished run makes.

    Nothing if the end of the run is not done, of which only a part may have been asked for.
    Returns the names of these files, relative to the build folder.
    """
    store = Store(build)
    rules = list(rules)
    if not store.superseded or not all(map(store.record, rules[-1].jobs.values())):
        return []
    records = [store.record(job) for rule in rules for job in rule.jobs.values()]
    return store.retire({name for record in records if record for name in record["results"]})


class _Settling:
    def __init__(self, rules: list[Rule], build: Path, partial: bool) -> None:
        self.rules = rules
        self.partial = partial
        self.store = Store(build)
        self.build = build
        self.result = Settled()
        self.standing: dict[str, Record] = {}
        #: The last records of jobs that do not stand, by folder.
        self.before: dict[str, Record] = {}
        #: Why jobs that were done with the right signature are not any more.
        self.unusable: dict[str, str] = {}

    def run(self) -> Settled:
        jobs = [(rule, job) for rule in self.rules for job in rule.jobs.values()]
        self._clear_the_way(jobs)
        for _, job in jobs:
            if job.folder not in self.standing:
                self._bring_back(job)
        for rule, job in jobs:
            if rule.scope == "partition" and job.folder in self.standing:
                self._retell(job)
        missing = [(rule, job) for rule, job in jobs if job.folder not in self.standing]
        if missing:
            missing = self._taken_over(missing)
        known = ledger.read(self.build)
        for rule, job in missing:
            self.result.reasons[job.folder] = self._reason(rule, job, known)
        ledger.write(self.build, self.rules, known)
        self.result.standing = frozenset(self.standing)
        self.result.deleted = frozenset(
            f"{folder}/{name}"
            for folder, record in self.standing.items()
            for name in record["files"]
            if not (self.build / folder / name).exists()
        )
        return self.result

    def _clear_the_way(self, jobs: list[tuple[Rule, Job]]) -> None:
        """Leave only folders whose records agree with the jobs."""
        wanted = {self.build / job.folder for _, job in jobs}
        for folder in list(self.store.folders()):
            if folder not in wanted and not self.partial:
                self.store.put_away(folder)
        for _, job in jobs:
            record = self.store.record(job)
            path = self.build / job.folder / RECORD
            if record is None:
                if path.exists():
                    self.unusable[job.folder] = "its record is damaged, or of another version"
                    self.result.unreadable.append(path)
                    path.unlink()
            elif record["signature"] != job.signature:
                self.before[job.folder] = record
                self.store.put_away(self.build / job.folder)
            elif lost := self.store.lost_results(record):
                more = f" and {len(lost) - 1} more" if len(lost) > 1 else ""
                self.unusable[job.folder] = f"its result {lost[0]} is gone{more}"
                self.store.put_away(self.build / job.folder)
            else:
                self.standing[job.folder] = record

    def _bring_back(self, job: Job) -> None:
        if job.folder in self.unusable:
            return
        record = self.store.bring_back(job)
        if record is not None:
            self.standing[job.folder] = record
            self.result.returned += 1

    def _retell(self, job: Job) -> None:
        """Let the record of a partition that is cut or named otherwise now say so."""
        record = self.standing[job.folder]
        told = retold(job, record)
        if told is None:
            del self.standing[job.folder]
            self.store.put_away(self.build / job.folder)
        elif told is not record:
            write_record(self.build / job.folder, told)
            self.standing[job.folder] = told

    def _taken_over(self, missing: list[tuple[Rule, Job]]) -> list[tuple[Rule, Job]]:
        """Return the jobs that still have to run."""
        found = {self.build / folder: record for folder, record in self.standing.items()}
        records = [*found.items(), *self.store.superseded]
        index = Index(records, self.store)
        left = []
        for rule, job in missing:
            if rule.scope == "finish" and (part := part_of_end(job, records, self.build)):
                self.result.parts[job.folder] = part
            if rule.scope == "partition" and job.folder not in self.unusable:
                record = take_over(rule, job, index, self.store)
                if record is not None:
                    self.standing[job.folder] = record
                    self.result.taken_over += 1
                    continue
                part = part_of(rule, job, index, self.store)
                if part is not None:
                    self.result.parts[job.folder] = part
            left.append((rule, job))
        return left

    def _reason(self, rule: Rule, job: Job, known: Mapping[str, object]) -> str:
        if job.folder in self.unusable:
            return self.unusable[job.folder]
        before = self.before.get(job.folder) or self.store.latest(job)
        return reasons.reason(rule, job, before, known, self.standing)

"""What of earlier runs is still valid, and why the rest does not."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path

from fasthep_smk.plan.rules import Job, Rule
from fasthep_smk.reuse import asked, ledger
from fasthep_smk.reuse.store import JobStore, read
from fasthep_smk.storage import damage, run_records
from fasthep_smk.storage.layout import RECORD
from fasthep_smk.storage.observed import Checks
from fasthep_smk.storage.record import Record, write_record
from fasthep_smk.storage.task_table import Part
from fasthep_smk.util import files
from fasthep_smk.util.files import FileFacts

__all__ = ["Reuse", "archive_results", "asked", "note_rewritten", "overwritten", "reuse_results"]

#: What the end of a run is, of which the summary is a result.
_ENDS = ("finish", "publish")


@dataclass
class Reuse:
    """The folders of jobs that are done, and for those of the others why they are not.

    ``deleted`` are products of theirs that are gone or were damaged, and how, by their paths
    relative to the build folder; ``damaged`` says of these and of results what is wrong.
    ``restored`` jobs were done before and superseded, ``adopted`` ones are made of products that
    other jobs had made. Of some that are not done only a part has to run: ``parts``, by folder.
    ``unreadable`` are records that say nothing any more.
    """

    valid: frozenset[str] = frozenset()
    deleted: dict[str, str] = field(default_factory=dict)
    damaged: list[str] = field(default_factory=list)
    restored: int = 0
    adopted: int = 0
    unreadable: list[Path] = field(default_factory=list)
    reasons: dict[str, str] = field(default_factory=dict)
    parts: dict[str, Part] = field(default_factory=dict)


def reuse_results(
    rules: Iterable[Rule],
    build: Path,
    checks: Checks,
    *,
    partial: bool = False,
    verify: bool = False,
) -> Reuse:
    """Make what lies in ``smk/work`` agree with a translation.

    ``checks`` tells whether what jobs have read is as it was. A ``partial`` translation, of one
    variation of several, leaves the jobs of others alone. Files that are not as long as they were
    made count as lost; with ``verify`` also those of another content.

    Afterwards a job's record exists if, and only if, its results stand: Snakemake runs what is
    missing. Results of another signature are archived, not removed; those that are wanted again
    are restored; products that another job has made are adopted. All by renames and hard links.
    """
    return _Comparison(list(rules), build, checks, partial, verify).run()


def archive_results(rules: Iterable[Rule], build: Path) -> list[str]:
    """Archive what superseded jobs made for the user and no job of a finished run makes.

    Nothing if the end of the run is not done, of which only a part may have been asked for.
    Returns the names of these files, relative to the build folder.
    """
    store = JobStore(build)
    rules = list(rules)
    if not store.superseded or not all(map(store.record, rules[-1].jobs.values())):
        return []
    records = [store.record(job) for rule in rules for job in rule.jobs.values()]
    return store.archive_results(
        {name for record in records if record for name in record["results"]}
    )


def overwritten(rules: Iterable[Rule], build: Path, own: set[str]) -> Iterator[str]:
    """Yield a warning for each rule of which several jobs have written one file differently.

    ``own`` are the nodes of the user's; FAST-HEP's are looked at before the run. Its observers
    write to ``reports`` whatever the partition.
    """
    for rule in rules:
        versions: dict[str, list[tuple[Job, FileFacts]]] = {}
        for job in rule.jobs.values():
            record = read(build / job.folder) if own & {*job.nodes} else None
            for name, facts in record["results"].items() if record else ():
                versions.setdefault(name, []).append((job, facts))
        for name, written in versions.items():
            first = written[0][1]
            if name.startswith("reports/") or all(facts == first for _, facts in written):
                continue
            jobs = [job for job, _ in written]
            stages = [node.removeprefix("stage.") for node in jobs[0].nodes if node in own]
            keys = ["['partition']['id']"] if jobs[0].partition else []
            keys += ["['variation']['name']"] if len({job.variation for job in jobs}) > 1 else []
            unique = " and ".join(f"ctx{key}" for key in keys or ["['dataset_name']"])
            yield (
                f"{len(jobs)} jobs of {' or '.join(stages)} wrote the same file, {name}: only one "
                f"version of it is left. Put {unique} into the file's name"
            )


def note_rewritten(rules: Iterable[Rule], build: Path, names: Collection[str]) -> None:
    """Let the records of finished runs say how results are that were written anew since."""
    for job in (job for rule in rules if rule.scope in _ENDS for job in rule.jobs.values()):
        record = read(build / job.folder)
        if record is not None and (own := record["results"].keys() & set(names)):
            now = {name: files.described(build / name) for name in own}
            write_record(build / job.folder, {**record, "results": {**record["results"], **now}})


class _Comparison:
    def __init__(
        self, rules: list[Rule], build: Path, checks: Checks, partial: bool, verify: bool
    ) -> None:
        self.rules = rules
        self.checks = checks
        self.partial = partial
        self.verify = verify
        self.store = JobStore(build)
        self.build = build
        self.result = Reuse()
        self.valid: dict[str, Record] = {}
        #: The last records of jobs that are not valid, by folder.
        self.before: dict[str, Record] = {}
        #: Why jobs that were done with the right signature are not any more.
        self.unusable: dict[str, str] = {}
        #: What jobs have read that is not as it was, in words.
        self.changed: dict[str, str] = {}

    def run(self) -> Reuse:
        jobs = [(rule, job) for rule in self.rules for job in rule.jobs.values()]
        self._clear_the_way(jobs)
        for rule, job in jobs:
            if job.folder not in self.valid:
                self._restore(job)
            if rule.scope == "partition" and job.folder in self.valid:
                self._set_partition(job)
        self._name_bundle()
        self._archive_damaged()
        missing = [(rule, job) for rule, job in jobs if job.folder not in self.valid]
        looked_at = frozenset[str]()
        if missing and self.verify:
            self._remove_damaged_products()  # what is damaged is not adopted
            looked_at = frozenset(self.valid)
        if missing:
            missing = self._adopt(missing)
        self._remove_damaged_products(but=looked_at)
        facts = ledger.write(self.build, self.rules, ledger.read(self.build))
        reasons = None
        if missing and (self.unusable or self.changed or self.before or self.store.superseded):
            from fasthep_smk.reuse.reasons import Reasons  # no job of a first run has another

            texts, before = {**self.changed, **self.unusable}, self.before
            reasons = Reasons(self.rules, self.store, self.checks, facts, before, self.valid, texts)
        for rule, job in missing:
            why = reasons.of(rule, job) if reasons else None
            self.result.reasons[job.folder] = why or "it has not run yet"
        self.result.valid = frozenset(self.valid)
        return self.result

    def _clear_the_way(self, jobs: list[tuple[Rule, Job]]) -> None:
        """Leave only folders whose records agree with the jobs."""
        wanted = {self.build / job.folder for _, job in jobs}
        for folder in list(self.store.folders()):
            if folder not in wanted and not self.partial:
                self.store.archive(folder)
        for _, job in jobs:
            record = self.store.record(job)
            path = self.build / job.folder / RECORD
            if record is None:
                if os.path.lexists(path):
                    self.unusable[job.folder] = (
                        "its record is damaged, or another version of fasthep-smk wrote it"
                    )
                    self.result.unreadable.append(path)
                    path.unlink()
            elif record["signature"] != job.signature:
                self.before[job.folder] = record
                self.store.archive(self.build / job.folder)
            elif change := self.checks.change(record):
                self.changed[job.folder] = change
                self.store.archive(self.build / job.folder)
            else:
                self.valid[job.folder] = record

    def _archive_damaged(self) -> None:
        """Let the jobs run again whose files for the user are gone, truncated or changed."""

        def others() -> Iterable[Record]:  # of variations that are left alone
            folders = self.store.folders()
            mine = {self.build / folder for folder in self.valid}
            return [record for path in folders if path not in mine and (record := read(path))]

        damaged = damage.of_results(self.build, self.valid, content=self.verify, others=others)
        for folder, results in damaged.items():
            self._run_again(folder, results)

    def _name_bundle(self) -> None:
        """Let the summaries of finished runs name what is compiled now.

        Their record comes first: a summary that is not yet as it says is completed next time.
        """
        ends = [rule for rule in self.rules if rule.scope in _ENDS]
        done = [job for rule in ends for job in rule.jobs.values() if job.folder in self.valid]
        if not done:
            return
        from fasthep_smk.flow import summary  # a first run has none to read

        for job in done:
            record = self.valid[job.folder]
            for name, facts in record["results"].items():
                texts = summary.renamed_bundle(self.build, name)
                if texts is None:
                    continue
                was, now = (FileFacts(size=len(t), sha256=sha256(t).hexdigest()) for t in texts)
                if facts not in (was, now):
                    how = damage.difference(self.build / name, facts, content=True)
                    self._run_again(job.folder, {name: str(how)})
                    break
                record = {**record, "results": {**record["results"], name: now}}
                write_record(self.build / job.folder, record)
                self.valid[job.folder] = record
                with files.atomic_path(self.build / name) as temporary:
                    temporary.write_bytes(texts[1])

    def _run_again(self, folder: str, results: Mapping[str, str]) -> None:
        """Put a job away because of its damaged results, given with what is wrong with them."""
        del self.valid[folder]
        self.unusable[folder] = damage.said(results)
        kept = self.store.archive(self.build / folder, results)
        edited = {name: how for name, how in results.items() if how != damage.GONE}
        if edited and kept is not None:
            text = damage.said(edited).removeprefix("its ")
            self.result.damaged.append(
                f"{text}: its job runs again, and the damaged files are kept in "
                f"{kept.relative_to(self.build)}"
            )

    def _remove_damaged_products(self, but: Collection[str] = ()) -> None:
        """Note which products are gone or damaged; remove the latter, so that they are missed.

        Those of the folders in ``but`` are not looked at.
        """
        records = {folder: record for folder, record in self.valid.items() if folder not in but}
        damaged = damage.of_products(self.build, records, content=self.verify)
        self.result.deleted |= damaged
        for path, how in damaged.items():
            if how != damage.GONE:
                self.result.damaged.append(f"{path} {how}: made again where it is needed")
                files.remove(self.build / path)

    def _restore(self, job: Job) -> None:
        if job.folder not in self.unusable:
            record = self.store.restore(job, self._is_valid)
            if record is not None:
                self.valid[job.folder] = record
                self.result.restored += 1

    def _is_valid(self, record: Record) -> bool:
        return self.checks.change(record) is None

    def _set_partition(self, job: Job) -> None:
        """Let the record of a partition that is cut or named otherwise now say so."""
        record = self.valid[job.folder]
        partition = job.partition.as_dict() if job.partition else None
        if all(run["partition"] == partition for run in record["runs"]):
            return
        if not run_records.fits(record, partition):
            del self.valid[job.folder]
            self.store.archive(self.build / job.folder)
            return
        record = {**record, "runs": [*run_records.runs(record, partition, job.nodes)]}
        write_record(self.build / job.folder, record)
        self.valid[job.folder] = record

    def _adopt(self, missing: list[tuple[Rule, Job]]) -> list[tuple[Rule, Job]]:
        """Return the jobs that still have to run."""
        valid = {self.build / folder: record for folder, record in self.valid.items()}
        superseded = [item for item in self.store.superseded if self._is_valid(item[1])]
        records = [*valid.items(), *superseded]
        if not records:
            return missing
        # Imported now: a first run adopts nothing.
        from fasthep_smk.reuse.adopt import adopt
        from fasthep_smk.reuse.index import Index
        from fasthep_smk.reuse.partial import part_of
        from fasthep_smk.reuse.plots import part_of_end

        index = Index(records)
        left = []
        for rule, job in missing:
            part = None
            if job.measured:
                pass  # all of it runs: what earlier jobs made has no such file
            elif rule.scope == "finish":
                part = part_of_end(job, records, self.build)
            elif rule.scope == "partition" and job.folder not in self.unusable:
                part = part_of(rule, job, index, self.store)
                if part is not None and not part.nodes:
                    if record := adopt(rule, job, part, index, self.store):
                        self.valid[job.folder] = record
                        self.result.adopted += 1
                        continue
                    part = None
            if part is not None:
                self.result.parts[job.folder] = part
            left.append((rule, job))
        return left

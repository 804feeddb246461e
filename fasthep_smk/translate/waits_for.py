"""Which files of other jobs each job waits for, and which jobs are to run."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from fasthep_smk.plan.rules import Job, Rule
from fasthep_smk.storage.layout import ARCHIVE, RECORD
from fasthep_smk.storage.task_table import Read

if TYPE_CHECKING:
    from fasthep_smk.reuse import Reuse


class Waits:
    """What the jobs of a translation wait for. All by the folders of the jobs.

    A finished job whose own files are not needed does not wait for what runs: Snakemake would run
    it again after that. What it has read may have been deleted to make room, or was adopted.
    """

    def __init__(self, rules: Iterable[Rule], reuse: Reuse) -> None:
        rules = list(rules)
        by_folder = {job.folder: rule for rule in rules for job in rule.jobs.values()}
        self._valid = reuse.valid
        self._reads = {
            job.folder: [
                (read.folder, files_read(read, by_folder[read.folder])) for read in job.reads
            ]
            for rule in rules
            for job in rule.jobs.values()
        }
        #: The file that marks the end of the bundle that a job is in.
        self.markers = {
            rule.jobs[key].folder: bundle.marker
            for rule in rules
            for bundle in rule.bundles.values()
            for key in bundle.jobs
        }
        #: The jobs that are to run: those without results, and those whose files are needed again.
        self.unfinished = self._unfinished(reuse)
        self._started = {self.markers.get(folder, folder) for folder in self.unfinished}

    def of(self, job: Job) -> list[str]:
        """Return the files of other jobs that a job waits for, relative to the build folder."""
        if self._is_passed_over(job.folder):
            return []
        return [
            f"{read}/{name}"
            for read, names in self._reads[job.folder]
            for name in self._names(job.folder, read, names)
        ]

    def _is_passed_over(self, folder: str) -> bool:
        """Whether a job is done, and its bundle runs for others."""
        return folder not in self.unfinished and self.markers.get(folder) in self._started

    def _names(self, folder: str, read: str, names: list[str]) -> list[str]:
        if self._is_passed_over(read):
            return []  # its bundle may fail
        if folder in self.unfinished or read not in self.unfinished:
            return names
        return [RECORD] if read in self._valid and read not in self.markers else []

    def _unfinished(self, reuse: Reuse) -> set[str]:
        left = [folder for folder in self._reads if folder not in reuse.valid]
        running = set(left)
        while left:
            for folder, names in self._reads[left.pop()]:
                gone = any(f"{folder}/{name}" in reuse.deleted for name in names)
                if gone and folder not in running:
                    running.add(folder)
                    left.append(folder)
        return running


def files_read(read: Read, producer: Rule) -> list[str]:
    """Return the files of another job that a job waits for, relative to that job's folder."""
    files = [RECORD]
    if producer.archive and any(key not in producer.streams for key in read.keys):
        files.append(ARCHIVE)
    files += [producer.streams[key] for key in read.keys if key in producer.streams]
    if producer.scope == "side" and producer.archive:
        files.append(ARCHIVE)
    return list(dict.fromkeys(files))

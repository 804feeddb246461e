"""FAST-HEP's progress of a run: which partitions of its plan are under way, done or lost."""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from fasthep_smk.run.job_counts import Tally

if TYPE_CHECKING:
    from fasthep_smk.flow.shapes import PlanPartition
    from fasthep_smk.plan.rules import Rule

_EXECUTING, _FINALIZING = "executing", "finalizing"


class Partitions:
    """Tells a reporter of FAST-HEP's of the partitions of a plan; a screen of our runs.

    A partition is done when all jobs that work on it are, those of other variations too. Where
    FAST-HEP has cut a file otherwise than we do, those of its file count.
    """

    def __init__(self, reporter: Any, partitions: Iterable[PlanPartition]) -> None:
        self._reporter = reporter
        self._partitions = list(partitions)
        #: By partition: the folders of jobs that are not done; and by folder, whose those are.
        self._left: dict[str, set[str]] = {partition.id: set() for partition in self._partitions}
        self._of: dict[str, list[str]] = {}
        #: By the marker of a bundle: the folders of its jobs.
        self._bundles: dict[str, list[str]] = {}
        self._open, self._finalizing = set(self._left), False
        self._tally = Tally()
        self._seen = 0

    def of(self, rules: Sequence[Rule], valid: Collection[str]) -> Partitions:
        """Take in which jobs there are; those whose folders are ``valid`` need not run."""
        self._bundles = {
            bundle.marker: [rule.jobs[key].folder for key in bundle.jobs]
            for rule in rules
            for bundle in rule.bundles.values()
        }
        self._left = _folders(self._partitions, rules)
        owners = defaultdict(list)
        for partition, folders in self._left.items():
            folders.difference_update(valid)
            for folder in folders:
                owners[folder].append(partition)
        self._of = dict(owners)
        return self

    def start(self) -> None:
        """Tell that the run has begun."""
        self._reporter.run_started()
        self._reporter.phase_started(_EXECUTING)

    def begin(self, tally: Tally) -> None:
        self._tally, self._seen = tally, 0
        self._close([name for name in self._left if not self._left[name]])

    def step(self) -> None:
        """Tell which partitions have begun and ended since the last time."""
        ended = self._tally.ended[self._seen :]
        self._seen += len(ended)
        touched = dict.fromkeys(self._owners((folder for _, folder in ended), done=True))
        finished = [name for name in touched if not self._left[name]]
        running = [*self._owners(self._tally.under_way), *touched]
        for name in dict.fromkeys(running):
            if name in self._open and name not in finished:
                self._reporter.running(name)
        self._close(finished)

    def end(self) -> None:
        """Tell that the run has succeeded: what was not run was done before."""
        self._close(self._left)
        self._reporter.phase_completed(_FINALIZING)
        self._reporter.run_completed()

    def fail(self, error: BaseException) -> None:
        """Tell that the run has failed, and which partitions."""
        for name in dict.fromkeys(self._owners(self._tally.lost)):
            if name in self._open:
                self._reporter.failed(name)
        self._reporter.run_failed(error)

    def say(self, text: str) -> None:
        print(text, file=sys.stderr, flush=True)

    def problem(self, text: str) -> None:
        self.say(text)

    def close(self) -> None:
        """Nothing is drawn again."""

    def _owners(self, places: Iterable[str], *, done: bool = False) -> Iterable[str]:
        """Yield whose jobs, or bundles of jobs, these are; ``done`` ones are crossed out."""
        for folder in (folder for place in places for folder in self._bundles.get(place, [place])):
            for name in self._of.get(folder, ()):
                if done:
                    self._left[name].discard(folder)
                yield name

    def _close(self, names: Iterable[str]) -> None:
        """Tell that partitions are done; with the last one, what is left is the end of the run."""
        closed = [name for name in names if name in self._open]
        for name in closed:
            self._reporter.completed(name)
            self._open.discard(name)
        if not self._open and not self._finalizing:
            self._finalizing = True
            self._reporter.phase_completed(_EXECUTING)
            self._reporter.phase_started(_FINALIZING)


def _folders(partitions: Iterable[PlanPartition], rules: Iterable[Rule]) -> dict[str, set[str]]:
    """Return the folders of the jobs that work on each partition."""
    by_part, by_file = defaultdict(set), defaultdict(set)
    for job in (job for rule in rules for job in rule.jobs.values()):
        if job.partition is not None:
            by_part[job.partition.dataset, job.partition.part].add(job.folder)
            by_file[job.partition.dataset, job.partition.file].add(job.folder)
    return {
        partition.id: set(
            by_part.get((partition.dataset, partition.part))
            or by_file[partition.dataset, partition.file]
        )
        for partition in partitions
    }

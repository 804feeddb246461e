"""The jobs of a run that are under way to workers and back, as Snakemake's executors see them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from fasthep_smk.storage import failures, products
from fasthep_smk.transfer.spool import Sending, Spool
from fasthep_smk.util.snakemake_types import SnakemakeJob

#: For how long what a job has left may not be seen here yet, in seconds.
_LATE = 60
#: What a batch system says of a job whose files were the problem; 75 and 76: no room to unpack
#: them, or they are damaged.
_OF_FILES = re.compile(r"transfer|exit ?code:? 7[56]\b", re.IGNORECASE)


@dataclass(frozen=True)
class TravelVerdict:
    """What became of a job, with what to say.

    It is ``done``, or has ``failed``, or its parcel, or what it sent back, is ``lost`` or damaged.
    """

    what: Literal["done", "lost", "failed"]
    message: str | None = None


class Tracker:
    """Jobs under way, by Snakemake's numbers of them."""

    def __init__(self, build: Path) -> None:
        self.spool = Spool(build)
        self._under_way: dict[int, Sending] = {}

    def leave(self, job: SnakemakeJob) -> Sending:
        """Pack what one of Snakemake's jobs needs.

        Raises:
            OSError, KeyError: something that it needs is not there.
        """
        self.forget(job)
        names = self.spool.names_of(job.rule.name)
        place = [str(getattr(job.wildcards, name)) for name in names]
        try:
            sending = self.spool.send(job.rule.name, place)
        except products.Damaged as error:
            self._tell_of_damage(job, place, error)
            raise
        self._under_way[job.jobid] = sending
        return sending

    def forget(self, job: SnakemakeJob) -> None:
        """Take back what one of Snakemake's jobs would be sent that was never queued."""
        sending = self._under_way.pop(job.jobid, None)
        if sending is not None:
            self.spool.clear(sending)

    def end(self, job: SnakemakeJob, message: str | None = None) -> TravelVerdict:
        """Take in what a job has sent back that has ended, with an error if there is a message.

        A job that did not leave is what the executor says.
        """
        sending = self._under_way.pop(job.jobid, None)
        if sending is None:
            return TravelVerdict("done" if message is None else "failed", message)
        try:
            # A job that was killed leaves nothing.
            arrival = self.spool.receive(sending, late=_LATE if message is None else 0)
        except OSError as error:  # there is no room here: the others under way are not to blame
            problem = failures.one_line(error)
            return TravelVerdict(
                "failed", f"the files that it sent back could not be put in place: {problem}"
            )
        if arrival.status == 0:
            return TravelVerdict("done")
        if arrival.status is not None:
            return TravelVerdict("failed", message or f"exit status {arrival.status}")
        # The worker has said so, all went well but for that, or it is named as the reason.
        lost = arrival.host is not None or message is None or _OF_FILES.search(message) is not None
        where = f" on {arrival.host}" if arrival.host else ""
        reason = f"{arrival.problem}{where}"
        return TravelVerdict(
            "lost" if lost else "failed", f"{message} ({reason})" if message else reason
        )

    def _tell_of_damage(self, job: SnakemakeJob, place: list[str], error: products.Damaged) -> None:
        """Let the job run again that has made something damaged, and then this one."""
        error.record.unlink(missing_ok=True)
        key = "/".join(place)
        problem = failures.one_line(error)
        record = str(next(iter(job.output), ""))
        failures.note(
            self.spool.build,
            failures.Failure(
                rule=job.rule.name, key=key, record=record, problem=problem, kind="damaged"
            ),
        )

"""What a job sends back: put into the build folder when all of it has arrived, records last."""

from __future__ import annotations

import shutil
import stat
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from fasthep_smk.storage import failures, layout
from fasthep_smk.transfer.archive import DamagedParcel, open_parcel, read_about
from fasthep_smk.transfer.expected import Expected
from fasthep_smk.util import files
from fasthep_smk.util.documents import JsonObject
from fasthep_smk.util.names import printable

#: What the archive of an environment ends with that cannot be unpacked.
_UNSTARTED = {
    "75": "no space to unpack its environment",
    "76": "its environment was damaged in transit",
}


@dataclass(frozen=True)
class Arrival:
    """How a job has ended: its exit status; ``None`` if it could not run, and why.

    ``host`` is where.
    """

    status: int | None
    problem: str | None = None
    host: str | None = None


def accept(
    build: Path, outcome: Path, rule: str, place: Iterable[str], *, probe: bool = False
) -> Arrival:
    """Put what a job has sent back into the build folder, all of it or nothing.

    Only what this job may make is taken (:class:`Expected`). A ``probe`` of the doctor's has no
    task.

    Raises:
        Damaged: it is not what was sent, or another job's, or holds what this job may not make.
        OSError: there is no room.
    """
    if not stat.S_ISREG(outcome.lstat().st_mode):
        raise DamagedParcel(f"{outcome.name} is not a file")
    if (unstarted := _unstarted(outcome)) is not None:
        return unstarted
    about = read_about(outcome)
    arrival = _arrival(outcome, about)
    if arrival.status is None:
        return arrival
    if (about.get("rule"), about.get("place")) != (rule, list(place)):
        raise DamagedParcel(f"{outcome.name} belongs to another job")
    expected = Expected(build, rule, place, probe=probe)
    gone = about.get("gone", [])
    if not isinstance(gone, list) or not all(isinstance(name, str) for name in gone):
        raise DamagedParcel(f"{outcome.name} does not list the missing files")
    (build / layout.STAGE).mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix=".arrival-", dir=build / layout.STAGE))
    try:
        names = list(open_parcel(outcome, folder, may_hold=expected.may_hold))
        expected.check(folder, names)
        files.sync_all(folder / name for name in names)
        _put(folder, build, names)
        for name in gone:
            if expected.may_remove(name):  # its job, which has made something damaged, runs again
                (build / name).unlink(missing_ok=True)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return arrival


def _arrival(outcome: Path, about: JsonObject) -> Arrival:
    """Return what a worker says of a job; its texts are for a terminal."""
    status, problem, host = about.get("status"), about.get("problem"), about.get("host")
    ended = type(status) is int and -256 < status < 256
    if not (ended or (status is None and problem)) or not all(
        text is None or isinstance(text, str) for text in (problem, host)
    ):
        raise DamagedParcel(f"{outcome.name} does not say how its job ended")
    return Arrival(status, problem and printable(problem), host and printable(host))


def _unstarted(outcome: Path) -> Arrival | None:
    """Return why there was no job: ``node.sh`` leaves an exit status and its host's name then."""
    with outcome.open("rb") as stream:
        status, _, host = stream.read(200).decode("utf-8", "replace").strip().partition(" ")
    problem = _UNSTARTED.get(status)
    return None if problem is None else Arrival(None, problem, printable(host))


def _put(folder: Path, build: Path, names: list[str]) -> None:
    """Move files into the build: what says that others are there comes after them."""
    for name in names:
        if _rank(name) == 1:  # what an earlier attempt has left is no part of the result
            shutil.rmtree((build / name).parent, ignore_errors=True)
            _, _, rule, *place = Path(name).parts[:-1]
            failures.clear(build, rule, "/".join(place))
    for rank in range(3):
        mine = [name for name in names if _rank(name) == rank]
        for name in mine:
            (build / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).replace(build / name)
        files.sync_all({(build / name).parent for name in mine})


def _rank(name: str) -> int:
    """Return 1 for the record of a job, 2 for the marker of a bundle, 0 for all else."""
    if layout.is_record(name):
        return 1
    return 2 if name.startswith(f"{layout.BUNDLES}/") else 0

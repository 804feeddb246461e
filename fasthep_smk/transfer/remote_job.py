"""``python -m fasthep_smk.transfer.remote_job PARCEL OUTCOME``: a job that came in a parcel.

It runs in a folder of its own, in which all that it was sent lies where the job expects it, and
what it has made goes back in another parcel: also what it says of its failure.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from types import FrameType
from typing import NoReturn

from fasthep_smk.storage import layout, observed
from fasthep_smk.storage.job_settings import keep_log
from fasthep_smk.transfer.archive import DamagedParcel, open_parcel, read_about, write_parcel
from fasthep_smk.transfer.credentials import lay_out
from fasthep_smk.transfer.job_files import BUILD, LAUNCH
from fasthep_smk.transfer.path_mapping import Places
from fasthep_smk.util import files
from fasthep_smk.util.documents import JsonObject
from fasthep_smk.util.scratch import scratch
from fasthep_smk.worker.processes import LOG
from fasthep_smk.worker.refused import SENT

#: As from the archive that brings the environment: the parcel is damaged; there is no room for it.
_DAMAGED, _NO_ROOM = 76, 75
#: A longer text of the user's is sent back as it is.
_TEXT = 50_000_000
#: Seconds that a job gets to end by itself when the batch system takes it back.
_GRACE = 5
Seen = dict[str, tuple[int, int, int]]


def main(arguments: list[str]) -> int:
    """Run the job in a parcel, and write what it made into another; return its exit status."""
    parsed = _parser().parse_args(arguments)
    parcel, outcome = Path(parsed.parcel).absolute(), Path(parsed.outcome).absolute()
    signal.signal(signal.SIGTERM, _end)
    with scratch("job-") as temporary:
        folder = temporary.resolve()
        try:
            listed = open_parcel(parcel, folder)
            about = read_about(parcel)
            variables = lay_out(parsed.credential, folder / "credentials")
        except DamagedParcel as error:
            return _give_up(outcome, _DAMAGED, str(error))
        except OSError as error:
            return _give_up(outcome, _NO_ROOM, f"its files cannot be unpacked: {error}")
        there = Places({old: str(folder / new) for old, new in about["places"].items()})
        for name in (BUILD, LAUNCH, *about["places"].values()):
            if name in (BUILD, LAUNCH) or "/" not in name:
                (folder / name).mkdir(exist_ok=True)
        _rename(folder / BUILD, listed, there)
        before = _seen(folder / BUILD)
        status = _run(folder / BUILD, about, parsed, {**variables, **_home(folder)})
        after = _seen(folder / BUILD)
        changed = [name for name, seen in after.items() if before.get(name) != seen]
        changed = _name_back(folder / BUILD, changed, there.back())
        gone = [name for name in before if name not in after]  # of what turned out to be damaged
        facts = {**about, "status": status, "host": os.uname().nodename, "gone": gone}
        write_parcel(outcome, {name: folder / BUILD / name for name in changed}, facts)
    return status


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="remote_job", description="Run a job that was sent.")
    parser.add_argument("parcel", help="what was sent")
    parser.add_argument("outcome", help="what goes back")
    parser.add_argument("--attempt", type=int, default=1, help="how often it was tried, from 1")
    parser.add_argument("--threads", type=int, default=1, help="how many cpus it may use")
    parser.add_argument("--credential", action="append", default=[], help="KIND=FILE")
    return parser


def _end(_number: int, _frame: FrameType | None) -> NoReturn:
    """Let the folder and the job go when the batch system takes the job back."""
    raise SystemExit(143)


def _give_up(outcome: Path, status: int, problem: str) -> int:
    print(problem, file=sys.stderr)
    write_parcel(outcome, {}, {"status": None, "problem": problem, "host": os.uname().nodename})
    return status


def _home(folder: Path) -> dict[str, str]:
    """Return variables for a job whose home is another machine's."""
    if os.access(os.environ.get("HOME", ""), os.W_OK):
        return {}
    (folder / "home").mkdir(exist_ok=True)
    return {"HOME": str(folder / "home")}


def _run(
    build: Path, about: JsonObject, parsed: argparse.Namespace, variables: dict[str, str]
) -> int:
    rule, place = about["rule"], about["place"]
    log = layout.log(rule, place)
    (build / log).parent.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-P", "-m"]
    if probe := about.get("probe"):
        command += ["fasthep_smk.worker.probe", probe]
    else:
        options = ["--attempt", str(parsed.attempt), "--threads", str(parsed.threads)]
        command += ["fasthep_smk.worker", *options, "--", rule, *place]
    with (build / log).open("wb") as stream:
        own = keep_log(build, log, parsed.attempt)
        environment = {**os.environ, **variables, LOG: own, SENT: "1"}
        environment[layout.SUBMITTED] = str(about.get("submitted", ""))
        job = subprocess.Popen(command, cwd=build, env=environment, stdout=stream, stderr=stream)
        try:
            return job.wait()
        finally:
            _stop(job)


def _stop(job: subprocess.Popen[bytes]) -> None:
    """End the job if it goes on: it ends what it has started, unless it is killed."""
    job.terminate()
    with contextlib.suppress(subprocess.TimeoutExpired):
        job.wait(_GRACE)
    job.kill()


def _seen(build: Path) -> Seen:
    """Return the files below a build folder that a job may leave there."""
    seen: Seen = {}
    for folder, _, names in os.walk(build):
        for name in names:
            path = Path(folder, name)
            status = path.lstat()
            place = str(path.relative_to(build))
            if path.is_file() and not place.startswith(f"{layout.STAGE}/"):
                seen[place] = (status.st_size, status.st_mtime_ns, status.st_ino)
    return seen


def _rename(build: Path, listed: Iterable[str], places: Places) -> None:
    """Let the job's task and plan name the paths of this machine."""
    for name in listed:
        path = build.parent / name
        if name.endswith(".json") and path.name != layout.RECORD and build in path.parents:
            path.write_text(places.text(path.read_text(encoding="utf-8")), encoding="utf-8")


def _name_back(build: Path, names: list[str], places: Places) -> list[str]:
    """Let what goes back name the paths of the machine that it goes to; return the files' names.

    Observations are named by their content.
    """
    changed: dict[str, files.FileFacts] = {}
    sealed = [name for name in names if layout.is_sealed(name)]
    for name in names:
        path = build / name
        if name not in sealed and path.stat().st_size <= _TEXT:
            with contextlib.suppress(UnicodeDecodeError):
                old = path.read_bytes().decode("utf-8")
                if (new := places.text(old)) != old:
                    path.write_bytes(new.encode("utf-8"))
                    changed[name] = files.described(path)
    renamed: dict[str, str] = {}
    records = [name for name in sealed if layout.is_record(name)]
    for name in sealed:
        if name not in records:
            content = places.value(files.unseal((build / name).read_bytes()))
            (build / name).unlink()
            digest = observed.digest_of(content["observations"])
            renamed[Path(name).stem] = digest
            (build / layout.observed(digest)).write_text(files.seal(content), encoding="utf-8")
    for name in records:
        content = places.value(files.unseal((build / name).read_bytes()))
        results = content["results"]
        results |= {result: new for result, new in changed.items() if result in results}
        content["observed"] = [renamed.get(digest, digest) for digest in content["observed"]]
        (build / name).write_text(files.seal(content), encoding="utf-8")
    others = [name for name in names if name not in sealed]
    return [*others, *map(layout.observed, dict.fromkeys(renamed.values())), *records]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

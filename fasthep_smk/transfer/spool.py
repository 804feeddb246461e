"""The spool: where what jobs are sent and what they send back lies, on this side."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from fasthep_smk.storage import layout
from fasthep_smk.transfer.archive import DamagedParcel, write_parcel
from fasthep_smk.transfer.credentials import credential_files, refuse_unsendable
from fasthep_smk.transfer.job_files import load_of
from fasthep_smk.transfer.receive import Arrival, accept

if TYPE_CHECKING:
    from fasthep_smk.storage.job_settings import Travel

#: What a worker runs first, as it is installed.
NODE = Path(__file__).with_name("node.sh")
_CREDENTIALS = "credentials"


@dataclass(frozen=True)
class Sending:
    """A job under way: its rule and wildcards' values, and its files.

    These are relative to the build folder, or absolute paths in the spool. ``credentials`` are
    files by kind, absolute paths.
    """

    rule: str
    place: tuple[str, ...]
    parcel: str
    outcome: str
    credentials: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Spool:
    """The spool of a build folder."""

    build: Path

    @cached_property
    def _settings(self) -> Travel:
        text = (self.build / layout.TRANSFER).read_text(encoding="utf-8")
        content: Travel = json.loads(text)
        return content

    @property
    def python(self) -> str:
        """The Python of jobs, or the archive of one: a path on workers, or relative to the build.

        In a spool, workers find the archive there.
        """
        python = str(self._settings["python"])
        if self.spool is not None and self.brings_python:
            return str(self.spool / Path(python).name)
        return python

    @property
    def spool(self) -> Path | None:
        """The folder that workers see, where the batch system sends nothing."""
        folder = self._settings.get("spool")
        return Path(folder) if folder else None

    @property
    def node(self) -> Path:
        """What a worker runs first: a copy, which the batch system can read as it can parcels."""
        return (self.spool or self.build / layout.DEPOT) / NODE.name

    def command(self, sending: Sending, *, attempt: int, threads: int) -> list[str]:
        """Return what a worker runs that sees the spool."""
        assert self.spool is not None, "this batch system sends the files itself: there is no spool"
        options = ["--attempt", str(attempt), "--threads", str(threads)]
        for kind, path in sending.credentials.items():
            options += ["--credential", f"{kind}={path}"]
        return ["sh", str(self.node), sending.parcel, sending.outcome, self.python, *options]

    @property
    def brings_python(self) -> bool:
        """Whether jobs are sent their Python."""
        return bool(self._settings["brings_python"])

    def names_of(self, rule: str) -> list[str]:
        """Return which wildcards name the jobs of a rule, in order."""
        return list(self._settings["wildcards"][rule])

    def send(self, rule: str, place: Sequence[str]) -> Sending:
        """Pack what a job needs.

        Raises:
            OSError, KeyError: something that it needs is not there.
            SmkError: a credential cannot be sent from where it is.
        """
        sending = self.sending(rule, place)
        if self._settings.get("probes"):
            about = {"rule": rule, "place": [], "places": {}, "probe": f"{rule}.json"}
            write_parcel(self.build / sending.parcel, {}, about)
            return sending
        load = load_of(self.build, rule, place, shared=self._settings["shared"])
        paths = credential_files(self.build)
        if self.spool is None:
            refuse_unsendable(paths)
        else:
            paths = {kind: self._put(kind, path) for kind, path in paths.items()}
        write_parcel(self.build / sending.parcel, load.content, load.about())
        return replace(sending, credentials={kind: str(path) for kind, path in paths.items()})

    def _put(self, kind: str, path: Path) -> Path:
        """Put a credential into the spool, as it is now, for nobody else to read."""
        assert self.spool is not None, "this batch system sends the files itself: there is no spool"
        folder = self.spool / _CREDENTIALS
        folder.mkdir(mode=0o700, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=folder)  # of mode 600
        with os.fdopen(handle, "wb") as stream:
            stream.write(path.read_bytes())
        return Path(name).replace(folder / kind)

    def forget_credentials(self) -> None:
        """Leave no credential in the spool: no job is under way."""
        if self.spool is not None:
            shutil.rmtree(self.spool / _CREDENTIALS, ignore_errors=True)

    def close(self) -> None:
        """Leave no parcel, and nothing secret, behind when a run has ended."""
        shutil.rmtree(self.build / layout.DEPOT, ignore_errors=True)
        if self.spool is not None and self._settings.get("probes"):
            shutil.rmtree(self.spool, ignore_errors=True)  # no later run has the same one
        elif self.spool is not None:
            self.forget_credentials()
            for path in self.spool.rglob("*.tar"):
                path.unlink(missing_ok=True)

    def sending(self, rule: str, place: Sequence[str]) -> Sending:
        """Return where a job's files are on this side, for this one time that it is sent.

        One that was sent before, by a run that was killed, may still be under way: what it leaves
        may be of another version of the workflow, and it takes its own parcel away.
        """
        top = layout.DEPOT if self.spool is None else str(self.spool)
        name = "/".join((top, rule, *(place or (rule,)))) + f".{secrets.token_hex(4)}"
        return Sending(rule, tuple(place), f"{name}.parcel.tar", f"{name}.outcome.tar")

    def receive(self, sending: Sending, *, late: float = 0) -> Arrival:
        """Put what a job has sent back in its place, and clear its files away.

        In a spool it is waited for, as many seconds as it may be ``late``.

        Raises:
            OSError: there is no room for it.
        """
        if self.spool is not None:
            _await(Path(sending.outcome), late)
        try:
            probe = bool(self._settings.get("probes"))
            outcome = self.build / sending.outcome
            return accept(self.build, outcome, sending.rule, sending.place, probe=probe)
        except DamagedParcel as error:
            return Arrival(None, str(error))
        except FileNotFoundError:
            return Arrival(None, "nothing came back")
        finally:
            self.clear(sending)

    def clear(self, sending: Sending) -> None:
        """Remove the files of a job that is not under way."""
        for name in (sending.parcel, sending.outcome):
            (self.build / name).unlink(missing_ok=True)


def _await(path: Path, seconds: float) -> None:
    """Wait for a file of another machine: a shared file system may show it, or all of it, late."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        with contextlib.suppress(OSError):
            list(path.parent.iterdir())  # what is known of the folder is looked up again
            if path.stat().st_size > 0:
                return
        time.sleep(0.2)

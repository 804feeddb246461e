"""A job that lacks a valid credential: it waits for a renewed one, and starts again.

Snakemake counts every failure as an attempt. An attempt is for what may go better elsewhere or with
more memory; a credential that has ended would use up all of them, on every worker. So the job
itself waits, holding its slot, as long as its time limit leaves what it needs: as much as it took
before. It then starts again in the same process, by ``exec``: libraries such as XRootD's client
remember how they have authenticated.
"""

from __future__ import annotations

import json
import math
import os
import socket
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from fasthep_smk.credentials.refusals import is_refusal
from fasthep_smk.storage import failures
from fasthep_smk.util import last_words
from fasthep_smk.util.errors import SmkError
from fasthep_smk.worker.job_end import DONE

if TYPE_CHECKING:
    from fasthep_smk.config.credentials import Kind, Requirement, RequirementData
    from fasthep_smk.credentials.credential import Credential
    from fasthep_smk.credentials.validity import Lack

__all__ = ["CLOCKS", "SENT", "Refused", "Tries", "tries_of"]

#: Says that a job was sent its credentials: no other ones will come to where it is.
SENT = "FASTHEP_SMK_SENT"

#: Tells a job that starts again when it started first, and which bundle it is of.
_VARIABLE = "FASTHEP_SMK_AGAIN"
#: For how long a job waits that has no time limit, and how long between two looks, in seconds.
_PATIENCE, _PAUSE = 24 * 3600.0, 1.0
#: A file that is replaced may be away for a moment; where there is none, none will come: the worker
#: does not see it.
_MOMENT = 60.0
#: How much more time than before a job may take when it starts again.
_ROOM = 1.2
#: A server's clock may differ: what it refuses may have seconds left here.
CLOCKS = 30.0
_UNKNOWN = (
    "require it under execution.credentials, so that it is checked before and during a run; "
    "'fasthep-smk doctor' shows those that are there"
)
_NOT_THE_ONE = "is it the right one for this server? 'fasthep-smk doctor WORKFLOW' shows it"


class Refused(SmkError):
    """A credential has ended or was refused, and no other has come in time.

    ``fix`` says what to do, ``cause`` is the error that has shown it, if there was one; ``stage``
    and ``impl`` are where that was raised.
    """

    def __init__(self, message: str, fix: str, error: BaseException | None = None) -> None:
        super().__init__(message)
        self.fix = fix
        self.cause = getattr(error, "cause", error)
        self.stage = getattr(error, "stage", None)
        self.impl = getattr(error, "impl", None)


@dataclass
class Tries:
    """A job's tries within one attempt of Snakemake's.

    ``since`` is when the first began, ``begun`` this one, in seconds since 1970; ``walltime`` is
    for all of them. ``at_start`` is what was known of the credentials when this one began. ``note``
    is told why the job waits, and ``None`` when it does not any more.
    """

    required: tuple[Requirement, ...]
    walltime: float | None
    since: float
    begun: float
    at_start: dict[Kind, Credential]
    note: Callable[[str | None], None] = lambda _: None

    @property
    def used(self) -> float:
        """Seconds of the time limit that are over."""
        return time.time() - self.since

    def wait_to_begin(self) -> None:
        """Wait while a required credential has ended.

        Raises:
            Refused: half of the time is over, and it is not renewed.
        """
        if not self.required:
            return
        left = _PATIENCE if self.walltime is None else (self.walltime - self.used) / 2
        self._wait(left, None, 0)
        self.at_start = self._look()
        self.begun = time.time()

    def settle(self, error: BaseException, file: str | None) -> Refused | None:
        """Return what an error means if it is that of a credential that was not renewed in time.

        ``None`` if it is renewed: the job may start again. ``file`` is the job's input file.

        Raises:
            LookupError: the error has nothing to do with credentials.
        """
        if isinstance(error, Refused):
            return error
        refused = is_refusal(error, file)
        margin = CLOCKS if refused else 0.0
        if self.required and self._lacking(margin):
            spent = _ROOM * (time.time() - self.begun)
            left = _PATIENCE if self.walltime is None else self.walltime - self.used - spent
            try:
                self._wait(left, error, margin)
            except Refused as verdict:
                return verdict
            return None
        if not refused:
            raise LookupError
        # Where tokens are renewed all the time, that may be so at each try.
        if self.required and self.used < _PATIENCE and self._look() != self.at_start:
            return None  # renewed while the job went on with the old one
        fix = _NOT_THE_ONE if self.required else _UNKNOWN
        what = f"a server refused its credential: {failures.one_line(error)}"
        return Refused(what, fix, error)

    def start(self, build: Path, command: Sequence[str], **more: str | None) -> NoReturn:
        """Become the job anew; ``more`` is for :func:`tries_of` to give back."""
        os.chdir(build)
        os.environ[_VARIABLE] = json.dumps({"since": self.since, **more})
        sys.stdout.flush()
        sys.stderr.flush()
        last_words.say(**{DONE: ""})  # what comes now speaks for itself, and has its own limit
        last_words.end_by(math.inf)
        os.execv(command[0], list(command))

    def _look(self) -> dict[Kind, Credential]:
        from fasthep_smk.credentials.checks import look

        return dict(look(one.kind for one in self.required))

    def _lacking(self, margin: float) -> list[Lack]:
        from fasthep_smk.credentials.validity import lacking

        return [*lacking(self.required, now=time.time() + margin).values()]

    def _wait(self, patience: float, error: BaseException | None, margin: float) -> None:
        """Wait until nothing lacks."""
        start, told = time.time(), False
        patience = 0.0 if os.environ.get(SENT) else patience
        while missing := self._lacking(margin):
            why = "; ".join(one.why for one in missing)
            fix = "; ".join(one.fix for one in missing)
            left = min(patience, _MOMENT) if any(one.gone for one in missing) else patience
            if time.time() >= start + left:
                text = f"{why}, and no new one came in time, on {socket.gethostname()}"
                text += f" ({failures.one_line(error)})" if error is not None else ""
                raise Refused(text, fix, error)
            if not told:
                self.note(why)
                print(f"{why}: waiting for a new one: {fix}", file=sys.stderr, flush=True)
            told = True
            time.sleep(_PAUSE)
        if told:
            self.note(None)
            print("there is a new one: the job starts", file=sys.stderr, flush=True)


def tries_of(
    required: Sequence[RequirementData], walltime: float | None
) -> tuple[Tries, dict[str, str | None]]:
    """Return the tries of a job that begins, and what :meth:`Tries.start` was given if it is anew.

    ``required`` are the credentials that it needs, as the translation has written them.
    """
    try:
        said = json.loads(os.environ.pop(_VARIABLE, "{}"))
        since = float(said.pop("since", time.time()))
    except (ValueError, AttributeError, TypeError):
        said, since = {}, time.time()
    requirements: tuple[Requirement, ...] = ()
    if required:  # most need none, and import nothing
        from fasthep_smk.config.credentials import Requirement

        requirements = tuple(map(Requirement.from_data, required))
    return Tries(requirements, walltime, since, time.time(), {}), said

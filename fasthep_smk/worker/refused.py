"""What an error of a job says of its credentials: one has ended, or a server has refused it.

The job ends then, and its note says so. Where it is tried again, that is no other attempt, and not
before the credential is renewed (:mod:`fasthep_smk.executors.retries`): else it would use up all of
them, on every worker.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from fasthep_smk.credentials.refusals import is_refusal
from fasthep_smk.storage import failures
from fasthep_smk.util.errors import SmkError

if TYPE_CHECKING:
    from fasthep_smk.config.credentials import RequirementData

#: Says that a job was sent its credentials: no other ones will come to where it is.
SENT = "FASTHEP_SMK_SENT"
_UNKNOWN = (
    "list the credential under execution.credentials, so that the run checks it; "
    "'fasthep-smk doctor' shows your credentials"
)
_NOT_THE_ONE = (
    "check that the credential is right for this server: 'fasthep-smk doctor WORKFLOW' shows which "
    "one is used"
)


class Refused(SmkError):
    """A credential has ended or was refused.

    ``fix`` says what to do, ``cause`` is the error that has shown it, if there was one; ``stage``
    and ``impl`` are where that was raised.
    """

    def __init__(self, message: str, fix: str, error: BaseException | None = None) -> None:
        super().__init__(message)
        self.fix = fix
        self.cause = getattr(error, "cause", error)
        self.stage = getattr(error, "stage", None)
        self.impl = getattr(error, "impl", None)


def stop_without(required: Sequence[RequirementData]) -> None:
    """Let a job not begin without the credentials that it needs, as the translation wrote them.

    Raises:
        Refused: one has ended, or is not there.
    """
    if (refused := _lacking(required)) is not None:
        raise refused


def refusal(
    error: BaseException, file: str | None, required: Sequence[RequirementData]
) -> Refused | None:
    """Return what an error means if it is that of a credential; ``file`` is the job's input file.

    What a library makes of a refusal is often no word of refusal: any error of a job whose
    credential has ended counts.
    """
    if isinstance(error, Refused):
        return error
    is_refused = is_refusal(error, file)
    refused = _lacking(required, error, is_refused=is_refused)
    if refused is not None or not is_refused:
        return refused
    problem = f"a server refused its credential: {failures.one_line(error)}"
    return Refused(problem, _NOT_THE_ONE if required else _UNKNOWN, error)


def _lacking(
    required: Sequence[RequirementData],
    error: BaseException | None = None,
    *,
    is_refused: bool = False,
) -> Refused | None:
    if not required:  # most need none, and import nothing
        return None
    from fasthep_smk.config.credentials import Requirement
    from fasthep_smk.credentials.checks import CLOCKS, lacking

    moment = time.time() + (CLOCKS if is_refused else 0.0)
    missing = [*lacking(map(Requirement.from_data, required), now=moment).values()]
    if not missing:
        return None
    cause = f" ({failures.one_line(error)})" if error is not None else ""
    why = f"{'; '.join(lack.why for lack in missing)}, on {socket.gethostname()}{cause}"
    return Refused(why, "; ".join(lack.fix for lack in missing), error)

"""Whether an error is a server's refusal of a credential, as XRootD and https put it."""

from __future__ import annotations

import re

from fasthep_smk.util.errors import chain_of

#: XRootD's "[3010]" is kXR_NotAuthorized, "[3030]" kXR_AuthFailed; 401 and 403 are https's.
_TEXT = re.compile(
    r"\bauth(?:entication|orization)? failed|\[fatal\] auth failed|\[30(?:10|30)\]"
    r"|\b(?:http error|status(?: code)?:?|error:?) 40[13]\b"
    r"|\b40[13],? (?:client error|unauthorized|forbidden|message=)"
    r"|certificate (?:has |is )?expired|certificate_expired|proxy (?:certificate )?(?:has )?expired"
    r"|token (?:has |is )?expired|no (?:valid )?credentials? (?:found|available)",
    re.IGNORECASE,
)
#: These may as well be about a file of this machine.
_OF_XROOTD = re.compile(r"permission denied|not authorized", re.IGNORECASE)
_XROOTD = re.compile(r"\bx?roots?://", re.IGNORECASE)
_STATUS = (401, 403)


def is_refusal(error: BaseException, file: str | None = None) -> bool:
    """Whether an error, or one that has led to it, says that a credential was refused.

    ``file`` is the input file of the job.
    """
    # A stage's error holds the one that was raised in it.
    causes = [*chain_of(error)]
    held = [getattr(outer, "cause", None) for outer in causes]
    for inner in held:
        causes += chain_of(inner) if isinstance(inner, BaseException) else ()
    for cause in causes:
        text = str(cause)
        if _TEXT.search(text) or any(
            getattr(cause, name, None) in _STATUS for name in ("code", "status", "status_code")
        ):
            return True
        if _OF_XROOTD.search(text) and _XROOTD.search(f"{text} {file or ''}"):
            return True
    return False

"""The Kerberos ticket of this user, as ``klist`` tells of it."""

from __future__ import annotations

import re
from contextlib import suppress
from datetime import datetime
from pathlib import Path

from fasthep_smk.credentials.credential import Credential
from fasthep_smk.sites.commands import ask

_CACHE = re.compile(r"^\s*(?:Ticket cache|Credentials cache): (\S+)", re.MULTILINE)
_PRINCIPAL = re.compile(r"^\s*(?:Default principal|Principal): (\S+)", re.MULTILINE)
#: MIT's and Heimdal's: begin and end of the ticket that all others are asked for with.
_TICKET = re.compile(
    r"^\s*(?P<begin>\S.*?\d\d:\d\d:\d\d(?: \d{4})?)\s\s+(?P<end>\S.*?)\s\s+krbtgt/", re.MULTILINE
)
_FORMATS = ("%m/%d/%y %H:%M:%S", "%m/%d/%Y %H:%M:%S", "%b %d %H:%M:%S %Y")


def find_ticket() -> Credential | None:
    """Return this user's ticket; ``None`` if there is none, or no ``klist`` to ask."""
    answer = ask(["klist"], {"LC_ALL": "C"})
    if answer is None:
        return None
    cache = _CACHE.search(answer)
    where = cache[1] if cache else "the default cache"
    path = Path(where.removeprefix("FILE:")) if where.startswith(("FILE:", "/")) else None
    principal = _PRINCIPAL.search(answer)
    subject = principal[1] if principal else None
    mode = None
    if path is not None:
        with suppress(OSError, ValueError):
            mode = path.stat().st_mode & 0o7777
    ticket = _TICKET.search(answer)
    begin = _time(ticket["begin"]) if ticket else None
    end = _end(ticket["end"], begin) if ticket else None
    if end is None:
        problem = "klist shows no ticket-granting ticket with an end time"
        return Credential("kerberos", where, path, problem=problem, subject=subject, mode=mode)
    return Credential(
        "kerberos",
        where,
        path,
        subject=subject,
        issuer=subject.rpartition("@")[2] if subject else None,
        begin=begin,
        end=end,
        mode=mode,
    )


def _end(text: str, begin: float | None) -> float | None:
    """Return the end; Heimdal does not say when an expired ticket has ended."""
    return begin if "Expired" in text else _time(text)


def _time(text: str) -> float | None:
    for form in _FORMATS:
        with suppress(ValueError, OverflowError):
            return datetime.strptime(" ".join(text.split()), form).timestamp()  # of this machine
    return None

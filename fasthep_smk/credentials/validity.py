"""Which required credentials jobs have to wait for, and that they have come back."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from fasthep_smk.config.credentials import CredentialKind, Requirement
from fasthep_smk.credentials.checks import lack, look, renewal
from fasthep_smk.credentials.credential import NAMES, Credential, moment

#: Seconds by which a server's clock may differ: what it refuses may have some left here.
CLOCKS = 30.0


@dataclass(frozen=True)
class MissingCredential:
    """Why jobs wait for a credential, and what to do."""

    why: str
    fix: str

    def __str__(self) -> str:
        return f"{self.why}: jobs wait until you renew it: {self.fix}"


def lacking(
    required: Iterable[Requirement],
    *,
    now: float | None = None,
    there: Mapping[CredentialKind, Credential] | None = None,
) -> dict[CredentialKind, MissingCredential]:
    """Return which required credentials have ended at the time ``now``, or are gone.

    ``there`` are those that a look has just found.
    """
    # Without klist, a ticket that is there cannot be told from one that is not.
    wanted = [
        requirement
        for requirement in required
        if requirement.kind != "kerberos" or shutil.which("klist")
    ]
    credentials = look(requirement.kind for requirement in wanted) if there is None else there
    now = time.time() if now is None else now
    missing: dict[CredentialKind, MissingCredential] = {}
    for requirement in wanted:
        credential = credentials.get(requirement.kind)
        if why := lack(requirement, credential, now=now):
            missing[requirement.kind] = MissingCredential(why, renewal(requirement, credential))
    return missing


def renewed(kinds: Iterable[CredentialKind]) -> list[str]:
    """Return lines that say of which credentials jobs do not wait any more."""
    return [
        f"the {NAMES[kind]} was renewed"
        + (f" and is valid until {moment(credential.end)}" if credential.end is not None else "")
        + ": jobs continue"
        for kind, credential in look(kinds).items()
    ]

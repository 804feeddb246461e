"""The credentials of this user: what is wrong, how to renew them, when jobs wait for them."""

from __future__ import annotations

import math
import os
import shutil
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from fasthep_smk.config.credentials import KINDS, CredentialKind, Requirement
from fasthep_smk.credentials import proxies
from fasthep_smk.credentials.credential import NAMES, Credential, moment
from fasthep_smk.credentials.kerberos import find_ticket
from fasthep_smk.credentials.proxies import find_proxy
from fasthep_smk.credentials.tokens import FILE_VARIABLE, VARIABLE, find_token
from fasthep_smk.util.names import shell

_FINDERS = {"x509": find_proxy, "token": find_token, "kerberos": find_ticket}
#: For how many hours a proxy is asked for where nothing better is known.
_HOURS = 24
#: Clocks differ: what becomes valid within this many seconds is taken to be valid.
_CLOCKS = 60
#: Seconds by which a server's clock may differ: what it refuses may have some left here.
CLOCKS = 30.0


def look(kinds: Iterable[CredentialKind] = KINDS) -> dict[CredentialKind, Credential]:
    """Return the credentials that are there, readable or not."""
    credentials = {kind: _FINDERS[kind]() for kind in kinds}
    return {kind: credential for kind, credential in credentials.items() if credential is not None}


@dataclass(frozen=True)
class CredentialProblem:
    """Something wrong with a required credential, and what to do about it.

    ``early``: it is valid now, and expires before a job that starts now may end.
    """

    required: Requirement
    what: str
    found: str | None
    expected: str
    fix: str
    early: bool = False


def problems(
    required: Requirement, credential: Credential | None, *, now: float, until: float | None = None
) -> list[CredentialProblem]:
    """Return what is wrong with a credential that jobs need until the time ``until``."""
    name = NAMES[required.kind]
    wanted = f"a valid {name}" + (
        f" until {moment(until)}, when the longest job may end" if until else ""
    )
    renew = renewal(required, credential, (until or now) - now)
    if credential is None:
        return [CredentialProblem(required, f"there is no {name}", None, wanted, renew)]
    where, wrong = credential.where, list[CredentialProblem]()

    def add(
        what: str, found: str, expected: str = wanted, fix: str = renew, *, early: bool = False
    ) -> None:
        wrong.append(CredentialProblem(required, what, f"{where}: {found}", expected, fix, early))

    if credential.problem is not None:
        add(f"the {name} cannot be read", credential.problem)
        return wrong
    if credential.is_open:
        close = shell(["chmod", "600", credential.path or where])
        add(f"others may read the {name}", f"mode {credential.mode:03o}", "mode 600", close)
    # Of a proxy whose attributes cannot be read it is only known that it has some.
    vos = credential.vos if credential.vos or not credential.attested else required.voms
    if lacking := [vo for vo in required.voms if vo not in vos]:
        problem = f"the {name} has no VOMS attributes of {', '.join(lacking)}"
        expected = f"VOMS attributes of {', '.join(required.voms)}"
        add(problem, ", ".join(credential.vos) or "no VOMS attributes", expected)
    if required.issuer and (credential.issuer or "").rstrip("/") != required.issuer.rstrip("/"):
        issued = f"issued by {credential.issuer or 'an unknown authority'}"
        add(f"the {name} was issued by another authority", issued, required.issuer)
    if credential.begin is not None and credential.begin > now + _CLOCKS:
        begins = f"valid from {moment(credential.begin)}"
        hint = "wait, or check the clock of this machine"
        add(f"the {name} is not valid yet", begins, fix=hint)
    elif credential.has_ended(now):
        add(f"the {name} has expired", f"expired {moment(credential.end or now)}")
    elif until is not None and credential.end is not None and credential.end < until:
        problem = f"the {name} expires before the longest job may end"
        add(problem, f"expires {moment(credential.end)}", early=True)
    return wrong


def renewal(required: Requirement, found: Credential | None, seconds: float = 0) -> str:
    """Return how to get a new one; it has to last for ``seconds``."""
    if required.kind == "kerberos":
        return "kinit"
    if required.kind == "x509":
        voms = [word for name in required.voms for word in ("--voms", name)]
        hours = max(_HOURS, math.ceil(seconds / 3600) + 1)
        return shell(["voms-proxy-init", *voms, "--valid", f"{hours}:00", *_place(found)])
    issuer = f" from {required.issuer}" if required.issuer else ""
    if found is not None and found.path is None:
        return (
            f"get a new token{issuer}, write it into a file of mode 600, set {FILE_VARIABLE} to "
            f"the path of this file, and unset {VARIABLE} (a token in a variable cannot be renewed "
            "during a run)"
        )
    where = f"{found.path}" if found is not None else f"a file whose path is in {FILE_VARIABLE}"
    return f"get a new token{issuer} (htgettoken, oidc-token), and write it to {where}, mode 600"


def _place(credential: Credential | None) -> list[str]:
    """Return where a proxy has to be written, if not where it is by default."""
    path = str(credential.path) if credential is not None else os.environ.get(proxies.VARIABLE)
    return ["--out", path] if path and path != proxies.default_path() else []


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


def lack(required: Requirement, found: Credential | None, *, now: float) -> str | None:
    """Return in a few words why jobs have to wait for a new one; ``None`` if they need not."""
    name = NAMES[required.kind]
    if found is None:
        return f"the {name} is gone"
    if found.problem is not None:
        return f"the {name} ({found.where}) cannot be read any more: {found.problem}"
    if found.end is not None and found.has_ended(now):
        return f"the {name} ({found.where}) expired at {moment(found.end)}"
    return None


def renewed(kinds: Iterable[CredentialKind]) -> list[str]:
    """Return lines that say of which credentials jobs do not wait any more."""
    return [
        f"the {NAMES[kind]} was renewed"
        + (f" and is valid until {moment(credential.end)}" if credential.end is not None else "")
        + ": jobs continue"
        for kind, credential in look(kinds).items()
    ]

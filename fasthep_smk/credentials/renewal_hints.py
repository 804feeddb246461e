"""What to do about a credential that is missing, has ended, or ends too early."""

from __future__ import annotations

import math
import os

from fasthep_smk.config.credentials import Requirement
from fasthep_smk.credentials import proxies
from fasthep_smk.credentials.credential import Credential
from fasthep_smk.credentials.tokens import FILE_VARIABLE, VARIABLE
from fasthep_smk.util.names import shell

__all__ = ["close_to_others", "renewal"]

#: For how many hours a proxy is asked for where nobody knows better.
_HOURS = 24


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
            f"get a new token{issuer}, write it into a file of mode 600, name that by "
            f"{FILE_VARIABLE}, and unset {VARIABLE}: a variable cannot be renewed during a run"
        )
    where = f"{found.path}" if found is not None else f"a file that {FILE_VARIABLE} names"
    return f"get a new token{issuer} (htgettoken, oidc-token), and write it to {where}, mode 600"


def _place(found: Credential | None) -> list[str]:
    """Return where a proxy has to be written, if not where it is by default."""
    path = str(found.path) if found is not None else os.environ.get(proxies.VARIABLE)
    return ["--out", path] if path and path != proxies.default_path() else []


def close_to_others(found: Credential) -> str:
    """Return how to keep others from reading it."""
    return shell(["chmod", "600", found.path or found.where])

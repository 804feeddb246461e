"""Look at the credentials of this user, by their kinds."""

from __future__ import annotations

from collections.abc import Iterable

from fasthep_smk.config.credentials import KINDS, Kind
from fasthep_smk.credentials.credential import Credential
from fasthep_smk.credentials.kerberos import find_ticket
from fasthep_smk.credentials.proxies import find_proxy
from fasthep_smk.credentials.tokens import find_token

__all__ = ["look"]

_FINDERS = {"x509": find_proxy, "token": find_token, "kerberos": find_ticket}


def look(kinds: Iterable[Kind] = KINDS) -> dict[Kind, Credential]:
    """Return the credentials that are there, readable or not."""
    found = {kind: _FINDERS[kind]() for kind in kinds}
    return {kind: one for kind, one in found.items() if one is not None}

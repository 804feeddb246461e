"""What is known of a credential: where it is, whose, and from when to when it is valid."""

from __future__ import annotations

import stat
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from fasthep_smk.config.credentials import CredentialKind
from fasthep_smk.util.files import read_plain

#: What people call them.
NAMES: dict[CredentialKind, str] = {
    "x509": "X509 proxy",
    "token": "bearer token",
    "kerberos": "Kerberos ticket",
}
#: No credential is larger; something else that is named by mistake is not read whole.
_MOST = 1_000_000


class Unreadable(Exception):
    """A credential is there and says nothing; the message says why, and nothing of its content."""


@dataclass(frozen=True)
class Credential:
    """A proxy, token or ticket; nothing of it is secret.

    ``where`` names its file or variable, ``begin`` and ``end`` are seconds since 1970, ``None`` if
    nothing is said, ``mode`` the permissions of its file. ``problem`` says why nothing else is
    known. ``attested`` tells that a proxy has attributes of VOMS, ``vos`` of which organisations.
    """

    kind: CredentialKind
    where: str
    path: Path | None = None
    problem: str | None = None
    subject: str | None = None
    issuer: str | None = None
    begin: float | None = None
    end: float | None = None
    mode: int | None = None
    attested: bool = False
    vos: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return NAMES[self.kind]

    @property
    def is_open(self) -> bool:
        """Whether others may read its file."""
        return self.mode is not None and bool(self.mode & 0o077)

    def has_ended(self, now: float) -> bool:
        return self.end is not None and self.end <= now


def read_file(path: Path) -> tuple[bytes, int]:
    """Return the content of a credential's file, and its permissions.

    Raises:
        FileNotFoundError: there is no such file.
        Unreadable: it cannot be read, or is no file.
    """
    try:
        mode = stat.S_IMODE(path.stat().st_mode)
        content = read_plain(path, _MOST + 1)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise Unreadable(f"cannot be read: {error.strerror}") from None
    if len(content) > _MOST:
        raise Unreadable("is too large for a credential")
    return content, mode


def moment(when: float) -> str:
    """Return a time for people."""
    return f"{datetime.fromtimestamp(when, UTC):%Y-%m-%d %H:%M:%S} UTC"

"""Credentials that travel with jobs: as files of their own, never in a parcel.

On a worker each lies in the job's own folder, readable by nobody else, and goes with that.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from fasthep_smk.credentials import tokens
from fasthep_smk.credentials.checks import look
from fasthep_smk.credentials.required import required_of
from fasthep_smk.util.errors import SmkError

#: Which variable tells programs where a credential is, and what stands before its path.
_VARIABLES: Mapping[str, tuple[str, str]] = {
    "x509": ("X509_USER_PROXY", ""),
    "token": ("BEARER_TOKEN_FILE", ""),
    "kerberos": ("KRB5CCNAME", "FILE:"),
}
#: Batch systems take lists of files apart at commas and spaces.
_PLAIN = re.compile(r"/[A-Za-z0-9._/@%+-]+")


def credential_files(build: Path) -> dict[str, Path]:
    """Return the files of the credentials that jobs require, by their kinds, as they are now."""
    required = required_of(build)
    if not required:
        return {}
    paths = {
        kind: credential.path
        for kind, credential in look(requirement.kind for requirement in required).items()
    }
    return {kind: path for kind, path in paths.items() if path is not None}


def refuse_unsendable(paths: Mapping[str, Path]) -> None:
    """Refuse files that a batch system which sends them itself would not bring to a job.

    Raises:
        SmkError: the path of one, or the name that two have, does not allow it.
    """
    names: dict[str, str] = {}
    for kind, path in paths.items():
        if not _PLAIN.fullmatch(str(path)):
            raise SmkError(
                f"the {kind} credential cannot be sent from {str(path)!r}: move it to a path with "
                "only letters, digits and . _ - @ % +"
            )
        if (other := names.setdefault(path.name, kind)) != kind:
            raise SmkError(
                f"the {kind} credential cannot be sent with the {other} one: both files are "
                f"named {path.name!r}, and jobs get them in one folder"
            )


def lay_out(credentials: Iterable[str], folder: Path) -> dict[str, str]:
    """Copy credentials (``KIND=FILE``) into a folder; return the variables that name them.

    A token in a variable is not the one that was sent: it goes.
    """
    variables = dict(_laid_out(credentials, folder))
    if tokens.FILE_VARIABLE in variables:
        os.environ.pop(tokens.VARIABLE, None)
    return variables


def _laid_out(credentials: Iterable[str], folder: Path) -> Iterator[tuple[str, str]]:
    for credential in credentials:
        kind, _, name = credential.partition("=")
        variable, prefix = _VARIABLES[kind]
        folder.mkdir(mode=0o700, exist_ok=True)
        goal = folder / kind
        with os.fdopen(os.open(goal, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as stream:
            stream.write(Path(name).read_bytes())
        yield variable, f"{prefix}{goal}"

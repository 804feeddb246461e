"""Credentials that a job may need for remote files: which there are, and how long they last.

Only their place and their end are looked at; what is in them never reaches a text of ours.
"""

from __future__ import annotations

import base64
import json
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from fasthep_smk.sites.commands import ask

__all__ = ["Credential", "credentials"]


@dataclass(frozen=True)
class Credential:
    """A proxy or token. ``left`` is its lifetime in seconds, ``None`` if it cannot be told."""

    kind: str
    path: Path
    left: float | None
    renew: str


def credentials() -> list[Credential]:
    """Return the X509 proxy and the bearer token of this user, if there are any."""
    return [*_proxy(), *_token()]


def _proxy() -> Iterator[Credential]:
    """Yield the proxy, where Globus has it: ``X509_USER_PROXY``, else ``/tmp/x509up_u<uid>``."""
    path = Path(os.environ.get("X509_USER_PROXY") or f"/tmp/x509up_u{os.getuid()}")
    if not path.exists():
        return
    said = ask(["openssl", "x509", "-noout", "-enddate", "-in", str(path)])
    left = None
    if said is not None and said.startswith("notAfter="):
        end = datetime.strptime(said.strip().removeprefix("notAfter="), "%b %d %H:%M:%S %Y %Z")
        left = end.replace(tzinfo=UTC).timestamp() - time.time()
    yield Credential("X509 proxy", path, left, "voms-proxy-init --valid 96:00")


def _token() -> Iterator[Credential]:
    """Yield the token, where the WLCG's bearer token discovery has it."""
    folders = (os.environ.get("XDG_RUNTIME_DIR"), "/tmp")
    names = [
        os.environ.get("BEARER_TOKEN_FILE"),
        *(f"{folder}/bt_u{os.getuid()}" for folder in folders if folder),
    ]
    path = next((Path(name) for name in names if name and Path(name).exists()), None)
    if path is None:
        return
    yield Credential("bearer token", path, _life_of(path), "ask your token service again")


def _life_of(path: Path) -> float | None:
    """Return how long a JSON web token lasts, by its ``exp`` claim."""
    try:
        claims = path.read_text(encoding="ascii").strip().split(".")[1]
        content = json.loads(base64.urlsafe_b64decode(claims + "=" * (-len(claims) % 4)))
        return float(content["exp"]) - time.time()
    except (OSError, ValueError, LookupError, TypeError):
        return None

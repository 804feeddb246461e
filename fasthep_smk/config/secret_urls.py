"""Refuse addresses that hold a secret: what is in a workflow is copied into plans, tables and logs.

A user's name without a password is none (``root://me@server//file.root``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from urllib.parse import unquote

from fasthep_smk.util.documents import YamlMapping
from fasthep_smk.util.errors import Finding
from fasthep_smk.util.masking import masked
from fasthep_smk.util.yaml_values import as_yaml, key_of

_LONGEST = 200
_HINT = (
    "put the token into a file, set BEARER_TOKEN_FILE to the path of this file, or use an x509 "
    "proxy (see docs/credentials.md). If this secret was stored in a file, get a new secret"
)


def secret_findings(content: YamlMapping, *, file: str) -> list[Finding]:
    """Return the addresses of a workflow or site that hold a secret, without the secrets."""
    return [
        Finding(
            file=file,
            key=place,
            problem="the address contains a secret, which plans, tables and logs would show",
            value=as_yaml(shown if len(shown) <= _LONGEST else f"{shown[: _LONGEST - 3]}..."),
            expected="an address without password, token or signature",
            hint=_HINT,
        )
        for place, text in _addresses(content)
        if (shown := _without_secret(text)) is not None
    ]


def _without_secret(text: str) -> str | None:
    """Return an address without its secret, ``None`` if it has none."""
    for spelling in (text, unquote(text)):
        if (shown := masked(spelling)) != spelling:
            return shown
    return None


def _addresses(content: YamlMapping) -> Iterator[tuple[str, str]]:
    """Yield the addresses in a document and where they stand; one in an alias comes once.

    An entry of a list that has a name is called by it: ``data.datasets['DY'].files[0]``.
    """
    left: list[tuple[tuple[str | int, ...], object]] = [((), content)]
    seen: set[int] = set()
    while left:
        path, value = left.pop()
        if isinstance(value, str):
            if ":" in value:
                yield key_of("", path), value
        elif isinstance(value, dict | list) and id(value) not in seen:
            seen.add(id(value))
            items: Iterable[tuple[str | int, object]] = enumerate(value)
            if isinstance(value, dict):
                items = ((str(key), item) for key, item in value.items())
            left += reversed([((*path, _step(key, item)), item) for key, item in items])


def _step(key: str | int, value: object) -> str | int:
    name = value.get("name") if isinstance(key, int) and isinstance(value, dict) else None
    return name if isinstance(name, str) and name else key

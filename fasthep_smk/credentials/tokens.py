"""The bearer token of this user, by the WLCG's rules for where it is."""

from __future__ import annotations

import os
from pathlib import Path

from fasthep_smk.credentials.credential import Credential, Unreadable, read_file
from fasthep_smk.util.documents import JsonObject
from fasthep_smk.util.names import printable

#: The variable that holds a token, and the one that names its file.
VARIABLE = "BEARER_TOKEN"
FILE_VARIABLE = "BEARER_TOKEN_FILE"


def find_token() -> Credential | None:
    """Return the token that a program of the WLCG would take, if there is any.

    That is ``BEARER_TOKEN``, else the file that ``BEARER_TOKEN_FILE`` names, else
    ``$XDG_RUNTIME_DIR/bt_u<uid>``, else ``/tmp/bt_u<uid>``.
    """
    if token := os.environ.get(VARIABLE, "").strip():
        return _described(VARIABLE, None, token.encode(errors="replace"), None)
    for path in _paths():
        try:
            content, mode = read_file(path)
        except FileNotFoundError:
            continue
        except Unreadable as error:
            return Credential("token", str(path), path, problem=str(error))
        return _described(str(path), path, content.strip(), mode)
    return None


def _paths() -> list[Path]:
    if named := os.environ.get(FILE_VARIABLE, "").strip():
        return [Path(named)]
    folders = [os.environ.get("XDG_RUNTIME_DIR", "").strip(), "/tmp"]
    return [Path(folder, f"bt_u{os.getuid()}") for folder in folders if folder]


def _described(where: str, path: Path | None, content: bytes, mode: int | None) -> Credential:
    try:
        claims = _claims(content)
        begin, end = _time(claims, "nbf"), _time(claims, "exp")
    except Unreadable as error:
        return Credential("token", where, path, problem=str(error), mode=mode)
    return Credential(
        "token",
        where,
        path,
        subject=_text(claims.get("sub")),
        issuer=_text(claims.get("iss")),
        begin=begin,
        end=end,
        mode=mode,
    )


def _claims(content: bytes) -> JsonObject:
    """Return what a token says.

    Its signature is not verified: whether a token is genuine is for the storage to decide, which
    has the keys; here only its times are wanted, before it is sent anywhere.
    """
    import jwt

    if not content:
        raise Unreadable("is empty")
    try:
        return dict(jwt.decode(content, options={"verify_signature": False}))
    except Exception:  # of several kinds, and the library's text might quote the token
        raise Unreadable("is not a JSON web token: its expiry time is unknown") from None


def _time(claims: JsonObject, name: str) -> float | None:
    value = claims.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e11:
        raise Unreadable(f"its {name} is not a time")
    return float(value)


def _text(value: object) -> str | None:
    if value is None:
        return None
    return printable(str(value))[:200]

"""Replace the secrets in a text: tokens, passwords and signatures that an error may quote.

Every pattern here looks at each character a bounded number of times, however long and odd a text
is: nothing that repeats without an end is followed by something that could send the search back.
"""

from __future__ import annotations

import base64
import binascii
import re

#: What stands in place of a secret.
TOKEN, PASSWORD, SECRET = "<token>", "<password>", "<secret>"

#: A server, and who asks it: ``user:password@host:port``. It ends before the path.
_SERVER = re.compile(r"://[^\s/?#\"<>\\]+")
#: The schemes of an ``Authorization`` header, and what stands between one and its value.
_SCHEME = r"(?:bearer|basic|token|negotiate|digest|apikey)(?:[ +]{1,3}|%(?:25)?20)"
_VALUE = r"[^\s&;\"'<>,#()\[\]{}\\|]+"
_HEADER = re.compile(
    rf"((?:authorization|auth-token|api-key)[\"']?(?::|%3a)\s?[\"']?{_SCHEME})({_VALUE})", re.I
)
_BEARER = re.compile(r"(bearer(?:[ +]{1,3}|%(?:25)?20|[:=] ?))([\w.~+/%=-]+)", re.I)
#: Parameters that are secret wherever they stand, also at the end of a longer name.
_NAMES = r"authz|token|passw(?:or)?d|secret|macaroon|(?:api|access|secret)[_-]?key(?:_?id)?"
#: These are words of physics and programs, too: they are secret in the query of a URL.
_QUERY_NAMES = (
    r"(?:x-(?:amz|goog)-)?(?:signature|credential)|sig|auth|jwt|pwd|bearer|cap\.(?:sym|msg)|"
    r"awsaccesskeyid|googleaccessid"
)
_IS = r"(?:=|%(?:25)?3d)[\"']?|[\"'] ?: ?[\"']"
_PARAMETER = re.compile(
    rf"((?:(?:{_NAMES})|(?<=[?&;])(?:{_QUERY_NAMES})|(?<=%26|%3f)(?:{_QUERY_NAMES}))(?:{_IS})"
    rf"(?:{_SCHEME})?)((?:{_VALUE})?)",
    re.I,
)
#: Where a JSON web token may stand, and what its first part begins with: base64 of ``{"``.
_DOTTED = re.compile(r"[\w.-]+")
_WEB = "eyJ"
_NOTHING = frozenset({"none", "null", "true", "false", "bearer", "basic"})
#: Texts without any of these, most lines of a log, hold no parameter; looking for them is quick.
_HINTS = (
    "auth", "token", "passw", "secret", "macaroon", "key", "sig", "credential", "jwt", "pwd",
    "bearer", "cap.", "accessid",
)  # fmt: skip
#: A longer word is not one of a language.
_LONGEST_WORD = 20


def masked(text: str) -> str:
    """Return a text without the secrets that it quotes; takes time in proportion to its length."""
    if _WEB in text:
        text = _DOTTED.sub(_without_web_token, text)
    if "://" in text:
        text = _SERVER.sub(_without_password, text)
    plain = text.lower()
    if not any(hint in plain for hint in _HINTS):
        return text
    text = _HEADER.sub(rf"\1{TOKEN}", text)
    text = _BEARER.sub(_without_bearer, text)
    return _PARAMETER.sub(_without_value, text)


def _without_web_token(match: re.Match[str]) -> str:
    text = match[0]
    if _WEB not in text:
        return text
    parts = text.rstrip(".").split(".")
    for place, part in enumerate(parts[:-1]):
        if len(parts[place + 1]) >= 4 and (start := _start_of_header(part)) is not None:
            dots = text[len(text.rstrip(".")) :]
            return ".".join([*parts[:place], part[:start] + TOKEN]) + dots
    return text


def _start_of_header(part: str) -> int | None:
    """Return where the header of a JSON web token begins; ``eyJ`` may stand in a word as well."""
    start = part.find(_WEB)
    while start >= 0:
        head = part[start : start + 12]
        try:
            content = base64.urlsafe_b64decode(head[: len(head) // 4 * 4])
        except (binascii.Error, ValueError):
            content = b"\xff"
        if len(head) >= 9 and content.isascii():
            return start
        start = part.find(_WEB, start + 1)
    return None


def _without_password(match: re.Match[str]) -> str:
    user, at, server = match[0].rpartition("@")
    name, colon, password = user.removeprefix("://").partition(":")
    if not at or not password or password == PASSWORD:
        return match[0]
    return f"://{name}{colon}{PASSWORD}@{server}"


def _without_bearer(match: re.Match[str]) -> str:
    value = match[2].rstrip(".")
    is_word = value.replace("-", "").rstrip("=").isalpha() and len(value) < _LONGEST_WORD
    plain = is_word and value[1:] == value[1:].lower()
    return match[0] if plain or not value else f"{match[1]}{TOKEN}{match[2][len(value) :]}"


def _without_value(match: re.Match[str]) -> str:
    value = match[2].rstrip(".:")  # of the sentence
    if not value or value.lower() in _NOTHING:
        return match[0]
    name = match[1].lower()
    is_token = any(word in name for word in ("authz", "token", "bearer", "macaroon", "jwt"))
    return f"{match[1]}{TOKEN if is_token else SECRET}{match[2][len(value) :]}"

"""Writing files so that they are either absent, the old one or complete; checksums."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fasthep_smk.values import to_plain

__all__ = ["atomic_path", "canonical_json", "digest_of", "sha256_file", "write_text"]


@contextmanager
def atomic_path(path: Path, *, durable: bool = True) -> Iterator[Path]:
    """Yield a temporary path beside ``path``; rename it to ``path`` when the block succeeds.

    With ``durable`` the content reaches the disk before the rename, so that a power loss leaves
    the old file or the new one, never an empty one with the new name.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=".", suffix=f".tmp-{os.getpid()}", dir=path.parent)
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        # mkstemp is private by design; results are shared as any file of the user's.
        temporary.chmod(0o666 & ~_umask())
        if durable:
            with temporary.open("rb") as stream:
                os.fsync(stream.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def write_text(path: Path, text: str, *, executable: bool = False) -> bool:
    """Write ``text`` atomically; return whether the file changed.

    A file that holds this text already is left alone, time stamp included: regenerating a
    workflow must not look like an edit.
    """
    if path.is_file() and path.read_bytes() == text.encode("utf-8"):
        return False
    with atomic_path(path, durable=False) as temporary:
        temporary.write_bytes(text.encode("utf-8"))
    if executable:
        path.chmod(path.stat().st_mode | 0o111)
    return True


def sha256_file(path: Path) -> str:
    """Return the SHA-256 of a file's content as hexadecimal digits."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def canonical_json(value: Any) -> str:
    """Return ``value`` as JSON whose text depends on content only, not on the order of keys."""
    plain = to_plain(value, leaf=lambda item: {"$": "repr", "v": repr(item)})
    return json.dumps(_sorted(plain), sort_keys=True, separators=(",", ":"))


def digest_of(value: Any) -> str:
    """Return a 32-digit hexadecimal digest of the content of a JSON-like value."""
    return hashlib.sha256(canonical_json(value).encode("utf-8", "surrogatepass")).hexdigest()[:32]


def _sorted(plain: Any) -> Any:
    """Sort the pairs of mappings whose keys are no plain texts."""
    if isinstance(plain, list):
        return [_sorted(item) for item in plain]
    if not isinstance(plain, dict):
        return plain
    if plain.get("$") == "dict":
        pairs = [_sorted(pair) for pair in plain["v"]]
        return {"$": "dict", "v": sorted(pairs, key=lambda pair: json.dumps(pair, sort_keys=True))}
    return {key: _sorted(item) for key, item in plain.items()}


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask

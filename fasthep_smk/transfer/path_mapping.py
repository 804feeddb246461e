"""The same places under other names: paths here, and where they lie on a worker."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, TypeVar

#: What may follow a path that is named in a text, and may not stand before it: it would be another.
_BEFORE, _AFTER = r"(?:(?<![\w./-])|(?<=://))", r"(?=/|$|[^\w.-]|\.(?![\w]))"

_Value = TypeVar("_Value")


class Places:
    """Replaces absolute paths in texts; the longest one that fits counts."""

    def __init__(self, goes_to: Mapping[str, str]) -> None:
        self._goes_to = {old: new for old, new in goes_to.items() if old != new}
        names = sorted(self._goes_to, key=len, reverse=True)
        self._pattern = None
        if names:
            self._pattern = re.compile(f"{_BEFORE}({'|'.join(map(re.escape, names))}){_AFTER}")

    def back(self) -> Places:
        """Return what undoes it."""
        return Places({new: old for old, new in self._goes_to.items()})

    def text(self, text: str) -> str:
        """Return a text that names the other paths."""
        if self._pattern is None:
            return text
        return self._pattern.sub(lambda match: self._goes_to[match[1]], text)

    def value(self, value: _Value) -> _Value:
        """Return plain data whose texts name the other paths."""
        renamed: _Value = self._renamed(value)
        return renamed

    def _renamed(self, value: object) -> Any:
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, list):
            return [self._renamed(item) for item in value]
        if isinstance(value, dict):
            return {self._renamed(key): self._renamed(item) for key, item in value.items()}
        return value

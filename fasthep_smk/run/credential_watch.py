"""Say while a run goes on that a required credential has ended, and that it was renewed."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from pathlib import Path

from fasthep_smk.config.credentials import Requirement
from fasthep_smk.credentials.required import required_of
from fasthep_smk.credentials.validity import lacking, renewed

__all__ = ["Watch", "watch"]


def watch(build: Path, say: Callable[[str], None]) -> Watch:
    """Return what looks, while it is entered, at what the jobs of a build folder require."""
    return Watch(required_of(build), say)


#: Seconds between two looks.
_PAUSE = 2.0


class Watch:
    """Looks at required credentials every few seconds, and says once what has changed."""

    def __init__(self, required: Iterable[Requirement], say: Callable[[str], None]) -> None:
        self._required = tuple(required)
        self._say = say
        self._said: set[str] = set()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> None:
        if self._required:
            self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._over.set()
        if self._thread.is_alive():
            self._thread.join(_PAUSE)  # a file server that does not answer holds up nobody

    def look(self) -> None:
        """Look once."""
        missing = lacking(self._required)
        for kind in missing.keys() - self._said:
            self._say(str(missing[kind]))
        back = [one.kind for one in self._required if one.kind in self._said - missing.keys()]
        for line in renewed(back):
            self._say(line)
        self._said = set(missing)

    def _watch(self) -> None:
        while not self._over.wait(_PAUSE):
            self.look()

"""One process of Snakemake: started, told its arguments, followed until it ends."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO, TextIO

from fasthep_smk import sites
from fasthep_smk.run.snakemake_output import Reader
from fasthep_smk.util.masking import masked

__all__ = ["SnakemakeProcess"]

#: Seconds for the last events to arrive after the process has ended.
_LAST_EVENTS = 10.0
_LOGGER, _PLUGIN = "--logger", "fasthep-smk"


class SnakemakeProcess:
    """Snakemake in ``folder``, with the changes that jobs on ``system`` need.

    It has a session of its own: Ctrl-C reaches it through us only. Without ``arguments`` it imports
    what it needs, and then waits for those (`tell`).

    Raises:
        OSError: it cannot be started.
    """

    def __init__(
        self,
        system: str,
        folder: Path,
        variables: Mapping[str, str],
        *,
        arguments: Sequence[str] | None = None,
        shared: Sequence[int] = (),
    ) -> None:
        read, self._events = os.pipe()  # the second keeps its number in the process
        told_by: int | None = None
        self._tell: int | None = None
        if arguments is None:
            told_by, self._tell = os.pipe()
        said = ["--told-by", str(told_by)] if arguments is None else self._with_events(arguments)
        handed_over = [item for item in (self._events, told_by) if item is not None]
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", sites.system(system).SNAKEMAKE, *said],
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                env=dict(variables),
                cwd=folder,
                start_new_session=True,
                pass_fds=(*handed_over, *shared),
            )
        except OSError:
            os.close(read)
            self._forget()
            raise
        finally:
            for descriptor in handed_over:
                os.close(descriptor)
        self._stream: TextIO = os.fdopen(read, encoding="utf-8", errors="replace")

    @property
    def pid(self) -> int:
        return self._process.pid

    def signal(self, number: int) -> None:
        """Send a signal to it and what it has started, if it has not ended."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, number)

    def tell(self, arguments: Sequence[str]) -> bool:
        """Let it begin with its arguments; ``False`` if it has died."""
        assert self._tell is not None
        try:
            with os.fdopen(os.dup(self._tell), "wb") as stream:
                stream.write(json.dumps(self._with_events(arguments)).encode())
        except OSError:
            return False
        finally:
            self._forget()
        return True

    def follow(
        self, reader: Reader, log: BinaryIO | None = None, events: BinaryIO | None = None
    ) -> int:
        """Hand on what it prints and reports to ``reader``, and return its exit status.

        Its lines are copied to ``log``, its events to ``events``.
        """
        reports = threading.Thread(target=self._hand_on, args=[reader, events], daemon=True)
        reports.start()
        assert self._process.stdout is not None
        for line in self._process.stdout:
            _copy(masked(line), log)
            reader.line(line.rstrip("\n"))
        status = self._process.wait()
        reports.join(_LAST_EVENTS)
        return status

    def end(self) -> None:
        """Kill it: it has not begun."""
        self._forget()
        self._process.kill()
        self._process.wait()
        self._stream.close()
        if self._process.stdout is not None:
            self._process.stdout.close()

    def _hand_on(self, reader: Reader, copy: BinaryIO | None) -> None:
        with self._stream:
            for line in self._stream:
                _copy(line, copy)
                reader.event_line(line)

    def _with_events(self, arguments: Sequence[str]) -> list[str]:
        """Add our logger to those that the arguments ask for."""
        others, rest = _split_loggers(arguments)
        ours = [_LOGGER, *others, _PLUGIN, f"--logger-{_PLUGIN}-descriptor", str(self._events)]
        return [*ours, *rest]

    def _forget(self) -> None:
        """Close the end by which it is told its arguments: without any, it ends."""
        if self._tell is not None:
            os.close(self._tell)
            self._tell = None


def _copy(text: str, stream: BinaryIO | None) -> None:
    if stream is not None:
        with contextlib.suppress(OSError):  # the disk is full: what runs goes on
            stream.write(text.encode("utf-8", "surrogateescape"))


def _split_loggers(arguments: Iterable[str]) -> tuple[list[str], list[str]]:
    """Return the names of the loggers that are asked for, and the other arguments.

    Of an option that is given twice, Snakemake takes the last one.
    """
    names: list[str] = []
    others: list[str] = []
    remaining: Iterator[str] = iter(arguments)
    takes = False
    for item in remaining:
        if item == "--":
            return names, [*others, item, *remaining]
        if item == _LOGGER or item.startswith(f"{_LOGGER}="):
            names = [item.partition("=")[2]] if "=" in item else []
            takes = "=" not in item
        elif takes and not item.startswith("-"):
            names.append(item)
        else:
            takes = False
            others.append(item)
    return names, others

"""One process of Snakemake: started, told its arguments, followed until it ends."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO, TextIO

from fasthep_smk import sites
from fasthep_smk.run.snakemake_output import Reader
from fasthep_smk.util.masking import masked

#: Seconds for the last events to arrive after the process has ended.
_LAST_EVENTS = 10.0
_LOGGER, _PLUGIN = "--logger", "fasthep-smk"


class SnakemakeProcess:
    """Snakemake in ``folder``, with the changes that jobs on ``system`` need.

    It has a session of its own: Ctrl-C reaches it through us only. Without ``arguments`` it imports
    what it needs, and then waits for those (`tell`). It inherits the descriptors in ``shared``.

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
        self._tell: int | None = None
        with contextlib.ExitStack() as inherited:  # closed here once Snakemake has them
            read, write = os.pipe()
            self._stream: TextIO = os.fdopen(read, encoding="utf-8", errors="replace")
            inherited.callback(os.close, write)
            self._events = write  # in Snakemake it has the same number
            if arguments is None:
                told_by, self._tell = os.pipe()
                inherited.callback(os.close, told_by)
                words, handed_over = ["--told-by", str(told_by)], [write, told_by]
            else:
                words, handed_over = self._with_events(arguments), [write]
            try:
                self._process = subprocess.Popen(
                    [sys.executable, "-P", "-m", sites.system(system).SNAKEMAKE, *words],
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
                self._stream.close()
                self._tell_no_more()
                raise

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
                stream.write(json.dumps(self._with_events(arguments)).encode() + b"\n")
        except OSError:
            return False
        finally:
            self._tell_no_more()
        return True

    def follow(
        self, reader: Reader, log: BinaryIO | None = None, events: BinaryIO | None = None
    ) -> int:
        """Hand on what it prints and reports to ``reader``, and return its exit status.

        Its lines are copied to ``log``, its events to ``events``. If this is interrupted, so is the
        process.
        """
        reports = _Reports(self._stream, reader, events)
        reports.start()
        assert self._process.stdout is not None
        try:
            with self._process.stdout as lines:
                for line in lines:
                    _copy(masked(line), log)
                    reader.line(line.rstrip("\n"))
            status = self._process.wait()
        except BaseException:
            self.signal(signal.SIGINT)
            raise
        reports.join(_LAST_EVENTS)
        if reports.error is not None:
            raise reports.error
        return status

    def end(self) -> None:
        """Kill it: it has not begun."""
        self._tell_no_more()
        self._process.kill()
        self._process.wait()
        self._stream.close()
        if self._process.stdout is not None:
            self._process.stdout.close()

    def _with_events(self, arguments: Sequence[str]) -> list[str]:
        """Add our logger to those that the arguments ask for."""
        others, rest = _split_loggers(arguments)
        ours = [_LOGGER, _PLUGIN, *others, f"--logger-{_PLUGIN}-descriptor", str(self._events)]
        return [*ours, *rest]

    def _tell_no_more(self) -> None:
        """Close our end of its pipe: if it has received no arguments, it ends."""
        if self._tell is not None:
            os.close(self._tell)
            self._tell = None


class _Reports(threading.Thread):
    """Hands events on as they come; an ``error`` of the reader's does not hold Snakemake up."""

    def __init__(self, stream: TextIO, reader: Reader, copy: BinaryIO | None) -> None:
        super().__init__(daemon=True)
        self.error: Exception | None = None
        self._stream, self._reader, self._to = stream, reader, copy

    def run(self) -> None:
        with self._stream:
            for line in self._stream:
                _copy(line, self._to)
                try:
                    self._reader.event_line(line)
                except Exception as error:
                    self.error = self.error or error


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

"""One process of Snakemake: started, told its arguments, followed until it ends."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import BinaryIO

from fasthep_smk import sites
from fasthep_smk.run.snakemake_output import Reader
from fasthep_smk.util.masking import masked

#: Seconds for the last events to arrive after the process has ended.
_LAST_EVENTS = 10.0


class SnakemakeProcess:
    """Snakemake in ``folder``, with the changes that jobs on ``system`` need.

    It imports what it needs, and then waits to be told its arguments. It has a session of its own:
    Ctrl-C reaches it through us only. It inherits the descriptors in ``shared``.

    Raises:
        OSError: it cannot be started.
    """

    def __init__(
        self, system: str, folder: Path, variables: Mapping[str, str], shared: Sequence[int] = ()
    ) -> None:
        told_by, tell = os.pipe()
        read, events = os.pipe()
        self._tell = os.fdopen(tell, "w", encoding="utf-8")
        self._events = os.fdopen(read, encoding="utf-8", errors="replace")
        module = sites.system(system).SNAKEMAKE
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", module, "--told-by", str(told_by), str(events)],
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                env=dict(variables),
                cwd=folder,
                start_new_session=True,
                pass_fds=(told_by, events, *shared),
            )
        except OSError:
            self._tell.close()
            self._events.close()
            raise
        finally:
            os.close(told_by)
            os.close(events)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_told(self) -> bool:
        return self._tell.closed

    @property
    def waits(self) -> bool:
        """Whether it can be told its arguments."""
        return not self.is_told and self._process.poll() is None

    def signal(self, number: int) -> None:
        """Send a signal to it and what it has started, if it has not ended."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, number)

    def tell(self, arguments: Sequence[str]) -> None:
        """Let it begin with its arguments."""
        with contextlib.suppress(OSError), self._tell:  # it has died, as its status will tell
            self._tell.write(f"{json.dumps(arguments)}\n")

    def follow(
        self, reader: Reader, log: BinaryIO | None = None, events: BinaryIO | None = None
    ) -> int:
        """Hand on what it prints and reports to ``reader``, and return its exit status.

        Its lines are copied to ``log``, its events to ``events``. If this is interrupted, so is the
        process.
        """
        wrong: list[Exception] = []

        def follow_events() -> None:
            with self._events:
                for line in self._events:
                    _copy(line, events)
                    try:
                        reader.event_line(line)
                    except Exception as error:  # it does not hold Snakemake up
                        wrong.append(error)

        reports = threading.Thread(target=follow_events, daemon=True)
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
        if wrong:
            raise wrong[0]
        return status

    def discard(self) -> None:
        """Kill it: it was told nothing."""
        self._tell.close()
        self._events.close()
        self._process.kill()
        self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()


def _copy(text: str, stream: BinaryIO | None) -> None:
    if stream is not None:
        with contextlib.suppress(OSError):  # the disk is full: what runs goes on
            stream.write(text.encode("utf-8", "surrogateescape"))

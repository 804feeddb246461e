"""Keep a fork server for a run on one machine; ``worker.fork_server`` says what it does."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from fasthep_smk.storage.layout import COLD, FORK_SERVER
from fasthep_smk.util import scratch
from fasthep_smk.util.processes import ONE_THREAD
from fasthep_smk.util.scratch import Scratch

_SOCKET, _ERRORS = "worker", "errors"


class ForkServer:
    """A fork server, from its start to its end; it also ends with all who share its lifeline.

    ``why_cold`` tells why there is none: jobs start cold. There is a temporary folder in any case.
    """

    def __init__(
        self, environment: Mapping[str, str], system: str = "local", *, imports: Sequence[str] = ()
    ) -> None:
        """Start one for a run with this environment; it ``imports`` more modules before it forks.

        Raises:
            OSError: there is no space for a temporary folder.
        """
        self._is_over = False
        self._scratch = Scratch(socket_name=_SOCKET)
        self._lifeline, self._held = os.pipe()
        self._process: subprocess.Popen[bytes] | None = None
        self.why_cold = why_cold(system)
        if self.why_cold is None:
            try:
                self._process = self._start(environment, imports)
            except OSError as error:
                self.why_cold = f"the fork server cannot be started ({error})"
        os.close(self._lifeline)

    def _start(
        self, environment: Mapping[str, str], imports: Sequence[str]
    ) -> subprocess.Popen[bytes]:
        own = (self._lifeline, self._scratch.owner)
        command = [sys.executable, "-P", "-m", "fasthep_smk.worker.fork_server", str(self._socket)]
        with (self._scratch.path / _ERRORS).open("wb") as errors:
            return subprocess.Popen(
                [*command, *map(str, own), *imports],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=errors,
                env={**environment, **ONE_THREAD},
                pass_fds=own,
                start_new_session=True,
            )

    @property
    def _socket(self) -> Path:
        return self._scratch.path / _SOCKET

    @property
    def variables(self) -> dict[str, str]:
        """The variables that tell Snakemake of it."""
        folder = {scratch.VARIABLE: str(self._scratch.path)}
        return folder if self._process is None else {**folder, FORK_SERVER: str(self._socket)}

    @property
    def shared(self) -> tuple[int, int]:
        """The descriptors that Snakemake has to share."""
        return self._held, self._scratch.owner

    def expect_plots(self) -> None:
        """Let it import what plots need, as soon as it has nothing else to do."""
        with contextlib.suppress(OSError):  # it was killed
            os.write(self._held, b"p")

    def reasons(self) -> list[str]:
        """Return why jobs have started cold until now."""
        if self._process is None:
            return [str(self.why_cold)]
        counts: Counter[str] = Counter()
        errors = ""
        with contextlib.suppress(OSError):
            errors = (self._scratch.path / _ERRORS).read_text(errors="replace")
            counts = Counter((self._scratch.path / COLD).read_text(errors="replace").splitlines())
        lines = [f"{number} of them: {why}" for why, number in counts.items()]
        if self._process.poll() is not None:
            last = (errors.splitlines() or [f"status {self._process.returncode}"])[-1]
            lines.append(f"the fork server has ended ({last})")
        return lines

    def end(self) -> None:
        """End it, or let it end with Snakemake, which shares the lifeline."""
        self._end(10)

    def discard(self) -> None:
        """End it at once: it has had no job."""
        self._end(0)

    def _end(self, patience: float) -> None:
        if self._is_over:
            return
        self._is_over = True
        os.close(self._held)
        if self._process is not None:
            try:
                self._process.wait(patience)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        self._scratch.remove()


def why_cold(system: str) -> str | None:
    """Return why no job of a run can be forked; ``None`` if there can be a fork server."""
    if system != "local":
        return f"jobs of {system} start their own Python"
    if os.environ.get(FORK_SERVER) == "":
        return f"{FORK_SERVER} is empty"
    return None

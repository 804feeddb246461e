"""A command of the user's that is told how a run has ended: a message, a mail, a web hook.

Whatever it does, the run ends as it would have. Nothing is filled into the command: it finds what
there is to say in its environment.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Literal

from fasthep_smk.util.masking import masked
from fasthep_smk.util.names import printable

#: Seconds that the command may take.
_PATIENCE = 30.0
_WIDTH = 300

EndStatus = Literal["finished", "unfinished", "sample", "partial", "failed", "stopped"]


@dataclass
class Notice:
    """How a run has ended, in a word and in a line; it is filled in when that is known."""

    status: EndStatus = "failed"
    summary: str = ""


@contextlib.contextmanager
def at_end(command: str, build: Path) -> Iterator[Notice]:
    """Run a command when the block ends, however it does.

    A block that raises nothing has filled in its notice.
    """
    notice = Notice()
    try:
        yield notice
    except KeyboardInterrupt:
        notice.status, notice.summary = "stopped", "stopped; finished jobs are kept"
        raise
    except BaseException as error:
        notice.status, notice.summary = "failed", str(error) or type(error).__name__
        raise
    finally:
        _tell(command, build, notice)


def _tell(command: str, build: Path, notice: Notice) -> None:
    """Run the command; what goes wrong with it is a warning."""
    first, _, rest = masked(notice.summary).partition("\n")
    if first.endswith(":"):  # what there is to say stands in the next line
        first = f"{first} {next(iter(rest.splitlines()), '').strip().removeprefix('- ')}".strip()
    summary = printable(first)[:_WIDTH]
    variables = {
        **os.environ,
        "FASTHEP_SMK_STATUS": notice.status,
        "FASTHEP_SMK_SUMMARY": summary,
        "FASTHEP_SMK_BUILD": str(build.absolute()),
    }
    problem = ""
    try:
        # A file: what it leaves in the background may hold a pipe open for ever.
        with tempfile.TemporaryFile() as output:
            problem = _run(command, variables, output)
    except OSError as error:
        problem = f"could not be started: {error.strerror or error}"
    if problem:
        with contextlib.suppress(OSError, ValueError):  # the terminal may be gone
            print(f"fasthep-smk: warning: the command of --notify {problem}", file=sys.stderr)


def _run(command: str, variables: dict[str, str], output: IO[bytes]) -> str:
    """Return what went wrong with the command; nothing if it has succeeded."""
    hook = subprocess.Popen(
        ["/bin/sh", "-c", command],
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT,
        env=variables,
        start_new_session=True,
    )
    try:
        status = hook.wait(_PATIENCE)
    except (subprocess.TimeoutExpired, KeyboardInterrupt) as error:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(hook.pid, signal.SIGKILL)
        hook.wait()
        hangs = isinstance(error, subprocess.TimeoutExpired)
        return f"took more than {_PATIENCE:g} s, and was ended" if hangs else "was ended by Ctrl-C"
    if status == 0:
        return ""
    output.seek(0)
    lines = masked(output.read(10_000).decode(errors="replace")).strip().splitlines()
    last = f": {printable(lines[-1])[:_WIDTH]}" if lines else ""
    return f"ended with status {status}{last}"

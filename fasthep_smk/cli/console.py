"""Standard input, output and error, whatever they were started with.

A run may have been started with some of them closed, with a full disk or with a pager that has
ended behind them: what it computes does not depend on who reads what it says.
"""

from __future__ import annotations

import io
import os
import sys
from typing import TextIO

from fasthep_smk.util.errors import SmkError


class Unwritten(SmkError):
    """What a command has to say could not be written to standard output."""


class _Forgiving(io.FileIO):
    """A stream that takes everything; ``lost`` is the first error of those that it has met."""

    lost: OSError | None = None

    def write(self, data: object) -> int | None:  # type: ignore[override]
        try:
            return super().write(data)  # type: ignore[arg-type]
        except OSError as error:
            self.lost = self.lost or error
            return memoryview(data).nbytes  # type: ignore[arg-type]


def open_streams() -> None:
    """Open what is closed of the standard streams, and let none of them fail.

    What is closed becomes ``/dev/null``: else the first files that are opened get the descriptors 0
    to 2, and what is said, here or by a child process, would go into them.
    """
    for descriptor in (0, 1, 2):
        try:
            os.fstat(descriptor)
        except OSError:
            opened = os.open(os.devnull, os.O_RDWR)
            os.dup2(opened, descriptor, inheritable=True)
            if opened != descriptor:
                os.close(opened)
    sys.stdin = sys.stdin or open(0, encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stdout = _opened(1, sys.stdout)
    sys.stderr = _opened(2, sys.stderr)


def _opened(descriptor: int, stream: TextIO | None) -> TextIO:
    raw = _Forgiving(descriptor, "wb", closefd=False)
    errors = getattr(stream, "errors", None) or "strict"
    return io.TextIOWrapper(
        io.BufferedWriter(raw),
        encoding=getattr(stream, "encoding", None) or "utf-8",
        # A name that the terminal cannot show is shown otherwise.
        errors="backslashreplace" if errors == "strict" else errors,
        line_buffering=descriptor == 2 or raw.isatty(),
        write_through=getattr(stream, "write_through", False),
    )


def require_written() -> None:
    """Return when all that was printed is written.

    Raises:
        BrokenPipeError: its reader has ended.
        Unwritten: it could not be written for another reason.
    """
    sys.stdout.flush()
    raw = getattr(getattr(sys.stdout, "buffer", None), "raw", None)
    lost = raw.lost if isinstance(raw, _Forgiving) else None
    if isinstance(lost, BrokenPipeError):
        raise lost
    if lost is not None:
        raise Unwritten(f"cannot write to standard output: {lost.strerror}")

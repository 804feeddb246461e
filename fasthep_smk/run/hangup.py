"""A run outlives its terminal: when that is closed, the run goes on and speaks to a file.

SIGHUP is what a process gets then.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path

from fasthep_smk.storage import layout


@contextlib.contextmanager
def outliving_the_terminal(build: Path) -> Iterator[None]:
    """Let what is said in the block go to a file once the terminal is gone.

    Output that goes to a file already stays there. Where we were started with SIGHUP ignored,
    as by ``nohup``, this was seen to.
    """
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_DFL:
        yield
        return
    log = build / layout.OUTPUT
    log.unlink(missing_ok=True)
    # A terminal that is gone is none any more.
    lost = [descriptor for descriptor in (1, 2) if os.isatty(descriptor)]

    def go_on(_number: int, _frame: object) -> None:
        _speak_to(log, lost)

    before = signal.signal(signal.SIGHUP, go_on)
    try:
        yield
    finally:
        signal.signal(signal.SIGHUP, before)


def _speak_to(log: Path, descriptors: list[int]) -> None:
    """Let descriptors be a file that only the user may read: errors may quote anything."""
    with contextlib.suppress(OSError):  # the disk is full: the run goes on, unheard
        log.parent.mkdir(parents=True, exist_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW
        opened = os.open(log, flags, 0o600)
        for descriptor in descriptors:
            os.dup2(opened, descriptor)
        os.close(opened)

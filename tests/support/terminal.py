"""A small terminal: what a program that draws on it leaves on the screen."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import re
import struct
import subprocess
import termios
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

__all__ = ["Terminal", "run_in_terminal"]

_PART = re.compile(r"\x1b\[([0-9;?]*)([A-Za-z])|\r|\n|[^\x1b\r\n]+|\x1b")


class Terminal:
    """Understands lines, carriage returns, cursor up, erased lines, and colours, which it drops.

    It is as wide as it has to be. ``colours`` tells whether there were any; ``other`` holds what
    it does not understand, such as modes that would have to be left again.
    """

    def __init__(self) -> None:
        self._lines = [""]
        self._row = self._column = 0
        self.colours: set[str] = set()
        self.other: list[str] = []

    @property
    def lines(self) -> list[str]:
        return [line.rstrip() for line in self._lines]

    def feed(self, text: str) -> None:
        for part in _PART.finditer(text):
            self._act(part)

    def _act(self, part: re.Match[str]) -> None:
        text, numbers, letter = part[0], part[1], part[2]
        if letter == "m":
            self.colours.update(filter(None, (numbers or "").split(";")))
        elif letter == "A":
            self._row = max(self._row - int(numbers or 1), 0)
        elif letter == "K" and numbers == "2":
            self._lines[self._row] = ""
        elif text == "\r":
            self._column = 0
        elif text == "\n":
            self._row += 1
            self._lines += [""] * (self._row + 1 - len(self._lines))
            self._column = 0
        elif letter or text == "\x1b":
            self.other.append(text)
        else:
            line = self._lines[self._row].ljust(self._column)
            self._lines[self._row] = line[: self._column] + text + line[self._column + len(text) :]
            self._column += len(text)


_SIZE = ("COLUMNS", "LINES")


def run_in_terminal(
    command: Sequence[str],
    folder: Path,
    *,
    environment: Mapping[str, str],
    size: tuple[int, int] = (100, 40),
    look: Callable[[Terminal, int], object] = lambda _terminal, _pid: None,
    limit: float = 120,
) -> tuple[int, Terminal, bool]:
    """Run a command in a terminal; return its status, the terminal, and if its modes are as before.

    ``look`` is called whenever something was printed, with the command's process id.

    Raises:
        TimeoutError: it has not ended after ``limit`` seconds.
    """
    ours, theirs = pty.openpty()
    columns, rows = size
    fcntl.ioctl(ours, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    before = termios.tcgetattr(ours)
    terminal = Terminal()
    # What runs tests may say how wide its own terminal is.
    inherited = {name: value for name, value in os.environ.items() if name not in _SIZE}
    process = subprocess.Popen(
        command,
        cwd=folder,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env={**inherited, "TERM": "xterm-256color", "PYTHONUTF8": "1", **environment},
        start_new_session=True,
    )
    until = time.monotonic() + limit
    try:
        os.set_blocking(ours, False)
        while True:
            ended = process.poll() is not None
            printed = b""
            with contextlib.suppress(BlockingIOError):
                while part := os.read(ours, 65536):
                    printed += part
            terminal.feed(printed.decode("utf-8", "replace"))
            look(terminal, process.pid)
            if ended and not printed:
                break
            if time.monotonic() > until:
                raise TimeoutError("\n".join(terminal.lines))
            time.sleep(0.05)
        return process.returncode, terminal, termios.tcgetattr(ours) == before
    finally:
        process.kill()
        process.wait()
        os.close(ours)
        os.close(theirs)

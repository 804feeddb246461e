"""Run a command and say what it took: wall time, CPU, memory.

The command is started by a small process of its own, this file run as a program: Linux counts the
resident size of a process that forks into the peak of its child, and ours is large.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

__all__ = ["Failed", "Measured", "measure"]

#: Seconds between two looks at the memory of all processes.
_INTERVAL = 0.05
_SUBREAPER = 36


class Failed(RuntimeError):
    """A measured command ended with another status than 0."""


class Measured:
    """What one run of a command took. Times in seconds, sizes in bytes.

    ``largest`` is the peak of any one process. ``tree`` is the peak of the sum over the command
    and all that it started; pages that processes share count in each of them. ``processes`` holds
    the peak of each kind of process, by its command line. ``output`` is all that was printed.
    """

    def __init__(self, found: dict[str, object], output: str) -> None:
        self.wall = float(str(found["wall"]))
        self.cpu = float(str(found["cpu"]))
        self.largest = int(str(found["largest"]))
        self.tree = int(str(found["tree"]))
        processes = found["processes"]
        assert isinstance(processes, dict)
        self.processes: dict[str, int] = processes
        self.output = output

    def largest_of(self, word: str) -> int:
        """Return the peak of the processes that have ``word`` in their command line, or 0."""
        return max((size for line, size in self.processes.items() if word in line), default=0)


def measure(command: list[str], folder: Path) -> Measured:
    """Run ``command`` in ``folder``, with what it prints kept back.

    Raises:
        Failed: its exit status is not 0; the message ends with what it printed.
    """
    with tempfile.TemporaryDirectory(prefix="fasthep-smk-bench-") as scratch:
        notes, printed = Path(scratch, "notes"), Path(scratch, "printed")
        starter = [sys.executable, "-I", "-S", __file__, str(notes), str(printed), *command]
        subprocess.run(starter, cwd=folder, check=True)
        found = json.loads(notes.read_text(encoding="utf-8"))
        output = printed.read_text(encoding="utf-8", errors="replace")
    if found["status"] != 0:
        tail = "\n".join(output.splitlines()[-30:])
        raise Failed(f"{' '.join(command)}: status {found['status']}\n{tail}")
    return Measured(found, output)


class _Memory:
    """Looks at the processes below this one, again and again."""

    def __init__(self) -> None:
        self.tree = 0
        self.processes: dict[str, int] = {}
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def end(self) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._over.wait(_INTERVAL):
            left, total = _children(os.getpid()), 0
            while left:
                pid = left.pop()
                left += _children(pid)
                total += self._look(pid)
            self.tree = max(self.tree, total)

    def _look(self, pid: str | int) -> int:
        try:
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8", errors="replace")
        except OSError:  # it has ended
            return 0
        line = b" ".join(words).decode(errors="replace").strip()
        self.processes[line] = max(self.processes.get(line, 0), _size(status, "VmHWM"))
        return _size(status, "VmRSS")


def _size(status: str, name: str) -> int:
    """Return a size that the kernel gives in kB; a process that is ending has none."""
    _, _, rest = status.partition(f"{name}:")
    return int(rest.split()[0]) * 1024 if rest else 0


def _children(pid: str | int) -> list[str]:
    found: list[str] = []
    try:
        for task in Path(f"/proc/{pid}/task").iterdir():
            found += (task / "children").read_text(encoding="ascii").split()
    except OSError:  # it has ended
        pass
    return found


def _main(notes: Path, printed: Path, command: list[str]) -> None:
    # What a process leaves behind becomes a child of this one: nothing escapes the count.
    ctypes.CDLL(None).prctl(_SUBREAPER, 1, 0, 0, 0)
    memory = _Memory()
    with printed.open("wb") as stream:
        started = time.perf_counter()
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=stream, stderr=subprocess.STDOUT
        )
        status = process.wait()
        wall = time.perf_counter() - started
    memory.end()
    _reap()
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    found = {
        "status": status,
        "wall": wall,
        "cpu": used.ru_utime + used.ru_stime,
        "largest": used.ru_maxrss * 1024,
        "tree": max(memory.tree, used.ru_maxrss * 1024),
        "processes": memory.processes,
    }
    notes.write_text(json.dumps(found), encoding="utf-8")


def _reap() -> None:
    """Collect processes that were left behind and have ended since."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass


if __name__ == "__main__":
    _main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:])

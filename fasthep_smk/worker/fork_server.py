"""The fork server: jobs are forked from a process that has everything imported.

``python -m fasthep_smk.worker.fork_server SOCKET LIFELINE OWNER`` is started by a run on one
machine, and listens at a Unix socket. ``smk/worker``, which Snakemake starts for each job, hands
the job over through ``fork_client.py`` instead of starting a cold Python, and ends with its status.

A forked job is as good as a cold one:

- the process that forks has one thread, which is looked at before every fork; libraries that start
  threads for linear algebra are held to one while it lives, and a job that was given more cpus
  starts cold;
- of the variables that anything reads when it is imported, each has the value that the imported
  modules have seen: else the job starts cold, and ``cold`` beside the socket says why;
- nothing of the user's is imported before the fork, no file of the analysis is open, and the random
  numbers of each job start anew;
- a job has its own session, working directory, environment, standard output and error; a signal to
  the client reaches it, and if the client dies, so does it;
- it ends as Python ends, and what it leaves running ends with it;
- its memory and time are its own, as the kernel counts them.

The process ends when the last holder of the lifeline (a pipe) is gone: the run and its Snakemake,
however they ended.
"""

from __future__ import annotations

import array
import contextlib
import os
import re
import selectors
import shutil
import signal
import socket
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from fasthep_smk.util.last_words import LastWords
from fasthep_smk.worker.job_end import End, bad_end, kill_group
from fasthep_smk.worker.processes import COLD, MODULES, has_one_thread, import_for_good, live_as

__all__ = ["differing", "main", "serve"]

#: What plots import, in steps that keep no job waiting for long; it starts no thread either.
_FOR_PLOTS = (
    "matplotlib",
    "matplotlib.figure",
    "matplotlib.pyplot",
    "matplotlib.backends.backend_agg",
    "PIL.PngImagePlugin",
    "mplhep",
    "fasthep_render.hist.hist1d",
    "scipy.special",
    "scipy.linalg",
    "scipy.optimize",
    "scipy.ndimage",
    "scipy.integrate",
    "scipy.interpolate",
    "scipy.stats.distributions",
    "mplhep.error_estimation",
)
#: Variables that the interpreter, the C library or a package reads when it starts: what is imported
#: here has seen them, and a job would not look again. All others a job finds in its environment.
#: Shells drop some of those (``PS1``, functions), and Snakemake adds some, before a job starts.
_READ_AT_IMPORT = re.compile(
    rb"(_?PYTHON|LD_|LC_|MALLOC_|TZ|XDG_|OMP_|GOMP_|KMP_|OPENBLAS_|GOTO|MKL_|BLIS_|NVPL_|NUMEXPR_"
    rb"|NPY_|NUMPY_|SCIPY_|NUMBA_|ARROW_|AWKWARD_|UPROOT_|CRAMJAM_|FSSPEC_|MPL|MATPLOTLIB|PILLOW_"
    rb"|PYPARSING|HEPFLOW_|FASTHEP_(?!SMK_))\w*"
    rb"|HOME|LANG(UAGE)?|LOCPATH|GLIBC_TUNABLES|SOURCE_DATE_EPOCH"
)
#: These are one here (see ``process.ONE_THREAD``), and a job that was given more cpus starts cold.
_THREADS = re.compile(rb"\w+_NUM_THREADS")
_MOST = 1_000_000


class _Request(NamedTuple):
    """A job that a client asks for: its folder, its arguments, its environment."""

    folder: bytes
    arguments: list[str]
    variables: Mapping[bytes, bytes]


@dataclass
class _Job:
    """A job under way, and the client that waits for it; whether it was sent a signal."""

    connection: socket.socket
    request: _Request
    words: LastWords
    stopped: bool = False


def main() -> int:
    """Import, listen, and fork until the lifeline is closed."""
    path, lifeline, owner = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    variables = dict(os.environb)  # a module may change them
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # for the run to handle; jobs hear the client
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(str(path))
        listener.listen(128)
        try:
            import_for_good(MODULES)
            serve(listener, (lifeline, owner), variables, path.with_name(COLD))
        finally:
            shutil.rmtree(path.parent, ignore_errors=True)
    return 0


def serve(
    listener: socket.socket,
    shared: tuple[int, int],
    variables: Mapping[bytes, bytes],
    cold: Path,
) -> None:
    """Fork a job for each connection; tell its exit status to the process that asked for it.

    ``shared`` are the lifeline, and what keeps the temporary folder. ``variables`` are those that
    the imported modules have seen; ``cold`` is told why a job is not forked.
    """
    lifeline, _ = shared
    wake, woken = os.pipe()
    os.set_blocking(woken, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(woken)
    jobs: dict[int, _Job] = {}  # by process
    later: list[str] = []  # to be imported when there is nothing else to do

    def close_inherited() -> None:
        signal.set_wakeup_fd(-1)
        selector.close()
        for one in (listener, *(job.connection for job in jobs.values())):
            one.close()
        for descriptor in (*shared, wake, woken):
            os.close(descriptor)

    with selectors.DefaultSelector() as selector:
        for source in (listener, lifeline, wake):
            selector.register(source, selectors.EVENT_READ)
        while True:
            ready = selector.select(0 if later else None)
            if not ready and later:
                import_for_good([later.pop(0)])
            for key, _ in ready:
                if key.fileobj is listener:
                    connection, _ = listener.accept()
                    try:
                        pid, job = _start(connection, variables, close_inherited)
                    except (OSError, ValueError) as why:
                        connection.close()
                        with contextlib.suppress(OSError), cold.open("a") as stream:
                            stream.write(f"{why}\n")
                    else:
                        jobs[pid] = job
                        selector.register(connection, selectors.EVENT_READ, data=pid)
                elif key.fileobj == wake:
                    os.read(wake, 4096)
                    _reap(jobs, selector)
                elif key.fileobj == lifeline:
                    if os.read(lifeline, 64):
                        later = list(_FOR_PLOTS)
                        continue
                    for pid in jobs:
                        kill_group(pid)
                    return
                elif not _hear(key.data, jobs):
                    # It is reaped as usual; until then its silence must not wake us again.
                    selector.unregister(key.fileobj)


def _start(
    connection: socket.socket, variables: Mapping[bytes, bytes], close_inherited: Callable[[], None]
) -> tuple[int, _Job]:
    """Fork a job; return its process, and the job.

    Raises:
        ValueError, OSError: that cannot be done safely, and why; the client then starts it cold.
    """
    connection.settimeout(10)
    request, descriptors = _receive(connection)
    try:
        if changed := differing(variables, request.variables):
            raise ValueError(f"{changed} is not as in the run's environment")
        if not has_one_thread():
            raise ValueError("the fork server has more than one thread")
        connection.sendall(b"+")
        parent, words = os.getpid(), LastWords()
        pid = os.fork()
        if pid == 0:
            close_inherited()
            connection.close()  # or who asked would wait for all that the job leaves running
            words.speak()
            _become(request, descriptors, parent)
        connection.setblocking(False)
    finally:
        for descriptor in descriptors:
            os.close(descriptor)
    return pid, _Job(connection, request, words)


def differing(ours: Mapping[bytes, bytes], its: Mapping[bytes, bytes]) -> str:
    """Return the variables in which a job differs from what was imported here; none: empty."""
    names = [
        name
        for name in sorted({*ours, *its})
        if ours.get(name) != its.get(name)
        and _READ_AT_IMPORT.fullmatch(name)
        and not _THREADS.fullmatch(name)
    ]
    return ", ".join(name.decode("utf-8", "replace") for name in names)


def _receive(connection: socket.socket) -> tuple[_Request, list[int]]:
    """Return what is asked for, and the job's standard output and error."""
    descriptors = array.array("i")
    data, ancillary, _, _ = connection.recvmsg(_MOST, socket.CMSG_SPACE(2 * descriptors.itemsize))
    for level, kind, content in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            descriptors.frombytes(content[: len(content) - len(content) % descriptors.itemsize])
    head, _, body = data.partition(b"\n")
    length, count = map(int, head.split())
    while len(body) < length:
        part = connection.recv(_MOST)
        if not part:
            raise ValueError("the request is incomplete")
        body += part
    if len(descriptors) != 2:
        raise ValueError("no output to write to")
    folder, *rest = body.split(b"\0")
    variables = [item.partition(b"=") for item in rest[count:]]
    request = _Request(
        folder, [os.fsdecode(item) for item in rest[:count]], {n: v for n, _, v in variables}
    )
    return request, list(descriptors)


def _become(request: _Request, descriptors: list[int], parent: int) -> None:
    """Be the job, in the forked process; never return."""

    def run() -> int:
        for number in (signal.SIGCHLD, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        for descriptor in descriptors:
            os.close(descriptor)
        os.chdir(request.folder)
        os.environ.clear()
        os.environb.update(request.variables)
        tempfile.tempdir = None  # the job's own variables name it
        from fasthep_smk.worker.runner import main as run_job

        return run_job(request.arguments, warm=True)

    live_as(run, parent, descriptors)


def _reap(jobs: dict[int, _Job], selector: selectors.BaseSelector) -> None:
    """Tell clients how their jobs ended; kill what these have left running."""
    while jobs:
        ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        if ended is None:
            return
        kill_group(ended.si_pid)
        pid, waited = os.waitpid(ended.si_pid, 0)
        job = jobs.pop(pid, None)
        if job is None:
            continue
        status = os.waitstatus_to_exitcode(waited)
        if end := bad_end(status, job.words):
            if not job.stopped:
                with contextlib.suppress(Exception):
                    _say_bad_end(job.request, end)
            status = status or 1
        with contextlib.suppress(KeyError):
            selector.unregister(job.connection)
        with job.connection, contextlib.suppress(OSError):
            job.connection.sendall(f"{status}\n".encode())


def _say_bad_end(request: _Request, end: End) -> None:
    from fasthep_smk.worker.runner import note_bad_end

    note_bad_end(Path(os.fsdecode(request.folder)), request.arguments, end)


def _hear(pid: int, jobs: dict[int, _Job]) -> bool:
    """Pass a client's signal on to its job; without a client the job ends, and ``False``."""
    try:
        numbers = jobs[pid].connection.recv(64)
    except (BlockingIOError, InterruptedError):
        return True
    except OSError:
        numbers = b""
    jobs[pid].stopped = True
    for number in numbers or [signal.SIGKILL]:
        kill_group(pid, number)
    return bool(numbers)


if __name__ == "__main__":
    sys.exit(main())

"""The fork server: jobs are forked from a process that has everything imported.

``python -m fasthep_smk.worker.fork_server SOCKET LIFELINE OWNER [MODULE ...]`` is started by a run
on one machine or by a pilot, imports what its jobs would, and listens at a Unix socket. Who would
start a job there hands it over (``fork_client.py``).

A forked job is as good as a cold one:

- the process that forks has one thread, which is looked at before every fork; libraries that start
  threads for linear algebra are held to one while it lives, and a job that was given more cpus
  starts cold;
- of the variables that anything reads when it is imported, each has the value that the imported
  modules have seen: else the job starts cold, and ``cold`` beside the socket says why;
- nothing of the user's is imported before the fork, no file of the analysis is open, and the random
  numbers of each job start anew;
- a job has its own session, working directory, environment, standard output and error; a signal to
  the client reaches it, and if the client dies, so does it, unless it was told to go on;
- it ends as Python ends, in time, and what it leaves running ends with it;
- its memory and time are its own, as the kernel counts them.

The process ends when the last holder of the lifeline (a pipe) is gone: the run and its Snakemake,
however they ended.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import selectors
import shutil
import signal
import socket
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from fasthep_smk.flow.distributions import version
from fasthep_smk.storage.layout import COLD
from fasthep_smk.worker.fork_client import GO_ON, Request
from fasthep_smk.worker.job_end import LOOK, End, Watch, kill_group
from fasthep_smk.worker.processes import FOR_PLOTS, MODULES, has_one_thread, import_for_good
from fasthep_smk.worker.series import enter, start, write_to

#: Variables that the interpreter, the C library or a package reads when it starts: what is imported
#: here has seen them, and a job would not look again. All others a job finds in its environment.
#: Snakemake adds some of those, and a shell may have dropped some, before a job starts.
_READ_AT_IMPORT = re.compile(
    r"(_?PYTHON|LD_|LC_|MALLOC_|TZ|XDG_|OMP_|GOMP_|KMP_|OPENBLAS_|GOTO|MKL_|BLIS_|NVPL_|NUMEXPR_"
    r"|NPY_|NUMPY_|SCIPY_|NUMBA_|ARROW_|AWKWARD_|UPROOT_|CRAMJAM_|FSSPEC_|MPL|MATPLOTLIB|PILLOW_"
    r"|PYPARSING|HEPFLOW_|FASTHEP_(?!SMK_))\w*"
    r"|HOME|LANG(UAGE)?|LOCPATH|GLIBC_TUNABLES|SOURCE_DATE_EPOCH"
)
#: These are one here (``util.processes.ONE_THREAD``); a job that was given more cpus starts cold.
_THREADS = re.compile(r"\w+_NUM_THREADS")
#: Said by a process whose job is done, and that waits for another one.
_IS_FREE = b"."
_MOST = 1_000_000
#: A request with what goes with it: standard output and error.
_OUTPUTS = 2


@dataclass
class _Process:
    """A forked process: what it last ran, for which client, and whether that was sent a signal.

    ``connection`` is the client's that waits, ``None`` while the process is free. ``channel``
    asks it for another job. With ``goes_on`` it does not end with its client.
    """

    channel: socket.socket
    watch: Watch
    request: Request
    connection: socket.socket | None = None
    stopped: bool = False
    goes_on: bool = False


def main() -> int:
    """Import, listen, and fork until the lifeline is closed."""
    path, lifeline, owner, *more = sys.argv[1:]
    variables = dict(os.environ)  # a module may change them
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # for the run to handle; jobs hear the client
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(path)
        listener.listen(128)
        try:
            import_for_good([*MODULES, *more])
            version("numpy")  # Python lists what is installed: jobs that use packages need that
            serve(listener, (int(lifeline), int(owner)), variables, Path(path).with_name(COLD))
        finally:
            shutil.rmtree(Path(path).parent, ignore_errors=True)
    return 0


def serve(
    listener: socket.socket, shared: tuple[int, int], variables: Mapping[str, str], cold: Path
) -> None:
    """Fork a job for each connection; tell its exit status to the process that asked for it.

    ``shared`` are the lifeline, and what keeps the temporary folder. ``variables`` are those that
    the imported modules have seen; ``cold`` is told why a job is not forked.
    """
    _Server(listener, shared, variables, cold).serve()


class _Server:
    def __init__(
        self,
        listener: socket.socket,
        shared: tuple[int, int],
        variables: Mapping[str, str],
        cold: Path,
    ) -> None:
        self._listener = listener
        self._shared: tuple[int, ...] = shared
        self._variables, self._cold = variables, cold
        self._forked: dict[int, _Process] = {}
        self._selector = selectors.DefaultSelector()

    def serve(self) -> None:
        lifeline = self._shared[0]
        wake, woken = os.pipe()
        self._shared = (*self._shared, wake, woken)
        os.set_blocking(woken, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(woken)
        for source in (self._listener, lifeline, wake):
            self._selector.register(source, selectors.EVENT_READ)
        later: list[str] = []  # to be imported when there is nothing else to do
        while True:
            busy = [process for process in self._forked.values() if process.connection is not None]
            ready = self._selector.select(0 if later else LOOK if busy else None)
            for process in busy:
                process.watch.look()
            if not ready and later:
                import_for_good([later.pop(0)])
            for key, _ in ready:
                if key.fileobj is self._listener:
                    self._accept()
                elif key.fileobj == wake:
                    os.read(wake, 4096)
                    self._reap()
                elif key.fileobj != lifeline:
                    self._hear(key)
                elif os.read(lifeline, 64):
                    later = list(FOR_PLOTS)
                else:
                    for pid in self._forked:
                        kill_group(pid)
                    return

    def _accept(self) -> None:
        """Have a process run the job that is asked for, one that is free or a new one.

        If that cannot be done safely, the client starts the job cold.
        """
        connection, _ = self._listener.accept()
        connection.settimeout(10)
        outputs: list[int] = []
        try:
            request, outputs = _receive(connection)
            if changed := differing(self._variables, request.variables):
                raise ValueError(f"{changed} differs from the run's environment")
            if not has_one_thread():
                raise ValueError("the fork server runs more than one thread")
            connection.sendall(b"+")
            pid = self._give(request, outputs) or self._fork(connection, request, outputs)
        except (OSError, ValueError, TypeError, EOFError) as why:
            connection.close()
            with contextlib.suppress(OSError), self._cold.open("a") as stream:
                stream.write(f"{why}\n")
            return
        finally:
            for output in outputs:
                os.close(output)
        connection.setblocking(False)
        process = self._forked[pid]
        process.connection, process.goes_on = connection, False
        self._selector.register(connection, selectors.EVENT_READ, data=pid)

    def _give(self, request: Request, outputs: list[int]) -> int | None:
        """Give a job to a process that is free and has run one of the same rule; return which.

        Where there is none, one that is free makes way: no more processes are kept than jobs run
        at a time.
        """
        others = []
        for pid, process in self._forked.items():
            if process.connection is not None or process.stopped:
                continue
            if _rule(process.request) != _rule(request):
                others.append(pid)
                continue
            process.watch.words.begin()
            try:
                request.send(process.channel, outputs)
            except OSError:  # it has been killed
                self._end(pid)
                continue
            process.request = request
            return pid
        for pid in others[:1]:
            self._end(pid)
        return None

    def _end(self, pid: int) -> None:
        """Kill a process that is free, and is never so again."""
        self._forked[pid].stopped = True
        kill_group(pid)

    def _fork(self, connection: socket.socket, request: Request, outputs: list[int]) -> int:
        ours, its = socket.socketpair()

        def close_inherited() -> None:
            signal.set_wakeup_fd(-1)
            self._selector.close()
            connections = [process.connection for process in self._forked.values()]
            # Who asked would wait for all that the job leaves running.
            for one in (ours, connection, *filter(None, connections), self._listener):
                one.close()
            for process in self._forked.values():
                process.channel.close()
            for descriptor in self._shared:
                os.close(descriptor)

        watch = start(_jobs(request, outputs, its, close_inherited))
        its.close()
        ours.settimeout(10)
        self._forked[watch.pid] = _Process(ours, watch, request)
        self._selector.register(ours, selectors.EVENT_READ, data=watch.pid)
        return watch.pid

    def _reap(self) -> None:
        """Tell clients how their jobs ended; kill what these have left running."""
        while self._forked:
            ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            if ended is None:
                return
            kill_group(ended.si_pid)
            pid, status = os.waitpid(ended.si_pid, 0)
            process = self._forked.pop(pid, None)
            if process is None:
                continue
            if process.connection is not None and _said(process) == _IS_FREE:
                self._tell(process, 0)  # it died after its job
            self._forget(process.channel)
            process.channel.close()
            if process.connection is None:
                continue
            end = process.watch.end(status)
            if end.is_bad and not process.stopped:
                with contextlib.suppress(Exception):
                    _note(process.request, end)
            self._tell(process, (process.stopped and end.status) or end.of_job)

    def _tell(self, process: _Process, status: int) -> None:
        """Tell a client how its job has ended."""
        connection, process.connection = process.connection, None
        assert connection is not None
        self._forget(connection)
        with connection, contextlib.suppress(OSError):
            connection.sendall(f"{status}\n".encode())

    def _forget(self, source: socket.socket) -> None:
        """Wait no longer for what this says."""
        with contextlib.suppress(KeyError):
            self._selector.unregister(source)

    def _hear(self, key: selectors.SelectorKey) -> None:
        """Hear that a process is free, or pass a client's signal on; without one, a job ends."""
        process = self._forked.get(key.data)
        if process is None:
            return  # it has just been reaped
        if key.fileobj is process.channel:
            if not (message := _said(process)):  # it ends, or has closed what it does not know
                self._forget(process.channel)
            if message == _IS_FREE and process.connection is not None:
                self._tell(process, 0)
            return
        if key.fileobj is not process.connection:
            return
        try:
            numbers = process.connection.recv(64)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            numbers = b""
        if not numbers:
            # It is told and reaped as usual; until then its silence must not wake us again.
            self._forget(process.connection)
        if GO_ON in numbers:
            process.goes_on = True
        ends = b"" if process.goes_on else bytes([signal.SIGKILL])
        for number in numbers.replace(GO_ON, b"") if numbers else ends:
            process.stopped = True
            kill_group(key.data, number)


def _jobs(
    request: Request, outputs: list[int], server: socket.socket, close_inherited: Callable[[], None]
) -> Iterator[Callable[[], int]]:
    """In a forked process, yield a job, and those that ``server`` has for it after that."""
    close_inherited()
    for number in (signal.SIGCHLD, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    may_stay = False

    def run() -> int:
        from fasthep_smk.worker import runner

        nonlocal may_stay
        enter(request.folder, request.variables)
        status, may_stay = runner.run(request.arguments, warm=True)
        return status

    while True:
        write_to(outputs)
        may_stay = False
        yield run
        if not may_stay:
            return
        write_to([os.open(os.devnull, os.O_WRONLY)] * _OUTPUTS)  # the job's log is not ours now
        os.chdir("/")
        try:
            server.sendall(_IS_FREE)
            request, outputs = _receive(server)
        except (OSError, EOFError):
            return


def _receive(connection: socket.socket) -> tuple[Request, list[int]]:
    """Return what is asked for, and the job's standard output and error.

    Raises:
        EOFError: the client has closed the connection.
        ValueError: that is no request.
    """
    data, outputs, _, _ = socket.recv_fds(connection, _MOST, _OUTPUTS)
    if not data:
        raise EOFError
    while not data.endswith(b"\n"):
        part = connection.recv(_MOST)
        if not part:
            raise ValueError("the request is incomplete")
        data += part
    if len(outputs) != _OUTPUTS:
        raise ValueError("no output to write to")
    return Request(*json.loads(data)), outputs


def _rule(request: Request) -> str:
    """Return the rule of a job, which follows the options."""
    words = request.arguments
    return words[words.index("--") + 1] if "--" in words else ""


def differing(ours: Mapping[str, str], its: Mapping[str, str]) -> str:
    """Return the variables in which a job differs from what was imported here; none: empty."""
    names = [
        name
        for name in sorted({*ours, *its})
        if ours.get(name) != its.get(name)
        and _READ_AT_IMPORT.fullmatch(name)
        and not _THREADS.fullmatch(name)
    ]
    return ", ".join(names)


def _note(request: Request, end: End) -> None:
    from fasthep_smk.worker.runner import note_end

    note_end(Path(request.folder), request.arguments, end)


def _said(process: _Process) -> bytes:
    try:
        return process.channel.recv(1, socket.MSG_DONTWAIT)
    except OSError:
        return b""


if __name__ == "__main__":
    sys.exit(main())

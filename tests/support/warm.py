"""Run ``python -m fasthep_smk`` with everything imported already, which takes a third of the time.

A command of ours starts three Pythons (its own, Snakemake's, the fork server's), and each spends a
second or more on imports. Here one process for each process of pytest imports all of it, once. It
is our fork server, which forks commands in place of jobs. A command forks two more processes before
it does anything: what it later starts with ``subprocess`` becomes one of those, with the arguments,
environment, folder and descriptors that it was given. So each process is the child of the same
parent, in the same session, as before.

Tests of what a process imports, how it is started, or how it is killed use a Python of their own.
With ``FASTHEP_SMK_TESTS_COLD=1`` all of them do.
"""

from __future__ import annotations

import array
import atexit
import contextlib
import fcntl
import functools
import gc
import importlib
import importlib.metadata
import io
import json
import os
import runpy
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, NoReturn

__all__ = ["FASTHEP", "SNAKEMAKE", "fasthep", "read_entries_once", "read_packages_once", "run"]

#: What the three processes import, besides `processes.MODULES` and what plots need.
_MODULES = (
    "fasthep_smk.cli.main",
    "fasthep_smk.cli.clean",
    "fasthep_smk.cli.doctor",
    "fasthep_smk.cli.explain",
    "fasthep_smk.cli.hand_over",
    "fasthep_smk.cli.last_line",
    "fasthep_smk.cli.status",
    "fasthep_smk.cli.why",
    "fasthep_smk.contrib.report.command",
    "fasthep_smk.contrib.report.compare",
    "fasthep_smk.contrib.report.page",
    "fasthep_smk.executors.direct",
    "fasthep_smk.executors.forked_jobs",
    "fasthep_smk.executors.reporting",
    "fasthep_smk.executors.sizes",
    "fasthep_smk.executors.start",
    "fasthep_smk.flow.check",
    "fasthep_smk.flow.compile",
    "fasthep_smk.flow.operation",
    "fasthep_smk.flow.references",
    "fasthep_smk.flow.preflight",
    "fasthep_smk.run.accept_missing",
    "fasthep_smk.run.engine",
    "fasthep_smk.run.fork_server",
    "fasthep_smk.run.hangup",
    "fasthep_smk.run.pipeline",
    "fasthep_smk.run.prestart",
    "fasthep_smk.run.recovery",
    "fasthep_smk.run.whole_run",
    "fasthep_smk.storage.image",
    "fasthep_smk.transfer.setup",
    "fasthep_smk.translate.write",
    "fasthep_smk.worker.fork_server",
    "fasthep_cli.app",
    "hepflow.api",
    "hepflow.compiler.hooks.software",
    "hepflow.render.templates",
    # What the compiler imports for the profile ``hep``.
    "fasthep_carpenter.profiles",
    "fasthep_carpenter.sinks.root_tree",
    "fasthep_curator.compile_hooks.root_tree_metadata",
    "fasthep_curator.profiles",
    "fasthep_render.graph.compile_hooks",
    "fasthep_render.graph.d2",
    "fasthep_render.hist.comparison",
    "fasthep_render.hist.data_mc",
    "fasthep_render.hist.heatmap2d",
    "fasthep_render.hist.project",
    "fasthep_render.profiles",
    "fasthep_render.tables.cutflow_csv",
    "fasthep_toolbench.graph.d2",
    "fasthep_toolbench.profiles",
    "snakemake.cli",
    "snakemake.storage",
    # What Snakemake imports to open a Snakefile.
    "smart_open",
)
#: Modules that a command starts as ``python -P -m MODULE``: these become one of its spares.
_STARTED = (
    "fasthep_smk.cli.hand_over",
    "fasthep_smk.contrib.report",
    "fasthep_smk.executors.local",
    "fasthep_smk.worker.fork_server",
)
_SPARES = 3
#: Commands that start none of them.
_ALONE = frozenset({"check", "clean", "explain", "ops", "report", "status", "translate", "why"})
FASTHEP = "fasthep"
SNAKEMAKE = "snakemake"
#: Programs of other people that may be run: where the function is that each starts with.
_OTHERS = {FASTHEP: "fasthep_cli.app", SNAKEMAKE: "snakemake.cli"}
#: Received descriptors are kept above all numbers that they may have to get.
_HIGH = 500
_MOST = 1_000_000
_PATH = "PYTHONPATH"
#: Where every Python looks for modules.
_OWN_PATH = [path for path in sys.path if path not in os.environ.get(_PATH, "").split(os.pathsep)]


def run(
    *arguments: str | os.PathLike[str],
    cwd: Path,
    env: Mapping[str, str] | None = None,
    timeout: float | None = 900,
    cold: bool = False,
    program: str = "fasthep_smk",
) -> subprocess.CompletedProcess[str]:
    """Return how ``python -m fasthep_smk`` ended, and all that it printed.

    ``program`` may be ``fasthep``, FAST-HEP's own command, or ``snakemake``.

    Raises:
        TimeoutError, subprocess.TimeoutExpired: it took more seconds than that; it was killed.
    """
    words = [os.fspath(argument) for argument in arguments]
    if not cold and not os.environ.get("FASTHEP_SMK_TESTS_COLD"):
        done = _run_warm([program, *words], cwd, env, timeout)
        if done is not None:
            return done
    command = [sys.executable, "-m", program, *words]
    if program in _OTHERS:
        command = [str(Path(sys.executable).parent / program), *words]
    return subprocess.run(
        command, cwd=cwd, env=env, timeout=timeout, capture_output=True, text=True
    )


def fasthep(
    *arguments: str | os.PathLike[str], cwd: Path, env: Mapping[str, str] | None = None
) -> None:
    """Run FAST-HEP's own command, for results to compare with; show what it printed if it fails.

    Nothing of FAST-HEP is changed in the process that it is forked from.
    """
    done = run(*arguments, cwd=cwd, env=env, program=FASTHEP)
    assert done.returncode == 0, f"{arguments}\n{done.stdout[-3000:]}\n{done.stderr[-6000:]}"


def _run_warm(
    words: list[str], cwd: Path, env: Mapping[str, str] | None, timeout: float | None
) -> subprocess.CompletedProcess[str] | None:
    """Return the same from a forked command; ``None`` where the server does not take it."""
    has = dict(os.environ if env is None else env)
    # Where modules are looked for is changed after the fork: no reason to start cold.
    words = [has.pop(_PATH, ""), str(_umask()), *words]
    variables = {os.fsdecode(name): os.fsdecode(value) for name, value in has.items()}
    words = list(map(os.fsdecode, words))
    data = json.dumps([str(Path(cwd).absolute()), words, variables]).encode() + b"\n"
    texts = ["", ""]
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.connect(str(_server()))
        pipes = [os.pipe() for _ in texts]
        ends = [write for _, write in pipes]
        connection.sendmsg(
            [data], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", ends).tobytes())]
        )
        for end in ends:
            os.close(end)

        def collect(number: int) -> None:
            with os.fdopen(pipes[number][0], errors="replace") as stream:
                texts[number] = stream.read()

        readers = [threading.Thread(target=collect, args=[n], daemon=True) for n in range(2)]
        for reader in readers:
            reader.start()
        answer = b""
        connection.settimeout(timeout)  # it is killed when this is closed
        while not answer.endswith(b"\n") and (part := connection.recv(64)):
            answer += part
        for reader in readers:
            reader.join()
    if not answer.startswith(b"+"):
        return None
    return subprocess.CompletedProcess(words[3:], int(answer[1:]), *texts)


@functools.cache
def _server() -> Path:
    """Start the server of this process of pytest; return its socket."""
    folder = Path(tempfile.mkdtemp(prefix="smk-warm-"))
    lifeline, held = os.pipe()
    environment = {**os.environ, **_one_thread()}
    ready = subprocess.Popen(
        [sys.executable, "-P", __file__, str(folder / "socket"), str(lifeline)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        env=environment,
        pass_fds=[lifeline],
    )
    os.close(lifeline)
    assert ready.stdout is not None
    assert ready.stdout.readline() == b"ready\n"
    ready.stdout.close()

    def end() -> None:
        os.close(held)
        ready.wait()

    atexit.register(end)
    return folder / "socket"


def read_packages_once() -> None:
    """Keep what is parsed of the metadata of installed packages, in this process and its forks.

    For each compile FAST-HEP's compiler notes all packages, and Python parses the text of each
    twice: a fifth of the compile. What is kept belongs to a text, not to a package.
    """
    with contextlib.suppress(ImportError):
        distribution: Any = importlib.import_module("importlib_metadata").Distribution
        parse = getattr(distribution, "_assemble_message", None)
        if parse is not None and not hasattr(parse, "cache_info"):
            distribution._assemble_message = staticmethod(functools.cache(parse))
    for one in importlib.metadata.distributions():
        one.metadata  # noqa: B018


def read_entries_once() -> None:
    """Keep how many entries FAST-HEP's compiler has read in a ROOT file, in this process.

    It reads each file for each plan of each compile. What is kept belongs to a file as it is.
    """
    name = "fasthep_curator.compile_hooks.root_tree_metadata"
    inspecting: Any = importlib.import_module(name)
    inspect = inspecting._inspect_file_tree_entries
    if hasattr(inspect, "__wrapped__"):
        return
    known: dict[object, dict[str, int]] = {}

    @functools.wraps(inspect)
    def kept(file_path: str, tree_names: list[str]) -> dict[str, int]:
        try:
            found = os.stat(file_path)  # noqa: PTH116
        except OSError:  # a server's
            return dict(inspect(file_path, tree_names))
        about = (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
        key = (*about, *tree_names)
        if key not in known:
            known[key] = inspect(file_path, tree_names)
        return dict(known[key])

    inspecting._inspect_file_tree_entries = kept


def _draw_once() -> None:
    """Let matplotlib find its fonts and make its parser of formulas: half the work of a first plot.

    What a style sets is put back, and no figure is kept.
    """
    from matplotlib import rc_context
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    mplhep: Any = importlib.import_module("mplhep")
    with rc_context():
        mplhep.style.use("CMS")
        canvas = FigureCanvasAgg(Figure(dpi=40))
        axes = canvas.figure.subplots()
        axes.set(xlabel="x", ylabel="y")
        mplhep.cms.label(data=False, ax=axes)
        canvas.print_png(io.BytesIO())


def _one_thread() -> dict[str, str]:
    from fasthep_smk.util.processes import ONE_THREAD

    return ONE_THREAD


def _serve() -> None:
    """Be the server: import everything, and fork a command for each connection."""
    from fasthep_smk.worker import fork_server, processes, runner

    path, lifeline = Path(sys.argv[1]), int(sys.argv[2])
    os.environ.pop(_PATH, None)
    variables = dict(os.environ)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(str(path))
        listener.listen(8)
        processes.import_for_good([*processes.MODULES, *_MODULES, *processes.FOR_PLOTS])
        # It imports its plugins.
        importlib.import_module("snakemake.cli").get_argument_parser()
        importlib.import_module("PIL.Image").preinit()
        _draw_once()
        read_packages_once()
        gc.freeze()
        runner.run, _Command.run_job = _Command.run, runner.run
        runner.note_end, _Command.note_end = lambda *_: None, runner.note_end
        print("ready", flush=True)
        output = os.open(os.devnull, os.O_WRONLY)
        os.dup2(output, 1)
        fork_server.serve(listener, (lifeline, output), variables, path.with_name("cold"))


class _Command:
    """A command in place of a job, in the forked process; and what the server has put it for."""

    run_job: Any
    note_end: Any

    @staticmethod
    def run(arguments: list[str], *, warm: bool) -> tuple[int, bool]:
        del warm
        from fasthep_smk.util import last_words
        from fasthep_smk.worker import runner
        from fasthep_smk.worker.job_end import DONE

        runner.run, runner.note_end = _Command.run_job, _Command.note_end
        importlib.invalidate_caches()
        path, umask, program, *arguments = arguments
        os.umask(int(umask))
        _search(path)
        if path:
            os.environ[_PATH] = path
        spares = 0 if arguments and arguments[0] in _ALONE else _SPARES
        _Popen.spares = [_Spare() for _ in range(spares)]
        subprocess.Popen = _Popen
        sys.argv = [program.replace("_", "-"), *arguments]
        sys.orig_argv = [sys.executable, "-P", "-m", program, *arguments]
        module = _OTHERS.get(program, "fasthep_smk.cli.main")
        try:
            return importlib.import_module(module).main() or 0, False
        finally:
            while _Popen.spares:
                _Popen.spares.pop().end()
            last_words.say(**{DONE: ""})


def _umask() -> int:
    os.umask(before := os.umask(0o077))
    return before


def _search(path: str) -> None:
    """Look for modules where a Python with this ``PYTHONPATH`` does."""
    has = [folder for folder in path.split(os.pathsep) if folder]
    sys.path[:] = [*has, *_OWN_PATH]


class _Spare:
    """A process that becomes a Python with other arguments; it ends if there are none."""

    def __init__(self) -> None:
        self._ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        self.pid = os.fork()
        if self.pid == 0:
            self._ours.close()
            for other in _Popen.spares:
                other._ours.close()
            _become(its)
        its.close()

    def end(self) -> None:
        """End it unused: a process that has no children ends sooner."""
        self._ours.close()
        os.waitpid(self.pid, 0)

    def tell(self, words: Sequence[str], how: Mapping[str, Any], descriptors: list[int]) -> None:
        data = json.dumps({"words": words, **how}).encode("utf-8", "surrogateescape")
        socket.send_fds(self._ours, [b"%d\n" % len(data)], descriptors)
        self._ours.sendall(data)
        self._ours.close()


class _Popen(subprocess.Popen[Any]):
    """Starts our own modules in spare processes, and everything else as usual."""

    spares: ClassVar[list[_Spare]] = []

    def _execute_child(self, args: Any, *how: Any) -> None:
        words = [os.fspath(word) for word in args] if isinstance(args, (list, tuple)) else []
        if words[:3] != [sys.executable, "-P", "-m"] or words[3] not in _STARTED or not self.spares:
            super()._execute_child(args, *how)
            return
        _, _, _, pass_fds, cwd, env, _, _, _, p2cread, p2cwrite, c2pread, c2pwrite, *more = how
        errread, errwrite, _, _, _, _, _, session, _ = more
        outputs = [
            own if given == -1 else given for own, given in enumerate((p2cread, c2pwrite, errwrite))
        ]
        settings = {
            "targets": [0, 1, 2, *pass_fds],
            "folder": os.fspath(cwd or "."),
            "environment": dict(os.environ if env is None else env),
            "session": session,
            "umask": _umask(),
        }
        spare = self.spares.pop()
        spare.tell(words, settings, [*outputs, *pass_fds])
        self.pid, self._child_created = spare.pid, True
        self._close_pipe_fds(p2cread, p2cwrite, c2pread, c2pwrite, errread, errwrite)


def _become(its: socket.socket) -> NoReturn:
    """Wait to be told what to be, and be that."""
    from fasthep_smk.util.last_words import LastWords
    from fasthep_smk.worker.job_end import Before, end_python
    from fasthep_smk.worker.processes import exit_status

    LastWords().speak()  # not for the command
    data, descriptors, _, _ = socket.recv_fds(its, _MOST, 64)
    if not data:
        os._exit(0)
    length, _, body = data.partition(b"\n")
    while len(body) < int(length):
        body += its.recv(_MOST)
    told = json.loads(body)
    targets = told["targets"]
    assert max(targets) < _HIGH
    kept = [fcntl.fcntl(number, fcntl.F_DUPFD, _HIGH) for number in descriptors]
    for number in [int(name) for name in os.listdir("/proc/self/fd")]:  # noqa: PTH208
        if number > 2 and number not in kept:
            with contextlib.suppress(OSError):
                os.close(number)
    its.detach()
    for number, target in zip(kept, targets, strict=True):
        os.dup2(number, target)
        os.close(number)
    if told["session"]:
        os.setsid()
    os.environ.clear()
    os.environ.update(told["environment"])
    _search(os.environ.get(_PATH, ""))
    os.chdir(told["folder"])
    os.umask(told["umask"])
    signal.signal(signal.SIGINT, signal.default_int_handler)
    unbuffered = bool(os.environ.get("PYTHONUNBUFFERED"))
    sys.stdout.reconfigure(write_through=unbuffered)
    tempfile.tempdir = None
    _, _, _, module, *arguments = told["words"]
    sys.argv, sys.orig_argv = [module, *arguments], told["words"]
    sys.modules.pop(module, None)
    before = Before()

    def program() -> int:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
        return 0

    status = exit_status(program)
    end_python(status, before)


if __name__ == "__main__":
    _serve()

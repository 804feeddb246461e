"""However a job starts, it ends as Python ends, and what it leaves running ends with it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from fasthep_smk.storage.layout import FORK_SERVER
from tests.support import warm
from tests.support.forms import chosen, in_turn, some
from tests.support.own_op import add_own_op
from tests.support.processes import until

pytestmark = pytest.mark.integration

#: How jobs start, each with its options and whether there is a fork server.
STARTS: dict[str, tuple[tuple[str, ...], bool]] = {
    "cold": (("--bundle", "1"), False),
    "forked": (("--bundle", "1"), True),
    "cold bundle": (("--bundle", "2"), False),
    "forked bundle": (("--bundle", "2"), True),
}
OP = """\
import atexit, logging, logging.handlers, multiprocessing, os, re, signal, subprocess, sys
import tempfile, threading, time, weakref
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path

SPEC = {"name": "own.op", "kind": "transform", "params": {},
        "input": {"name": "stream", "kind": "event_stream", "required": True},
        "result": {"kind": "event_stream"}}
LEFT = Path(__file__).parent / "left"
KEPT = []


def note(kind, text):
    with open(LEFT / f"{kind}.txt", "a") as stream:
        stream.write(f"{text}\\n")


def run(*, stream, ctx=None):
    what(ctx["dataset_name"])
    return stream
"""
LEAVES_ALL = """

class Writer:
    def __init__(self, name):
        self.name, self.stream = name, open(LEFT / "writer.txt", "ab", buffering=0)

    def __del__(self):
        self.stream.write(f"{self.name}\\n".encode())


def what(name):
    KEPT.append(open(LEFT / "open.txt", "a"))
    KEPT[-1].write(f"{name}\\n")
    atexit.register(note, "atexit", name)
    file = logging.FileHandler(LEFT / "log.txt")
    logging.getLogger("own").addHandler(logging.handlers.MemoryHandler(1000, target=file))
    logging.getLogger("own").warning(name)
    threading.Thread(target=lambda: (time.sleep(0.2), note("thread", name))).start()
    KEPT.append(tempfile.TemporaryDirectory(dir=LEFT, prefix="folder-"))
    KEPT.append(Writer(name))
    weakref.finalize(KEPT[-1], note, "finalize", name)
    multiprocessing.get_context("fork").Process(target=note, args=("process", name)).start()
    ThreadPoolExecutor().submit(lambda: (time.sleep(0.2), note("pool", name)))
"""
KINDS = ("atexit", "finalize", "log", "open", "pool", "process", "thread", "writer")
#: What is left running notes its process: it would never end by itself.
RUNNING = {
    "process pool": """
def what(name):
    KEPT.append(ProcessPoolExecutor(1, multiprocessing.get_context("fork")))
    note("pids", KEPT[-1].submit(os.getpid).result())
""",
    "child": """
def what(name):
    note("pids", subprocess.Popen(["sleep", "1000"]).pid)
""",
    "child of a shell that has ended": """
def what(name):
    os.system(f"sleep 1000 & echo $! >> {LEFT}/pids.txt")
""",
    "forked process": """
def what(name):
    if (pid := os.fork()) == 0:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        time.sleep(1000)
    note("pids", pid)
""",
}
HANDLER = "an exit handler or library of an operation did not end in time, and was killed"
#: What keeps a process from ending well that has written its record; and what is said of it.
BAD_ENDS = {
    "thread": ("threading.Thread(target=hang, name='Counter').start()", "thread 'Counter' did not"),
    "many threads": (
        "[threading.Thread(target=hang, name=f'Counter {n:0>90}').start() for n in range(50)]",
        "thread 'Counter 000",
    ),
    "pool": (
        "KEPT.append(ThreadPoolExecutor(1, 'Pool')); KEPT[-1].submit(hang)",
        "thread 'Pool_0' did not",
    ),
    "child": (
        "multiprocessing.get_context('fork').Process(target=hang).start()",
        HANDLER,
    ),
    "handler": ("atexit.register(hang)", HANDLER),
    "handler of threads": ("threading._register_atexit(hang)", HANDLER),
    "finalizer": ("weakref.finalize(hang, hang)", HANDLER),
    "__del__": (
        "sys.kept = Hangs(); atexit.register(print)",
        HANDLER,
    ),
    "handler without the GIL": ("atexit.register(match)", HANDLER),
    "handler that hears no signal": ("atexit.register(deaf)", HANDLER),
    "handler that stops": ("atexit.register(stop)", HANDLER),
    "handler that ends the process": (
        "atexit.register(leave)",
        "status 3, in an exit handler",
    ),
    "thread that ends the process": (
        "last = lambda: (threading.main_thread().join(), os._exit(3))\n"
        "threading.Thread(target=last, name='Last').start()",
        "status 3, in thread 'Last'",
    ),
    "handler that is killed": (
        "atexit.register(os.kill, os.getpid(), signal.SIGKILL)",
        "signal 9 (killed), in",
    ),
}
ENDS = """
TURNS = {turns!r}


def hang():
    while True:
        time.sleep(1)


def leave():
    os._exit(3)


def match():
    re.match("(a+)+$", "a" * 60 + "b")


def stop():
    os.kill(os.getpid(), signal.SIGSTOP)
    hang()


def deaf():
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    hang()


def catch():
    while True:
        try:
            hang()
        except Exception:
            continue


class Hangs:
    def __del__(self, sleep=time.sleep):
        sleep(1000)


def what(name):
    for kind, code in TURNS.items():
        try:
            (LEFT / f"turn {{kind}}").mkdir()
        except FileExistsError:
            continue
        exec(code, globals())
        return
"""
#: What a time limit does not end in the process itself.
BEYOND_LIMITS = {
    "stopped": "stop()",
    "the GIL": "match()",
    "blocked": "deaf()",
    "handler": "signal.signal(signal.SIGALRM, signal.SIG_IGN); hang()",
    "alarm": "signal.alarm(0); hang()",
    "caught": "catch()",
}
#: What ends a process before its work is done, and how that is called.
TOO_EARLY = {
    "a fault": ("import ctypes; ctypes.string_at(0)", "signal 11 (segmentation fault)"),
    "abort": ("os.abort()", "signal 6 (aborted)"),
    "SIGTERM": ("os.kill(os.getpid(), signal.SIGTERM)", "signal 15 (terminated)"),
    "SIGKILL": ("os.kill(os.getpid(), signal.SIGKILL)", "signal 9 (killed): usually because"),
    "sys.exit(0)": ("sys.exit(0)", "sys.exit(0) was called: an operation must return"),
    "sys.exit()": ("sys.exit()", "sys.exit() was called: an operation must return"),
    "os._exit(0)": ("os._exit(0)", "its process ended with status 0 before its work was done"),
    "os._exit(3)": ("os._exit(3)", "its process ended with status 3 before its work was done"),
}


@pytest.fixture
def own(analysis: Path) -> Iterator[Callable[[str], Path]]:
    """The small analysis with an operation that does this for each of its three partitions."""
    add_own_op(analysis)
    (analysis / "left").mkdir()

    def make(what: str) -> Path:
        (analysis / "own_ops.py").write_text(OP + what)
        return analysis

    yield make
    for pid in filter(alive, pids(analysis)):
        os.kill(pid, signal.SIGKILL)


@pytest.fixture
def start(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> tuple[str, ...]:
    """Options of a run whose jobs start in one of the ways."""
    options, warm = STARTS[request.param]
    if not warm:
        monkeypatch.setenv(FORK_SERVER, "")
    return ("workflow.yaml", "-j", "2", *options)


def noted(folder: Path, kind: str) -> list[str]:
    path = folder / "left" / f"{kind}.txt"
    return sorted(path.read_text().split()) if path.exists() else []


def pids(folder: Path) -> list[int]:
    return [*map(int, noted(folder, "pids"))]


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def records(build: Path) -> list[dict[str, Any]]:
    return [json.loads(path.read_text()) for path in build.glob("smk/work/stage*/**/record.json")]


def run(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run ``fasthep-smk``; it must end."""
    return warm.run(*arguments, cwd=cwd, timeout=120)


@pytest.mark.parametrize(
    "start", chosen(STARTS, lambda start: start in ("cold", "forked bundle")), indirect=True
)
def test_what_is_left_open_ends_as_with_python(
    own: Callable[[str], Path], start: tuple[str, ...]
) -> None:
    folder = own(LEAVES_ALL)
    done = run(*start, cwd=folder)
    assert done.returncode == 0, done.stderr
    for kind in KINDS:
        assert noted(folder, kind) == ["data", "data", "dy"], kind
    assert not list((folder / "left").glob("folder-*"))


@pytest.mark.parametrize(
    ("end", "start"),
    chosen(
        in_turn(TOO_EARLY, list(STARTS)),
        lambda end, _: end in ("a fault", "abort", "SIGKILL", "os._exit(0)", "sys.exit(0)"),
    ),
    indirect=["start"],
)
def test_what_ends_a_job_too_early_is_named(
    own: Callable[[str], Path], start: tuple[str, ...], end: str
) -> None:
    what, named = TOO_EARLY[end]
    folder = own(f"def what(name):\n    if name == 'dy': {what}\n")
    done = run(*start, "-k", cwd=folder)
    assert done.returncode == 1
    assert f"stage 'Own' (own.op) failed: {named}" in done.stderr
    assert "without an error message" not in done.stderr
    assert len(records(folder / "build")) == 2
    if "signal" in named and end in ("a fault", "abort"):
        logs = folder.glob("build/debug/distributed/logs/*/dy/*.log")
        assert any('own_ops.py", line' in log.read_text() for log in logs)


@pytest.mark.parametrize(
    "start", chosen(STARTS, lambda start: start in ("cold", "forked bundle")), indirect=True
)
def test_what_an_operation_forks_and_lets_go_is_not_the_job(
    own: Callable[[str], Path], start: tuple[str, ...]
) -> None:
    folder = own(
        "def what(name):\n"
        "    for end in (lambda: None, lambda: sys.exit(7), lambda: sys.exit(), lambda: 1 / 0):\n"
        "        if (pid := os.fork()) == 0:\n"
        "            return end()\n"
        "        note('status', os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))\n"
    )
    done = run(*start, cwd=folder)
    assert done.returncode == 0, done.stderr
    assert len(records(folder / "build")) == 3
    assert noted(folder, "status") == sorted("0701" * 3)
    assert "warning" not in done.stderr


@pytest.mark.parametrize("start", some(STARTS, 1), indirect=True)
def test_an_exit_status_is_the_jobs(own: Callable[[str], Path], start: tuple[str, ...]) -> None:
    folder = own("def what(name): sys.exit('enough')\n")
    done = run(*start, "-k", cwd=folder)
    assert done.returncode == 1
    assert not records(folder / "build")
    logs = [path.read_text() for path in folder.glob("build/debug/distributed/logs/**/*.log")]
    assert any("enough" in text for text in logs)


@pytest.mark.parametrize(
    "start", chosen(STARTS, lambda start: start in ("cold", "forked bundle")), indirect=True
)
def test_a_job_counts_once_its_record_is_there(
    own: Callable[[str], Path], start: tuple[str, ...]
) -> None:
    """However its process ends, it does so in seconds, and what has kept it is named."""
    folder = own(ENDS.format(turns={kind: code for kind, (code, _) in BAD_ENDS.items()}))
    done = run(*start, "-j", "8", "--chunk-size", "12", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert len(records(folder / "build")) == 16 > len(BAD_ENDS)
    logs = [path.read_text() for path in folder.glob("build/debug/distributed/logs/**/*.log")]
    for kind, (_, named) in BAD_ENDS.items():
        assert (folder / "left" / f"turn {kind}").exists()
        text = f"its results are complete, but its process did not end well: {named}"
        assert text in done.stderr, kind
        assert any(text in log for log in logs), kind
    assert done.stderr.count("did not end well") == len(BAD_ENDS)


@pytest.mark.parametrize(
    "start", chosen(STARTS, lambda start: start in ("cold bundle", "forked")), indirect=True
)
def test_a_time_limit_ends_every_job(own: Callable[[str], Path], start: tuple[str, ...]) -> None:
    folder = own(ENDS.format(turns=BEYOND_LIMITS))
    workflow = folder / "workflow.yaml"
    limit = "execution: {config: {walltime: 2}}\n"
    workflow.write_text(limit + workflow.read_text())
    begun = time.monotonic()
    done = run(*start, "-j", "8", "-k", "--chunk-size", "20", cwd=folder)
    assert time.monotonic() - begun < 60
    assert done.returncode == 1
    assert f"{len(BEYOND_LIMITS)} jobs failed" in done.stderr
    late = "stage 'Own' (own.op) failed: the time limit of pool 'default', 00:00:02, has passed"
    assert done.stderr.count(late) == len(BEYOND_LIMITS)
    assert len(records(folder / "build")) == 9 - len(BEYOND_LIMITS)


@pytest.mark.parametrize("start", chosen(STARTS, lambda start: start == "forked"), indirect=True)
def test_all_ends_when_a_run_is_killed_beside_a_job_that_does_not(
    own: Callable[[str], Path], start: tuple[str, ...]
) -> None:
    left = "    threading.Thread(target=time.sleep, args=[1000]).start()\n"
    folder = own(f"def what(name):\n    note('pids', os.getpid())\n{left}")
    command = [sys.executable, "-m", "fasthep_smk", *start]
    process = subprocess.Popen(command, cwd=folder, stderr=subprocess.DEVNULL)
    until(lambda: records(folder / "build"))
    others = [pid for pid in map(int, marked(folder)) if pid != process.pid]
    assert len(others) >= 3
    process.kill()
    process.wait()
    until(lambda: not any(map(alive, others)), 40)


def marked(folder: Path) -> list[str]:
    """What runs in the build folder or was started by what does."""
    mark = f"FASTHEP_SMK_RUN={(folder / 'build/smk/lock').stat().st_dev}:"
    mark += str((folder / "build/smk/lock").stat().st_ino)
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            if mark.encode() in (path / "environ").read_bytes().split(b"\0"):
                found.append(path.name)
        except OSError:
            continue
    return found


@pytest.mark.parametrize(("kind", "start"), in_turn(RUNNING, list(STARTS)), indirect=["start"])
def test_what_is_left_running_ends_with_its_job(
    own: Callable[[str], Path], start: tuple[str, ...], kind: str
) -> None:
    folder = own(RUNNING[kind])
    done = run(*start, cwd=folder)
    assert done.returncode == 0, done.stderr
    assert len(pids(folder)) == 3
    until(lambda: not any(map(alive, pids(folder))), 10)


@pytest.mark.parametrize(
    ("number", "start"),
    some(in_turn([signal.SIGINT, signal.SIGTERM], list(STARTS)), 2),
    indirect=["start"],
)
def test_stopping_a_run_ends_all_that_its_jobs_have_started(
    own: Callable[[str], Path], start: tuple[str, ...], number: signal.Signals
) -> None:
    folder = own(RUNNING["forked process"] + "    time.sleep(1000)\n")
    command = [sys.executable, "-m", "fasthep_smk", *start]
    process = subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE)
    until(lambda: len(pids(folder)) == 2)
    process.send_signal(number)
    assert process.wait(60) == 130
    until(lambda: not any(map(alive, pids(folder))), 10)


@pytest.mark.parametrize("start", some(STARTS, 1), indirect=True)
def test_stopping_twice_ends_also_what_hears_no_signal(
    own: Callable[[str], Path], start: tuple[str, ...]
) -> None:
    deaf = (
        "    signal.signal(signal.SIGINT, signal.SIG_IGN)\n"
        "    signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "    note('pids', os.getpid())\n"
        "    time.sleep(1000)\n"
    )
    folder = own(RUNNING["forked process"].replace("== 0:", "== 0:\n        os.setsid()") + deaf)
    command = [sys.executable, "-m", "fasthep_smk", *start]
    process = subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE)
    until(lambda: len(pids(folder)) == 4)
    process.send_signal(signal.SIGTERM)
    time.sleep(1)
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 130
    until(lambda: not any(map(alive, pids(folder))), 10)


def test_a_job_waits_for_no_job_beside_it(own: Callable[[str], Path]) -> None:
    """What one client hears must not be kept from it by a job that was forked meanwhile."""
    folder = own(
        "def what(name):\n"
        "    time.sleep(1 if name == 'dy' else 0)\n"
        "    while name == 'dy' and not (LEFT / 'done').exists(): time.sleep(0.05)\n"
    )
    command = [sys.executable, "-m", "fasthep_smk", "workflow.yaml", "-j", "2", "--bundle", "1"]
    process = subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE, text=True)
    log = folder / "build/debug/distributed/snakemake.log"
    until(lambda: len(records(folder / "build")) == 2)
    try:
        until(lambda: log.read_text().count("Finished jobid") == 2, 10)
    finally:
        (folder / "left/done").touch()
        assert process.wait(60) == 0

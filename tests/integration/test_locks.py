"""Runs that meet on one build folder whose locks do not reach each other.

Two FUSE mounts of one folder share no locks; the kernel refuses flock where it is told to.
"""

from __future__ import annotations

import platform
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from fasthep_smk.storage.run_lock import SILENT
from tests.clusters.conftest import not_had
from tests.integration import test_killed
from tests.integration.conftest import Run
from tests.integration.test_killed import alive, snakemake_of, tries, wait_for
from tests.support.programs import program

pytestmark = pytest.mark.integration

#: Runs a command for which flock does not exist, by a filter of the kernel (seccomp(2)).
WITHOUT_LOCKS = """\
import ctypes, os, struct, sys
number, nothing = int(sys.argv[1]), 38 | 0x50000  # ENOSYS
program = b"".join(struct.pack("HBBI", *one) for one in (
    (0x20, 0, 0, 0), (0x15, 0, 1, number), (0x06, 0, 0, nothing), (0x06, 0, 0, 0x7FFF0000)))
held = ctypes.create_string_buffer(program)
class Filter(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("program", ctypes.c_void_p)]
prctl = ctypes.CDLL(None, use_errno=True).prctl
assert prctl(38, 1, 0, 0, 0) == 0
assert prctl(22, 2, ctypes.byref(Filter(4, ctypes.addressof(held))), 0, 0) == 0
os.execvp(sys.argv[2], sys.argv[2:])
"""
FLOCK = {"x86_64": 73, "aarch64": 32}
OWN = (sys.executable, "-m", "fasthep_smk", "workflow.yaml", "-j", "2")
#: Another machine: of another name, with processes of its own.
ELSEWHERE = (
    *("unshare", "--uts", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c"),
    'hostname node17 && exec "$@"', "sh",
)  # fmt: skip

slow = test_killed.slow


@pytest.fixture
def mounts(slow: Path) -> Iterator[tuple[Path, Path]]:
    """Two mounts of the slow analysis."""
    bindfs = program("bindfs")
    places = slow.with_name(f"{slow.name}-first"), slow.with_name(f"{slow.name}-second")
    for place in places:
        place.mkdir()
    try:
        for place in places:
            done = subprocess.run([bindfs, slow, place], capture_output=True, text=True)
            if done.returncode:
                not_had("a FUSE file system", done.stderr)
        yield places
    finally:
        for place in places:
            subprocess.run(["umount", "--lazy", place], capture_output=True)


def without_locks() -> tuple[str, ...]:
    if platform.machine() not in FLOCK:
        not_had("a filter of system calls", f"the number of flock on {platform.machine()}")
    return (sys.executable, "-c", WITHOUT_LOCKS, str(FLOCK[platform.machine()]))


def start(folder: Path, *before: str) -> subprocess.Popen[str]:
    """Start a run, and return when one of its jobs is in the slow stage."""
    run = subprocess.Popen(
        [*before, *OWN], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    wait_for(lambda: len(tries(folder)) >= 2, 120)
    return run


def run(folder: Path, *before: str, words: tuple[str, ...] = OWN) -> tuple[int, str]:
    done = subprocess.run([*before, *words], cwd=folder, capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


@pytest.fixture(params=["not shared", "none"])
def apart(slow: Path, request: pytest.FixtureRequest) -> tuple[Path, Path, tuple[str, ...]]:
    """Two ways to one folder where flock does not tell of each other, and how commands begin."""
    if request.param == "none":
        return slow, slow, without_locks()
    return *request.getfixturevalue("mounts"), ()


def test_a_second_run_is_refused_and_both_keep_their_results(
    slow: Path, apart: tuple[Path, Path, tuple[str, ...]]
) -> None:
    one, other, before = apart
    first = start(one, *before)
    smk = (sys.executable, "-m", "fasthep_smk")
    for words in (OWN, (*smk, "clean"), (*smk, "workflow.yaml", "-n")):
        status, said = run(other, *before, words=words)
        assert status == 1
        assert f"another run is in progress in {other / 'build'}" in said
        assert f"process {first.pid} on " in said
    assert f"run in progress: process {first.pid}" in run(other, words=(*smk, "status"))[1]
    (slow / "go").touch()
    said, _ = first.communicate(timeout=120)
    assert first.returncode == 0, said
    assert len(tries(slow)) == 3
    status, said = run(other, *before)
    assert status == 0, said
    assert "everything was up to date" in said


def test_a_run_that_was_killed_goes_on(
    slow: Path, apart: tuple[Path, Path, tuple[str, ...]]
) -> None:
    one, other, before = apart
    first = start(one, *before)
    left = [snakemake_of(slow), *tries(slow)]
    first.kill()
    first.wait()
    (slow / "slow").unlink()
    status, said = run(other, *before)
    assert status == 0, said
    assert not [pid for pid in left if alive(pid)]
    assert (slow / "build/artifacts/histograms/Met.pkl").exists()


def test_cancel_stops_a_run_behind_another_mount(mounts: tuple[Path, Path]) -> None:
    first = start(mounts[0])
    status, said = run(mounts[1], words=(sys.executable, "-m", "fasthep_smk", "cancel"))
    assert status == 0, said
    assert f"the run was stopped (process {first.pid}" in said
    assert first.wait(30) == 130


def test_a_run_of_another_machine_is_known_by_its_signs_of_life(
    slow: Path, mounts: tuple[Path, Path]
) -> None:
    program("unshare")
    try:
        first = start(mounts[0], *ELSEWHERE)
        status, said = run(mounts[1])
        assert status == 1
        assert "on node17 has not ended its run" in said
        assert f"another run is in progress in {mounts[1] / 'build'}" in said
        assert "if that process does not run in this folder: rm " in said
        status, said = run(mounts[1], words=(sys.executable, "-m", "fasthep_smk", "cancel"))
        assert status == 1
        assert "is on node17" in said
        first.kill()
        first.wait()
        (slow / "slow").unlink()
        began = time.monotonic()
        status, said = run(mounts[1])
        assert status == 0, said
        assert time.monotonic() - began > SILENT
    finally:
        (slow / "tries.txt").unlink(missing_ok=True)  # the numbers are of another machine


def test_one_of_two_that_start_at_the_same_moment_is_let_in(mounts: tuple[Path, Path]) -> None:
    program = (
        "from pathlib import Path; from fasthep_smk.run import lock\n"
        "for _ in range(20):\n"
        "    input()\n"
        "    try:\n"
        "        with lock.hold(Path('build').absolute()):\n"
        "            input(print('in', flush=True) or '')\n"
        "    except lock.Held:\n"
        "        input(print('refused', flush=True) or '')\n"
        "    print('out', flush=True)\n"
    )
    both = [
        subprocess.Popen(
            [sys.executable, "-c", program],
            cwd=folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for folder in mounts
    ]

    def say() -> list[str]:
        for one in both:
            assert one.stdin is not None
            one.stdin.write("\n")
            one.stdin.flush()
        return sorted(one.stdout.readline().strip() for one in both if one.stdout is not None)

    for _ in range(20):
        assert say() == ["in", "refused"]
        assert say() == ["out", "out"]
    assert [one.wait(30) for one in both] == [0, 0]


def test_a_start_that_was_killed_does_not_keep_others_out(analysis: Path, smk: Run) -> None:
    """It leaves the file by which one run at a time starts."""
    program = (
        "import os, signal; from pathlib import Path; from fasthep_smk.run import lock\n"
        "lock._lock = lambda *_: os.kill(os.getpid(), signal.SIGKILL)\n"
        "with lock.hold(Path('build').absolute()): pass\n"
    )
    status, _ = run(analysis, words=(sys.executable, "-c", program))
    assert status == -signal.SIGKILL
    assert (analysis / "build/smk/lock.start").exists()
    done = smk("workflow.yaml", cwd=analysis)
    assert done.returncode == 0, done.stderr
    assert not (analysis / "build/smk/lock.start").exists()

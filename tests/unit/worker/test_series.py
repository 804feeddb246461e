"""Jobs that share a forked process: what each finds, and what happens to the rest."""

from __future__ import annotations

import atexit
import importlib
import os
import random
import signal
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import pytest

from fasthep_smk.storage import failures
from fasthep_smk.worker.job_end import End
from fasthep_smk.worker.series import run_series

Job = Callable[[], int]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def say(text: object) -> None:
    """Print, past what pytest holds back."""
    os.write(1, f"{text}\n".encode())


def series(**jobs: Job) -> dict[str, End]:
    """Run jobs as a bundle does: what is left is started anew."""

    @contextmanager
    def log(key: str) -> Iterator[IO[bytes]]:
        with Path(f"{key}.log").open("wb") as stream:
            yield stream

    found: dict[str, End] = {}
    while left := [key for key in jobs if key not in found]:
        ended = run_series(left, lambda key: jobs[key](), log)
        assert ended, "there would be no end"
        found |= dict(zip(left, ended, strict=False))
        with Path("starts").open("a") as stream:
            stream.write(f"{left[0]}\n")
    return found


def starts() -> list[str]:
    """The first jobs of all processes."""
    return Path("starts").read_text().split()


def says(text: str, status: int = 0) -> Job:
    def job() -> int:
        say(text)
        return status

    return job


def test_small_jobs_share_a_process_and_have_logs_of_their_own() -> None:
    found = series(one=says("first"), two=says("second"), three=says("third"))
    assert [ended.status for ended in found.values()] == [0, 0, 0]
    assert Path("two.log").read_text() == "second\n"
    assert starts() == ["one"]


def test_after_one_that_took_long_or_failed_the_rest_is_forked_anew() -> None:
    def long() -> int:
        end = time.process_time() + 0.4
        while time.process_time() < end:
            pass
        return 0

    found = series(one=long, two=says("bad", status=3), three=says("third"))
    assert [ended.status for ended in found.values()] == [0, 3, 0]
    assert starts() == ["one", "two", "three"]


def test_one_that_is_killed_or_ends_the_process_takes_no_other_along() -> None:
    def die() -> int:
        os.kill(os.getpid(), signal.SIGKILL)
        return 0

    def leave() -> int:
        os._exit(0)

    def raise_() -> int:
        raise OSError("as it happens")

    found = series(one=says("1"), two=die, three=leave, four=raise_, five=says("5"))
    assert [ended.status for ended in found.values()] == [0, -signal.SIGKILL, 0, 1, 0]
    assert starts() == ["one", "three", "four", "five"]


def test_what_one_leaves_behind_is_undone(folder: Path) -> None:
    def leaves_much() -> int:
        os.environ["LEFT"] = "behind"
        os.environ.pop("PATH", None)
        (folder / "elsewhere").mkdir()
        os.chdir("elsewhere")
        random.seed(1)
        say(random.random())
        return 0

    def finds_nothing() -> int:
        say(random.random())
        return int("LEFT" in os.environ or "PATH" not in os.environ or Path.cwd() != folder)

    random.seed(1)
    found = series(one=leaves_much, two=finds_nothing, three=finds_nothing)
    assert [ended.status for ended in found.values()] == [0, 0, 0]
    drawn = {Path(f"{key}.log").read_text() for key in found}
    assert len(drawn) == 3  # no two have the same random numbers
    assert starts() == ["one"]


def test_one_that_brings_a_package_is_the_last_of_its_process(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a package does when it is imported, a second import would not do again."""
    (folder / "sets_a_seed.py").write_text("import random\nrandom.seed(1)\n")
    monkeypatch.syspath_prepend(folder)

    def draws() -> int:
        importlib.import_module("sets_a_seed")
        say(random.random())
        return 0

    series(one=draws, two=draws, three=says("3"), four=says("4"))
    assert Path("one.log").read_text() == Path("two.log").read_text()
    assert starts() == ["one", "two", "three"]


LEAVES: dict[str, Callable[[], object]] = {
    "an exit handler": lambda: atexit.register(say, "its end"),
    "a finalizer": lambda: weakref.finalize(kept, say, "its end"),
    "a thread": lambda: threading.Thread(target=lambda: (time.sleep(0.1), say("its end"))).start(),
    "an open file": lambda: kept.hold(os.fdopen(os.dup(1), "w")).write("its end\n"),
}


class Kept(list[object]):
    """What an operation keeps until the end of its process."""

    def hold(self, stream: IO[str]) -> IO[str]:
        self.append(stream)
        return stream


kept = Kept()


@pytest.mark.parametrize("what", LEAVES)
def test_one_that_leaves_something_for_the_end_is_the_last_of_its_process(what: str) -> None:
    def leaves() -> int:
        LEAVES[what]()
        return 0

    found = series(one=leaves, two=says("2"), three=says("3"))
    assert [ended.status for ended in found.values()] == [0, 0, 0]
    assert Path("one.log").read_text() == "its end\n"
    assert starts() == ["one", "two"]


def test_one_whose_end_fails_has_been_done() -> None:
    def ends_badly() -> int:
        atexit.register(os._exit, 3)
        return 0

    found = series(one=says("1"), two=ends_badly, three=says("3"))
    assert [ended.status for ended in found.values()] == [0, 3, 0]
    assert [ended.of_job for ended in found.values()] == [0, 0, 0]


def test_a_signal_reaches_the_job_and_what_it_has_started() -> None:
    """Who waits for the job ends as if the signal had been for it alone."""

    def waits() -> int:
        if os.fork() == 0:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            Path("pid").write_text(str(os.getpid()))
            time.sleep(60)
        time.sleep(60)
        return 0

    pid = os.fork()
    if pid == 0:
        series(one=waits)
        os._exit(0)
    while not (Path("pid").exists() and Path("pid").read_text()):
        time.sleep(0.01)
    os.kill(pid, signal.SIGTERM)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGTERM
    end = time.monotonic() + 20
    while failures.born(int(Path("pid").read_text())) is not None:
        assert time.monotonic() < end, "it goes on"
        time.sleep(0.01)


def test_what_an_operation_forks_runs_no_other_job() -> None:
    def forks() -> int:
        if (pid := os.fork()) == 0:
            sys.exit(0)
        os.waitpid(pid, 0)
        return 0

    def notes() -> int:
        with Path("runs").open("a") as stream:
            stream.write("once\n")
        return 0

    found = series(one=forks, two=notes)
    assert [ended.status for ended in found.values()] == [0, 0]
    assert Path("runs").read_text() == "once\n"


def test_there_may_be_very_many() -> None:
    @contextmanager
    def log(_: str) -> Iterator[IO[bytes]]:
        with Path(os.devnull).open("wb") as stream:
            yield stream

    keys = [str(number) for number in range(6000)]  # more than a pipe holds
    assert len(run_series(keys, lambda _: 0, log)) == 6000


def test_a_process_that_an_operation_leaves_running_keeps_nobody_waiting() -> None:
    def leaves_one_running() -> int:
        if os.fork() == 0:
            time.sleep(20)
            os._exit(0)
        return 0

    began = time.monotonic()
    series(one=leaves_one_running, two=says("2"))
    assert time.monotonic() - began < 10

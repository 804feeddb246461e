"""What a process was about to do is known when it has died."""

from __future__ import annotations

import math
import os
import signal
from collections.abc import Callable

from fasthep_smk.util.last_words import LastWords, end_by, say
from fasthep_smk.util.processes import die_with_parent


def heard_of(child: Callable[[], object]) -> dict[str, str]:
    """Return what a process has said that this one forks, and that a signal ends."""
    words = LastWords()
    pid = os.fork()
    if pid == 0:
        words.speak()
        child()
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(pid, 0)
    return words.heard()


def test_the_last_word_counts() -> None:
    assert heard_of(lambda: None) == {}
    assert heard_of(lambda: (say(stage="Muons"), say(stage="Mass", op="hep.hist"))) == {
        "stage": "Mass",
        "op": "hep.hist",
    }
    assert heard_of(lambda: (say(stage="Muons"), say())) == {}


def test_what_a_process_forks_speaks_for_it() -> None:
    def fork_another() -> None:
        pid = os.fork()
        if pid == 0:
            say(stage="é" * 10)
            os._exit(0)
        os.waitpid(pid, 0)

    assert heard_of(fork_another) == {"stage": "é" * 10}


def test_what_is_too_long_is_left_out() -> None:
    assert heard_of(lambda: say(stage="x" * 5000)) == {}


def test_nobody_listens() -> None:
    say(stage="Mass")


def test_a_time_that_is_set_just_now_is_not_over() -> None:
    """Whoever looks sees the time before or the new one, never half of it."""
    words, here = LastWords(), os.getpid()
    pid = os.fork()
    if pid == 0:
        words.speak()
        die_with_parent(here)
        while True:
            end_by(math.inf)
            end_by(1000)
    try:
        assert not any(words.is_over() for _ in range(300_000))
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)

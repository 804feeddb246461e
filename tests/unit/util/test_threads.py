"""Something that goes on in a thread while a block of code runs."""

from __future__ import annotations

import threading

import pytest

from fasthep_smk.util.threads import meanwhile


def test_a_task_ends_with_its_block() -> None:
    begun, ended = threading.Event(), threading.Event()

    def task(over: threading.Event) -> None:
        begun.set()
        over.wait()
        ended.set()

    with pytest.raises(KeyError), meanwhile(task):
        assert begun.wait(10)
        assert not ended.is_set()
        raise KeyError
    assert ended.is_set()


def test_a_task_that_hangs_need_not_be_waited_for() -> None:
    answer = threading.Event()
    with meanwhile(lambda _over: bool(answer.wait()), join=False):
        pass
    answer.set()

"""Something that goes on in a thread while a block of code runs."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def meanwhile(task: Callable[[threading.Event], None], *, join: bool = True) -> Iterator[None]:
    """Run ``task`` in a thread while the block runs.

    The event that it is called with is set when the block has ended, however it ends. Then the
    task is waited for, unless ``join`` is false. It never keeps the process from ending.
    """
    over = threading.Event()
    thread = threading.Thread(target=task, args=(over,), daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        if join:
            thread.join()

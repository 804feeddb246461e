"""The process that writes the page of a run: ``python -m fasthep_smk.contrib.report BUILD PARENT``.

``PARENT`` is the process of the run, without which this one ends. The page is renewed now and then,
so seldom that it costs next to nothing; on a batch system it is also noted why jobs wait. What goes
wrong with that is not said: if it still does at the end, it is said then.

A line at standard input asks for the page as it is then, the last one. The answer is a line with a
JSON string: why it was not written, or nothing. If standard input is closed before that, no other
page is written.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import select
import sys
import time
from pathlib import Path

from fasthep_smk.util.processes import die_with_parent

if __name__ == "__main__":
    die_with_parent(int(sys.argv[2]))
    gc.disable()  # what is imported stays: nothing of it is to be collected

import hist  # noqa: F401 - else the run would wait for it when histograms are read

from fasthep_smk.contrib.report import page
from fasthep_smk.storage import failures, queue
from fasthep_smk.storage.job_settings import read_requests
from fasthep_smk.util.errors import Findings
from fasthep_smk.util.names import printable

#: Seconds after which a run has its first page.
_FIRST = 10.0
#: Seconds after which a batch system is asked again why jobs wait.
_ASKED = 30.0
_STDIN, _STDOUT = 0, 1


def renew(build: Path) -> bool:
    """Renew the page until standard input has a word, or is closed; return whether it had one."""
    wait, asked = _FIRST, -_ASKED
    while not select.select([_STDIN], [], [], wait)[0]:
        if time.monotonic() - asked >= _ASKED:
            with contextlib.suppress(Exception):
                note_waiting(build)
            asked = time.monotonic()
        started = time.perf_counter()
        with contextlib.suppress(Exception):
            page.write(build, renewed=wait)
        wait = page.pause(time.perf_counter() - started)
    return bool(os.read(_STDIN, 1))


def note_waiting(build: Path) -> None:
    """Note which jobs wait in a batch system and why, by the pool of their rule's first attempt."""
    asked = read_requests(build)
    if asked["system"] != "local":
        queue.note(build, {rule: first["pool"] for rule, (first, *_) in asked["rules"].items()})


def problem_of_last(build: Path) -> str:
    """Write the page; return why that failed, with the fix if it is known, or nothing."""
    try:
        page.write(build)
    except Findings as error:
        finding = error.findings[0]
        return f"{finding.problem}; {printable(finding.hint)}" if finding.hint else finding.problem
    except Exception as error:  # whatever it is, the results are there
        return printable(failures.one_line(error))
    return ""


if __name__ == "__main__":
    gc.freeze()
    gc.enable()
    folder = Path(sys.argv[1])
    if renew(folder):
        os.write(_STDOUT, b"\n%s\n" % json.dumps(problem_of_last(folder)).encode())
    os._exit(0)  # the run waits for this end

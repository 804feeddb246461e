"""Which variables of a job must be those of the fork server; how a job is asked for."""

from __future__ import annotations

import socket
import subprocess
import sys

import pytest

from fasthep_smk.worker.fork_client import Request
from fasthep_smk.worker.fork_server import differing

#: Prints the variables that are asked for by name while the fork server imports what jobs need.
WATCH = """
import os

class Watched(os._Environ):
    def __getitem__(self, name):
        asked.add(name)
        return super().__getitem__(name)

    def __contains__(self, name):
        asked.add(name)
        return super().__contains__(name)

    def __iter__(self):  # fsspec looks for names of its own
        return iter([])

asked = set()
os.environ.__class__ = Watched
from fasthep_smk.worker import processes
processes.import_for_good([*processes.MODULES, *processes.FOR_PLOTS])
print(*asked)
"""


def test_all_variables_that_imports_ask_for_matter() -> None:
    done = subprocess.run([sys.executable, "-c", WATCH], stdout=subprocess.PIPE, check=True)
    asked = done.stdout.decode().split()
    assert len(asked) > 5
    assert [name for name in asked if not differing({}, {name: "1"})] == []


@pytest.mark.parametrize("name", ["LC_ALL", "PYTHONPATH", "HOME", "LD_LIBRARY_PATH", "TZ"])
def test_one_that_matters_is_named_if_it_differs(name: str) -> None:
    some, other = {name: "1"}, {name: "2"}
    assert differing(some, other) == differing(some, {}) == differing({}, other) == name
    assert not differing(some, dict(some))


@pytest.mark.parametrize(
    "name", ["PS1", "BASH_FUNC_module%%", "_", "SHLVL", "TMPDIR", "OMP_NUM_THREADS", "LMOD_VERSION"]
)
def test_what_shells_and_snakemake_change_does_not_matter(name: str) -> None:
    assert not differing({name: "1"}, {name: "2"})


def test_a_job_that_ends_at_once_has_been_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """The server may have closed the connection before the client does anything more."""
    ours, its = socket.socketpair()
    send = socket.send_fds

    def send_and_end(connection: socket.socket, data: list[bytes], outputs: list[int]) -> int:
        sent = send(connection, data, outputs)
        its.close()
        return sent

    monkeypatch.setattr(socket, "send_fds", send_and_end)
    with ours:
        Request("/", ["rule"], {}).send(ours, (1, 2))

"""Packages of which only some modules are wanted, as of Parsl on the node of a pilot."""

from __future__ import annotations

import importlib
import subprocess
import sys

import pytest

from fasthep_smk.contrib.pilots.interchange import import_bare
from tests.unit.flow.patches.test_late import Ran, ran

__all__ = ["ran"]  # the fixture


def test_a_bare_package_has_its_modules_and_runs_nothing(ran: Ran) -> None:
    import_bare(["lazypack", "there.is.none"])
    other = importlib.import_module("lazypack.other")
    assert ran() == ["lazypack.other"]
    assert sys.modules["lazypack"].other is other
    exec("from lazypack import other", {})
    assert ran() == ["lazypack.other"]


@pytest.mark.usefixtures("ran")
def test_a_package_that_is_there_stays_as_it_is() -> None:
    package = importlib.import_module("lazypack")
    import_bare(["lazypack"])
    assert sys.modules["lazypack"] is package


@pytest.mark.parametrize(
    "module", ["fasthep_smk.contrib.pilots.manager", "fasthep_smk.contrib.pilots.interchange"]
)
def test_processes_of_pilots_import_no_more_of_parsl_than_they_use(module: str) -> None:
    code = f"""
import runpy, sys
sys.argv[1:], sys.stdin = ["--help"], open("/dev/null")
try:
    runpy.run_module({module!r}, run_name="__main__", alter_sys=True)
except (SystemExit, EOFError):  # it has shown its help, or nobody has told it what to do
    pass
print(sorted(name for name in sys.modules if name.startswith("parsl.")))
"""
    command = [sys.executable, "-P", "-c", code]
    done = subprocess.run(command, capture_output=True, text=True)
    imported = done.stdout.splitlines()[-1]
    assert "parsl.executors.high_throughput" in imported, done.stderr
    assert "parsl.dataflow" not in imported
    assert "parsl.executors.workqueue" not in imported
    assert "parsl.monitoring.db_manager" not in imported

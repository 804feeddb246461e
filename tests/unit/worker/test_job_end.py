"""What a job leaves to the end of Python decides how its process ends."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """\
import numpy
from fasthep_smk.worker.job_end import Before
before = Before()
import {package}
print(before.has_new_packages(), before.has_more())
"""


@pytest.mark.parametrize(("package", "more"), [("cramjam", True), ("correctionlib", False)])
def test_a_compiled_package_may_have_handlers_unless_it_is_known(package: str, more: bool) -> None:
    program = PROGRAM.format(package=package)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.split() == ["True", str(more)], done.stderr

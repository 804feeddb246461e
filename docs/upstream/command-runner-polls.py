"""Prints:

    a command takes at least 0.1 s: True

Expected: `False`. A second line shows both times: `subprocess.run` takes some milliseconds.
"""

import subprocess
import time

from fasthep_toolbench.command import run_command


def seconds(call):
    begin = time.perf_counter()
    call()
    return time.perf_counter() - begin


quickest = min(seconds(lambda: run_command(["true"], timeout=5)) for _ in range(5))
plain = min(seconds(lambda: subprocess.run(["true"], timeout=5)) for _ in range(5))
print("a command takes at least 0.1 s:", quickest >= 0.1)
print(f"run_command {quickest:.3f} s, subprocess.run {plain:.3f} s")

"""Prints:

    the command alone takes less than a second: True
    so does a job as it is submitted: False
    both have made their file: True

Expected: `True` in all lines.
"""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

os.chdir(tempfile.mkdtemp())
Path("Snakefile").write_text("""
rule all:
    output: "out.txt"
    shell: "touch {output}"
""")
begin = time.perf_counter()
subprocess.run(["sh", "-c", "touch other.txt"])
print("the command alone takes less than a second:", time.perf_counter() - begin < 1)
# The command of a plugin's job, as RealExecutor.format_job_exec makes it
command = [sys.executable, "-m", "snakemake", "--mode", "remote", "--target-jobs", "all:"]
begin = time.perf_counter()
done = subprocess.run([*command, "--cores", "1", "--force"], capture_output=True, text=True)
print("so does a job as it is submitted:", time.perf_counter() - begin < 1)
print("both have made their file:", Path("out.txt").is_file() and Path("other.txt").is_file())

"""Prints:

    submissions of the one job, which is in the queue: 2

Expected: `1`.
"""

import os
import signal
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
# A Slurm whose only job stays in the queue.
for name, text in {
    "sbatch": "echo >> submitted.txt; echo 1",
    "squeue": "echo '1|PENDING'",
    "sacct": "echo '1|PENDING'",
    "sacctmgr": "echo a",
    "scontrol": "echo 'MinJobAge = 300 sec'",
    "sinfo": "echo all",
}.items():
    Path(name).write_text(f"#!/bin/sh\n{text}\n")
    Path(name).chmod(0o755)
path = f"{Path.cwd()}:{os.environ['PATH']}"
command = [sys.executable, "-m", "snakemake", "--executor", "slurm", "--jobs", "1", "--nolock"]
command += ["--default-resources", "slurm_account=a", "slurm_partition=b"]
submitted = Path("submitted.txt")
for number in (1, 2):
    process = subprocess.Popen(
        command,
        env={**os.environ, "PATH": path},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    end = time.monotonic() + 60
    while time.monotonic() < end and process.poll() is None:
        if submitted.is_file() and len(submitted.read_text()) >= number:
            break
        time.sleep(0.2)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
count = len(submitted.read_text()) if submitted.is_file() else 0
print("submissions of the one job, which is in the queue:", count)

"""Prints how long Snakemake runs after its last job: 1.5 s on one machine.

Expected: 0.1 s, as if the timer's thread were a daemon.
"""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

os.chdir(tempfile.mkdtemp())
Path("Snakefile").write_text("rule all:\n    output: 'out.txt'\n    shell: 'touch out.txt'\n")
command = [sys.executable, "-m", "snakemake", "--cores", "1"]
process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
for line in process.stderr:
    if "1 of 1 steps" in line:
        done = time.perf_counter()
process.wait()
print(f"Snakemake ends {time.perf_counter() - done:.1f} s after its last job")

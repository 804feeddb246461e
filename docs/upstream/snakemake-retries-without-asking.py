"""Prints:

    tried with 1000 MB
    tried with 2000 MB
    tried with 2000 MB
    tried with 2000 MB

Expected: a way to leave out the last two attempts.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

os.chdir(tempfile.mkdtemp())
Path("Snakefile").write_text("""
rule all:
    output: "out.txt"
    retries: 3
    resources: mem_mb=lambda wildcards, attempt: min(attempt, 2) * 1000
    shell: "echo tried with {resources.mem_mb} MB >> tried.txt; exit 1"  # needs 3000 MB
""")
command = [sys.executable, "-m", "snakemake", "--cores", "1"]
subprocess.run(command, capture_output=True)
print(Path("tried.txt").read_text(), end="")

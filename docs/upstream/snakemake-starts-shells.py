"""Prints a line that begins with `started by: /usr/bin/bash -c set -euo pipefail;`.

Expected: a way to start the command without a shell.
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
    shell: "ps -o args= -p $$ > {output}"
""")
command = [sys.executable, "-m", "snakemake", "--cores", "1"]
subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
print("started by:", Path("out.txt").read_text().strip())

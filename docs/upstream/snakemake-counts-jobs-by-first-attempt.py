"""Prints:

    most jobs at once: 1

Expected: `2`, because second attempts do not need `small`.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

os.chdir(tempfile.mkdtemp())
Path("Snakefile").write_text("""
rule all:
    input: expand("{n}.txt", n=range(2))

rule one:
    output: "{n}.txt"
    retries: 1
    resources: small=lambda wildcards, attempt: int(attempt == 1)
    shell: "echo begins >> log.txt; sleep 2; echo ends >> log.txt; "
           "test -e {wildcards.n}.tried && touch {output} || {{ touch {wildcards.n}.tried; exit 1; }}"
""")
command = [sys.executable, "-m", "snakemake", "--cores", "2", "--resources", "small=1"]
subprocess.run(command, capture_output=True)
running = most = 0
for line in Path("log.txt").read_text().splitlines():
    running += {"begins": 1, "ends": -1}[line]
    most = max(most, running)
print("most jobs at once:", most)

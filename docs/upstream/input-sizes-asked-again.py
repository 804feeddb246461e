"""Prints:

    sizes asked for more than ten times a file: True

Expected: `False`.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

os.chdir(tempfile.mkdtemp())
NUMBER = 100
Path("Snakefile").write_text(f"""
from snakemake.io import _IOFile

asked = 0
size = _IOFile.size

async def counted(self):
    global asked
    asked += 1
    return await size(self)

_IOFile.size = counted

onsuccess:
    print("sizes asked for more than ten times a file:", asked > 10 * {NUMBER}, flush=True)

rule all:
    input: expand("{{n}}.out", n=range({NUMBER}))

rule one:
    input: "{{n}}.in"
    output: "{{n}}.out"
    shell: "touch {{output}}"
""")
for number in range(NUMBER):
    Path(f"{number}.in").write_text("x")
command = [sys.executable, "-m", "snakemake", "--cores", "2", "--scheduler", "greedy", "--quiet"]
done = subprocess.run(command, capture_output=True, text=True)
print(done.stdout, done.stderr)

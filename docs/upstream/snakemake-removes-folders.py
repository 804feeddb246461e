"""Prints:

    the job has run: True
    the user's folder is there: False

Expected: `True` in both lines.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

os.chdir(tempfile.mkdtemp())
Path("mine").mkdir()
Path("mine/input.txt").write_text("events")
Path("Snakefile").write_text("""
rule all:
    input: "mine/input.txt"
    output: "out.txt"
    shell: "cp {input} {output}; mv {input} elsewhere.txt"  # somebody could do this meanwhile
""")
subprocess.run([sys.executable, "-m", "snakemake", "--cores", "1"], stderr=subprocess.DEVNULL)
print("the job has run:", Path("out.txt").is_file())
print("the user's folder is there:", Path("mine").is_dir())

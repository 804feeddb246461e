"""Prints:

    folders left behind: 2

Expected: `folders left behind: 1` at most. The second run can remove the folder of the first.
"""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

os.chdir(tempfile.mkdtemp())
Path("tmp").mkdir()
Path("Snakefile").write_text("""
rule all:
    output: "out.txt"
    shell: "touch started; sleep 5; touch {output}"
""")
command = [sys.executable, "-m", "snakemake", "--cores", "1"]
environment = {**os.environ, "TMPDIR": str(Path("tmp").resolve())}
for _ in range(2):
    process = subprocess.Popen(
        [*command, "--nolock", "--rerun-incomplete"], env=environment, stderr=subprocess.DEVNULL
    )
    while not Path("started").exists():
        time.sleep(0.1)
    process.kill()
    process.wait()
    Path("started").unlink()
print("folders left behind:", len(list(Path("tmp").glob("snakemake*"))))

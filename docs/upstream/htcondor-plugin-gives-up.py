"""Prints:

    Snakemake ends with status 1 after 1 try

Expected: Snakemake tries for some minutes, or at least as often as `--retries` says.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

os.chdir(tempfile.mkdtemp())
# No schedd runs here, so none answers.
Path("condor_config").write_text("SCHEDD_HOST = localhost\nCOLLECTOR_HOST = localhost:1\n")
Path("Snakefile").write_text("rule all:\n    output: 'out.txt'\n    shell: 'touch out.txt'\n")
command = [sys.executable, "-m", "snakemake", "--executor", "htcondor", "--jobs", "1"]
done = subprocess.run(
    [*command, "--retries", "3"],
    env={**os.environ, "CONDOR_CONFIG": str(Path("condor_config").resolve())},
    capture_output=True,
    text=True,
)
tries = done.stderr.count("HTCondorException: Unable to locate local daemon")
print(f"Snakemake ends with status {done.returncode} after {tries} try")

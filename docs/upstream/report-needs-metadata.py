"""Prints:

    run times in the report: 0

Expected: `1`.
"""

import subprocess
import sys
from pathlib import Path

Path("Snakefile").write_text(
    "rule one:\n"
    "    output: 'one.txt'\n"
    "    benchmark: 'one.tsv'\n"
    "    shell: 'sleep 1; echo > {output}'\n"
)
snakemake = [sys.executable, "-m", "snakemake"]
subprocess.run([*snakemake, "--cores", "1", "--quiet", "all", "--drop-metadata"], check=True)
subprocess.run([*snakemake, "--report", "report.html", "--quiet", "all"], check=True)
report = Path("report.html").read_text()
print("run times in the report:", report.count('"runtime":'))

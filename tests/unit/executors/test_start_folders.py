"""Snakemake removes no folder of others, and has its own in that of the run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from fasthep_smk.util.scratch import VARIABLE

SNAKEFILE = """
rule all:
    input: "mine/input.txt"
    output: "out.txt"
    shell: "cp {input} {output}; mv {input} elsewhere.txt"
"""
RUN = """
import sys
import tempfile
import snakemake.cli
from snakemake import workflow
from fasthep_smk.executors import start
if sys.argv.pop(1) == "changed":
    start._lend_to_snakemake()
    start._keep_folders()
print("in", workflow.tempfile.TemporaryDirectory(prefix="snakemake").name)
print("of others in", tempfile.TemporaryDirectory(prefix="other").name)

snakemake.cli.main()
"""


@pytest.mark.parametrize("how", ["as it is", "changed"])
def test_the_folder_of_an_input_that_is_gone(how: str, tmp_path: Path) -> None:
    lent = tmp_path / "lent"
    for folder in (lent, tmp_path / "mine"):
        folder.mkdir()
    (tmp_path / "mine/input.txt").write_text("events")
    (tmp_path / "Snakefile").write_text(SNAKEFILE)
    done = subprocess.run(
        [sys.executable, "-c", RUN, how, "--cores", "1", "--quiet"],
        cwd=tmp_path,
        env={**os.environ, VARIABLE: str(lent)},
        capture_output=True,
        text=True,
    )
    assert (tmp_path / "out.txt").read_text() == "events", done.stderr
    assert (tmp_path / "mine").is_dir() == (how == "changed")
    assert (f"in {lent}/snakemake" in done.stdout) == (how == "changed")
    assert f"of others in {lent}" not in done.stdout

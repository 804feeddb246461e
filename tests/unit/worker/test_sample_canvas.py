"""Plots of a sample say so, in every format."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

DRAW = """\
import sys
from matplotlib import pyplot
from fasthep_smk.worker import sample_canvas

def draw(name):
    figure, axes = pyplot.subplots()
    axes.plot([0, 1])
    figure.savefig(name)

pyplot.rcParams["svg.fonttype"] = "none"
draw("before.svg")
sample_canvas.mark("3 of 300 partitions")
draw("plot.svg")
draw("plot.png")
draw("plot.pdf")
"""


def test_each_plot_says_of_what_sample_it_is(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-c", DRAW], cwd=tmp_path, check=True)
    assert "SAMPLE: 3 of 300 partitions" in (tmp_path / "plot.svg").read_text()
    assert "SAMPLE" not in (tmp_path / "before.svg").read_text()
    assert (tmp_path / "plot.png").read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "plot.pdf").read_bytes().startswith(b"%PDF")

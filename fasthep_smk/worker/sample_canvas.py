"""A backend of matplotlib that writes onto each plot of what sample it is.

Matplotlib takes a module by its name for a backend. It draws as its own Agg does; what a user's
operation draws on a canvas of its own making stays as it is.
"""

from __future__ import annotations

from typing import Any

import matplotlib
from matplotlib.backend_bases import FigureManagerBase
from matplotlib.backends.backend_agg import FigureCanvasAgg

#: What is written onto plots: those of this process.
_said = ["SAMPLE"]


class _Marked(FigureCanvasAgg):
    """A canvas on which a figure gets its mark before it is written, in any format."""

    def print_figure(self, *arguments: Any, **more: Any) -> Any:
        style: dict[str, Any] = {"color": "tab:red", "fontsize": 14, "fontweight": "bold"}
        mark = self.figure.text(0.5, 0.995, _said[0], ha="center", va="top", zorder=1000, **style)
        try:
            return super().print_figure(*arguments, **more)
        finally:
            mark.remove()


FigureCanvas, FigureManager = _Marked, FigureManagerBase


def mark(sample: str) -> None:
    """Let all plots of this process say of what sample they are."""
    _said[0] = f"SAMPLE: {sample}"
    matplotlib.use(f"module://{__name__}")

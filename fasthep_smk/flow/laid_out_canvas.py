"""A backend of matplotlib that lays plots out, as it does to save them, and does not paint them.

Painting takes most of the time, and does not fail. Matplotlib takes a module by its name for a
backend.
"""

from __future__ import annotations

from matplotlib.backend_bases import FigureManagerBase
from matplotlib.backends.backend_agg import FigureCanvasAgg


class _LaidOut(FigureCanvasAgg):
    def draw(self) -> None:
        self.renderer = self.get_renderer()  # type: ignore[no-untyped-call]
        if "draw" in vars(self.figure):  # matplotlib wants to hear of the renderer, no more
            self.figure.draw(self.renderer)


FigureCanvas, FigureManager = _LaidOut, FigureManagerBase

"""The look of plots: FAST-HEP sets matplotlib's style for a plot, and it stays for those after it.

A plot without a style of its own (a heat map, or one of no experiment) so depends on which plots
were drawn before it in the same process. A plot that is drawn apart from the others must look the
same: its signature names the styles before it, and they are set again before it is drawn.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fasthep_smk.flow.graph import Node
    from fasthep_smk.flow.shapes import PlanNode

#: Operations that set a style; FAST-HEP's default is that of CMS.
_STYLED = ("hep.render.hist1d", "hep.render.data_mc")
_PROJECT = "hep.render.project"
_DEFAULT = "CMS"

#: Of matplotlib, by their names.
_Settings = dict[str, object]


def styles_before(nodes: Iterable[Node | PlanNode]) -> dict[str, tuple[str, ...]]:
    """Return the styles that are set before each node draws, its own last, by the node's name.

    ``nodes`` are in the order in which FAST-HEP runs them. A style that is set twice counts where
    it was set last: it covers what it covered before.
    """
    before: dict[str, None] = {}
    styles = {}
    for node in nodes:
        style = _style_of(node.impl, dict(node.params).get("spec"))
        if style:
            before.pop(style, None)
            before[style] = None
        styles[node.id] = tuple(before)
    return styles


def _style_of(op: str, spec: object) -> str:
    """Return the style that an operation sets, empty if it sets none."""
    content = dict(spec) if isinstance(spec, Mapping) else {}
    if op == _PROJECT:
        project = content.get("project")
        then = project.get("then") if isinstance(project, Mapping) else None
        inner = {"style": content.get("style"), **(then if isinstance(then, Mapping) else {})}
        return _style_of(str(inner.get("op")), inner)
    if op not in _STYLED:
        return ""
    style = content.get("style")
    experiment = (style if isinstance(style, Mapping) else {}).get("experiment", _DEFAULT)
    return str(experiment or "").strip()


class PlotStyles:
    """What matplotlib is set to when each of some nodes is run, if they run in this order.

    Without matplotlib, which all that draws has imported, there is nothing to set.
    """

    def __init__(self, nodes: Iterable[Node | PlanNode]) -> None:
        self._before: dict[str, _Settings] = {}
        self._after: dict[str, _Settings] = {}
        if "matplotlib" not in sys.modules:
            return
        start = now = _settings()
        last: tuple[str, ...] = ()
        for node, styles in styles_before(nodes).items():
            self._before[node] = now
            if styles != last:
                now = _styled(start, styles)
                last = styles
            self._after[node] = now
        _set(start)

    def apply(self, node: str) -> None:
        """Set what is set when a node is run after those before it."""
        if node in self._before:
            _set(self._before[node])

    def are_kept_by(self, node: str) -> bool:
        """Whether a node that has run left what those after it were taken to see."""
        return node not in self._after or _settings() == self._after[node]


def _styled(start: _Settings, styles: Iterable[str]) -> _Settings:
    import mplhep

    _set(start)
    for style in styles:
        with contextlib.suppress(Exception):  # FAST-HEP goes on without one that it does not know
            mplhep.style.use(style)
    return _settings()


def _settings() -> _Settings:
    import matplotlib as mpl

    settings: dict[Any, object] = dict(mpl.rcParams.copy())
    settings.pop("backend", None)  # chosen when the first plot is drawn
    return settings


def _set(settings: _Settings) -> None:
    import matplotlib as mpl

    params: dict[Any, Any] = mpl.rcParams
    dict.update(params, settings)  # as they are: they were accepted before

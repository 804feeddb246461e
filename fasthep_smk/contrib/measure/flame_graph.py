"""Flame graphs as single pages, which any browser opens without a network."""

from __future__ import annotations

from dataclasses import dataclass, field
from html import escape

__all__ = ["Frame", "page"]

#: Frames with a smaller share of everything are left out: they would be too narrow to see.
_LEAST = 0.002
#: Frames below these are left out, too: calls that call themselves may be very deep.
_DEPTH = 120
_COLOURS = ("#f4b183", "#f7cb8b", "#f0a074", "#f2bd7c")

_PAGE = """\
<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title><style>
body {{ font: 13px sans-serif; margin: 1em }}
.frame {{ min-width: 0; flex-shrink: 1; flex-basis: 0 }}
.inner {{ display: flex }}
.name {{ overflow: hidden; white-space: nowrap; text-overflow: ellipsis; padding: 1px 3px;
  border: 1px solid #fff; cursor: pointer }}
.name:hover {{ outline: 2px solid #333 }}
.away {{ display: none }}
</style></head><body>
<h1>{title}</h1>
<p>{notes}</p>
<p>Callers stand above what they call; the width is the share. A click on a frame shows it alone,
one on the top row shows all again; hold the pointer on a frame for its numbers.</p>
{frames}
<script>
document.body.addEventListener("click", (event) => {{
  if (!event.target.classList.contains("name")) return;
  document.querySelectorAll(".away").forEach((one) => one.classList.remove("away"));
  for (let at = event.target.parentNode; at.parentNode.classList.contains("inner");
       at = at.parentNode.parentNode)
    for (const other of at.parentNode.children)
      if (other !== at) other.classList.add("away");
}});
</script></body></html>
"""


@dataclass
class Frame:
    """A function in a tree of calls: ``amount`` is its own and that of all that it calls."""

    name: str
    amount: float
    calls: list[Frame] = field(default_factory=list)


def page(root: Frame, *, title: str, unit: str, notes: str) -> str:
    """Return the page of a tree of calls; ``unit`` is that of its amounts (``s``, ``MB``)."""
    frames = _drawn(root, max(root.amount, 1e-12), unit, 0)
    return _PAGE.format(title=escape(title), notes=escape(notes), frames=frames)


def _drawn(frame: Frame, whole: float, unit: str, depth: int) -> str:
    share = frame.amount / whole
    told = escape(f"{frame.name}: {frame.amount:.4g} {unit}, {100 * share:.1f} %")
    colour = _COLOURS[sum(frame.name.encode()) % len(_COLOURS)]
    calls = [one for one in frame.calls if one.amount >= _LEAST * whole and depth < _DEPTH]
    inner = "".join(_drawn(one, whole, unit, depth + 1) for one in calls)
    # What is the frame's own stays empty below it.
    own = frame.amount - sum(one.amount for one in calls)
    rest = f'<div class="frame" style="flex-grow:{max(own, 0):.6g}"></div>' if calls else ""
    return (
        f'<div class="frame" style="flex-grow:{frame.amount:.6g}">'
        f'<div class="name" style="background:{colour}" title="{told}">{escape(frame.name)}</div>'
        f'<div class="inner">{inner}{rest}</div></div>'
    )

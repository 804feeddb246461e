"""Flame graphs as single pages, which any browser opens without a network."""

from __future__ import annotations

from dataclasses import dataclass, field
from html import escape

#: Frames with a smaller share of everything are left out: they would be too narrow to see. So are
#: frames below so many others: calls that call themselves may be very deep.
_LEAST, _DEPTH = 0.002, 120

_PAGE = """\
<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title><style>
body {{ font: 13px sans-serif; margin: 1em }}
.frame {{ min-width: 0; flex-shrink: 1; flex-basis: 0 }}
.inner {{ display: flex }}
.name {{ overflow: hidden; white-space: nowrap; text-overflow: ellipsis; padding: 1px 3px;
  border: 1px solid #fff; cursor: pointer; background: #f4b183 }}
.frame:nth-child(even) > .name {{ background: #f7cb8b }}
.name:hover {{ outline: 2px solid #333 }}
.away {{ display: none }}
</style></head><body>
<h1>{title}</h1>
<p>{notes}</p>
<p>Each function is drawn below its caller. The width of a frame shows its share. Click on
a frame to see it alone, or on the top row to see all frames. Hold the pointer over a frame to see
its numbers.</p>
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
    amount: float = 0.0
    calls: dict[str, Frame] = field(default_factory=dict)

    def add(self, name: str, amount: float) -> Frame:
        """Add an amount to what is called by a name, and return that."""
        called = self.calls.setdefault(name, Frame(name))
        called.amount += amount
        return called


def page(root: Frame, *, title: str, unit: str, notes: str) -> str:
    """Return the page of a tree of calls; ``unit`` is that of its amounts (``s``, ``MB``)."""
    frames = _drawn(root, max(root.amount, 1e-12), unit, 0)
    return _PAGE.format(title=escape(title), notes=escape(notes), frames=frames)


def _drawn(frame: Frame, whole: float, unit: str, depth: int) -> str:
    numbers = f"{frame.name}: {frame.amount:.4g} {unit}, {100 * frame.amount / whole:.1f} %"
    shown = [call for call in frame.calls.values() if call.amount >= _LEAST * whole]
    calls = shown if depth < _DEPTH else []
    inner = "".join(_drawn(call, whole, unit, depth + 1) for call in calls)
    # What is the frame's own stays empty below it.
    own = max(frame.amount - sum(call.amount for call in calls), 0)
    rest = f'<div class="frame" style="flex-grow:{own:.6g}"></div>' if calls else ""
    return (
        f'<div class="frame" style="flex-grow:{frame.amount:.6g}">'
        f'<div class="name" title="{escape(numbers)}">{escape(frame.name)}</div>'
        f'<div class="inner">{inner}{rest}</div></div>'
    )

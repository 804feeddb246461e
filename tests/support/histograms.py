"""Whether two histograms are the same to the bit."""

from __future__ import annotations

import hist


def same_histogram(left: hist.BaseHist, right: hist.BaseHist) -> bool:
    """Whether two histograms agree in every bit, axis, trait and annotation."""
    return bool(
        type(left) is type(right)
        and left.__dict__ == right.__dict__
        and len(left.axes) == len(right.axes)
        and all(
            axis == other and axis.traits == other.traits and axis.__dict__ == other.__dict__
            for axis, other in zip(left.axes, right.axes, strict=True)
        )
        and left.storage_type is right.storage_type
        and left.view(flow=True).tobytes() == right.view(flow=True).tobytes()
    )

"""Whether a histogram survives the UHI serialization: it is written only if it does."""

from __future__ import annotations

import io
import zipfile
from typing import TYPE_CHECKING

import uhi.io.zip as uhi_zip
from boost_histogram.serialization import from_uhi

if TYPE_CHECKING:
    import hist

__all__ = ["read_histogram", "same_histogram"]


def read_histogram(buffer: io.BytesIO, member: str, cls: type[hist.BaseHist]) -> hist.BaseHist:
    """Return the histogram of class ``cls`` that a ZIP file holds as ``member``."""
    with zipfile.ZipFile(buffer) as archive:
        return cls(from_uhi(uhi_zip.read(archive, member)))


def same_histogram(left: hist.BaseHist, right: hist.BaseHist) -> bool:
    """Whether two histograms agree in every bit, axis, trait and annotation."""
    return bool(
        type(left) is type(right)
        and left.__dict__ == right.__dict__
        and len(left.axes) == len(right.axes)
        and all(
            one == two and one.traits == two.traits and one.__dict__ == two.__dict__
            for one, two in zip(left.axes, right.axes, strict=True)
        )
        and left.storage_type is right.storage_type
        and left.view(flow=True).tobytes() == right.view(flow=True).tobytes()
    )

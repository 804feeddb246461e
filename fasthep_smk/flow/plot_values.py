"""Findings about values in the style of a plot that matplotlib refuses, or that draw nothing.

The renderer meets them when all events have been processed.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from fasthep_smk.flow.places import mapping
from fasthep_smk.util.documents import YamlMapping
from fasthep_smk.util.errors import is_slip, nearest

__all__ = ["WrongValue", "wrong_values"]

#: Experiments whose label a plot gets, and those whose style it gets, too.
_EXPERIMENTS = ("CMS", "ATLAS", "LHCb1", "LHCb2", "LHCb", "ALICE", "ROOT")
_COLOURS = ("color", "edgecolor", "facecolor", "ecolor")
#: Colours that need no question to matplotlib, which takes a tenth of a second to import.
_PLAIN = re.compile(r"#(?:[0-9a-fA-F]{3}){1,2}|C\d+|none|black|white|red|green|blue|orange|gr[ae]y")
_PLACES = (
    *("best", "upper right", "upper left", "lower left", "lower right", "right", "center left"),
    *("center right", "lower center", "upper center", "center"),
)


class WrongValue(NamedTuple):
    """Where it is in the style, what is wrong with it, what is expected, what was meant."""

    path: str
    problem: str
    value: object
    expected: str
    meant: str | None = None


def wrong_values(spec: YamlMapping) -> Iterator[WrongValue]:
    """Yield the values of a complete style that are none."""
    yield from _colours(spec, "")
    for name, axis in mapping(spec.get("axes")).items():
        limits = mapping(axis).get("limits")
        if isinstance(limits, list | tuple):
            yield from _limits(limits, f"axes.{name}.limits")
    size = mapping(spec.get("figure")).get("size")
    if isinstance(size, list | tuple) and not (
        len(size) == 2 and all(isinstance(one, str) or _is_size(one) for one in size)
    ):
        expected = "width and height in inches, both above 0"
        yield WrongValue("figure.size", "is no size of a figure", size, expected)
    experiment = mapping(spec.get("style")).get("experiment")
    slip = _slip(experiment, _EXPERIMENTS)
    if slip is not None:
        expected = "CMS, ATLAS, LHCb, ALICE or ROOT"
        yield WrongValue("style.experiment", "no style has this name", experiment, expected, slip)
    yield from _legend(mapping(spec.get("legend")))


def _legend(legend: YamlMapping) -> Iterator[WrongValue]:
    loc = legend.get("loc")
    known = ", ".join(_PLACES)
    if isinstance(loc, str) and loc.lower() not in _PLACES:
        meant = nearest(" ".join(sorted(loc.split(), reverse=True)), _PLACES)
        yield WrongValue("legend.loc", "is no place of a legend", loc, known, meant)
    pair = isinstance(loc, list) and len(loc) == 2 and all(_number(one) is not None for one in loc)
    number = type(loc) is int and 0 <= loc < len(_PLACES)
    if loc is not None and not isinstance(loc, str) and not pair and not number:
        expected = f"{known}, or two numbers"
        yield WrongValue("legend.loc", "is no place of a legend", loc, expected)
    columns = legend.get("ncol")
    if columns is not None and not re.fullmatch(r"\s*\+?0*[1-9]\d*(\.0*)?\s*", str(columns)):
        expected = "a whole number, 1 or more"
        yield WrongValue("legend.ncol", "is no number of columns", columns, expected)


def _limits(limits: Sequence[object], path: str) -> Iterator[WrongValue]:
    numbers = [_number(one) for one in map(_read, limits)]
    finite = [one for one in numbers if one is not None]
    expected = "two numbers, the lower first"
    if len(numbers) != 2 or len(finite) != 2:
        yield WrongValue(path, "are not two finite numbers", limits, expected)
    elif not finite[0] < finite[1]:
        yield WrongValue(path, "the lower limit is not below the upper one", limits, expected)


def _read(value: object) -> object:
    """Return a text that is a number as the number, as the renderer does."""
    try:
        return float(value) if isinstance(value, str) else value
    except ValueError:
        return value


def _number(value: object) -> float | None:
    """Return a finite number; ``None`` if a value is none."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if math.isfinite(value) else None


def _is_size(value: object) -> bool:
    return (_number(value) or 0) > 0


def _slip(value: object, known: tuple[str, ...]) -> str | None:
    """Return the known name that a text is nearly; ``None`` if it is one, or none of them."""
    text = str(value or "").lower()
    if any(text == one.lower() for one in known):
        return None
    return next((one for one in known if is_slip(text, one.lower())), None)


def _colours(content: object, path: str) -> Iterator[WrongValue]:
    if isinstance(content, Mapping):
        for name, value in content.items():
            below = f"{path}.{name}" if path else str(name)
            if name in _COLOURS and value is not None and not isinstance(value, Mapping):
                if not _is_colour(value):
                    expected = 'a name such as blue, or "#3f90da"'
                    yield WrongValue(below, "is no colour", value, expected, _meant(str(value)))
            else:
                yield from _colours(value, below)
    elif isinstance(content, list):
        for number, value in enumerate(content):
            yield from _colours(value, f"{path}[{number}]")


def _is_colour(value: object) -> bool:
    if isinstance(value, str) and _PLAIN.fullmatch(value):
        return True
    from matplotlib import colors

    if isinstance(value, list) and value and all(isinstance(one, str) for one in value):
        # Where several things are drawn, each may have its own.
        return all(colors.is_color_like(one) for one in value)
    return bool(colors.is_color_like(value))


def _meant(text: str) -> str | None:
    from matplotlib import colors

    return nearest(text, colors.CSS4_COLORS, cutoff=0.7)

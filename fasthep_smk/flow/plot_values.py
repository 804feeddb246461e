"""Findings about values in the style of a plot that matplotlib refuses, or that draw nothing.

The renderer meets them when all events have been processed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
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
        both = limits if isinstance(limits, list | tuple) and len(limits) == 2 else ()
        numbers = [one for one in both if isinstance(one, int | float)]
        if len(numbers) == 2 and not numbers[0] < numbers[1]:
            yield WrongValue(
                f"axes.{name}.limits",
                "the lower limit is not below the upper one",
                limits,
                "two numbers, the lower first",
            )
    experiment = mapping(spec.get("style")).get("experiment")
    slip = _slip(experiment, _EXPERIMENTS)
    if slip is not None:
        expected = "CMS, ATLAS, LHCb, ALICE or ROOT"
        yield WrongValue("style.experiment", "no style has this name", experiment, expected, slip)
    loc = mapping(spec.get("legend")).get("loc")
    if isinstance(loc, str) and loc.lower() not in _PLACES:
        known = ", ".join(_PLACES)
        meant = nearest(" ".join(sorted(loc.split(), reverse=True)), _PLACES)
        yield WrongValue("legend.loc", "is no place of a legend", loc, known, meant)


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
            if name in _COLOURS and isinstance(value, str):
                if not _is_colour(value):
                    expected = 'a name such as blue, or "#3f90da"'
                    yield WrongValue(below, "is no colour", value, expected, _meant(value))
            else:
                yield from _colours(value, below)
    elif isinstance(content, list):
        for number, value in enumerate(content):
            yield from _colours(value, f"{path}[{number}]")


def _is_colour(text: str) -> bool:
    if _PLAIN.fullmatch(text):
        return True
    from matplotlib import colors

    return bool(colors.is_color_like(text))


def _meant(text: str) -> str | None:
    from matplotlib import colors

    return nearest(text, colors.CSS4_COLORS, cutoff=0.7)

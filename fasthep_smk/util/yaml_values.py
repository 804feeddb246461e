"""A value as it would be written in a workflow, for messages: ``null``, ``true``, ``[a, b]``."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import yaml

#: Characters of a value in a message.
_LONGEST = 100


def as_yaml(value: object, longest: int = _LONGEST) -> str:
    """Return a value in one line of YAML, in at most ``longest`` characters.

    A text alone stands between quotes, so that blanks at its ends and an empty one are seen.
    """
    import yaml  # not for commands that find nothing wrong

    written, quotes = repr(value), None
    if isinstance(value, str):
        quotes = "'" if value.isprintable() else '"'
    with contextlib.suppress(yaml.YAMLError, RecursionError):  # of a class that YAML does not know
        written = yaml.dump(
            value,
            Dumper=_dumper(),
            default_flow_style=True,
            default_style=quotes,
            width=float("inf"),
            allow_unicode=True,
            sort_keys=False,
        )
        written = written.removesuffix("\n").removesuffix("\n...")
    return written if len(written) <= longest else f"{written[: longest - 3]}..."


@cache
def _dumper() -> type[yaml.SafeDumper]:
    """Return what writes a value in full, also where it stands twice."""
    import yaml

    class Dumper(yaml.SafeDumper):
        def ignore_aliases(self, _data: object) -> bool:
            return True

    Dumper.add_representer(tuple, yaml.SafeDumper.represent_list)
    Dumper.add_multi_representer(str, lambda dumper, text: dumper.represent_str(str(text)))
    return Dumper


def key_of(start: str, path: Iterable[str | int]) -> str:
    """Return the place of a value for people: ``execution.pools['high memory'].workers``."""
    text = start
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
        elif step.isidentifier():
            text += f".{step}" if text else step
        else:
            text += f"[{step!r}]"
    return text

"""Whether the installed release of FAST-HEP is one that we were tested with, or can be used.

FAST-HEP has a release each month. One that we were not tested with is looked at once, before a run:
if it has all that we use (see ``contract``), the run goes on, with a note; otherwise the run is
refused, with what has changed.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from functools import cache
from importlib import metadata
from pathlib import Path

from fasthep_smk.util import files
from fasthep_smk.util.errors import UsageError

#: The newest release of each package that all tests were run with.
TESTED: Mapping[str, str] = {
    "fasthep-flow": "2026.10.1",
    "fasthep-carpenter": "2026.10.1",
    "fasthep-curator": "2026.10.1",
    "fasthep-render": "2026.10.1",
    "fasthep-toolbench": "2026.10.1",
}
#: How many changes are shown.
_SHOWN = 12


class DoesNotFit(UsageError):
    """The installed release of FAST-HEP is not one that this package can use."""


def check() -> str | None:
    """Return a note if the installed release was not tested, the first time that it is found.

    Raises:
        DoesNotFit: it lacks what we use of it, or that is another thing there.
    """
    installed = _installed()
    untested = {
        name: package.version
        for name, package in installed.items()
        if package.version != TESTED[name]
    }
    if not untested:
        return None
    from fasthep_smk.flow import contract

    seen = _seen(installed.values(), [contract.CALLS, contract.METHODS])
    if seen.exists():
        return None
    if problems := contract.differences():
        raise refused(problems)
    _remember(seen)
    listed = ", ".join(f"{name} {version}" for name, version in untested.items())
    return (
        f"{listed} was not tested with this fasthep-smk (newest tested: "
        f"{', '.join(dict.fromkeys(TESTED[name] for name in untested))}); the parts that "
        "fasthep-smk uses have not changed"
    )


@cache
def is_newer() -> bool:
    """Whether a package of FAST-HEP's is newer than the one that we were tested with."""
    return any(
        _number(package.version) > _number(TESTED[name]) for name, package in _installed().items()
    )


def refused(problems: Iterable[object]) -> DoesNotFit:
    """Return the message on a release that does not fit, and how to have one that does."""
    listed_problems = [*problems]
    more = len(listed_problems) - _SHOWN
    versions = {name: package.version for name, package in _installed().items()}
    other = {
        name: versions.get(name, "none") for name in TESTED if versions.get(name) != TESTED[name]
    }
    listed = [f"{name} {version}" for name, version in (other or versions).items()]
    tested = [f"{name}=={TESTED[name]}" for name in other or TESTED]
    return DoesNotFit(
        "\n".join(
            [
                "the installed FAST-HEP does not fit: it differs in parts that fasthep-smk uses",
                *(f"    changed  {problem}" for problem in listed_problems[:_SHOWN]),
                *([f"             ... and {more} more"] if more > 0 else []),
                f"    found    {', '.join(listed)}",
                f"    tested   up to {', '.join(dict.fromkeys(TESTED.values()))}",
                f"    hint     pip install {' '.join(map(repr, tested))}, or a newer fasthep-smk",
            ]
        )
    )


def _number(version: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", version)))


def _installed() -> dict[str, metadata.Distribution]:
    packages = {}
    for name in TESTED:
        try:
            packages[name] = metadata.distribution(name)
        except metadata.PackageNotFoundError:  # which is said where it is imported
            continue
    return packages


def _seen(packages: Iterable[metadata.Distribution], used: Iterable[Mapping[str, str]]) -> Path:
    """Return the file that is there once these releases have been looked at, by this package."""
    where = [
        [package.version, str(Path(str(package.locate_file(""))).resolve())] for package in packages
    ]
    content = [where, *map(dict, (TESTED, *used))]
    home = os.environ.get("XDG_CACHE_HOME", "").strip() or "~/.cache"
    return Path(home).expanduser() / "fasthep-smk" / f"fasthep-{files.digest_of(content)}"


def _remember(seen: Path) -> None:
    try:
        seen.parent.mkdir(parents=True, exist_ok=True)
        seen.touch()
    except OSError:  # the next run looks again
        return

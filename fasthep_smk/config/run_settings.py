"""What a user chooses about a run, on the command line or in a Snakemake configuration."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Literal

__all__ = ["BundleSize", "Granularity", "Keep", "Limit", "RunSettings"]

Granularity = Literal["auto", "stage"]
#: How many partitions share a job.
BundleSize = int | Literal["auto"]
#: Which intermediates stay after a run that succeeded.
Keep = Literal["all", "auto", "none"]

_LIMIT = re.compile(r"([0-9]+)|([0-9]+(?:\.[0-9]+)?)\s*%")


@dataclass(frozen=True)
class Limit:
    """How many partitions may be missing: a number, or a share of all partitions of the run."""

    text: str
    number: int | None
    share: Fraction

    @classmethod
    def parse(cls, text: str) -> Limit:
        """Return the limit that ``text`` states: ``3`` or ``1%``.

        Raises:
            ValueError: it is neither, or nothing could ever be missing; the message says which.
        """
        found = _LIMIT.fullmatch(text.strip())
        if found is None:
            raise ValueError(f"{text!r} is neither a number of partitions nor a percentage")
        number = int(found[1]) if found[1] else None
        share = Fraction(found[2] or 0) / 100
        if share > 1:
            raise ValueError(f"{text!r} is more than all partitions")
        if not number and not share:
            raise ValueError(f"{text!r} accepts nothing: use --keep-going")
        return cls(text.strip(), number, share)

    def of(self, total: int) -> int:
        """Return how many of ``total`` partitions may be missing; a share is rounded down."""
        return int(self.share * total) if self.number is None else self.number

    def said(self, total: int) -> str:
        """Return what it accepts of ``total`` partitions, for a message."""
        accepted = f"--accept-missing {self.text} accepts {self.of(total)} of {total}"
        return accepted if self.number is not None else f"{accepted} (rounded down)"


@dataclass(frozen=True, kw_only=True)
class RunSettings:
    """The settings of a run; ``fasthep-smk run --help`` describes each.

    ``chunk_size`` is in events, ``waiting`` in seconds. ``identity`` says what makes an input file
    the same: size and time, or the checksum. ``sizes`` is a file of measured amounts. ``rerun`` are
    stages to run again, each with a token that is new every time. ``without`` are partitions
    (dataset and part) that are left out of all reductions, each with what went wrong with it.
    ``snakemake`` are further arguments for it.
    """

    workflow: Path
    outdir: Path = Path("build")
    # What it becomes.
    chunk_size: int | None = None
    granularity: Granularity = "auto"
    bundle: BundleSize = "auto"
    variation: str | None = None
    profile: str | None = None
    shrink_to_fit: bool = False
    sizes: Path | None = None
    identity: Literal["stat", "checksum"] = "stat"
    # Which jobs run.
    verify: bool = False
    rerun: Mapping[str, str] = field(default_factory=dict)
    without: Mapping[tuple[str, str], str] = field(default_factory=dict)
    # How they run.
    jobs: int | None = None
    keep_going: bool = False
    accept_missing: Limit | None = None
    allow_expiring: bool = False
    waiting: int | None = None
    snakemake: tuple[str, ...] = ()
    # What is printed, and what stays.
    quiet: bool = False
    verbose: bool = False
    keep: Keep = "auto"

    def to_words(self, names: Iterable[str]) -> list[str]:
        """Return the options of the command line for those of these fields that were chosen."""
        chosen = {
            name: getattr(self, name)
            for name in names
            if getattr(self, name) != self.__dataclass_fields__[name].default
        }
        words = []
        for name, value in chosen.items():
            text = value.text if isinstance(value, Limit) else str(value)
            words += [f"--{name.replace('_', '-')}", *([] if value is True else [text])]
        return words

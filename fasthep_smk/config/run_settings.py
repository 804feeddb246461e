"""What a user chooses about a run, on the command line or in a Snakemake configuration."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Literal

Granularity = Literal["auto", "stage"]
#: How many partitions share a job.
BundleSize = int | Literal["auto"]
#: Which intermediates stay after a run that succeeded.
Keep = Literal["all", "auto", "none"]

_RANGE = re.compile(r"(.+):([0-9]+)(?:-([0-9]+))?")
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
        match = _LIMIT.fullmatch(text.strip())
        if match is None:
            raise ValueError(f"{text!r} is neither a number of partitions nor a percentage")
        number = int(match[1]) if match[1] else None
        share = Fraction(match[2] or 0) / 100
        if share > 1:
            raise ValueError(f"{text!r} is more than all partitions")
        if not number and not share:
            raise ValueError(f"{text!r} accepts no missing partition: use --keep-going instead")
        return cls(text.strip(), number, share)

    def of(self, total: int) -> int:
        """Return how many of ``total`` partitions may be missing; a share is rounded down."""
        return int(self.share * total) if self.number is None else self.number

    def said(self, total: int) -> str:
        """Return what it accepts of ``total`` partitions, for a message."""
        accepted = f"--accept-missing {self.text} accepts {self.of(total)} of {total}"
        return accepted if self.number is not None else f"{accepted} (rounded down)"


@dataclass(frozen=True, kw_only=True)
class Sample:
    """Which partitions of a run are wanted: a share of each dataset, so many events, or by numbers.

    ``option`` is how that was said on the command line. ``ranges`` are the first and last of some
    partitions of a dataset, counted from 1.
    """

    option: str
    share: Fraction | None = None
    events: int = 0
    ranges: Mapping[str, tuple[tuple[int, int], ...]] = field(default_factory=dict)

    @classmethod
    def of_share(cls, text: str) -> Sample:
        """Return the sample that ``text`` states, such as ``1%``.

        Raises:
            ValueError: it is no percentage, or none of something.
        """
        match = _LIMIT.fullmatch(text.strip())
        if match is None or not match[2]:
            raise ValueError(f"{text!r} is not a percentage, such as 1%")
        share = Fraction(match[2]) / 100
        if not 0 < share <= 1:
            raise ValueError(f"{text!r} is not a share of all partitions, such as 1%")
        return cls(option=f"--sample {text.strip()}", share=share)

    @classmethod
    def of_ranges(cls, text: str) -> Sample:
        """Return the sample that ``text`` states, such as ``data:1-3,dy:2``.

        Raises:
            ValueError: it is no list of datasets with numbers.
        """
        ranges: dict[str, tuple[tuple[int, int], ...]] = {}
        for part in text.split(","):
            match = _RANGE.fullmatch(part.strip())
            first = int(match[2]) if match else 0
            last = int(match[3] or first) if match else 0
            if match is None or not 1 <= first <= last:
                raise ValueError(
                    f"{part.strip()!r} does not have the form DATASET:FIRST-LAST, such as data:1-3"
                )
            ranges[match[1]] = (*ranges.get(match[1], ()), (first, last))
        return cls(option=f"--partitions {text.strip()}", ranges=ranges)


@dataclass(frozen=True, kw_only=True)
class RunSettings:
    """The settings of a run; ``fasthep-smk run --help`` describes each.

    ``chunk_size`` is in events, ``waiting`` in seconds. ``sample``: only some partitions are
    wanted. ``identity`` says what makes an input file the same: size and time, or the checksum.
    ``sizes`` is a file of measured amounts. ``no_preflight``: the first events do not go
    through the workflow before anything runs. ``try_plots``: they are drawn of them, however small
    the run is. ``rerun`` are stages to run again, each with a token
    that is new every time. ``without`` are partitions (dataset and part) that are left out of all
    reductions, each with what went wrong with it. ``site_options`` are options of Snakemake that
    add to settings of the site's profile, ``snakemake`` are all its other arguments.
    """

    workflow: Path
    outdir: Path = Path("build")
    # What it becomes.
    chunk_size: int | None = None
    granularity: Granularity = "auto"
    bundle: BundleSize = "auto"
    variation: str | None = None
    sample: Sample | None = None
    profile: str | None = None
    site_options: Mapping[str, list[str]] = field(default_factory=dict)
    shrink_to_fit: bool = False
    sizes: Path | None = None
    identity: Literal["stat", "checksum"] = "stat"
    no_preflight: bool = False
    try_plots: bool = False
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

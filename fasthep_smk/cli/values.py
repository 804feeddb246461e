"""The values of options: what a text stands for, or why it is none."""

from __future__ import annotations

import argparse
import re
import time
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import TypeVar

from fasthep_smk.config.run_settings import Limit, RunSettings, Sample
from fasthep_smk.config.site import split_options
from fasthep_smk.util.errors import UsageError

_Value = TypeVar("_Value")
_EVENTS = re.compile(r"(\d+(?:\.\d+)?)([kKmM]?)", re.ASCII)
_POWERS = {"": 1, "k": 1000, "m": 1_000_000}


def folder(text: str) -> Path:
    if not text.strip():
        raise argparse.ArgumentTypeError("the name of the folder is empty")
    return Path(text)


def positive(text: str) -> int:
    try:
        value = int(text)
    except ValueError:
        value = 0
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a positive whole number")
    return value


def jobs(text: str) -> int | None:
    if text == "all":
        return None
    try:
        return positive(text)
    except argparse.ArgumentTypeError:
        raise argparse.ArgumentTypeError(
            f"{text!r} is neither a positive whole number nor 'all'"
        ) from None


def events(text: str) -> int:
    match = _EVENTS.fullmatch(text)
    events = float(match[1]) * _POWERS[match[2].lower()] if match else 0.0
    if events < 1 or not events.is_integer():
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a positive whole number, such as 100000, 100k or 1.5M"
        )
    return int(events)


def bundle(text: str) -> int | str:
    return text if text == "auto" else positive(text)


def _saying(parse: Callable[[str], _Value]) -> Callable[[str], _Value]:
    """Let argparse tell what is wrong with a text in the words of a ``ValueError``."""

    def read(text: str) -> _Value:
        try:
            return parse(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return read


limit = _saying(Limit.parse)
sample = _saying(Sample.of_share)
partitions = _saying(Sample.of_ranges)


def sample_of_events(text: str) -> Sample:
    return Sample(option=f"--events {text}", events=events(text))


def settings_of(options: argparse.Namespace) -> RunSettings:
    """Return the settings that a command has options for."""
    names = {field.name for field in fields(RunSettings)}
    settings = {name: value for name, value in vars(options).items() if name in names}
    samples = (getattr(options, name, None) for name in ("sample", "partitions", "events"))
    settings["sample"] = next((chosen for chosen in samples if chosen is not None), None)
    # A token that is new every time.
    settings["rerun"] = dict.fromkeys(settings.get("rerun") or (), str(time.time_ns()))
    try:
        settings["site_options"], others = split_options(settings.get("snakemake", ()))
    except ValueError as error:
        raise UsageError(str(error)) from None
    settings["snakemake"] = tuple(others)
    if getattr(options, "dry_run", False):
        settings["no_preflight"] = True
    return RunSettings(**settings)

"""The depot: where what jobs are sent and what they send back lies, on this side."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from fasthep_smk import layout
from fasthep_smk.transfer.arrival import Arrival, accept
from fasthep_smk.transfer.needs import load_of
from fasthep_smk.transfer.parcel import Damaged, write_parcel

__all__ = ["NODE", "Depot", "Trip"]

#: What a worker runs first.
NODE = Path(__file__).with_name("node.sh")


@dataclass(frozen=True)
class Trip:
    """A job under way: its rule and wildcards' values, and its files, relative to the build."""

    rule: str
    place: tuple[str, ...]
    parcel: str
    outcome: str


@dataclass(frozen=True)
class Depot:
    """The depot of a build folder."""

    build: Path

    @cached_property
    def _settings(self) -> dict[str, Any]:
        text = (self.build / layout.TRANSFER).read_text(encoding="utf-8")
        content: dict[str, Any] = json.loads(text)
        return content

    @property
    def python(self) -> str:
        """The Python of jobs: a path on workers, or the archive of one, relative to the build."""
        return str(self._settings["python"])

    @property
    def brings_python(self) -> bool:
        """Tell whether jobs are sent their Python."""
        return bool(self._settings["brings_python"])

    def names_of(self, rule: str) -> list[str]:
        """Return which wildcards name the jobs of a rule, in order."""
        return list(self._settings["wildcards"][rule])

    def send(self, rule: str, place: Sequence[str]) -> Trip:
        """Pack what a job needs.

        Raises:
            OSError, KeyError: something that it needs is not there.
        """
        trip = self.trip(rule, place)
        load = load_of(self.build, rule, place, shared=self._settings["shared"])
        (self.build / trip.outcome).unlink(missing_ok=True)
        write_parcel(self.build / trip.parcel, load.content, load.about())
        return trip

    def trip(self, rule: str, place: Sequence[str]) -> Trip:
        """Return where a job's files are on this side."""
        name = "/".join((layout.DEPOT, rule, *(place or (rule,))))
        return Trip(rule, tuple(place), f"{name}.parcel.tar", f"{name}.outcome.tar")

    def receive(self, trip: Trip) -> Arrival:
        """Put what a job has sent back in its place, and clear its files away."""
        outcome = self.build / trip.outcome
        try:
            return accept(self.build, outcome, trip.rule, trip.place)
        except Damaged as error:
            return Arrival(None, str(error))
        except FileNotFoundError:
            return Arrival(None, "nothing came back")
        finally:
            outcome.unlink(missing_ok=True)
            (self.build / trip.parcel).unlink(missing_ok=True)

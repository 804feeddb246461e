"""Which jobs go to pilots, what a pilot asks for, and until when it starts jobs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fasthep_smk.config.requests import Attempt, Pilot, ResourceRequest, Route
from fasthep_smk.plan.rules import Rule
from fasthep_smk.storage import layout, pilots
from fasthep_smk.translate.pilots import crews, too_short

GB = 10**9


def attempt(pool: str, pilot: Pilot | None, **asked: Any) -> Attempt:
    options = {"slurm": {"partition": "long"}}
    return Attempt(pool, ResourceRequest(**asked), options, pilot=pilot)


def rule(name: str, *attempts: Attempt) -> Rule:
    return Rule(name, "partition", (name,), Route(attempts), ("dataset", "partition"))


def made(*rules: Rule, **facts: Any) -> pilots.Crews:
    told = {"system": "slurm", "workers": {}, "longest": None} | facts
    return crews(rules, {one.name: one.route.attempts for one in rules}, **told)


def test_jobs_that_ask_for_the_same_share_pilots() -> None:
    quick = attempt("default", Pilot(), memory=GB, walltime=600)
    slow = attempt("default", Pilot(), memory=GB, walltime=7200)
    large = attempt("default", Pilot(), memory=2 * GB, walltime=600)
    found = made(rule("A", quick), rule("B", slow), rule("C", large), rule("D"))
    assert [one.attempt.request.memory for one in found.by_name.values()] == [
        GB + 700 * 10**6,
        2 * GB + 700 * 10**6,
    ]
    assert found.of("A", 1) == found.of("B", 1) != found.of("C", 1)
    assert found.of("D", 1) is None
    # Four of the longest jobs; the last may start when it has all of its time.
    assert found.of("A", 1).attempt.request.walltime == 4 * 7200  # type: ignore[union-attr]
    assert found.of("A", 1).until == 4 * 7200 - 7200 - 60  # type: ignore[union-attr]


def test_a_pilot_for_several_jobs_is_as_much_larger() -> None:
    pilot = Pilot(tasks=4, walltime=36_000)
    asked = attempt("gpu", pilot, cpus=2, memory=GB, gpus=1, disk=GB, walltime=60)
    crew = made(rule("A", asked), workers={"gpu": 3}).of("A", 1)
    assert crew is not None
    assert (crew.most, crew.tasks) == (3, 4)
    assert crew.attempt.request == ResourceRequest(
        cpus=8, memory=4 * (GB + 100 * 10**6) + 600 * 10**6, gpus=4, disk=4 * GB, walltime=36_000
    )


def test_the_site_has_the_last_word_on_the_time() -> None:
    asked = attempt("default", Pilot(), walltime=3600)
    crew = made(rule("A", asked), longest=7200).of("A", 1)
    assert crew is not None
    assert (crew.attempt.request.walltime, crew.until) == (7200, 7200 - 3600 - 60)


def test_where_nobody_says_how_long_jobs_take_nothing_is_known() -> None:
    crew = made(rule("A", attempt("default", Pilot()))).of("A", 1)
    assert crew is not None
    assert (crew.attempt.request.walltime, crew.until) == (None, None)


def test_each_attempt_goes_its_own_way() -> None:
    first, last = attempt("spot", Pilot()), attempt("default", None)
    found = made(rule("A", first, first, last))
    assert [bool(found.of("A", number)) for number in (1, 2, 3, 4)] == [True, True, False, False]


@pytest.mark.parametrize(("lasts", "wrong"), [(3600, True), (3719, True), (3720, False)])
def test_a_pilot_that_ends_before_its_first_job_is_refused(lasts: int, wrong: bool) -> None:
    asked = attempt("default", Pilot(walltime=lasts), walltime=3600)
    found = [str(one) for one in too_short([asked])]
    assert bool(found) is wrong
    if wrong:
        assert "a pilot of pool 'default' would end before its first job may" in found[0]
        assert "expected: at least 01:02:00" in found[0]


def test_what_is_written_is_what_is_read(tmp_path: Path) -> None:
    found = made(rule("A", attempt("a b'{}$", Pilot(tasks=2), memory=GB, walltime=60)))
    pilots.write(found, tmp_path)
    assert pilots.read(tmp_path) == found
    pilots.write(made(), tmp_path)
    assert not (tmp_path / layout.PILOTS).exists()
    assert pilots.read(tmp_path) is None


def test_a_pool_without_memory_gets_some_where_the_system_gives_too_little() -> None:
    one = rule("A", attempt("default", Pilot(tasks=2)))
    asked = {
        system: made(one, system=system).by_name["pool0"].attempt.request.memory
        for system in ("slurm", "htcondor")
    }
    assert asked == {"slurm": None, "htcondor": 2 * (GB + 100 * 10**6) + 600 * 10**6}

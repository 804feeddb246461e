"""Which jobs go to pilots, what a pilot asks for, and until when it starts jobs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fasthep_smk.config.requests import Attempt, Pilot, ResourceRequest, Route
from fasthep_smk.contrib.pilots.crews import crews, slots
from fasthep_smk.plan.rules import Rule
from fasthep_smk.storage import layout, pilots
from fasthep_smk.util.errors import Finding

GB = 10**9


def attempt(pool: str, pilot: Pilot | None, **asked: Any) -> Attempt:
    options = {"slurm": {"partition": "long"}}
    return Attempt(pool, ResourceRequest(**asked), options, pilot=pilot)


def rule(name: str, *attempts: Attempt) -> Rule:
    return Rule(name, "partition", (name,), Route(attempts), ("dataset", "partition"))


def made(*rules: Rule, **facts: Any) -> pilots.Crews:
    return told(*rules, **facts)[0]


def told(
    *rules: Rule, longest: int | None = None, most: int | None = None, **facts: Any
) -> tuple[pilots.Crews, list[str]]:
    """The crews, and what is said of them, on a site that gives ``most`` bytes to a job."""

    def problems(asked: Attempt) -> list[Finding]:
        memory = asked.request.memory or 0
        wrong = most is not None and memory > most
        said = {"value": f"memory: {memory}", "expected": f"at most {most}"}
        return [Finding(problem="too large", **said)] if wrong else []

    given = {"system": "slurm", "workers": {}, "longest": lambda _: longest, "problems": problems}
    return crews(rules, {one.name: one.route.attempts for one in rules}, **given | facts)


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


def test_what_is_written_is_what_is_read(tmp_path: Path) -> None:
    found = made(rule("A", attempt("a b'{}$", Pilot(tasks=2), memory=GB, walltime=60)))
    pilots.write(found, tmp_path)
    assert pilots.read(tmp_path) == found
    pilots.write(made(), tmp_path)
    assert not (tmp_path / layout.PILOTS).exists()


def test_a_pool_without_memory_gets_some_where_the_system_gives_too_little() -> None:
    one = rule("A", attempt("default", Pilot(tasks=2)))
    asked = {
        system: made(one, system=system).by_name["pool0"].attempt.request.memory
        for system in ("slurm", "htcondor")
    }
    assert asked == {"slurm": None, "htcondor": 2 * (GB + 100 * 10**6) + 600 * 10**6}


def test_a_pilot_that_no_node_is_large_enough_for_is_not_asked_for() -> None:
    """Its jobs are: they go where they would have gone without pilots, and the user is told."""
    large, small = attempt("big", Pilot(tasks=4), memory=5 * GB), attempt("small", Pilot())
    found, said = told(rule("A", large), rule("B", small), most=16 * GB, workers={"big": 2})
    assert found.of("A", 1) is None
    assert found.of("B", 1) is not None
    assert said == [
        "pool 'big' has no pilots, so each job is a batch job of its own: a pilot would be larger "
        "than any node (requested memory: 21000000000; available: at most 16000000000); ask for "
        "less, or set fewer pilot.tasks"
    ]


def test_jobs_that_take_as_long_as_a_pilot_may_last_are_batch_jobs() -> None:
    long, short = attempt("default", Pilot(), walltime=7100), attempt("default", Pilot())
    found, said = told(rule("A", long), rule("B", short), longest=7200)
    assert (found.of("A", 1), len(said)) == (None, 1)
    assert "a pilot may last 02:00:00, too short for a job of 01:58:20" in said[0]
    crew = found.of("B", 1)
    assert crew is not None
    assert crew.attempt.request.walltime == 3600


def test_a_pilot_lasts_no_longer_than_the_site_gives() -> None:
    asked = attempt("default", Pilot(walltime=36_000), walltime=60)
    found, said = told(rule("A", asked), longest=120 * 60)
    assert found.by_name["pool0"].attempt.request.walltime == 7200
    assert said == [
        "pool 'default': pilots last 02:00:00 instead of 10:00:00, because no job may last longer "
        "there"
    ]


def test_crews_of_a_pool_have_its_workers_together() -> None:
    """A limit of its jobs holds where one of them is not run by a pilot."""
    small, large = attempt("gpu", Pilot(), memory=GB), attempt("gpu", Pilot(), memory=2 * GB)
    mixed = rule("C", attempt("spot", Pilot()), attempt("default", None))
    found = made(rule("A", small), rule("B", large), mixed, workers={"gpu": 2, "default": 3})
    assert found.limited == ["gpu", "default"]
    assert found.tokens == {"gpu": "pool_gpu"}
    assert len(found.by_name) == 3


def test_pilots_run_as_many_jobs_at_a_time_as_they_have_room_for() -> None:
    assert slots(attempt("gpu", Pilot(tasks=4)), {"gpu": 3}) == 12
    assert slots(attempt("gpu", Pilot(tasks=4)), {}) == 80
    assert slots(attempt("gpu", None), {"gpu": 3}) == 1

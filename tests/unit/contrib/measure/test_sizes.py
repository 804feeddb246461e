"""What jobs took, and what such jobs should ask for."""

from pathlib import Path
from typing import Any

import yaml

from fasthep_smk.config.sizes import read_sizes
from fasthep_smk.contrib.measure import sizes
from fasthep_smk.storage.measured import Taken

GB = 10**9


def job(**told: Any) -> Taken:
    given: dict[str, Any] = {
        "rule": "stages_Cuts_to_Met",
        "scope": "partition",
        "stages": ("Cuts", "Met"),
        "pool": "default",
        "dataset": "dy",
        "file": "",
        "memory": 1 * GB,
        "seconds": 360.0,
        "events": None,
        "asked_memory": 4 * GB,
        "asked_time": None,
    }
    return Taken(**{**given, **told})


def entries(jobs: list[Taken]) -> list[dict[str, Any]]:
    """The entries of a file of sizes."""
    found: list[dict[str, Any]] = yaml.safe_load(sizes.as_yaml(jobs, Path("build")))["sizes"]
    return found


def test_what_the_jobs_of_a_rule_took() -> None:
    jobs = [job(), job(memory=2 * GB), job(memory=3 * GB), job(rule="m", pool="large")]
    (cuts, other) = entries(jobs)
    assert (cuts["measured"]["jobs"], cuts["pool"], other["pool"]) == (3, "default", "large")
    memory = cuts["measured"]["memory"]
    assert memory == {"least": "1000MB", "median": "2000MB", "most": "3000MB", "asked": "4GB"}
    # The most, and the step from one job to the next.
    assert (cuts["ask"]["memory"], other["ask"]["memory"]) == ("4GB", "1380MB")


def test_no_more_is_proposed_than_was_enough() -> None:
    """A worker may have no more than that: a run would refuse it."""
    (found,) = entries([job(memory=3.9 * GB, asked_time=400)] * 3)
    assert found["ask"] == {"memory": "4GB", "walltime": "00:06:40"}
    (found,) = entries([job(memory=4.1 * GB)] * 3)
    assert found["ask"] == {"memory": "4870MB"}


def test_partitions_of_another_length_are_sized_by_the_longest() -> None:
    jobs = [job(memory=1 * GB + 10**6 * n, events=10**3 * n) for n in (100, 200, 300, 400, 500)]
    (found,) = entries(jobs)
    assert found["ask"]["memory"] == "1570MB"  # the entries say it all: 64 MB more than the longest


def test_what_is_printed_can_be_given_to_a_run(tmp_path: Path) -> None:
    jobs = [job(), job(rule="finish", scope="finish", stages=("Plot",), asked_time=3600)]
    text = sizes.as_yaml(jobs, Path("my build"))
    (tmp_path / "sizes.yaml").write_text(text, encoding="utf-8")
    cuts, finish = read_sizes(tmp_path / "sizes.yaml")
    assert (cuts.stages, cuts.scope, cuts.memory) == (("Cuts", "Met"), "partition", 1_380_000_000)
    assert cuts.walltime is None  # no limit where there was none
    assert (finish.scope, finish.walltime) == ("finish", 360 + 2 * 135 + 30)  # in whole minutes
    measured = yaml.safe_load(text)["sizes"][0]["measured"]
    memory = {"least": "1000MB", "median": "1000MB", "most": "1000MB", "asked": "4GB"}
    assert measured["memory"] == memory


def test_of_a_build_folder_without_a_finished_job_there_is_nothing_to_say(tmp_path: Path) -> None:
    (tmp_path / "sizes.yaml").write_text(sizes.as_yaml([], tmp_path), encoding="utf-8")
    assert read_sizes(tmp_path / "sizes.yaml") == []

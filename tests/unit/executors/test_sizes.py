"""Jobs that ask for what those that have ended took, while the run goes on."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fasthep_smk.executors.sizes import Sizes, died_of
from fasthep_smk.storage import failures, layout
from fasthep_smk.storage.job_settings import MOVED, heard, word
from fasthep_smk.storage.record import Asked
from tests.support.measured import build_of

MB, GB = 10**6, 10**9
POOL: Asked = {"pool": "default", "memory": 8 * GB, "walltime": 7200}
POOL_ASKS = {"memory": 8 * GB, "walltime": 7200}


def said(**more: Any) -> dict[str, Any]:
    """What is said of an attempt whose memory and time are measured."""
    request = {"memory": 8 * GB, "walltime": 7200, **more.pop("request", {})}
    most = {name: amount for name, amount in request.items() if amount is not None}
    both = ["memory", "walltime"]
    return {"pool": "default", "request": request, "most": most, "measured": both, **more}


def prepared(
    folder: Path,
    *taken: tuple[int, float, int | None],
    attempts: int = 3,
    asked: Asked = POOL,
    system: str = "slurm",
    jobs: Any = ({}, {}, {}, {}),
    **more: Any,
) -> Path:
    """A build folder with a rule of four jobs, and what earlier ones took."""
    build_of(folder, jobs)
    found = {"wildcards": ["part"], "taken": {"default": taken}, **more}
    found.setdefault("stated", [said()] * attempts)
    requests = {"system": system, "rules": {"stage_A": [asked] * attempts}}
    (folder / layout.SIZES).write_text(json.dumps({"stage_A": found}))
    (folder / layout.REQUESTS).write_text(json.dumps(requests))
    return folder


def asked(sizes: Sizes, key: str, number: int) -> dict[str, int]:
    """Return the memory and time that a job asks for at an attempt."""
    request = sizes.request("stage_A", key, number)
    amounts = {"memory": request.memory, "walltime": request.walltime}
    return {name: amount for name, amount in amounts.items() if amount is not None}


def job(part: int, attempt: int = 1, **resources: Any) -> Any:
    """A job as Snakemake has it, with resources that it has evaluated."""
    return Job(
        rule=SimpleNamespace(name="stage_A"),
        wildcards_dict={"part": str(part)},
        attempt=attempt,
        resources={"attempt": str(attempt), **resources},
    )


class Job(SimpleNamespace):
    __hash__ = object.__hash__  # type: ignore[assignment]

    def __setattr__(self, name: str, value: object) -> None:
        super().__setattr__(name, value)
        if name == "attempt":  # as with Snakemake, they are evaluated anew
            self.resources = None


def died(build: Path, kind: str, part: int = 0, attempt: int = 1, **had: int) -> None:
    """Leave the note of a job that has failed, by which it had what other jobs took."""
    found: dict[str, Any] = {"rule": "stage_A", "key": str(part), "record": "", "attempt": attempt}
    found |= {"memory": 1190 * MB, "walltime": 840, "problem": "it died", "kind": kind, **had}
    failures.note(build, failures.Failure(**found))


ONE_GB = (1 * GB, 600.0, None)


def test_nothing_is_sized_where_no_pool_says_so(tmp_path: Path) -> None:
    assert not Sizes(tmp_path)
    assert not Sizes(tmp_path).changes("stage_A")


def test_the_first_jobs_ask_for_what_their_pool_has(tmp_path: Path) -> None:
    sizes = Sizes(prepared(tmp_path, ONE_GB, ONE_GB))
    own = sizes.sized("stage_A", "0", 1, {"mem_mb": 7630, "runtime": 120})
    # A worker is told, since another translation may have been written before its job starts.
    assert own == {"attempt": "1:8000000000:7200"}


def test_from_the_third_on_they_ask_for_what_others_took(tmp_path: Path) -> None:
    sizes = Sizes(prepared(tmp_path, ONE_GB, ONE_GB, ONE_GB))
    assert asked(sizes, "0", 1) == {"memory": 1190 * MB, "walltime": 840}
    found = {"mem_mb": 7630, "mem_mib": 7276, "runtime": 120, "attempt": 1}
    assert sizes.sized("stage_A", "0", 1, found) == {
        "mem_mb": 1135,  # Slurm counts in units of 2**20
        "mem_mib": 1083,
        "htcondor_request_mem_mb": 1135,
        "runtime": 14,
        "attempt": "1:1190000000:840",
    }


def test_jobs_never_ask_for_more_than_a_worker_has(tmp_path: Path) -> None:
    sizes = Sizes(prepared(tmp_path, *[(7 * GB, 7100.0, None)] * 3))
    assert asked(sizes, "0", 1) == {"memory": 8 * GB, "walltime": 7200}


def test_what_was_given_to_the_jobs_of_a_dataset_or_file_stays(tmp_path: Path) -> None:
    """What these take says nothing of others, either."""
    fixed = said(request={"memory": 3 * GB}, measured=["walltime"])
    build = prepared(tmp_path, *[ONE_GB] * 3, wildcards=["dataset"], own={"1": [fixed] * 3})
    sizes = Sizes(build)
    assert asked(sizes, "0", 1) == {"memory": 1190 * MB, "walltime": 840}
    assert asked(sizes, "1", 1) == {"memory": 3 * GB, "walltime": 840}
    own = {"wildcards": ["dataset"], "attempts": {"1": [{**POOL, "memory": 3 * GB}] * 3}}
    requests = json.loads((build / layout.REQUESTS).read_text())
    (build / layout.REQUESTS).write_text(json.dumps({**requests, "by_dataset": {"stage_A": own}}))
    found = {"mem_mb": 2862, "runtime": 120, "attempt": 1}
    assert Sizes(build).sized("stage_A", "1", 1, found) == {
        "runtime": 14,
        "attempt": "1:3000000000:840",
    }


def test_jobs_are_sized_by_their_entries_where_that_says_more(tmp_path: Path) -> None:
    taken = [(GB + 1000 * n, 60.0, n) for n in (10**5, 2 * 10**5, 3 * 10**5, 4 * 10**5, 5 * 10**5)]
    build = prepared(tmp_path, *taken)
    table = json.loads((build / layout.table("stage_A")).read_text())
    for key, stop in (("0", 10**5), ("1", 10**6)):
        part = {"id": key, "dataset": "dy", "file": "dy.root", "source": "events", "part": key}
        table["jobs"][key]["partition"] = {**part, "start": 0, "stop": stop}
    (build / layout.table("stage_A")).write_text(json.dumps(table))
    sizes = Sizes(build)
    found = [asked(sizes, key, 1)["memory"] for key in ("0", "1")]
    assert found == [1170 * MB, 2070 * MB]  # of one that is not known, 1.6 GB


def test_jobs_that_wait_are_sized_when_others_have_ended(tmp_path: Path) -> None:
    build = prepared(tmp_path, ONE_GB, ONE_GB, jobs=[{"memory": 3 * GB}, {}, {}, {}])
    sizes = Sizes(build)
    first, waits = job(0), job(1, mem_mb=7630)
    sizes.refresh([first, waits], [])
    sizes.chosen([first])
    sizes.refresh([waits], [first])  # it runs: nothing is new
    assert waits.resources is not None
    assert asked(sizes, "1", 1) == POOL_ASKS
    sizes.refresh([waits], [])
    assert waits.resources is None
    assert asked(sizes, "1", 1)["memory"] == 4 * GB


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("memory", {"memory": 2380 * MB, "walltime": 840}),  # twice, and no more time
        ("time", {"memory": 1190 * MB, "walltime": 1680}),
        ("error", {"memory": 1190 * MB, "walltime": 840}),
        ("killed", {"memory": 1190 * MB, "walltime": 840}),
    ],
)
def test_only_what_a_job_has_lacked_grows(
    tmp_path: Path, kind: str, expected: dict[str, int]
) -> None:
    build = prepared(tmp_path, ONE_GB, ONE_GB, ONE_GB)
    sizes = Sizes(build)
    died(build, kind)
    assert asked(sizes, "0", 2) == expected


def test_the_last_attempt_has_all_that_there_is_of_what_was_lacking(tmp_path: Path) -> None:
    build = prepared(tmp_path, ONE_GB, ONE_GB, ONE_GB, attempts=2)
    sizes = Sizes(build)
    died(build, "memory")
    assert asked(sizes, "0", 2) == {"memory": 8 * GB, "walltime": 840}


def unsaid(node: int, **more: Any) -> dict[str, Any]:
    """What is said where no pool says an amount: at first 2 GB, at most what a node has."""
    request = {"memory": 2 * GB, "walltime": None}
    return said(request=request, most={"memory": node}, measured=["memory"], **more)


def test_a_fallback_asks_for_what_its_own_nodes_have(tmp_path: Path) -> None:
    for node, memory in ((3 * GB, 3 * GB), (64 * GB, 4 * GB)):
        build = prepared(
            tmp_path / str(node),
            asked={"pool": "default", "memory": 2 * GB},
            stated=[unsaid(2 * GB), unsaid(node, pool="big")],
        )
        sizes = Sizes(build)
        died(build, "memory", memory=2 * GB)
        assert asked(sizes, "0", 2) == {"memory": memory}


def test_an_attempt_that_is_made_once_more_asks_for_the_same(tmp_path: Path) -> None:
    """It was lost, or preempted: nothing was too small."""
    sizes = Sizes(prepared(tmp_path, ONE_GB, ONE_GB, ONE_GB))
    died(tmp_path, "memory")
    asked_for = [asked(sizes, "0", 2)]
    for _ in range(3):
        sizes.chosen([job(0, attempt=2)])
        died(tmp_path, "killed", attempt=2, memory=2380 * MB)
        asked_for.append(asked(sizes, "0", 2))
    assert asked_for == [{"memory": 2380 * MB, "walltime": 840}] * 4


def test_a_job_that_an_earlier_run_has_sent_asks_for_more_than_that_had(tmp_path: Path) -> None:
    big = said(request={"memory": 64 * GB})
    sizes = Sizes(prepared(tmp_path, ONE_GB, ONE_GB, ONE_GB, stated=[big] * 3))
    died(tmp_path, "memory", memory=8 * GB)
    assert asked(sizes, "0", 2)["memory"] == 16 * GB
    assert sizes.after("stage_A", "0", 2, "memory", 8 * GB) == 16 * GB


def two_pools() -> list[dict[str, Any]]:
    """What is said of two attempts in a small pool, and of a last one in a large pool."""
    small, large = said(request={"memory": 2 * GB}), said(pool="large")
    return [small, small, large]


def test_an_attempt_that_was_passed_over_is_not_the_one_before(tmp_path: Path) -> None:
    taken = {"default": [], "large": [ONE_GB] * 3}
    sizes = Sizes(prepared(tmp_path, stated=two_pools(), taken=taken))
    died(tmp_path, "memory", memory=2 * GB)
    assert sizes.after("stage_A", "0", 2, "memory", 2 * GB) == 2 * GB
    assert asked(sizes, "0", 3)["memory"] == 8 * GB


def test_after_an_attempt_without_a_note_a_job_asks_for_what_that_had(tmp_path: Path) -> None:
    sizes = Sizes(prepared(tmp_path, ONE_GB, ONE_GB, ONE_GB))
    sizes.chosen([job(0)])
    died(tmp_path, "memory", memory=3 * GB)
    sizes.chosen([job(0, attempt=2)])
    assert asked(sizes, "0", 3)["memory"] == 6 * GB


def test_a_job_in_its_fallback_keeps_what_it_had_there(tmp_path: Path) -> None:
    taken = {"default": [ONE_GB] * 3, "large": [ONE_GB] * 3}
    build = prepared(tmp_path, stated=two_pools(), taken=taken)
    sizes = Sizes(build, lambda one: int(one.attempt) + MOVED)
    sizes.chosen([job(0)])
    died(build, "memory", memory=4 * GB)
    sizes.chosen([job(0, attempt=2)])
    died(build, "error", attempt=2, memory=8 * GB)
    assert asked(sizes, "0", 3 + MOVED)["memory"] == 8 * GB


def test_the_time_of_a_bundle_is_not_that_of_the_job_that_was_ended_with_it() -> None:
    given: dict[str, Any] = {"rule": "stage_A", "key": "0", "record": "", "kind": "killed"}
    given |= {"problem": "it ended", "batch_job": "7", "walltime": 3600, "system": "slurm"}
    for bundle, kind in ((None, "time"), ("bundle_0", "killed")):
        note = failures.Failure(**given, bundle=bundle)
        assert died_of(note, lambda _: "TIMEOUT").kind == kind


def test_while_too_little_is_known_jobs_ask_for_what_the_translation_knew(tmp_path: Path) -> None:
    """By what stages took that share a job only now."""
    translated: Asked = {"pool": "default", "memory": 3 * GB, "walltime": 600}
    sizes = Sizes(prepared(tmp_path, ONE_GB, ONE_GB, asked=translated))
    assert asked(sizes, "0", 1) == {"memory": 3 * GB, "walltime": 600}


def test_a_bundle_has_the_time_of_all_its_jobs(tmp_path: Path) -> None:
    sizes = Sizes(prepared(tmp_path, ONE_GB, ONE_GB, ONE_GB, together=5, longest=[None] * 3))
    own = sizes.sized("stage_A", "0", 1, {"mem_mb": 7630, "runtime": 600})
    assert own["runtime"] == 70
    assert own["attempt"] == "1:1190000000:840"  # what each of them is held to


def test_a_bundle_has_no_more_time_than_its_partition_gives(tmp_path: Path) -> None:
    sizes = Sizes(
        prepared(tmp_path, ONE_GB, ONE_GB, ONE_GB, together=20, longest=[3 * 3600, None, None])
    )
    found = {"mem_mb": 7630, "runtime": 180}
    own = sizes.sized("stage_A", "0", 1, found)
    assert {**found, **own}["runtime"] == 180  # not 20 * 14
    assert own["attempt"] == "1:1190000000:840"


@pytest.mark.parametrize(
    ("given", "asked"),
    [
        ((2, None, None), {}),
        ((2, 5, None), {"memory": 5}),
        ((1, None, 60), {"walltime": 60}),
        ((1001, 5, 60), {"memory": 5, "walltime": 60}),
    ],
)
def test_a_worker_hears_what_its_job_has_asked_for(given: Any, asked: Asked) -> None:
    assert heard(word(*given)) == (given[0], asked)


def test_the_partition_follows_from_the_time_that_was_measured(tmp_path: Path) -> None:
    """And from the time that is asked for after a job has lacked it."""
    options = {"slurm": {"partitions": {"short": "20m", "day": "1d"}}}
    stated = [said(options=options)] * 3
    sizes = Sizes(prepared(tmp_path, ONE_GB, ONE_GB, ONE_GB, stated=stated))
    found = {"mem_mb": 7630, "runtime": 120, "slurm_partition": "day"}
    first = sizes.sized("stage_A", "0", 1, found)
    assert first["slurm_partition"] == "short"
    assert first["runtime"] <= 20
    died(tmp_path, "time")
    again = {**found, **sizes.sized("stage_A", "0", 2, found)}
    assert 20 < again["runtime"] < 120
    assert again["slurm_partition"] == "day"


def test_a_partition_that_a_person_has_written_into_the_profile_stays(tmp_path: Path) -> None:
    options = {"slurm": {"partitions": {"short": "20m", "day": "1d"}}}
    stated = [said(options=options)] * 3
    sizes = Sizes(prepared(tmp_path, ONE_GB, ONE_GB, ONE_GB, stated=stated))
    found = {"mem_mb": 7630, "runtime": 120, "slurm_partition": "mine"}
    assert "slurm_partition" not in sizes.sized("stage_A", "0", 1, found)


def test_where_nothing_is_measured_no_table_and_no_record_is_read(tmp_path: Path) -> None:
    build = prepared(tmp_path, *[ONE_GB] * 3, stated=[said(measured=[])] * 3)
    (build / layout.table("stage_A")).unlink()
    (build / layout.table("stage_A")).mkdir()  # it cannot be read
    sizes = Sizes(build)
    sizes.chosen([job(0)])
    sizes.refresh([job(1)], [])
    assert sizes._jobs == {}
    assert asked(sizes, "1", 1) == POOL_ASKS

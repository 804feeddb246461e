"""Amounts that were measured, in place of those of the pools."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from fasthep_smk.config.execution import Execution, read_execution
from fasthep_smk.config.requests import Attempt, ResourceRequest
from fasthep_smk.config.sizes import Size
from fasthep_smk.plan.jobs import make_rules
from fasthep_smk.plan.partitions import Partition
from fasthep_smk.plan.rules import Rule, Variation
from fasthep_smk.sites import slurm_partitions
from fasthep_smk.sites.slurm import Slurm
from fasthep_smk.translate import profile
from fasthep_smk.translate.placement import place
from fasthep_smk.translate.profile import ALL, Placement
from fasthep_smk.translate.snakefile import render
from tests.support.measured import build_of
from tests.unit.plans import define, graph, node

MB, GB = 10**6, 10**9
POOLS = """\
pools:
  default: {resources: {memory: 4GB}, config: {walltime: 2h, retries: 3}}
  spot: {config: {retries: 1}}
"""


def workflow(
    stage: dict[str, Any] | None = None, execution: str = POOLS
) -> tuple[Execution, list[Rule]]:
    """A workflow of one stage, ``A``, and one file."""
    document = {
        "execution": yaml.safe_load(execution),
        "analysis": {"stages": [{"id": "A", "execution": stage}]},
    }
    found, findings = read_execution(document, {}, profile=None, workflow="workflow.yaml")
    assert found is not None, findings
    sim = {"name": "sim", "eventtype": "mc", "files": ["s.root"]}
    source = node("source", "events", tree="events", branches=["px"])
    made = define("A", "read.events", "px", execution=stage)
    partition = Partition("events__sim__0_0", "sim", "s.root", "events", "0_0")
    variation = Variation(None, graph(source, made, datasets={"sim": sim}), (partition,))
    return found, make_rules([variation], "auto", identity=str, router=found.router)


def of_stage(
    execution: Execution, rules: list[Rule], **how: Any
) -> tuple[tuple[Attempt, ...], Placement, list[str]]:
    """Return what the attempts of the stage's jobs ask for, their placement, and notes."""
    placement, findings, notes = place(rules, execution, **how)
    assert findings == []
    (rule,) = (one for one in rules if "A" in one.stages)
    return placement.attempts[rule.name], placement, notes


def memories(attempts: tuple[Attempt, ...]) -> list[int | None]:
    return [one.request.memory for one in attempts]


def size(**said: Any) -> Size:
    given: dict[str, Any] = {
        "stages": ("A",),
        "pool": "default",
        "file": "s.yaml",
        "key": "sizes[0]",
    }
    return Size(**{**given, **said})


def asked(stage: dict[str, Any] | None, *sizes: Size) -> list[tuple[int | None, int | None]]:
    """Return memory and time of the attempts of the stage's jobs."""
    execution, rules = workflow(stage)
    attempts, _, notes = of_stage(execution, rules, sizes=sizes)
    assert notes == []
    return [(one.request.memory, one.request.walltime) for one in attempts]


def test_jobs_ask_for_what_was_measured_and_for_more_when_tried_again() -> None:
    assert asked(None) == [(4 * GB, 7200)] * 4
    assert asked(None, size(memory=700 * MB)) == [
        (700 * MB, 7200),
        (1400 * MB, 7200),
        (2800 * MB, 7200),
        (4 * GB, 7200),  # all that a worker of the pool has
    ]
    assert asked(None, size(walltime=600)) == [(4 * GB, 600), *[(4 * GB, 7200)] * 3]


def test_what_was_measured_counts_more_than_what_a_stage_says() -> None:
    stage = {"resources": {"memory": "2GB"}, "config": {"memory_growth": 1.5}}
    assert [memory for memory, _ in asked(stage, size(memory=1 * GB))] == [
        1 * GB, 1.5 * GB, 2.25 * GB, 3.375 * GB,
    ]  # fmt: skip


def test_where_a_pool_says_no_amount_what_was_measured_is_all_there_is() -> None:
    spot = {"require": "spot"}
    assert asked(spot, size(pool="spot", memory=1 * GB)) == [(1 * GB, None), (2 * GB, None)]


def test_each_pool_of_a_job_has_sizes_of_its_own() -> None:
    stage = {"prefer": "spot", "fallback": "default"}
    assert asked(stage, size(memory=1 * GB)) == [(None, None), (1 * GB, 7200)]


def test_stages_that_run_together_now_take_the_most_memory_and_all_their_time() -> None:
    both = size(stages=("A",), memory=1 * GB, walltime=60)
    source = size(stages=("read.events",), memory=3 * GB, walltime=30, key="sizes[1]")
    assert asked(None, both, source)[0] == (3 * GB, 90)
    untimed = size(stages=("read.events",), memory=3 * GB, key="sizes[1]")
    assert asked(None, both, untimed)[0] == (3 * GB, 7200)  # nobody knows how long that takes


def test_an_amount_is_said_to_be_that_of_the_stage_that_takes_most() -> None:
    execution, rules = workflow()
    entries = [
        size(memory=1 * GB, walltime=60),
        size(stages=("read.events",), memory=3 * GB, walltime=30, key="sizes[1]"),
    ]
    (first, *_), _, _ = of_stage(execution, rules, sizes=entries)
    assert first.place("resources.memory") == "s.yaml: sizes[1].ask.memory"
    assert first.place("config.walltime") == (
        "s.yaml: sizes[0].ask.walltime, s.yaml: sizes[1].ask.walltime"
    )


@pytest.mark.parametrize(
    ("one", "message"),
    [
        (
            size(memory=5 * GB),
            "s.yaml: sizes[0].ask.memory: asks for more than a worker of pool 'default' has\n"
            "    found: 5 GB\n"
            "    expected: at most 4 GB (workflow.yaml: execution.pools.default.resources.memory)\n"
            "    hint: ask for less, or give pool 'default' larger workers",
        ),
        (
            size(stages=("B",)),
            "s.yaml: sizes[0].stages[0]: the workflow has no such stage\n"
            "    found: 'B'\n    expected: read.events or A",
        ),
    ],
)
def test_what_fits_no_worker_or_stage_is_refused(one: Size, message: str) -> None:
    execution, rules = workflow()
    _, findings, _ = place(rules, execution, sizes=[one])
    assert "\n".join(map(str, findings)) == message


def test_what_no_rule_takes_is_said() -> None:
    execution, rules = workflow()
    _, findings, notes = place(rules, execution, sizes=[size(scope="merge")])
    assert findings == []
    assert notes == [
        "s.yaml: sizes[0]: has no effect, because no rule of pool 'default' has all of these "
        "stages: A"
    ]


def test_the_snakefile_stays_the_same_and_the_profile_asks_for_what_was_measured() -> None:
    execution, rules = workflow()
    placement, _, _ = place(rules, execution, sizes=[size(memory=1 * GB)])
    assert "mem_mb=4000," in render(rules, workflow="w", outside=[])
    own = yaml.safe_load(profile.render(rules, placement))["set-resources"]
    assert {one["mem_mb"] for one in own.values()} == {
        "[1000, 2000, 4000, 4000][min(attempt, 4) - 1]"
    }


AUTO = """\
config: {sizes: auto}
pools:
  default: {resources: {memory: 4GB}, config: {walltime: 2h, retries: 3}}
  spot: {resources: {memory: 4GB}, config: {sizes: null}}
"""


def automatic(
    build: Path, stage: dict[str, Any] | None = None, execution: str = AUTO
) -> list[tuple[int | None, int | None]]:
    """Return memory and time of the attempts of the stage's jobs where earlier ones are done."""
    found, rules = workflow(stage, execution)
    attempts, placement, notes = of_stage(found, rules, build=build)
    assert notes == []
    assert placement.submitted_as() == place(rules, found)[0].submitted_as()
    return [(one.request.memory, one.request.walltime) for one in attempts]


@pytest.fixture
def three_done(tmp_path: Path) -> Path:
    """A build folder where three jobs of the stage took 1 GB and a minute."""
    return build_of(tmp_path, [{"memory": GB, "seconds": 60}] * 3, stages=("read.events", "A"))


def test_with_sizes_auto_jobs_ask_for_what_earlier_ones_took(three_done: Path) -> None:
    assert automatic(three_done) == [
        (1190 * MB, 180),  # a fifth more, and twice the least margin of a minute
        (2380 * MB, 7200),  # tried again: more memory, and all the time of the pool
        (4 * GB, 7200),
        (4 * GB, 7200),
    ]


def test_two_jobs_say_too_little(tmp_path: Path) -> None:
    build = build_of(tmp_path, [{}, {}], stages=("read.events", "A"))
    assert automatic(build) == [(4 * GB, 7200)] * 4
    assert automatic(tmp_path / "no build folder yet") == [(4 * GB, 7200)] * 4


def test_a_pool_takes_sizes_auto_back_and_a_stage_asks_for_it(three_done: Path) -> None:
    build_of(three_done, [{"asked": {"pool": "spot"}}] * 3, stages=("read.events", "A"))
    assert automatic(three_done, {"require": "spot"})[0] == (4 * GB, None)
    stage = {"require": "spot", "config": {"sizes": "auto"}}
    assert automatic(three_done, stage)[0] == (1190 * MB, None)


def test_what_a_stage_says_itself_stays(three_done: Path) -> None:
    assert automatic(three_done, {"resources": {"memory": "3GB"}})[0] == (3 * GB, 180)
    assert automatic(three_done, {"timeout": 900})[0] == (1190 * MB, 900)


def test_a_file_of_sizes_counts_more_than_what_earlier_jobs_took(three_done: Path) -> None:
    attempts, _, _ = of_stage(*workflow(None, AUTO), sizes=[size(memory=2 * GB)], build=three_done)
    assert attempts[0].request.memory == 2 * GB


def test_on_a_batch_system_a_job_without_another_attempt_asks_for_what_its_pool_has(
    three_done: Path,
) -> None:
    """It would be killed, and there would be no attempt to ask for more."""
    for system, retries, memory in (
        ("local", 0, 1190 * MB),
        ("slurm", 0, 4 * GB),
        ("slurm", 1, 1190 * MB),
    ):
        text = f"strategy: {system}\n" + AUTO.replace("retries: 3", f"retries: {retries}")
        (first, *_), placement, _ = of_stage(*workflow(None, text), build=three_done)
        assert first.request.memory == memory
        stated = [series[ALL][0] for series in placement.stated.values()]
        assert {bool(one.measured) for one in stated} == {memory < 4 * GB}


def test_on_one_machine_a_job_without_another_attempt_may_last_as_long_as_its_pool_says(
    three_done: Path,
) -> None:
    """It would be ended there, too, and there would be no attempt with more time."""
    for retries, walltime in ((0, 7200), (1, 180)):
        text = AUTO.replace("retries: 3", f"retries: {retries}")
        (first, *_), _, _ = of_stage(*workflow(None, text), build=three_done)
        assert (first.request.memory, first.request.walltime) == (1190 * MB, walltime)
        assert ("walltime" in first.measured) == (retries > 0)


@pytest.mark.parametrize("name", ["sim", "s.root", "s*"])
def test_jobs_with_amounts_of_their_own_are_no_measure_of_others(
    name: str, three_done: Path
) -> None:
    own = f"sizes: {{by_dataset: {{'{name}': {{disk: 1GB}}}}}}"
    found, rules = workflow(None, f"{AUTO}{own}\n")
    (path,) = three_done.rglob("tasks/*.json")
    table = json.loads(path.read_text())
    for job in table["jobs"].values():
        job["dataset"] = "sim"
        job["partition"] = {"id": "p", "file": "s.root", "start": None, "stop": None}
    path.write_text(json.dumps(table))
    (first, *_), _, _ = of_stage(found, rules, build=three_done)
    assert first.request.memory == 4 * GB


def first_asked(execution: str, build: Path | None = None) -> list[int | None]:
    """Return the memory of the attempts of the stage's jobs."""
    attempts, _, notes = of_stage(*workflow(None, execution), build=build)
    asked = memories(attempts)
    # It is said once, where it is so.
    first = "no memory is set. Jobs first request 2 GB per cpu"
    said = [note for note in notes if first in note]
    assert len(said) == (asked[0] is not None)
    return asked


NOTHING_SAID = """\
strategy: slurm
pools: {default: {config: {retries: 2}}}
"""


@pytest.fixture
def largest_node(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Slurm, "most_memory", lambda *_: 7 * GB)


@pytest.mark.usefixtures("largest_node")
def test_where_nobody_says_an_amount_jobs_of_a_batch_system_are_measured(
    three_done: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    new = tmp_path_factory.mktemp("new")
    assert first_asked(NOTHING_SAID, new) == [2 * GB, 4 * GB, 7 * GB]  # the last: the largest node
    assert first_asked(NOTHING_SAID, three_done) == [1190 * MB, 2380 * MB, 7 * GB]
    two_cpus = NOTHING_SAID.replace("config:", "resources: {cpus: 2}, config:")
    assert first_asked(two_cpus, new) == [4 * GB, 7 * GB, 7 * GB]


@pytest.mark.parametrize(
    "said",
    [
        NOTHING_SAID.replace("slurm", "local"),
        NOTHING_SAID.replace("retries: 2", "retries: 0"),
        NOTHING_SAID.replace("retries: 2", "retries: 2, sizes: fixed"),
        NOTHING_SAID.replace("retries: 2", "retries: 2, slurm: {extra: [--mem-per-cpu=3G]}"),
        NOTHING_SAID + "config: {sizes: fixed}",
    ],
)
def test_elsewhere_or_if_that_is_not_wanted_they_ask_for_nothing(said: str) -> None:
    assert set(first_asked(said)) == {None}


@pytest.fixture
def unequal_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many cpus or much memory in partition ``main``, and more memory in ``big``."""
    listed = (
        "main|1-00:00:00|32|16000|(null)|idle|main*\nmain|1-00:00:00|4|64000|gpu:1|mixed|main*\n"
        "big|2-00:00:00|32|500000|(null)|idle|big\n"
    )
    monkeypatch.setattr(slurm_partitions, "ask", lambda _command: listed)


MIB = 2**20


@pytest.mark.usefixtures("unequal_nodes")
@pytest.mark.parametrize(
    ("pool", "asked"),
    [
        # A node with so many cpus has less memory than the largest one.
        ("resources: {cpus: 16}, config: {slurm: {partition: main}}", [16000 * MIB] * 3),
        # What a partition is said to give counts, and what its nodes have where that is less.
        (
            "config: {walltime: 1h, slurm: {partitions: {main: {walltime: 2h, memory: 3GB}}}}",
            [2 * GB, 3 * GB, 3 * GB],
        ),
        (
            "config: {walltime: 1h, memory_growth: 8, slurm: {partitions: {main: 2h, big: 1d}}}",
            [2 * GB, 16 * GB, 64000 * MIB],
        ),
        (
            "config: {walltime: 1h, memory_growth: 16, "
            "slurm: {partitions: {main: {walltime: 2h, memory: 30GB}, big: 1d}}}",
            [2 * GB, 32 * GB, 512 * GB],
        ),
        # The last attempt has at least what Snakemake's plugin would give it.
        ("config: {memory_growth: 1.1, slurm: {partition: main}}", [2 * GB, 2.2 * GB, 8 * GB]),
    ],
)
def test_jobs_grow_up_to_what_is_where_they_go(pool: str, asked: list[int], tmp_path: Path) -> None:
    assert (
        first_asked(
            f"strategy: slurm\nconfig: {{retries: 2}}\npools: {{default: {{{pool}}}}}", tmp_path
        )
        == asked
    )


@pytest.mark.usefixtures("unequal_nodes")
def test_each_pool_of_a_job_has_nodes_of_its_own() -> None:
    small = "default: {config: {slurm: {partition: main}, retries: 1}}"
    for resources, memory in (("", 8 * GB), ("resources: {memory: 200GB}, ", 200 * GB)):
        big = f"big: {{{resources}config: {{sizes: auto, slurm: {{partition: big}}}}}}"
        stage = {"prefer": "default", "fallback": "big"}
        text = f"strategy: slurm\npools: {{{small}, {big}}}"
        attempts, _, _ = of_stage(*workflow(stage, text))
        assert memories(attempts) == [2 * GB, memory]
        most = [one.most["memory"] for one in attempts]
        assert most == [64000 * MIB, memory if resources else 500000 * MIB]


@pytest.mark.usefixtures("unequal_nodes")
@pytest.mark.parametrize("learns", ["auto", "fixed"])
def test_what_a_file_says_grows_up_to_the_largest_node(learns: str) -> None:
    pool = f"{{default: {{config: {{sizes: {learns}, slurm: {{partition: main}}}}}}}}"
    text = f"strategy: slurm\nconfig: {{retries: 2}}\npools: {pool}"
    attempts, _, _ = of_stage(*workflow(None, text), sizes=[size(memory=30 * GB)])
    assert memories(attempts) == [30 * GB, 60 * GB, 64000 * MIB]


def test_other_executors_are_left_alone(tmp_path: Path) -> None:
    """Nobody knows their nodes, so nothing is asked for before jobs are measured."""
    (tmp_path / "config.yaml").write_text("executor: cluster-generic\n")
    document = {"execution": {"config": {"sizes": "auto", "retries": 2}}}
    found, _ = read_execution(document, {}, profile=str(tmp_path), workflow="workflow.yaml")
    assert found is not None
    _, rules = workflow(None, "config: {retries: 2}")
    attempts, _, _ = of_stage(found, rules)
    assert memories(attempts) == [None] * 3


def test_the_largest_node_of_slurm_is_that_of_the_jobs_partition(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    listed = "main|1-00:00:00|4|8000|(null)|idle|main*\nbig|1-00:00:00|4|64000|(null)|idle|big\n"
    monkeypatch.setattr(slurm_partitions, "ask", lambda _command: listed)
    for options, mebibytes in (
        ({}, 8000),
        ({"partition": "big"}, 64000),
        ({"partitions": {"main": "1h", "big": "1d"}}, 64000),
        ({"partition": "gone"}, None),
    ):
        attempt = Attempt("default", ResourceRequest(), {"slurm": options})
        assert Slurm().most_memory(attempt) == (mebibytes and mebibytes * 2**20)


def test_a_stage_with_a_timeout_has_no_more_time_whatever_a_file_says() -> None:
    assert [time for _, time in asked({"timeout": 1800}, size(walltime=600))] == [600, *[1800] * 3]
    unlimited = "pools: {default: {config: {retries: 1}}}"
    attempts, _, _ = of_stage(*workflow(None, unlimited), sizes=[size(walltime=600)])
    assert [one.request.walltime for one in attempts] == [600, None]


@pytest.mark.usefixtures("unequal_nodes")
def test_what_a_file_asks_for_that_no_node_has_is_not_cut_in_silence() -> None:
    found, rules = workflow(None, "strategy: slurm\nconfig: {retries: 1}\npools: {default: {}}")
    placement, findings, _ = place(rules, found, sizes=[size(memory=900 * GB)])
    assert [900 * GB] * 2 in [memories(attempts) for attempts in placement.attempts.values()]
    assert "asks for more than partition main" in findings[0].problem


@pytest.mark.parametrize("shrink", [False, True])
def test_what_a_machine_has_is_the_most_that_a_later_attempt_asks_for(
    shrink: bool, tmp_path: Path
) -> None:
    (tmp_path / "config.yaml").write_text("executor: local\n")
    (tmp_path / "pools.yaml").write_text("machine: {memory: 8GB, cpus: 4}\n")
    document = {"execution": {"pools": {"default": {"config": {"retries": 2}}}}}
    found, problems = read_execution(document, {}, profile=str(tmp_path), workflow="workflow.yaml")
    assert found is not None, problems
    _, rules = workflow(None, "pools: {default: {config: {retries: 2}}}")
    attempts, _, notes = of_stage(found, rules, sizes=[size(memory=6 * GB)], shrink=shrink)
    assert notes == []
    assert memories(attempts) == [6 * GB, 8 * GB, 8 * GB]

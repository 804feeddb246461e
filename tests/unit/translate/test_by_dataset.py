"""Amounts of one dataset's jobs, or of some of its files."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from fasthep_smk.config.dataset_sizes import DatasetSize
from fasthep_smk.config.execution import Execution, read_execution
from fasthep_smk.config.layers import Layer
from fasthep_smk.config.requests import Attempt
from fasthep_smk.plan.bundles import bundle
from fasthep_smk.plan.jobs import make_rules
from fasthep_smk.plan.partitions import Partition
from fasthep_smk.plan.rules import Rule, Variation
from fasthep_smk.translate import profile
from fasthep_smk.translate.placement import place
from fasthep_smk.translate.profile import ALL, Placement
from tests.unit.plans import define, graph, node

MB, GB = 10**6, 10**9
FILES = {"ttbar": ["tt/0.root", "tt/1.root", "tt/2.root"], "dy": ["dy/0.root"]}
POOLS = "pools: {default: {resources: {memory: 8GB}, config: {walltime: 2h, retries: 2}}}"


def workflow(by_dataset: str, execution: str = POOLS) -> tuple[Execution, list[Rule]]:
    """A workflow of one stage, three files of ``ttbar`` and one of ``dy``."""
    section = {**yaml.safe_load(execution), "sizes": {"by_dataset": yaml.safe_load(by_dataset)}}
    found, findings = read_execution(
        {"execution": section}, {}, profile=None, workflow="workflow.yaml"
    )
    assert found is not None and not findings, findings
    datasets = {
        name: {"name": name, "eventtype": "mc", "files": files} for name, files in FILES.items()
    }
    source = node("source", "events", tree="events", branches=["px"])
    partitions = tuple(
        Partition(f"events__{name}__{number}_0", name, file, "events", f"{number}_0")
        for name, files in FILES.items()
        for number, file in enumerate(files)
    )
    plan = graph(source, define("A", "read.events", "px"), datasets=datasets)
    variation = Variation(None, plan, partitions)
    return found, make_rules([variation], "auto", identity=str, router=found.router)


def placed(
    by_dataset: str, execution: str = POOLS, together: int = 1
) -> tuple[Placement, Rule, list[str]]:
    found, rules = workflow(by_dataset, execution)
    bundle(rules, together)
    placement, findings, notes = place(rules, found)
    assert findings == []
    return placement, rules[0], notes


def memories(attempts: tuple[Attempt, ...]) -> list[int | None]:
    return [one.request.memory for one in attempts]


def test_the_jobs_of_a_dataset_ask_for_its_amounts_and_for_more_when_tried_again() -> None:
    placement, rule, _ = placed("{ttbar: {memory: 3GB, walltime: 30m}}")
    assert memories(placement.attempts[rule.name]) == [8 * GB] * 3
    ((where, own),) = placement.by_dataset[rule.name].items()
    assert where == "ttbar"
    assert memories(own) == [3 * GB, 6 * GB, 8 * GB]  # all that a worker of the pool has
    assert own[0].request.walltime == 1800
    assert own[0].place("resources.memory") == (
        "workflow.yaml: execution.sizes.by_dataset.ttbar.memory"
    )


def test_what_is_said_of_files_counts_more_than_what_is_said_of_their_dataset() -> None:
    said = (
        "{ttbar: {memory: 3GB, disk: 9GB}, 'tt/[12].root': {memory: 4GB}, 'tt/2*': {memory: 5GB}}"
    )
    placement, rule, _ = placed(said)
    own = placement.by_dataset[rule.name]
    assert {name: (one[0].request.memory, one[0].request.disk) for name, one in own.items()} == {
        "ttbar": (3 * GB, 9 * GB),
        "ttbar/1_0": (4 * GB, 9 * GB),
        "ttbar/2_0": (5 * GB, 9 * GB),
    }


def test_a_bundle_asks_for_the_most_of_any_of_its_jobs() -> None:
    placement, rule, _ = placed("{'tt/1.root': {memory: 1GB}, dy: {memory: 2GB}}", together=2)
    own = placement.by_dataset[rule.name]
    assert {name: memories(one)[0] for name, one in own.items()} == {
        "ttbar/bundle_0": 8 * GB,  # its other file asks for what the pool has
        "dy": 2 * GB,
    }


@pytest.mark.parametrize("name", ["tt/0.root", "tt/1.root"])
def test_a_bundle_of_jobs_without_amounts_has_those_of_the_one_that_has_some(name: str) -> None:
    pools = "pools: {default: {config: {sizes: fixed, retries: 2}}}"
    placement, rule, _ = placed(f"{{{name}: {{memory: 6GB, walltime: 1h}}}}", pools, together=2)
    first = placement.by_dataset[rule.name]["ttbar/bundle_0"][0]
    assert first.request.memory == 6 * GB
    assert first.place("resources.memory").endswith("memory")
    assert first.request.walltime is None  # the other file may take any time


def test_what_is_said_of_a_file_is_said_of_its_bundle() -> None:
    """A run that measures others does not change it."""
    pools = POOLS.replace("retries: 2", "retries: 2, sizes: auto")
    said = "{'tt/1.root': {memory: 1GB}, dy: {disk: 2GB}}"
    placement, rule, _ = placed(said, pools, together=2)
    both = ("memory", "walltime")
    stated = {place: one[0].measured for place, one in placement.stated[rule.name].items()}
    assert stated == {ALL: both, "ttbar/bundle_0": (), "dy": both}


def test_a_file_may_have_the_brackets_of_a_pattern_in_its_name() -> None:
    layer = Layer("workflow.yaml", "execution.sizes.by_dataset", {})
    said = DatasetSize(name="tt/a[1].root", layer=layer, layers={}, amounts={"memory": GB})
    assert said.means("ttbar", "tt/a[1].root", ["ttbar"])
    assert said.means("ttbar", "tt/a1.root", ["ttbar"])
    assert not said.means("ttbar", "tt/a2.root", ["ttbar"])


def resource(system: str, name: str, by_dataset: str, execution: str = POOLS) -> Any:
    """Return what jobs ask Snakemake for, by their datasets and parts, at the second attempt."""
    placement, rule, _ = placed(by_dataset, f"strategy: {system}\n{execution}")
    text = yaml.safe_load(profile.render([rule], placement))["set-resources"][rule.name][name]

    def evaluated(dataset: str, part: str) -> Any:
        wildcards = type("Wildcards", (), {"dataset": dataset, "part": part})
        files = type("Files", (), {"size_mb": 700})
        return eval(text, {"wildcards": wildcards, "attempt": 2, "input": files})

    return [evaluated(*one) for one in (("ttbar", "0_0"), ("ttbar", "1_0"), ("dy", "0_0"))]


@pytest.mark.parametrize(
    ("system", "name", "asked"),
    [
        ("local", "mem_mb", [2000, 4000, 8000]),
        ("slurm", "mem_mb", [1908, 3815, 7630]),  # in units of 2**20 bytes
        ("htcondor", "htcondor_request_mem_mb", [1908, 3815, 7630]),
    ],
)
def test_the_profile_tells_each_batch_system(system: str, name: str, asked: list[int]) -> None:
    said = "{ttbar: {memory: 1GB}, 'tt/1.root': {memory: 2GB}}"
    assert resource(system, name, said) == asked


def test_where_others_ask_for_nothing_they_have_what_snakemake_gives_them() -> None:
    pools = "pools: {default: {config: {retries: 2, sizes: fixed}}}"
    said = "{ttbar: {memory: 1GB}}"
    assert resource("slurm", "mem_mb", said, pools) == [1908, 1908, 1400]
    assert resource("local", "mem_mb", said, pools) == [2000, 2000, None]
    from snakemake.resources import Resources  # type: ignore[attr-defined]

    defaults = Resources.DEFAULTS["full"]
    known = {"mem_mb": defaults["mem"], "disk_mb": defaults["disk"]}
    assert known == profile._SNAKEMAKES


def test_the_snakefile_and_what_jobs_compute_stay_the_same() -> None:
    from fasthep_smk.translate.snakefile import render

    (_, one), (_, other) = (workflow(f"{{ttbar: {{memory: {size}GB}}}}") for size in (1, 2))
    assert render(one, workflow="w", outside=[]) == render(other, workflow="w", outside=[])
    assert [job.signature for rule in one for job in rule.jobs.values()] == [
        job.signature for rule in other for job in rule.jobs.values()
    ]


def test_jobs_in_the_queue_that_have_asked_for_something_else_are_others() -> None:
    said = [
        placement.submitted_as()[rule.name]
        for placement, rule, _ in map(placed, ("{ttbar: {memory: 1GB}}", "{ttbar: {memory: 2GB}}"))
    ]
    assert not {*said[0]} & {*said[1]}


def test_jobs_of_pilots_keep_the_amounts_of_their_slots() -> None:
    pools = POOLS.replace("retries: 2", "retries: 2, pilot: true")
    placement, rule, notes = placed("{ttbar: {memory: 1GB}}", f"strategy: slurm\n{pools}")
    assert placement.by_dataset == {}
    told = (
        f"execution.sizes.by_dataset has no effect on rules {rule.name}: pilots run their "
        "jobs, and all jobs of a pilot have the same size"
    )
    assert notes[0] == told
    assert "fasthep-smk site init slurm my_site" in notes[1]


@pytest.mark.parametrize("said", ["{}", "null", "{memory: null}"])
def test_a_name_without_amounts_changes_nothing(said: str) -> None:
    placement, _, _ = placed(f"{{ttbar: {said}}}")
    assert placement.by_dataset == {}


def test_a_workflow_takes_a_name_away_that_a_profile_has() -> None:
    """The profile may be one of several analyses: it names datasets that this one has not."""
    profile, own = ({"sizes": {"by_dataset": {"qcd": said}}} for said in ({"memory": "1GB"}, None))
    document = {"execution": {"pools": {"default": {}}, **own}}
    found, findings = read_execution(
        document, {"hep.yaml": profile}, profile=None, workflow="workflow.yaml"
    )
    assert found is not None
    assert (found.by_dataset, findings) == ((), [])


@pytest.mark.parametrize(
    ("said", "message"),
    [
        *(
            (
                f"{{ttbra: {said}}}",
                "workflow.yaml: execution.sizes.by_dataset.ttbra: the workflow has no "
                "dataset of this name, and no file that matches this pattern\n"
                "    found: 'ttbra'\n    expected: ttbar or dy\n    hint: did you mean 'ttbar'?",
            )
            for said in ("{memory: 1GB}", "{}", "null")
        ),
        (
            "{'tt/7*.root': {memory: 1GB}}",
            "workflow.yaml: execution.sizes.by_dataset['tt/7*.root']: the workflow has no "
            "dataset of this name, and no file that matches this pattern\n"
            "    found: 'tt/7*.root'\n    expected: ttbar or dy",
        ),
        (
            "{dy: {memory: 9GB}}",
            "workflow.yaml: execution.sizes.by_dataset.dy.memory: asks for more than a worker of "
            "pool 'default' has, where its jobs go\n"
            "    found: 9 GB\n"
            "    expected: at most 8 GB (workflow.yaml: execution.pools.default.resources.memory)\n"
            "    hint: ask for less, or give pool 'default' larger workers",
        ),
    ],
)
def test_what_fits_no_dataset_or_worker_is_refused(said: str, message: str) -> None:
    execution, rules = workflow(said)
    _, findings, _ = place(rules, execution)
    assert "\n".join(map(str, findings)) == message

"""Which partition or flavour a job goes to."""

from __future__ import annotations

import pytest

from fasthep_smk.config.queues import chosen, longest, queues_of
from fasthep_smk.config.requests import Attempt, ResourceRequest
from fasthep_smk.sites.htcondor import HTCondor
from fasthep_smk.sites.slurm import Slurm

GB, HOUR = 10**9, 3600
PARTITIONS = {
    "long": "unlimited",
    "short": "1h",
    "gpu": {"walltime": "2-00:00:00", "gpus": 4},
    "day": {"walltime": "1d", "cpus": 16, "memory": "64GB", "gpus": 0},
}


@pytest.mark.parametrize(
    ("asked", "name"),
    [
        (ResourceRequest(walltime=HOUR), "short"),
        (ResourceRequest(walltime=HOUR + 1), "day"),
        (ResourceRequest(walltime=3 * 24 * HOUR), "long"),
        (ResourceRequest(walltime=2 * HOUR, memory=65 * GB), "long"),
        (ResourceRequest(walltime=2 * HOUR, cpus=17), "long"),
        (ResourceRequest(walltime=30 * HOUR), "long"),  # the GPUs are for others
        (ResourceRequest(walltime=30 * HOUR, gpus=1), "gpu"),
        (ResourceRequest(), "long"),  # nobody knows how long it takes
    ],
)
def test_the_smallest_partition_that_suffices(asked: ResourceRequest, name: str) -> None:
    assert chosen(PARTITIONS, asked) == name


def test_jobs_without_gpus_go_to_gpus_where_nothing_else_suffices() -> None:
    said = {"cpu": "1h", "gpu": {"walltime": "1d", "gpus": 1}}
    assert chosen(said, ResourceRequest(walltime=2 * HOUR)) == "gpu"


def test_nothing_is_chosen_where_nothing_is_large_enough() -> None:
    said = {"one": {"cpus": 4}, "other": {"cpus": 8}}
    assert chosen(said, ResourceRequest(cpus=9)) is None
    assert chosen(None, ResourceRequest()) is None


def test_a_bundle_that_may_take_longer_than_any_goes_to_the_longest() -> None:
    assert chosen({"a": "1h", "b": "2h"}, ResourceRequest(walltime=9 * HOUR)) == "b"


@pytest.mark.parametrize(
    ("hours", "flavour"),
    [(0.3, "espresso"), (1, "microcentury"), (2.5, "workday"), (100, "nextweek")],
)
def test_the_flavours_of_cern_need_not_be_listed(hours: float, flavour: str) -> None:
    asked = ResourceRequest(walltime=int(hours * HOUR))
    attempt = Attempt("default", asked, {"htcondor": {"flavours": "cern"}})
    assert HTCondor().resources(attempt)["classad_JobFlavour"] == flavour
    assert HTCondor().longest(attempt) == 7 * 24 * HOUR


@pytest.mark.parametrize(
    ("own", "flavour"), [({"job_flavour": "tomorrow"}, "tomorrow"), ({"max_runtime": "5h"}, None)]
)
def test_a_pool_that_says_its_time_itself_keeps_it(own: dict[str, str], flavour: str) -> None:
    options = {"htcondor": {"flavours": "cern", **own}}
    attempt = Attempt("default", ResourceRequest(walltime=60), options)
    assert HTCondor().resources(attempt).get("classad_JobFlavour") == flavour


def test_a_pool_that_names_its_partition_keeps_it() -> None:
    options = {"slurm": {"partition": "mine", "partitions": PARTITIONS}}
    attempt = Attempt("default", ResourceRequest(walltime=60), options)
    assert Slurm().resources(attempt)["slurm_partition"] == "mine"


def test_a_pilot_may_last_as_long_as_the_longest_partition_that_suffices() -> None:
    known = queues_of({"short": "1h", "day": {"walltime": "1d", "gpus": 0}})
    assert longest(known, ResourceRequest()) == 24 * HOUR
    assert longest(known, ResourceRequest(gpus=1)) == HOUR
    assert longest(queues_of(PARTITIONS), ResourceRequest()) is None


@pytest.mark.parametrize(
    "said", [{"short": "soon"}, {"short": {"memory": "lots"}}, {"short": {"cpus": 0}}]
)
def test_what_is_no_amount_is_refused_by_the_name_of_its_partition(said: object) -> None:
    with pytest.raises(ValueError, match="for short: a"):
        queues_of(said)

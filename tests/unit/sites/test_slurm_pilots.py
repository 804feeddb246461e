"""What sites say of pilots: for how long one may last, and whether it was submitted at all."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from fasthep_smk import sites
from fasthep_smk.config.requests import Attempt, ResourceRequest
from fasthep_smk.sites.htcondor import HTCondor
from fasthep_smk.sites.slurm import Slurm
from fasthep_smk.storage import failures

SINFO = """#!/bin/sh
echo 'short|2:00|4|9|(null)|idle|short'
echo 'standard|1:00:00|4|9|(null)|idle|standard*'
echo 'long|infinite|4|9|(null)|idle|long'
"""


def in_partition(name: str | None) -> Attempt:
    return Attempt("default", ResourceRequest(), {"slurm": {"partition": name}} if name else {})


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the batch system's commands."""
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    return tmp_path


def write(folder: Path, name: str, text: str) -> None:
    (folder / name).write_text(text)
    (folder / name).chmod(0o755)


@pytest.mark.parametrize(
    ("partition", "seconds"),
    [
        ("short", 120), ("short,standard", 3600), ("long", None), ("short,long", None),
        (None, 3600), ("unknown", None),
    ],
)  # fmt: skip
def test_a_job_may_last_as_long_as_its_partition_lets_it(
    program: Path, partition: str | None, seconds: int | None
) -> None:
    write(program, "sinfo", SINFO)
    assert Slurm().longest(in_partition(partition)) == seconds


def test_without_slurm_nobody_knows(program: Path) -> None:
    write(program, "sinfo", "#!/bin/sh\nexit 1\n")
    assert Slurm().longest(in_partition("short")) is None


def test_a_pool_of_htcondor_may_say_it_itself() -> None:
    asked = {"htcondor": {"max_runtime": "02:00:00"}}
    assert HTCondor().longest(Attempt("default", ResourceRequest(), asked)) == 7200
    assert HTCondor().longest(Attempt("default", ResourceRequest())) is None


@pytest.mark.parametrize(
    ("system", "command", "said", "is_known"),
    [
        ("slurm", "sbatch", "Unable to contact slurm controller (connect failure)", False),
        ("slurm", "sbatch", "Socket timed out on send/recv operation", False),
        ("slurm", "sbatch", "Invalid account or account/partition combination", True),
        ("htcondor", "condor_submit", "ERROR: Can't find address of local schedd", False),
        ("htcondor", "condor_submit", "ERROR: Parse error in expression", True),
    ],
)
def test_a_refusal_is_no_silence(
    program: Path, system: str, command: str, said: str, is_known: bool
) -> None:
    write(program, command, f'#!/bin/sh\necho "{said}" >&2\nexit 1\n')
    with pytest.raises(sites.NotSubmitted) as caught:
        sites.system(system).submit("true", "pilot:gpu", in_partition(None), program / "out")
    assert said in str(caught.value)
    assert isinstance(caught.value, sites.Unanswered) is not is_known


def test_htcondor_holds_a_pilot_at_its_time_in_two_ways(program: Path) -> None:
    """Its own one is not certain: the next job in a slot may be without."""
    text = program / "text"
    write(program, "condor_submit", f'#!/bin/sh\ncat >"{text}"\necho "7.0 - 7.0"\n')
    for walltime in (None, 3600):
        one = Attempt("gpu", ResourceRequest(walltime=walltime))
        assert HTCondor().submit("true", "pilot:gpu", one, program / "out") == "7"
        said = dict(line.split(" = ", 1) for line in text.read_text().splitlines() if " = " in line)
        assert ("periodic_hold" in said) is (walltime is not None)
        assert said.get("allowed_execute_duration") == (walltime and str(walltime))
    assert said["periodic_hold"].endswith("time() - JobCurrentStartExecutingDate > 3600")
    assert failures.is_of_time(said["periodic_hold_reason"])


@pytest.mark.parametrize(("hours", "partition"), [(1, "short"), (5, "day")])
def test_a_pilot_goes_to_the_partition_that_suffices_for_as_long_as_it_lasts(
    program: Path, hours: int, partition: str
) -> None:
    text = program / "text"
    write(program, "sbatch", f'#!/bin/sh\necho "$*" >"{text}"\necho 7\n')
    options = {"slurm": {"partitions": {"day": "1d", "short": "1h"}}}
    one = Attempt("gpu", ResourceRequest(walltime=hours * 3600), options)
    assert Slurm().submit("true", "pilot:gpu", one, program / "out") == "7"
    assert f" --partition={partition}" in text.read_text()

"""Jobs that Slurm does not know any more are found, and no others; and what sbatch says of one."""

from __future__ import annotations

import pytest

from fasthep_smk.executors.batch_executor import Forgotten


def test_a_job_is_forgotten_that_was_missed_twice() -> None:
    forgotten = Forgotten(pause=0)
    assert forgotten.among({"18"}) == set()
    assert forgotten.among({"17", "18"}) == {"18"}
    assert forgotten.among(set()) == set(), "it is there again"
    assert forgotten.among({"17"}) == set()


def test_an_empty_list_is_not_enough() -> None:
    """The controller has to say of a job that there is none of this number."""
    forgotten = Forgotten(lambda job: job == "18", pause=0)
    assert [forgotten.among({"17", "18"}) for _ in range(3)] == [set(), {"18"}, set()]


def test_nothing_is_forgotten_before_a_minute_has_passed() -> None:
    assert [Forgotten().among({"17"}) for _ in range(3)] == [set()] * 3


@pytest.mark.parametrize(
    ("printed", "number"),
    [
        ("17\n", "17"),
        ("17;west\n", "17"),
        ("*** 30 jobs a day ***\nProject 12: 500 hours left\n17;west\n", "17"),
        ("17\nsee https://site/42\n", "17"),
    ],
)
def test_the_number_of_a_job_is_a_line_of_its_own(printed: str, number: str) -> None:
    from fasthep_smk.executors.slurm import _number

    assert _number(printed.split(";")[0], printed) == number


@pytest.mark.parametrize(
    "printed", ["", "*** node 5 ***\n", "Submitted batch job 17\n", "-17\n", "١٧\n"]
)
def test_no_other_number_is_taken_for_it(printed: str) -> None:
    """The job may be in the queue all the same: it is looked up by its name."""
    from fasthep_smk.executors.read_as_text import IS_UNCLEAR
    from fasthep_smk.executors.slurm import _number

    with pytest.raises(Exception, match="sbatch gives no number") as error:
        _number("5", printed)
    assert IS_UNCLEAR.search(f"Job submission failed with exception: {error.value}")

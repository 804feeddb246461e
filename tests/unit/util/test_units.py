"""Amounts are read and printed exactly; what is rounded is rounded up."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fasthep_smk.config import schema
from fasthep_smk.util.units import (
    about_bytes,
    format_bytes,
    format_duration,
    parse_bytes,
    parse_count,
    parse_duration,
    whole_mb,
    whole_mib,
    whole_minutes,
)

BYTES: dict[str, int] = {
    "1B": 1,
    "4kB": 4_000,
    "4KiB": 4_096,
    "128MB": 128_000_000,
    "128MiB": 134_217_728,
    "4GB": 4_000_000_000,
    "4GiB": 4_294_967_296,
    "2TB": 2 * 10**12,
    "2TiB": 2 * 2**40,
    "1PB": 10**15,
    "1PiB": 2**50,
    "4gb": 4_000_000_000,
    "4Gib": 4_294_967_296,
    " 4 GB ": 4_000_000_000,
    "4GB\n": 4_000_000_000,
    "1.5GB": 1_500_000_000,
    "0.5KiB": 512,
    "2.0B": 2,
    "0.1TB": 100_000_000_000,  # as a float, 0.1 is no tenth
    "0.000000001GB": 1,
    "007MB": 7_000_000,
    f"{10**30}GB": 10**39,
}
NO_BYTES = [
    "", " ", "4", "GB", "4G", "4Gi", "4EB", "4GBs", "-4GB", "+4GB", "4,5GB", ".5GB", "4.GB",
    "1e3GB", "4 000GB", "0x4GB", "1_000MB", "٤GB", "４GB", "4 ГБ", "inf GB", "nan", "4GB 2GB",
    4, 4.0, 0, True, None, ["4GB"], {"GB": 4},
]  # fmt: skip
LONGEST = 100 * 365 * 86_400
DURATIONS: dict[Any, int] = {
    "04:00:00": 14_400,
    "4:00:00": 14_400,
    "00:00:01": 1,
    "100:00:00": 360_000,
    "2-00:00:00": 172_800,
    "1-02:03:04": 93_784,
    "90m": 5_400,
    "90min": 5_400,
    "2h30m": 9_000,
    "2h 30m": 9_000,
    "1d2h3m4s": 93_784,
    "2d": 172_800,
    "45s": 45,
    "0d1h": 3_600,
    "3600": 3_600,
    " 90m ": 5_400,
    3600: 3_600,
    43200: 43_200,
    LONGEST: LONGEST,
    "36500d": LONGEST,
    "36500-00:00:00": LONGEST,
}
NO_DURATIONS = [
    "", " ", "soon", "1:30", "24:60:00", "00:00:60", "1:00:00:00", "-1:00:00", "-90m", "1.5h",
    "2h30", "30m2h", "2 h", "2 days", "2H", "1w", "1e3", "2026-10-01", "٤:00:00", "٤", "²",
    1.5, 3600.0, True, None, ["1h"], {"h": 1},
]  # fmt: skip
TOO_LONG = [LONGEST + 1, str(LONGEST + 1), "36500d1s", "36500-00:00:01", 10**12]
NOTHING = ["00:00:00", "0-00:00:00", "0", "0s", "0d0h0m0s", 0, -1]
COUNTS: dict[Any, int] = {1: 1, 8: 8, 10**12: 10**12, "8": 8, " 8 ": 8, "08": 8}
NO_COUNTS = [
    0, -1, 2.7, 2.0, True, False, None, "", " ", "0", "-1", "+1", "2.0", "1e3", "two", "٣", "²",
    "1_000", [1], {"a": 1}, float("nan"), float("inf"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "amount"), BYTES.items())
def test_bytes_are_read_exactly(text: str, amount: int) -> None:
    assert parse_bytes(text) == amount
    assert type(parse_bytes(text)) is int


@pytest.mark.parametrize("value", NO_BYTES)
def test_what_is_no_amount_of_bytes_is_refused(value: Any) -> None:
    with pytest.raises(ValueError, match=r"^a number with a unit, such as 4GB or 4GiB"):
        parse_bytes(value)


def test_an_unknown_unit_is_answered_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match=r"the units are B, kB, MB, GB, TB, PB and KiB, MiB, GiB"):
        parse_bytes("4 parsec")


@pytest.mark.parametrize("text", ["0B", "0GB", "0.0GB"])
def test_no_bytes_are_no_amount(text: str) -> None:
    with pytest.raises(ValueError, match=r"^more than zero$"):
        parse_bytes(text)


@pytest.mark.parametrize("text", ["1.5B", "0.0001kB", "0.1KiB"])
def test_a_byte_has_no_parts(text: str) -> None:
    with pytest.raises(ValueError, match=r"^a whole number of bytes$"):
        parse_bytes(text)


@pytest.mark.parametrize(("value", "seconds"), DURATIONS.items())
def test_times_are_read_exactly(value: Any, seconds: int) -> None:
    assert parse_duration(value) == seconds


@pytest.mark.parametrize("value", NO_DURATIONS)
def test_what_is_no_time_is_refused(value: Any) -> None:
    with pytest.raises(ValueError, match=r"^a time such as '04:00:00', '2-00:00:00', '90m' or"):
        parse_duration(value)


@pytest.mark.parametrize("value", TOO_LONG)
def test_a_time_has_an_end(value: Any) -> None:
    with pytest.raises(ValueError, match=r"^less than a hundred years$"):
        parse_duration(value)


@pytest.mark.parametrize("value", NOTHING)
def test_no_time_is_no_limit(value: Any) -> None:
    with pytest.raises(ValueError, match=r"^more than zero$"):
        parse_duration(value)


@pytest.mark.parametrize(("value", "number"), COUNTS.items())
def test_counts_are_read(value: Any, number: int) -> None:
    assert parse_count(value) == number


@pytest.mark.parametrize("value", NO_COUNTS)
def test_what_is_no_count_is_refused(value: Any) -> None:
    with pytest.raises(ValueError, match=r"^a whole number, 1 or more$"):
        parse_count(value)


def test_a_count_may_start_at_zero() -> None:
    assert parse_count(0, least=0) == parse_count("0", least=0) == 0
    with pytest.raises(ValueError, match=r"^a whole number, 0 or more$"):
        parse_count(-1, least=0)


@pytest.mark.parametrize(
    ("amount", "text"),
    [
        (1, "1 B"),
        (999, "999 B"),
        (1_000, "1 kB"),
        (1_024, "1 KiB"),
        (1_500_000, "1500 kB"),
        (4_000_000_000, "4 GB"),
        (4 * 2**30, "4 GiB"),
        (4 * 2**30 + 1, "4294967297 B"),
        (64_000 * 2**20, "64000 MiB"),  # as Slurm counts; 67108864 kB says nobody anything
        (5 * 10**18, "5000 PB"),
    ],
)
def test_bytes_are_shown_in_the_unit_that_needs_the_fewest_digits(amount: int, text: str) -> None:
    assert format_bytes(amount) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (1, "00:00:01"),
        (3_599, "00:59:59"),
        (86_399, "23:59:59"),
        (86_400, "1-00:00:00"),
        (93_784, "1-02:03:04"),
        (100 * 86_400, "100-00:00:00"),
    ],
)
def test_times_are_shown_as_a_clock(seconds: int, text: str) -> None:
    assert format_duration(seconds) == text


positive = st.integers(1, 10**30)
amounts = positive | st.builds(
    lambda number, base, power: number * base**power,
    st.integers(1, 5000),
    st.sampled_from([1000, 1024]),
    st.integers(0, 6),
)


@given(amounts)
def test_bytes_that_are_shown_can_be_read_again(amount: int) -> None:
    assert parse_bytes(format_bytes(amount)) == amount


@given(st.integers(1, LONGEST))
def test_a_time_that_is_shown_can_be_read_again(seconds: int) -> None:
    assert parse_duration(format_duration(seconds)) == seconds


@given(amounts)
def test_amounts_are_rounded_up_by_less_than_one_unit(amount: int) -> None:
    for whole, unit in ((whole_mb, 10**6), (whole_mib, 2**20), (whole_minutes, 60)):
        assert 0 <= whole(amount) * unit - amount < unit


@pytest.mark.parametrize(
    ("part", "key", "values"),
    [
        ("resources", "memory", BYTES),
        ("config", "walltime", DURATIONS),
        ("resources", "cpus", [value for value in COUNTS if value != "08"]),
    ],
)
def test_the_schema_takes_what_can_be_read(part: str, key: str, values: Any) -> None:
    for value in values:
        assert schema.findings_of({key: value}, part, file="workflow.yaml") == []


@pytest.mark.parametrize(
    ("part", "key", "values"),
    [
        ("resources", "memory", [value for value in NO_BYTES if value is not None]),
        ("config", "walltime", [value for value in NO_DURATIONS if value is not None]),
        ("resources", "cpus", [value for value in NO_COUNTS if value not in (None, 2.0)]),
    ],
)
def test_the_schema_refuses_what_cannot_be_read(part: str, key: str, values: Any) -> None:
    # What is shaped like an amount but amounts to nothing is found by the parser, and so is 2.0,
    # which is a whole number to JSON.
    for value in values:
        assert schema.findings_of({key: value}, part, file="workflow.yaml"), value


@pytest.mark.parametrize(
    ("amount", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1_234, "1.2 kB"),
        (9_949, "9.9 kB"),
        (9_950, "10 kB"),
        (345_678, "346 kB"),
        (999_499, "999 kB"),
        (999_500, "1.0 MB"),
        (1_234_567_890, "1.2 GB"),
        (5 * 10**18, "5000 PB"),
    ],
)
def test_sizes_for_people_have_two_or_three_digits(amount: int, text: str) -> None:
    assert about_bytes(amount) == text

"""The single format of every kind of number."""

import pytest

from core.base.numbers import (
    byte_size,
    counted,
    duration,
    first_batch,
    large,
    last_batch,
    number,
    percent,
    rounded,
    table_number,
)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (0, "0"),
        (0.01234, "0.0123"),
        (2.5, "2.5"),
        (99.96, "100"),
        (1_234.5, "1,234"),
        (-3.14159, "-3.14"),
        (3e-5, "3.00e-05"),
    ],
)
def test_numbers_have_three_digits_that_mean_something(value: float, words: str) -> None:
    assert number(value) == words


def test_numbers_in_tables_have_four_and_nothing_stands_for_the_unknown() -> None:
    assert [table_number(v) for v in (None, 12, 12_345, 1.23456, 12_345.6)] == ["", "12", "12,345", "1.235", "12,346"]


@pytest.mark.parametrize(("value", "words"), [(1.0, "1"), (2.46, "2.5"), (41.4, "41"), (16_384, "16,384")])
def test_batch_sizes_are_whole_from_ten_on(value: float, words: str) -> None:
    assert rounded(value) == words


@pytest.mark.parametrize(
    ("value", "first", "last"),
    [(1.0, "1", "1"), (2.01, "3", "2"), (2.6, "3", "2"), (16 - 1e-9, "16", "16"), (16 + 1e-9, "16", "16"),
     (118.2, "119", "118"), (16_383.5, "16,384", "16,383")],
)  # fmt: skip
def test_a_batch_is_whole_whichever_way_it_is_looked_for(value: float, first: str, last: str) -> None:
    assert (first_batch(value), last_batch(value)) == (first, last)


def test_things_are_counted() -> None:
    assert [counted(n, "round") for n in (0, 1, 1_200)] == ["0 rounds", "1 round", "1,200 rounds"]
    assert counted(2, "search", "searches") == "2 searches"


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (999, "999"),
        (101_770, "102 thousand"),
        (999_600, "1 million"),
        (4_010_000, "4.01 million"),
        (2.5e9, "2.5 billion"),
    ],
)
def test_large_counts(value: float, words: str) -> None:
    assert large(value) == words


@pytest.mark.parametrize(
    ("size", "words"),
    [
        (1, "1 byte"), (512, "512 bytes"), (4_136, "4.14 kB"), (22_400_000, "22.4 MB"), (999_600_000, "1 GB"),
        (2_000_000_000, "2 GB"), (16 * 2**30, "17.2 GB"), (3e12, "3 TB"),
    ],
)  # fmt: skip
def test_bytes(size: float, words: str) -> None:
    assert byte_size(size) == words


def test_shares() -> None:
    assert [percent(share) for share in (0, 0.004, 0.006, 0.614, 1)] == ["0 %", "below 1 %", "1 %", "61 %", "100 %"]
    assert [percent(share, 1) for share in (0.0004, 0.0123)] == ["below 0.1 %", "1.2 %"]


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (None, "unknown"), (0, "0 s"), (0.03, "30 ms"), (7.4, "7.4 s"), (59.4, "59 s"), (59.7, "1 min"),
        (69, "1 min 09 s"), (300, "5 min"), (3_599.7, "1 h"), (3_660, "1 h 01 min"), (10_800, "3 h"),
        (864_000, "10 days"),
    ],
)  # fmt: skip
def test_durations(seconds: float | None, words: str) -> None:
    assert duration(seconds) == words

"""Deadlines: from past durations, within the budget."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.studies import deadlines

SECONDS = st.floats(0.001, 1e5)
BUDGET = st.floats(2.0, 86_400.0)


@pytest.mark.parametrize(("budget_s", "expected_s"), [(2, 60), (15, 60), (90, 60), (240, 120), (3600, 180)])
def test_what_is_unknown_gets_a_minute_at_least_and_three_at_most(budget_s: float, expected_s: float) -> None:
    assert deadlines.first_s(budget_s) == expected_s
    assert deadlines.start_s(budget_s, None) == deadlines.prepare_s(budget_s, None) == expected_s
    assert deadlines.again_s(budget_s) == expected_s / 2


@pytest.mark.parametrize(
    ("budget_s", "longest_s", "start_s", "prepare_s"),
    [
        (15, 1.0, 10, 15),  # never less, however fast it was
        (15, 5.0, 20, 50),
        (15, 40.0, 80, 80),  # a slow machine is given what it needs
        (90, 5.0, 25, 50),
        (90, 12.0, 45, 60),
        (3600, 12.0, 60, 120),
    ],
)
def test_what_is_known_gets_a_multiple_of_what_it_took(
    budget_s: float, longest_s: float, start_s: float, prepare_s: float
) -> None:
    assert deadlines.start_s(budget_s, longest_s) == start_s
    assert deadlines.prepare_s(budget_s, longest_s) == prepare_s


@pytest.mark.parametrize(
    ("budget_s", "expected_s", "block_s"), [(15, 0.02, 10), (15, 0.4, 12), (90, 0.02, 20), (90, 2, 60), (60, 10, 60)]
)
def test_a_block_gets_a_multiple_of_what_it_should_take(budget_s: float, expected_s: float, block_s: float) -> None:
    assert deadlines.block_s(budget_s, expected_s) == block_s


@pytest.mark.parametrize(("budget_s", "expected_s"), [(15, 60), (90, 60), (600, 300), (3600, 600)])
def test_a_gpu_gets_time_to_compile_at_first(budget_s: float, expected_s: float) -> None:
    assert deadlines.first_prepare_s(budget_s, gpu=True) == deadlines.prepare_s(budget_s, None, gpu=True) == expected_s
    assert deadlines.first_prepare_s(budget_s) == deadlines.first_s(budget_s) == min(180, expected_s)
    compiling_s = expected_s / 20  # the same for every other batch that is compiled
    assert deadlines.prepare_s(budget_s, compiling_s, gpu=True) >= 10 * compiling_s


@given(BUDGET, SECONDS)
def test_on_a_gpu_memory_that_ran_out_is_waited_for(budget_s: float, took_s: float) -> None:
    """Allow for the allocator, which tries for 10 s: that alone is as long as the shortest deadline of a block."""
    for ask in (deadlines.prepare_s, deadlines.block_s):
        assert ask(budget_s, took_s, gpu=True) >= max(2 * took_s, deadlines.SHORTEST_S) + 2 * 10.0
    assert deadlines.block_s(budget_s, took_s, gpu=True) == deadlines.block_s(budget_s, took_s) + 20.0


@given(BUDGET, SECONDS)
def test_no_deadline_is_shorter_than_twice_what_is_needed_nor_longer_than_budget_and_machine_ask_for(
    budget_s: float, took_s: float
) -> None:
    for found in (
        deadlines.start_s(budget_s, took_s),
        deadlines.prepare_s(budget_s, took_s),
        deadlines.prepare_s(budget_s, None, took_s),
        deadlines.block_s(budget_s, took_s),
    ):
        assert found >= max(2 * took_s, deadlines.SHORTEST_S)
        assert found <= max(2 * took_s, budget_s, deadlines.FIRST_S)
    assert 10 <= deadlines.release_s(budget_s) <= 60
    assert 60 <= deadlines.reading_s(budget_s) <= 600

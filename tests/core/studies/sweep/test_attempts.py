"""Larger batches are judged by the usual step time of smaller ones: a block that stalled closes none."""

from typing import Any, cast

import pytest

from core.studies.sweep.attempts import Attempts
from simulated.runs import make_run


def attempts() -> Attempts:
    class NoCells:
        def cell(self, *_: Any) -> None: ...

    plan = make_run(1).plan
    assert plan is not None
    return Attempts(plan, cast(Any, NoCells()), cast(Any, None))


def test_one_stalled_block_does_not_change_what_a_larger_batch_is_expected_to_take() -> None:
    seen = attempts()
    for step_ms in (1.0, 1.1, 500.0):
        seen.ran(0, 8, step_ms)
    assert seen.step_ms(0, 8) == 1.1
    before = seen.first_steps_s(0, 64)
    seen.ran(0, 8, 1.0)
    assert seen.first_steps_s(0, 64) == pytest.approx(before, rel=0.2)


def test_steps_that_stay_long_count_after_two_blocks() -> None:
    seen = attempts()
    for step_ms in (1.0, 500.0, 500.0):
        seen.ran(0, 8, step_ms)
    assert seen.step_ms(0, 8) == 500.0


def test_latencies_count_until_there_are_blocks_and_never_replace_them() -> None:
    seen = attempts()
    seen.prepared(0, 8, (3.0, 2.0))
    assert seen.step_ms(0, 8) == 2.0
    seen.prepared(0, 8, (9.0,))
    assert (seen.step_ms(0, 8), seen.step_ms(0, 16)) == (2.0, 1.0)

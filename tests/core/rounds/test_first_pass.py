"""The first pass through inputs of several lengths: its medians, and the steps after which it has paid."""

from __future__ import annotations

import pytest

from core.base.evidence import CellSetup, Compiled
from core.rounds.first_pass import FirstPass, first_pass

LENGTHS = (5, 12, 5, 20)


def setup(first_ms: float, traces: int | None = 3, execution: Compiled = "graph") -> CellSetup:
    """Return a start whose later steps take 2 ms each."""
    values = {
        "batch": 4,
        "build_ms": 1.0,
        "warmup_ms": 80.0,
        "warmup_steps": 40,
        "warmup_steady": True,
        "steps_per_block": 8,
    }
    return CellSetup.model_validate(values | {"first_call_ms": first_ms, "traces": traces, "execution": execution})


def test_it_is_the_median_over_starts_beyond_a_later_pass() -> None:
    known = first_pass([setup(108.0), setup(208.0, traces=4), setup(1008.0)], LENGTHS)
    assert known == FirstPass(first_ms=208.0, extra_ms=200.0, traces=4, compiled=0)
    assert first_pass([setup(5.0)], LENGTHS).extra_ms == 0.0
    assert first_pass([], LENGTHS) is None


def test_xla_compiles_once_per_length() -> None:
    assert first_pass([setup(208.0, traces=None, execution="xla")], LENGTHS) == FirstPass(208.0, 200.0, None, 3)


@pytest.mark.parametrize(
    ("own", "other", "steps", "word"),
    [
        ((100.0, 2.0), (500.0, 1.0), 400, "up to about 400 steps"),
        ((500.0, 1.0), (100.0, 2.0), 400, "from about 400 steps on"),
        ((100.0, 1.0), (500.0, 2.0), None, ""),
        ((500.0, 2.0), (100.0, 1.0), None, ""),
        ((500.0, 1.0), (450.0, 2.0), None, ""),
        ((100.0, 1.0), (500.0, 1.0), None, ""),
    ],
)
def test_the_steps_after_which_two_are_even(
    own: tuple[float, float], other: tuple[float, float], steps: int | None, word: str
) -> None:
    mine, theirs = (FirstPass(extra_ms + 10.0, extra_ms, 1, 0) for extra_ms, _ in (own, other))
    assert mine.steps_until_even(theirs, own[1], other[1]) == steps
    text = mine.against(theirs, own[1], other[1])
    assert word in text if word else text == ""

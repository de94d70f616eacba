"""Runs survive JSON exactly, and anything else is refused with one sentence."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.base.evidence import Block
from core.rounds.run import Round, Run
from simulated.runs import make_run


@settings(max_examples=20)
@given(st.integers(0, 10_000))
def test_a_run_reads_back_exactly(seed: int) -> None:
    run = make_run(seed=seed, with_failures=seed % 2 == 0)
    assert Run.from_json(run.to_json()) == run


@pytest.mark.parametrize(
    "change",
    [
        {"label": "certain"},
        {"id": "../../etc/passwd"},
        {"target_names": ["one"]},
        {"rounds": [{"index": 0, "batch": 1, "blocks": []}]},
        {"rounds": [{"index": 0, "batch": 1, "blocks": [{"target": 0, "process": 0, "steps": 1, "step_ms": -1}]}]},
        {"rounds": [{"index": 0, "batch": 1, "blocks": [{"target": 2, "process": 0, "steps": 1, "step_ms": 1}]}]},
    ],
)
def test_a_changed_run_is_refused(change: dict[str, object]) -> None:
    data = json.loads(make_run().to_json()) | change
    with pytest.raises(ValueError, match="schema version 1") as caught:
        Run.from_json(json.dumps(data))
    assert "\n" not in str(caught.value)


def test_nan_never_enters_a_round() -> None:
    for bad in (float("nan"), float("inf"), 0.0, -1.0):
        with pytest.raises(ValueError, match="step_ms"):
            Block(target=0, process=0, steps=1, step_ms=bad)


def test_a_round_knows_each_target() -> None:
    block = Block(target=1, process=0, steps=3, step_ms=2.5)
    assert Round(index=0, batch=8, blocks=(block,)).step_ms(1) == 2.5
    assert Round(index=0, batch=8, blocks=(block,)).step_ms(0) is None

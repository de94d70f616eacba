"""The preparation of a block on a CPU: a call after other targets' turns, and the target's cores."""

from __future__ import annotations

import gc
import itertools
import weakref
from types import SimpleNamespace
from typing import Any

import pytest

from core.worker import cells
from core.worker.cells import Turns
from core.worker.feeds import kept
from core.worker.step import Step
from core.workload.spec import Pipeline, Target


class Counted(Step):
    """Step that counts its calls; ``call_ms`` is its reported duration."""

    def __init__(self, call_ms: float = 5.0) -> None:
        super().__init__(kept(itertools.repeat(None)))
        self.calls = 0
        self.call = self._count
        self.run(1)
        self.calls, self.call_ms = 0, call_ms

    def _count(self) -> None:
        self.calls += 1

    def wait(self, last: Any) -> None: ...

    def check_finite(self) -> None: ...


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    clock = SimpleNamespace(now_s=100.0, monotonic=lambda: clock.now_s)
    monkeypatch.setattr(cells, "time", clock)
    return clock


def lead_in(made: Turns, step: Counted, already_ms: float = 0.0) -> int:
    """Return the number of untimed calls before a block."""
    before = step.calls
    assert made.wake(step, made.idle_ms, already_ms) is None
    return step.calls - before


def test_a_call_comes_first_where_others_had_their_turn_and_only_there(clock: SimpleNamespace) -> None:
    made, step, other = Turns(Target()), Counted(), Counted()
    assert lead_in(made, step) == 1
    made.end(step)
    clock.now_s += 0.001
    assert lead_in(made, step) == 0
    assert lead_in(made, other) == 1  # another cell of the same worker
    clock.now_s += 0.005
    assert lead_in(made, step) == 1  # long enough for another worker's block
    made.end()  # a trace of any cell
    assert lead_in(made, step) == 1


@pytest.mark.usefixtures("clock")
def test_a_long_call_and_a_pipeline_that_was_warmed_up_need_none() -> None:
    made = Turns(Target())
    assert lead_in(made, Counted(cells.MAX_LEAD_IN_MS + 1)) == 0
    assert lead_in(made, Counted(cells.MAX_LEAD_IN_MS - 1)) == 1
    assert lead_in(made, Counted(), already_ms=150.0) == 0


def test_a_step_that_was_let_go_is_not_kept() -> None:
    made, step = Turns(Target()), Counted()
    made.end(step)
    gone = weakref.ref(step)
    del step
    gc.collect()
    assert gone() is None


@pytest.mark.parametrize(
    ("target", "threads"), [(Target(threads=1), 1), (Target(), None), (Target(device="gpu:0"), None)]
)
def test_a_cpu_target_takes_its_cores_and_gives_them_back_for_a_pipeline(
    monkeypatch: pytest.MonkeyPatch, target: Target, threads: int | None
) -> None:
    taken: list[Any] = []
    monkeypatch.setattr(cells, "quota_cores", lambda: None)
    monkeypatch.setattr(cells, "Place", lambda count: SimpleNamespace(take=lambda own: taken.append((count, own))))
    made = Turns(target)
    for pipeline in (Pipeline(), Pipeline(kind="host"), Pipeline(kind="tfdata"), None):
        made.take_place(pipeline)
    assert taken == [(threads, True), (threads, True), (threads, False), (threads, False)]

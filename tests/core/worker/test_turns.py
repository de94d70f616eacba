"""The preparation of a block on a CPU: a call after other targets' turns, and the target's cores."""

from __future__ import annotations

import itertools
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


def lead_in(step: Counted, already_ms: float = 0.0, cores: bool = False) -> tuple[int, float | None]:
    """Return the number of untimed calls before a block, and the recorded ms."""
    made = Turns(Target())
    woken = made.wake(step, made.idle_ms, already_ms, cores)
    return step.calls, woken


def test_a_call_comes_before_every_block_of_a_cpu() -> None:
    assert lead_in(Counted()) == (1, None)


def test_a_long_call_and_a_pipeline_that_was_warmed_up_need_none() -> None:
    assert lead_in(Counted(cells.MAX_LEAD_IN_MS + 1)) == (0, None)
    assert lead_in(Counted(cells.MAX_LEAD_IN_MS - 1)) == (1, None)
    assert lead_in(Counted(), already_ms=150.0) == (0, None)


def test_idle_cores_are_woken_by_steps_of_a_tenth_of_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Counted, "run", lambda self, steps: self.call() or 30.0 * steps)
    assert lead_in(Counted(), cores=True) == (4, 120.0)
    assert lead_in(Counted(cells.MAX_WAKING_MS + 1), cores=True) == (0, None)
    assert lead_in(Counted(), already_ms=150.0, cores=True) == (0, None)


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

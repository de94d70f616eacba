"""The deciding question first: how soon a sweep has a first interval, on the virtual clock of simulated machines."""

import threading
from statistics import median

import numpy as np
import pytest

from core.studies.progress import Progress
from core.studies.runner import Cancelled
from core.studies.sweep import schedule
from core.studies.sweep.analyse import compare
from tests.support.simulation import Machine, NoiseModel, random_curves
from tests.support.sweeps import plan, sweep

WIDTH = 0.5  # (high − low) / batch: within ±25 %


def first_interval_s(seed: int) -> float:
    """When the crossover's interval is within ±25 % for the first time; the budget where it never is."""
    machine = Machine(random_curves(np.random.default_rng(seed)), NoiseModel(), seed=seed, startup_s=3.5, prepare_s=0.8)
    stop, seen = threading.Event(), 0

    def look(progress: Progress) -> None:
        nonlocal seen
        if len(progress.record.rounds) > seen:
            seen = len(progress.record.rounds)
            at = compare(progress.record)[0].crossovers
            if at and at[0].low is not None and (at[0].high - at[0].low) / at[0].batch <= WIDTH:
                stop.set()

    try:
        sweep(machine, plan(budget_s=60.0), report=look, cancel=stop)
    except Cancelled:
        pytest.fail("stopped before the first round")
    return machine.clock.now_s()


def test_the_first_interval_comes_sooner_than_with_a_rising_scan(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("core.studies.sweep.supervisor.analyse", lambda _: None)  # nobody reads it here
    seeds = range(5)
    asked_first = median(map(first_interval_s, seeds))
    monkeypatch.setattr(schedule, "deciding_batch", lambda *_, **__: None)
    rising = median(map(first_interval_s, seeds))
    assert asked_first < 0.75 * rising
    assert asked_first < 12.0


def test_the_rest_of_the_curves_waits_for_the_answer_and_is_measured_all_the_same() -> None:
    run = sweep(
        Machine(random_curves(np.random.default_rng(1)), NoiseModel(), seed=1, startup_s=0.2), plan(budget_s=90.0)
    )
    first = [pair.batch for pair in run.rounds if pair.process == 0]
    assert len(set(first)) < len(run.plan.batches)
    assert len({block.process for pair in run.rounds for block in pair.blocks}) >= schedule.MIN_PROCESSES
    assert set(run.plan.batches) <= set(run.batches)

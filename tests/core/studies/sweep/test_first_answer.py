"""The deciding question first: the time until a sweep knows the change, on a virtual clock."""

import threading
from statistics import median

import numpy as np
import pytest

from core.studies.progress import Progress
from core.studies.sweep import schedule
from simulated.simulation import Machine, NoiseModel, random_curves
from simulated.sweeps import plan, sweep


def first_picture_s(seed: int) -> float:
    """Return the time by which both batches of the plan around the crossover were measured."""
    machine = Machine(random_curves(np.random.default_rng(seed)), NoiseModel(), seed=seed, startup_s=3.5, prepare_s=0.8)
    truth = machine.true_crossover(1, 1024)
    assert truth is not None
    stop, asked = threading.Event(), plan(budget_s=120.0)
    below = max(batch for batch in asked.batches if batch <= truth)

    def look(progress: Progress) -> None:
        if {below, 2 * below} <= set(progress.record.batches):
            stop.set()

    sweep(machine, asked, report=look, cancel=stop)
    return machine.clock.now_s()


def test_the_change_is_found_sooner_than_with_a_rising_scan(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("core.studies.sweep.supervisor.analyse", lambda _: None)  # not needed here
    seeds = range(5)
    asked_first = median(map(first_picture_s, seeds))
    monkeypatch.setattr(schedule, "deciding_batch", lambda *_, **__: None)
    rising = median(map(first_picture_s, seeds))
    assert asked_first < rising
    assert asked_first < 14.0


def test_the_first_start_has_the_rest_of_the_curves_too() -> None:
    run = sweep(
        Machine(random_curves(np.random.default_rng(1)), NoiseModel(), seed=1, startup_s=0.2), plan(budget_s=90.0)
    )
    assert set(run.plan.batches) <= {pair.batch for pair in run.rounds if pair.process == 0}
    assert len({block.process for pair in run.rounds for block in pair.blocks}) >= schedule.MIN_PROCESSES

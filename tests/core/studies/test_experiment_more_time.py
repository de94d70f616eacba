"""The budget that an experiment needs, on simulated ones: with it there are three starts of the workers."""

import math

from core.studies.experiment.effects import effects
from core.studies.experiment.run import longer_budget_s
from simulated.simulation import NoiseModel
from tests.support.experiments import machine, measure, processes


def test_with_the_budget_that_is_asked_for_there_are_three_starts() -> None:
    short = measure(machine(), budget_s=12.0)
    assert len(processes(short)) < 3
    budget_s = longer_budget_s(short)
    assert budget_s is not None
    assert len(processes(measure(machine(), budget_s=budget_s))) >= 3


def test_a_narrower_interval_takes_the_square_of_it_in_time() -> None:
    found = measure(machine(NoiseModel()), budget_s=60.0)
    effect = effects(found)[1]
    half = math.log(effect.speed_up_high / effect.speed_up_low) / 2
    twice, thrice = (longer_budget_s(found, ((half, half / part),)) for part in (2, 3))
    assert 60.0 < twice < thrice
    assert longer_budget_s(found, ((half, half / 100),)) is None, "more than an hour"
    short = measure(machine(), budget_s=12.0)
    assert longer_budget_s(short, share=0.5) > longer_budget_s(short)

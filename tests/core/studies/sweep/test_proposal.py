"""The proposed budget: three starts of the workers with every batch size, and the reason if it is longer than usual."""

import pytest

from core.studies.sweep.proposal import USUAL_S, budget_words, holds_three_starts, with_proposed_budget
from core.studies.sweep.schedule import REPLICATES
from core.workload.spec import Target
from simulated.simulation import Curve, Machine
from simulated.sweeps import plan, sweep

THREADS = (Target(threads=1), Target(threads=2))
DEAR = [
    (Target(), Target(device="gpu:0"), Target(device="gpu:0", precision="mixed_float16")),
    (Target(), Target(framework="jax"), Target(framework="torch")),
]


def test_forked_workers_need_no_more_than_usual() -> None:
    proposed = with_proposed_budget(plan(targets=THREADS))
    assert proposed.budget_s == USUAL_S
    assert budget_words(proposed) == ""


@pytest.mark.parametrize("targets", DEAR)
def test_where_starts_are_dear_it_grows_until_three_fit_and_says_why(targets: tuple[Target, ...]) -> None:
    proposed = with_proposed_budget(plan(targets=targets))
    assert proposed.budget_s > USUAL_S
    assert "three starts of" in budget_words(proposed)
    run = sweep(Machine((Curve(0.3, 0.02), Curve(0.9, 0.003), Curve(0.8, 0.004))), proposed)
    assert set(proposed.batches) <= set(run.batches)
    starts = {batch: {item.process for item in run.rounds if item.batch == batch} for batch in proposed.batches}
    assert min(map(len, starts.values())) >= REPLICATES


def test_a_budget_that_is_too_short_says_what_it_costs() -> None:
    short = plan(targets=DEAR[0], budget_s=45.0)
    assert not holds_three_starts(short)
    assert budget_words(short).startswith("In 45 s")


def test_no_more_than_an_hour_is_proposed() -> None:
    assert with_proposed_budget(plan("1:65536", targets=(*DEAR[0], *DEAR[1][1:]))).budget_s <= 3600

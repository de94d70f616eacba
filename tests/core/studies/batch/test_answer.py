"""The recommended batch against closed forms.

Runs have T(b)² = floor² + (slope·b)². With steps proportional to 1 + N / b, the time to a loss is shortest at slope² b³
= N floor² (its derivative set to zero).
"""

import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.networks.families import network_from_name
from core.rounds.answer.analyse import analyse
from core.studies.batch.answer import batch_answer
from core.studies.batch.shapes import MemoryLimit, Price, Quantity
from core.studies.batch.times import product, step_curve
from core.workload.spec import Workload
from simulated.noises import BATCH, TRUE_STEPS, exact_noise_study, make_noise_study
from simulated.runs import make_run, planned, true_step_ms

NAMES = ("cpu,threads=1", "cpu,threads=2")
FLOORS, SLOPES = (0.3, 0.8), (0.02, 0.01)
NOISE = 400.0


def told(run=None, noise=NOISE, **more):
    run = run or make_run(0, noise=0.0)
    study = None if noise is None else exact_noise_study(run, noise)
    return batch_answer(run, analyse(run), study, **more)


def true_time_s(target: int, batch: float, noise: float = NOISE) -> float:
    steps = TRUE_STEPS * (1 + noise / batch) / (1 + noise / BATCH)
    return steps * true_step_ms(FLOORS[target], SLOPES[target], batch) / 1000


def true_best(target: int, noise: float = NOISE) -> float:
    return float((noise * (FLOORS[target] / SLOPES[target]) ** 2) ** (1 / 3))


def true_loss_crossover(noise: float = NOISE) -> float:
    """Return the batch at which the second target falls below the first's shortest time, by bisection below its own
    best.
    """
    limit = true_time_s(0, true_best(0, noise), noise)
    low, high = 1.0, true_best(1, noise)
    for _ in range(100):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if true_time_s(1, middle, noise) > limit else (low, middle)
    return low


@pytest.mark.parametrize("noise", [30.0, 400.0, 3_000.0])
def test_the_best_batch_is_that_of_the_closed_form(noise):
    found = told(noise=noise)
    for index, target in enumerate(found.targets):
        best = target.best_time
        assert best.batch == pytest.approx(true_best(index, noise), rel=0.1)
        assert best.low < best.batch < best.high
        assert best.edge is None
        shortest = true_time_s(index, true_best(index, noise), noise)
        for batch in (best.low, best.high):
            assert true_time_s(index, batch, noise) == pytest.approx(1.05 * shortest, rel=0.05)


def test_times_are_steps_by_step_time_less_certain_far_from_the_reference_batch():
    for index, target in enumerate(told().targets):
        for point in target.points:
            assert point.time_s.value == pytest.approx(true_time_s(index, point.batch), rel=0.02)
            assert point.steps.value == pytest.approx(TRUE_STEPS * (1 + NOISE / point.batch) / (1 + NOISE / BATCH))
            assert point.us_per_sample.value == pytest.approx(1e3 * point.step_ms.value / point.batch)
            assert point.samples_per_s.value == pytest.approx(1e6 / point.us_per_sample.value)
            assert point.relative_time.value >= 1 - 1e-9
        assert min(point.relative_time.value for point in target.points) == pytest.approx(1.0)
    points = {point.batch: point for point in told().targets[0].points}
    near, far = (points[batch].steps.high / points[batch].steps.value for batch in (BATCH, 16 * BATCH))
    assert 1.1 < near < 1.3  # the steps of another seed differ
    assert far > 1.2 * near


def test_measured_and_interpolated_points_are_told_apart():
    run = make_run(0, noise=0.0)
    found = told(run)
    for target in found.targets:
        labels = {point.batch: point.label for point in target.points}
        assert {batch for batch, label in labels.items() if label == run.label} == set(run.batches)
        assert set(labels.values()) == {"recorded", "interpolated"}
        assert [point.batch for point in target.points] == sorted(labels)
        assert len(labels) > 4 * len(run.batches)


def test_from_which_batch_the_second_target_beats_the_first_at_its_best():
    found = told()
    there, back = found.loss_crossovers
    assert (there.target, there.other) == (NAMES[1], NAMES[0])
    assert there.batch == pytest.approx(true_loss_crossover(), rel=0.03)
    assert there.low <= there.batch <= there.high
    assert true_time_s(1, there.until) == pytest.approx(true_time_s(0, true_best(0)), rel=0.03)
    assert back.target == NAMES[0]
    assert back.batch is None
    assert "nowhere faster" in back.sentence


def test_it_may_be_the_other_way_round_than_in_step_time():
    """Check that with little noise, which wastes large batches, the target faster there never reaches the loss
    faster.
    """
    found = told(noise=20.0)
    there, back = found.loss_crossovers
    assert found.step_verdict.crossovers[0].ahead_after == NAMES[1]
    assert there.batch is None
    limit = true_time_s(1, true_best(1, 20.0), 20.0)
    assert true_time_s(0, back.batch, 20.0) == pytest.approx(limit, rel=0.03)
    assert true_time_s(0, back.until, 20.0) == pytest.approx(limit, rel=0.03)
    assert back.low < back.batch < back.high < back.until


def test_the_loss_crossover_and_times_hold_the_truth_as_often_as_their_intervals_say():
    inside, hits = 0, []
    for seed in range(20):
        run = make_run(seed, noise=0.05)
        found = batch_answer(run, analyse(run), make_noise_study(run, seed=seed, noise=NOISE))
        there = found.loss_crossovers[0]
        high = math.inf if there.high is None else there.high
        inside += there.batch is not None and (there.low or 0) <= true_loss_crossover() <= high
        for index, target in enumerate(found.targets):
            times = [(true_time_s(index, point.batch), point.time_s) for point in target.points[::4]]
            hits += [time_s.low <= truth <= time_s.high for truth, time_s in times]
    assert inside >= 17
    assert sum(hits) / len(hits) > 0.88


def test_an_unbounded_noise_scale_leaves_times_bounded():
    """Check that times stay bounded: steps are proportional to 1 / B at most, however large the noise scale is."""
    run = make_run(0, noise=0.0)
    vague = batch_answer(run, analyse(run), make_noise_study(run, noise=1e7, parts=2))
    assert vague.noise.high is None
    for point in vague.targets[0].points:
        if point.steps is not None:
            assert point.steps.high < 3 * TRUE_STEPS * max(1.0, BATCH / point.batch)
    assert "at least" in " ".join(vague.sentences)


def test_no_batch_beyond_memory_is_best_and_where_nothing_fits_there_is_none():
    limit = MemoryLimit(100, 80, 120, "predicted")
    found = told(memory={NAMES[1]: limit})
    free, bound = found.targets
    assert bound.best_time.batch <= 100
    assert bound.best_time.edge == "memory"
    assert bound.best_throughput.batch <= 100
    assert {point.fits for point in bound.points if point.batch > 100} == {False}
    assert {point.fits for point in bound.points if point.batch <= 100} == {True}
    assert {point.fits for point in free.points} == {None}
    assert any("(80 to 120)" in sentence for sentence in found.sentences)
    until = found.loss_crossovers[0].until
    assert until is None
    none = MemoryLimit(0, label="measured")
    found = told(memory=dict.fromkeys(NAMES, none))
    assert [target.best_time for target in found.targets] == [None, None]
    assert [target.best_throughput for target in found.targets] == [None, None]
    assert found.loss_crossovers == ()
    assert "No measured batch" in found.sentences[0]


def test_without_a_noise_study_or_the_loss_no_times_are_given():
    found = told(noise=None)
    assert found.noise is None
    assert found.loss_crossovers == ()
    assert all(point.time_s is None and point.steps is None for target in found.targets for point in target.points)
    assert found.sentences[0].startswith("Most samples per")
    assert "not been measured" in found.sentences[1]
    run = make_run(0, noise=0.0)
    found = batch_answer(run, analyse(run), make_noise_study(run, parts=64, reached=False))
    assert all(point.time_s is None for target in found.targets for point in target.points)
    assert all(point.relative_time is not None for target in found.targets for point in target.points)
    assert found.targets[0].best_time is not None
    assert len(found.loss_crossovers) == 2
    assert "only relative times" in " ".join(found.sentences)


def test_the_verdict_is_one_sentence_that_claims_only_what_is_clear():
    found = told()
    best = found.targets[1].best_time.batch
    assert (found.choice.target, found.choice.batch, found.choice.by, found.choice.clear) == (
        NAMES[1],
        best,
        "time",
        True,
    )
    assert found.sentences[0] == (
        f"Predicted, fastest to a loss of {found.noise.target_loss:g}: 2 threads at batch {best}, clearly faster than "
        "1 thread at its best batch."
    )
    assert found.sentences[1].startswith("Time to the loss at the best batch, predicted: 1 thread ")
    most = told(noise=None)
    assert most.choice.clear
    assert most.sentences[0] == (
        "Most samples per second: 2 threads at batch 1,024 (the largest measured), clearly faster than 1 thread at its "
        "best batch."
    )


def test_two_targets_alike_are_not_told_apart():
    run = make_run(3, floors_ms=(0.3, 0.3), slopes_ms=(0.01, 0.01), noise=0.1)
    for noise in (None, exact_noise_study(run, NOISE)):
        found = batch_answer(run, analyse(run), noise)
        assert not found.choice.clear
        assert "not clear which" in found.sentences[0]
        assert "1 thread at" in found.sentences[0]
        assert "2 threads at" in found.sentences[0]


def test_costs_follow_from_prices():
    prices = [Price(target=name, per_hour=3.6, currency="CHF", dated="2026-11-01") for name in NAMES]
    found = told(prices=prices, epoch_samples=50_000)
    point = found.targets[0].points[-1]
    assert point.cost_per_million.value == pytest.approx(point.us_per_sample.value * 1e-3)
    assert point.cost_per_epoch.value == pytest.approx(point.cost_per_million.value * 0.05)
    assert point.cost_to_loss.value == pytest.approx(point.time_s.value * 1e-3)
    assert found.costs[0].crossovers
    assert told().costs == ()


def test_what_does_not_belong_to_the_run_is_refused():
    run = make_run(0)
    other = planned(make_noise_study(run), workload=Workload(network=network_from_name("20-16-4")))
    with pytest.raises(ValueError, match="20-16-4"):
        batch_answer(run, analyse(run), other)
    with pytest.raises(ValueError, match="no target"):
        told(prices=[Price(target="tpu", per_hour=1.0, dated="2026-11-01")])
    with pytest.raises(ValueError, match="epoch"):
        told(epoch_samples=0)


def test_one_measured_batch_is_enough_and_none_is_refused():
    found = told(make_run(0, batches=(64,)))
    assert [len(target.points) for target in found.targets] == [1, 1]
    assert found.targets[0].best_time.batch == 64
    run = make_run(0, batches=(8, 16), with_failures=True)
    assert [target.title for target in told(run).targets] == ["1 thread"], "nothing was measured on the other"
    with pytest.raises(ValueError, match="No target has"):
        batch_answer(run, replace(analyse(run), cells=()))


@given(seed=st.integers(0, 30), noise=st.floats(0.0, 0.1))
@settings(max_examples=20)
def test_the_curve_goes_through_what_was_measured(seed, noise):
    answer = analyse(make_run(seed, noise=noise, batches=(1, 4, 32, 200)))
    cells = [cell for cell in answer.cells if cell.target == 1]
    curve = step_curve(cells, answer.fits[1], "measured")
    at = {int(batch): index for index, batch in enumerate(curve.batches)}
    for cell in cells:
        found = curve.step_ms(at[cell.batch])
        assert found.value == pytest.approx(cell.step_ms)
        assert (found.low is None) == (cell.low_ms is None)
        if cell.low_ms is not None:
            assert (found.low, found.high) == pytest.approx((cell.low_ms, cell.high_ms))
            assert curve.labels[at[cell.batch]] == "measured"


def test_products_add_errors_in_squares():
    found = product(Quantity(2.0, 2.0 / 1.1, 2.2), Quantity(3.0, 3.0, 3.0))
    assert (found.value, found.low, found.high) == pytest.approx((6.0, 6.0 / 1.1, 6.6))
    assert product(Quantity(2.0, None, 2.2), Quantity(3.0, 2.0, 4.0)).low is None

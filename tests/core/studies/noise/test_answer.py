"""The gradient noise scale against problems with a known answer."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.studies.noise.answer import noise_scale, scales, training_noise
from core.studies.noise.record import GradientDraw
from simulated.noises import BATCH, TRUE_NOISE, TRUE_STEPS, Regression, make_noise_study, simulated_norms


def covered(problem: Regression, parts: int, studies: int = 400, draws: int = 8) -> tuple[float, float]:
    """Share of simulated studies whose interval holds the truth, and whose interval has an upper bound."""
    rng = np.random.default_rng(7)
    found = [noise_scale([problem.draw(rng, 8, parts) for _ in range(draws)]) for _ in range(studies)]
    inside = [s.low <= problem.scale and (s.high is None or problem.scale <= s.high) for s in found]
    return float(np.mean(inside)), float(np.mean([s.high is not None for s in found]))


@pytest.mark.parametrize("distance", [2.0, 0.5, 0.2])
def test_the_interval_holds_the_known_noise_scale_of_a_regression(distance):
    share, bounded = covered(Regression(distance=distance), parts=16)
    assert 0.90 <= share <= 0.99
    assert bounded > 0.9 if distance == 2.0 else True


def test_where_the_gradient_drowns_in_noise_there_is_no_upper_bound():
    share, bounded = covered(Regression(distance=0.02), parts=4)
    assert share >= 0.90
    assert bounded < 0.2


def test_the_estimate_is_the_ratio_of_means_and_not_the_mean_of_ratios():
    rng = np.random.default_rng(1)
    problem = Regression(distance=0.4)
    found = noise_scale([problem.draw(rng, 8, 16) for _ in range(4_000)])
    assert found.value == pytest.approx(problem.scale, rel=0.05)
    assert found.low < problem.scale < found.high
    assert found.high / found.low < 1.2


def test_formulas_without_any_noise():
    """Check |G_B|² = |G|² + tr(Σ) / B with exact G and Σ."""
    draws = [GradientDraw(step=3, small=10, big=100, small_norm2=2 + 50 / 10, big_norm2=2 + 50 / 100)] * 5
    found = noise_scale(draws)
    assert (found.value, found.low, found.high) == pytest.approx((25.0, 25.0, 25.0))
    assert found.step == pytest.approx(3)


@given(scale=st.floats(1e-6, 1e6), seed=st.integers(0, 100))
@settings(max_examples=30)
def test_the_scale_of_the_loss_does_not_matter(scale, seed):
    rng = np.random.default_rng(seed)
    draws = [Regression().draw(rng, 8, 8) for _ in range(6)]
    scaled = [
        d.model_copy(update={"small_norm2": d.small_norm2 * scale, "big_norm2": d.big_norm2 * scale}) for d in draws
    ]
    one, other = noise_scale(draws), noise_scale(scaled)
    assert other.low == pytest.approx(one.low, rel=1e-6)
    assert (one.value is None) == (other.value is None)
    assert (one.high is None) == (other.high is None)
    if one.value is not None:
        assert one.low <= one.value
        assert one.high is None or one.value <= one.high


def test_a_negative_mean_signal_has_a_lower_bound_only():
    rng = np.random.default_rng(0)
    draws = [
        GradientDraw(step=0, small=8, big=64, small_norm2=8.0 + e, big_norm2=0.9 + 0.3 * e)
        for e in rng.normal(0, 0.1, 10)
    ]
    found = noise_scale(draws)
    assert found.value is None
    assert found.high is None
    assert found.low > 8  # noise of some 64 over a signal that may be zero


def test_too_few_draws_are_refused():
    with pytest.raises(ValueError, match="4 draws"):
        noise_scale([Regression().draw(np.random.default_rng(0), 8, 8)] * 3)


def test_steps_that_show_nothing_alone_are_taken_together():
    rng = np.random.default_rng(3)

    def at(step: int, parts: int) -> list[GradientDraw]:
        pairs = [simulated_norms(rng, 2_000.0, 16, parts) for _ in range(8)]
        return [GradientDraw(step=step, small=16, big=16 * parts, small_norm2=a, big_norm2=b) for a, b in pairs]

    clear, vague = at(0, 64), [draw for step in (10, 20, 30) for draw in at(step, 2)]
    found = scales(clear + vague + at(40, 64))
    assert [scale.resolved for scale in found] == [True] * len(found)
    assert found[0].step == 0
    assert sum(scale.draws for scale in found) == 40
    assert found[-1].step > 10  # the vague ones were merged with later ones


def test_draws_of_larger_batches_count_for_more():
    rng = np.random.default_rng(5)
    problem = Regression(distance=0.5)
    weak = [problem.draw(rng, 8, 2) for _ in range(8)]
    strong = [problem.draw(rng, 8, 64) for _ in range(8)]
    alone, both = noise_scale(strong), noise_scale(weak + strong)
    assert alone.resolved
    assert both.resolved
    assert both.value == pytest.approx(alone.value, rel=0.05)
    assert both.high / both.low < 1.3 * alone.high / alone.low


def test_a_constant_noise_scale_is_its_own_average_and_gives_the_steps():
    found = training_noise(make_noise_study(parts=64))
    assert found.value == pytest.approx(TRUE_NOISE, rel=0.1)
    assert found.low < TRUE_NOISE < found.high
    assert found.steps == pytest.approx(TRUE_STEPS, rel=1e-3)
    assert found.minimal_steps == pytest.approx(TRUE_STEPS / (1 + TRUE_NOISE / BATCH), rel=0.1)
    assert found.minimal_samples == pytest.approx(found.minimal_steps * found.value)
    at_large = found.steps * found.step_factor(2**40, found.value)
    assert at_large == pytest.approx(found.minimal_steps, rel=1e-6)
    assert found.step_factor(BATCH, found.value) == pytest.approx(1.0)
    assert found.step_factor(2 * BATCH, None) == pytest.approx(0.5)


def test_a_growing_noise_scale_is_averaged_by_progress():
    """Check that with known B(s), S(B) is ∫ (1 + B(s)/B) / (1 + B(s)/B_ref) ds exactly, whatever the batch."""
    study = make_noise_study(noise=1.0, steps=400.0)
    noises = {step: 20.0 * (1 + step) ** 0.8 for step in {draw.step for draw in study.draws}}
    exact = [
        draw.model_copy(
            update={"small_norm2": 1 + noises[draw.step] / draw.small, "big_norm2": 1 + noises[draw.step] / draw.big}
        )
        for draw in study.draws
    ]
    found = training_noise(study.model_copy(update={"draws": tuple(exact)}))
    steps = np.linspace(0, 400, 200_001)
    true = 20.0 * (1 + steps) ** 0.8
    for batch in (8, 64, 1_000):
        wanted = float(np.trapezoid((1 + true / batch) / (1 + true / BATCH), steps))
        assert found.steps * found.step_factor(batch, found.value) == pytest.approx(wanted, rel=5e-3)
    assert found.value < float(true.mean())  # late steps, where noise is large, make less progress each


def test_the_average_covers_a_known_noise_scale():
    found = [training_noise(make_noise_study(seed=seed, parts=8, noise=300.0)) for seed in range(60)]
    inside = [one.low <= 300.0 and (one.high is None or one.high >= 300.0) for one in found]
    assert np.mean(inside) >= 0.85


def test_without_the_target_there_are_no_steps():
    found = training_noise(make_noise_study(reached=False))
    assert found.value == pytest.approx(TRUE_NOISE, rel=0.5)
    assert (found.steps, found.minimal_steps, found.minimal_samples) == (None, None, None)


def test_a_study_without_draws_says_nothing():
    assert training_noise(make_noise_study(draws=())) is None


def test_unbounded_noise_stays_unbounded():
    study = make_noise_study(noise=1e7, parts=2)
    found = training_noise(study)
    assert found.high is None
    assert math.isfinite(found.low)
    assert len(found.scales) == 1

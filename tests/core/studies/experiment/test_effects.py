"""Effects of arms from paired rounds: drift cancels, intervals cover, and few data allow few claims."""

import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.analysis.statistics import normal_quantile
from core.studies.experiment.effects import ALLOWANCE, Effect, effects, log_effect
from core.studies.experiment.record import Arm, ArmBlock, ArmRound, Experiment
from core.workload.spec import Pipeline, Target, Workload

WORKLOAD = Workload(network="784-128-10")


def experiment(rounds: Sequence[tuple[int, Sequence[float | None]]], batches: Sequence[int] = (64, 64)) -> Experiment:
    """Build an experiment of rounds (process, step times of the arms in ms); None for an arm without a block."""
    arms = tuple(
        Arm(code=f"arm-{i}", title=f"Arm {i}", target=Target(), pipeline=Pipeline(), batch=batch)
        for i, batch in enumerate(batches)
    )
    return Experiment(
        workload=WORKLOAD,
        arms=arms,
        label="modelled",
        rounds=tuple(
            ArmRound(
                index=index,
                blocks=tuple(
                    ArmBlock(arm=arm, process=process, steps=10, step_ms=ms)
                    for arm, ms in enumerate(times)
                    if ms is not None
                ),
            )
            for index, (process, times) in enumerate(rounds)
        ),
    )


def noisy(rng: np.random.Generator, starts: int, rounds: int = 8, drift: float = 0.0) -> Experiment:
    """Build rounds with an arm 1 twice as fast; starts differ by 3 %, rounds by 2 %, and both arms drift alike."""
    found: list[tuple[int, list[float]]] = []
    for process in range(starts):
        offset = rng.normal(0, 0.03)
        for _ in range(rounds):
            common = math.exp(rng.normal(0, drift)) if drift else 1.0
            base, mine = 4.0 * math.exp(rng.normal(0, 0.02)), 2.0 * math.exp(offset + rng.normal(0, 0.02))
            found.append((process, [common * base, common * mine]))
    return experiment(found)


def of(found: Experiment, arm: int = 1, base: int = 0) -> Effect:
    return next(effect for effect in effects(found, base) if effect.arm == arm)


def half_width(effect: Effect) -> float:
    assert effect.speed_up_low < effect.speed_up < effect.speed_up_high
    return math.log(effect.speed_up_high / effect.speed_up_low) / 2


def test_common_drift_cancels() -> None:
    calm = noisy(np.random.default_rng(1), 4)
    rng = np.random.default_rng(2)
    factors = np.exp(rng.normal(0, 0.1, len(calm.rounds)))
    drifting = calm.model_copy(
        update={
            "rounds": tuple(
                item.model_copy(
                    update={"blocks": tuple(b.model_copy(update={"step_ms": b.step_ms * factor}) for b in item.blocks)}
                )
                for item, factor in zip(calm.rounds, factors.tolist(), strict=True)
            )
        }
    )
    before, after = of(calm), of(drifting)
    assert after.speed_up == pytest.approx(before.speed_up, rel=1e-12)
    assert after.speed_up_low == pytest.approx(before.speed_up_low, rel=1e-12)
    assert after.speed_up_high == pytest.approx(before.speed_up_high, rel=1e-12)
    assert after.step_ms != pytest.approx(before.step_ms, rel=1e-3), "the step times themselves do drift"


@pytest.mark.parametrize("starts", [3, 4, 5])
def test_the_interval_covers_the_truth_as_often_as_it_says(starts: int) -> None:
    """Simulate 1,000 experiments at 95 %; the standard error is 0.7 %, so 92 % is more than four of them below."""
    rng = np.random.default_rng(starts)
    inside = 0
    for _ in range(1000):
        offsets = rng.normal(0, 0.03, starts)
        logs = {i: list(math.log(2.0) + offset + rng.normal(0, 0.02, 10)) for i, offset in enumerate(offsets)}
        center, half = log_effect(logs)
        inside += abs(center - math.log(2.0)) <= half
    assert 0.92 <= inside / 1000 <= 0.99


def test_whole_experiments_cover_the_truth_too() -> None:
    rng = np.random.default_rng(11)
    inside = 0
    for _ in range(300):
        effect = of(noisy(rng, 4, rounds=6, drift=0.1))
        assert effect.speed_up_high is not None
        inside += effect.speed_up_low <= 2.0 <= effect.speed_up_high
    assert 0.92 <= inside / 300 <= 0.99


@pytest.mark.parametrize("starts", [1, 2])
def test_fewer_than_three_starts_are_allowed_for(starts: int) -> None:
    """Check almost no scatter, which leaves Student's t times the allowance over the root of starts."""
    rng = np.random.default_rng(5)
    logs = {i: list(rng.normal(0.5, 1e-6, 12)) for i in range(starts)}
    center, half = log_effect(logs)
    assert center == pytest.approx(0.5, abs=1e-5)
    assert half == pytest.approx(normal_quantile(0.975) * ALLOWANCE / math.sqrt(starts), rel=1e-3)
    seen = {i: list(rng.normal(0.5, 1e-6, 12)) for i in range(3)}
    assert log_effect(seen)[1] < 0.01 * half, "three starts that agree need no allowance"


def test_fewer_starts_give_wider_intervals() -> None:
    one, two, five = (
        np.median([half_width(of(noisy(np.random.default_rng(seed), starts))) for seed in range(20)])
        for starts in (1, 2, 5)
    )
    assert one > two > five


def test_with_three_starts_the_interval_is_students() -> None:
    """Check medians 0, 0.1 and 0.2: 4.303 (t at 97.5 %, two degrees of freedom) times 0.1 / √3."""
    center, half = log_effect({i: [0.1 * i] * 12 for i in range(3)})
    assert center == pytest.approx(0.1)
    assert half == pytest.approx(4.3027 * 0.1 / math.sqrt(3), rel=1e-4)


def test_three_starts_that_happen_to_agree_are_no_narrower_than_their_rounds() -> None:
    rng = np.random.default_rng(3)
    values = rng.normal(0.0, 0.1, 9)
    logs = {i: list(values - np.median(values)) for i in range(3)}  # the same median in every start
    center, half = log_effect(logs)
    assert center == pytest.approx(0.0)
    assert half > 0.02


@pytest.mark.parametrize(("rounds", "known"), [(5, False), (6, True)])
def test_too_few_rounds_have_no_interval(rounds: int, known: bool) -> None:
    effect = of(experiment([(0, (4.0 + 0.01 * i, 2.0)) for i in range(rounds)]))
    assert effect.rounds == rounds
    assert effect.speed_up == pytest.approx(2.0, rel=0.02)
    for bound in (effect.speed_up_low, effect.speed_up_high, effect.low_ms, effect.high_ms):
        assert (bound is not None) == known


def test_time_per_sample_scales_with_the_batch() -> None:
    """Check that four times the batch in twice the time is half the time per sample."""
    found = experiment([(i // 6, (1.0, 2.0)) for i in range(18)], batches=(64, 256))
    effect = of(found)
    assert effect.speed_up == pytest.approx(2.0)
    assert effect.step_ms == pytest.approx(2.0)
    back = of(found, arm=0, base=1)
    assert back.speed_up == pytest.approx(0.5)


def test_any_arm_can_be_the_base() -> None:
    found = experiment([(i // 6, (6.0, 3.0, 2.0)) for i in range(18)], batches=(8, 8, 8))
    assert [e.speed_up for e in effects(found)] == pytest.approx([1.0, 2.0, 3.0])
    assert [e.speed_up for e in effects(found, base=1)] == pytest.approx([0.5, 1.0, 1.5])
    assert [(e.arm, e.rounds, e.processes) for e in effects(found, base=2)] == [(0, 18, 3), (1, 18, 3), (2, 18, 3)]


def test_only_rounds_with_both_arms_count() -> None:
    rounds: list[tuple[int, Sequence[float | None]]] = [(i // 6, (4.0, 2.0, None)) for i in range(18)]
    rounds += [(3, (4.0, 1.0, None)), (3, (None, 0.1, 5.0))]
    found = experiment(rounds, batches=(8, 8, 8))
    effect = of(found)
    assert (effect.rounds, effect.processes) == (19, 4)
    assert [e.arm for e in effects(found)] == [0, 1], "arm 2 never ran beside arm 0"
    assert [e.arm for e in effects(found, base=2)] == [1, 2]


def test_a_stalled_round_moves_nothing() -> None:
    rounds = [(i // 8, (4.0, 200.0 if i % 8 == 3 else 2.0)) for i in range(24)]
    effect = of(experiment(rounds))
    assert effect.speed_up == pytest.approx(2.0)
    assert effect.step_ms == 2.0


def test_nothing_measured_has_no_effect() -> None:
    assert effects(experiment([])) == ()


logs_by_start = st.dictionaries(
    st.integers(0, 5), st.lists(st.floats(-2, 2), min_size=1, max_size=12), min_size=1, max_size=5
)


@given(logs_by_start, st.floats(-1, 1))
def test_a_constant_factor_shifts_the_center_alone(logs: dict[int, list[float]], shift: float) -> None:
    center, half = log_effect(logs)
    moved, same = log_effect({key: [value + shift for value in values] for key, values in logs.items()})
    assert moved == pytest.approx(center + shift, abs=1e-9)
    assert same == half == math.inf or same == pytest.approx(half, abs=1e-9)
    pooled = [value for values in logs.values() for value in values]
    assert min(pooled) - 1e-9 <= center <= max(pooled) + 1e-9
    assert half >= 0


@given(logs_by_start)
def test_swapping_the_arms_mirrors_the_interval(logs: dict[int, list[float]]) -> None:
    center, half = log_effect(logs)
    mirrored, same = log_effect({key: [-value for value in values] for key, values in logs.items()})
    assert mirrored == pytest.approx(-center, abs=1e-9)
    assert same == half == math.inf or same == pytest.approx(half, abs=1e-9)

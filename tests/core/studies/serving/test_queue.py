"""The played batcher against what is known of queues in closed form."""

import math
from dataclasses import replace
from itertools import pairwise
from typing import get_args

import numpy as np
import pytest

from core.studies.serving.queue import (
    NO_STALLS,
    LatencyCurve,
    Stalls,
    StepTimes,
    capacity_per_s,
    latencies_ms,
    latency_quantile_ms,
    saturation_per_s,
)
from core.studies.serving.service import Percentile, Service
from core.worker.timing import PAUSE_MS

ALONE = Service(max_batch=1)
LINEAR = StepTimes.of(np.array([1, 2, 4, 8, 16, 32.0]), np.array([2.3, 2.6, 3.2, 4.4, 6.8, 11.6]))
EXPONENTIAL = {1: np.random.default_rng(0).exponential(1.0, 100_000)}


def even(ms: float) -> StepTimes:
    return StepTimes.of(np.array([1.0]), np.array([ms]))


@pytest.mark.statistical
@pytest.mark.parametrize(("load", "within"), [(0.3, 0.02), (0.5, 0.02), (0.7, 0.05), (0.9, 0.05)])
def test_without_batching_the_mean_is_that_of_pollaczek_and_khinchine(load: float, within: float) -> None:
    assert latencies_ms(even(1.0), ALONE, 1000 * load).mean() == pytest.approx(1 + load / (2 - 2 * load), rel=within)
    random = StepTimes.of(np.array([1.0]), np.array([1.0]), EXPONENTIAL)
    assert latencies_ms(random, ALONE, 1000 * load).mean() == pytest.approx(1 / (1 - load), rel=within)


@pytest.mark.statistical
@pytest.mark.parametrize(("load", "within"), [(0.3, 0.03), (0.5, 0.04), (0.7, 0.08), (0.9, 0.1)])
def test_with_exponential_steps_latencies_are_exponential(load: float, within: float) -> None:
    random = StepTimes.of(np.array([1.0]), np.array([1.0]), EXPONENTIAL)
    for percentile in get_args(Percentile):
        exact = -math.log(1 - int(percentile) / 100) / (1 - load)
        assert latency_quantile_ms(random, Service(max_batch=1, percentile=percentile), 1000 * load) == pytest.approx(
            exact, rel=within
        )


@pytest.mark.statistical
@pytest.mark.parametrize("load", [0.5, 0.7, 0.9])
def test_greedy_batches_have_the_mean_of_inoue(load: float) -> None:
    """His bound is 0.99 to 1.02 of the mean at these loads."""
    per_sample_ms, fixed_ms = 0.1, 1.0
    batches = np.arange(1, 1025.0)
    rate = load / per_sample_ms
    bound = 1.5 * fixed_ms / (1 - load) + per_sample_ms / 2 * (load + 2) / (1 - load**2)
    mean = latencies_ms(
        StepTimes.of(batches, per_sample_ms * batches + fixed_ms), Service(max_batch=1024), 1000 * rate
    ).mean()
    assert mean == pytest.approx(bound, rel=0.02)


def test_latency_rises_with_the_rate_and_is_endless_from_saturation_on() -> None:
    assert saturation_per_s(LINEAR, Service()) == pytest.approx(1000 * 32 / 11.6)
    curve = LatencyCurve.of(LINEAR, Service())
    assert all(before < after for before, after in pairwise(curve.ms))
    assert latency_quantile_ms(LINEAR, Service(), 1000 * 32 / 11.6) == math.inf


def test_capacity_is_where_the_latency_meets_the_limit() -> None:
    capacity = capacity_per_s(LINEAR, Service(limit_ms=15.0))
    assert latency_quantile_ms(LINEAR, Service(), 0.98 * capacity) <= 15.0
    assert latency_quantile_ms(LINEAR, Service(), 1.02 * capacity) > 15.0
    assert capacity_per_s(LINEAR, Service(limit_ms=2.2)) == 0.0


def test_a_step_after_a_pause_is_longer_by_the_root_of_the_pause() -> None:
    steps = replace(even(0.1), pause_ms=2.0)
    evenly = Service(max_batch=1, burstiness=0.0)
    assert np.median(latencies_ms(steps, evenly, 10.0)) == pytest.approx(2.1)
    often = np.median(latencies_ms(steps, evenly, 400.0))
    idle_ms = 2.5 - often
    assert often == pytest.approx(0.1 + 2.0 * math.sqrt(idle_ms / PAUSE_MS), rel=0.01)
    assert saturation_per_s(steps, ALONE) == saturation_per_s(even(0.1), ALONE)


@pytest.mark.statistical
def test_a_server_that_carries_the_rate_on_average_misses_in_slow_periods() -> None:
    """A tenth of the time steps last twice as long, so above half of saturation queues grow for 0.3 s."""
    steady = even(1.0)
    uneven = replace(steady, periods=np.repeat([1.0, 2.0], [115, 13]))
    limited, patient = (Service(max_batch=1, limit_ms=limit_ms) for limit_ms in (20.0, 200.0))
    assert 0.8 < capacity_per_s(steady, limited) / 1000 < 1.0
    assert 0.4 < capacity_per_s(uneven, limited) / 1000 < 0.6
    assert 0.65 < capacity_per_s(uneven, patient) / 1000 < 0.9
    assert saturation_per_s(uneven, limited) == pytest.approx(1000 / (1 + 13 / 128))


def test_a_delay_is_waited_for_where_requests_are_rare_and_a_full_batch_ends_it() -> None:
    rare = latencies_ms(LINEAR, Service(max_batch=8, max_delay_ms=5.0), 1.0)
    assert np.median(rare) == pytest.approx(5.0 + 2.3, rel=0.01)
    dense = latencies_ms(LINEAR, Service(max_batch=2, max_delay_ms=50.0), 400.0)
    assert np.median(dense) < 15.0


def test_instances_share_a_queue_and_bursts_cost_capacity() -> None:
    single, double = (capacity_per_s(LINEAR, Service(instances=count, limit_ms=15.0)) for count in (1, 2))
    assert 1.98 * single < double < 2 * saturation_per_s(LINEAR, Service())
    even_ms, random_ms, bursts_ms = (
        latency_quantile_ms(LINEAR, Service(burstiness=burstiness), 1500.0) for burstiness in (0.0, 1.0, 4.0)
    )
    assert even_ms < random_ms < bursts_ms


def test_the_spread_of_single_steps_is_in_the_tail() -> None:
    rng = np.random.default_rng(1)
    spread = {batch: rng.lognormal(0.0, 0.4, 1_000) for batch in (1, 8, 32)}
    wide = StepTimes.of(LINEAR.batches, LINEAR.ms, spread)
    assert capacity_per_s(wide, Service(limit_ms=15.0)) < capacity_per_s(LINEAR, Service(limit_ms=15.0))


def test_the_same_question_gets_the_same_answer() -> None:
    assert capacity_per_s(LINEAR, Service(limit_ms=15.0)) == capacity_per_s(LINEAR, Service(limit_ms=15.0))


def test_stalls_are_in_the_latency_and_in_the_saturation() -> None:
    stalls = Stalls(np.full(40, 5.0), 10_000.0)  # 4 per second of computing, of 5 ms
    stalled = StepTimes.of(LINEAR.batches, LINEAR.ms, None, stalls)
    plain, slowed = (latencies_ms(steps, Service(), 200.0) for steps in (LINEAR, stalled))
    assert slowed.max() > 5.0 + 2.3
    assert np.quantile(slowed, 0.5) == pytest.approx(np.quantile(plain, 0.5), rel=0.05)
    assert saturation_per_s(stalled, Service()) == pytest.approx(saturation_per_s(LINEAR, Service()) / 1.02)
    assert capacity_per_s(stalled, Service(limit_ms=15.0)) < capacity_per_s(LINEAR, Service(limit_ms=15.0))


def test_the_rate_of_stalls_has_an_interval_and_none_without_any() -> None:
    stalls = Stalls(np.full(25, 5.0), 5_000.0)
    assert stalls.per_ms() == pytest.approx(0.005)
    assert stalls.per_ms(-1) < 0.005 < stalls.per_ms(1)
    assert NO_STALLS.per_ms(1) == 0.0

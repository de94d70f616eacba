"""Rules of timing: when warm-up is over, and how many steps make a block. Pure: no framework, no clock of its own."""

from __future__ import annotations

import functools
import math
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

WINDOW = 20  # samples in each of two successive windows (pyperf _worker.py)
MIN_WINDOW = 5  # if 40 samples of a slow step exceed the cap, shorter windows are compared
OUTLIER_IQR = 1.5  # the first sample must not exceed Q3 + 1.5 IQR of its window (pyperf)
MEAN_FALL, MEAN_RISE = 0.10, 0.50  # the earlier mean may exceed the later by 10 %, or lie 50 % under it (pyperf)
CENTRE_TOLERANCE = 0.05  # medians agree within 5 % (pyperf asks it of Q1 and Q3) or within their noise
MIN_SAMPLE_MS = 1.0  # pyperf warns of raw values under 1 ms
MIN_WARMUP_SHARE = 0.05  # of the cap: clocks and tf.data's autotuning may settle before steadiness is judged
MAX_CLOCK_SHARE = 1e-3  # the clock is under 0.1 % of a block (docs/design.md, Blocks)
BLOCK_MS, CPU_BLOCK_MS = 20.0, 4.0
"""Minimum duration of a block; the CPU's has the least variance in the same time (measured: benchmarks/turns.py)."""
MAX_STEPS = 1_000_000
CALIBRATION_TRIES = 8
CLOCK_SAMPLES = 50
GROWTH_LIMIT = 16  # a block that is too short grows at most this much per try, so one outlier cannot ask for minutes
# The time in which a GPU's clocks fall and rise differs widely between cards (Velicka, Vysocky and Riha 2025): these
# four are chosen to cost a sweep at most a fifth of a GPU's idle time, and were measured on no card
AWAKE_MS, WAKE_SHARE, MIN_WAKE_MS, MAX_WAKE_MS = 200.0, 0.2, 50.0, 300.0
FEWEST_LATENCIES, LATENCY_MS = 3, 100.0  # steps timed singly if the warm-up has not done so already
PAUSE_MS = 10.0
"""Pause before a step that stands for one that a server has waited for: it is longer by about the root of its pause up
to here (measured: benchmarks/turns.py pauses)."""
CORES_AWAKE_MS = 100.0
"""Steps of several threads are up to 45 % longer for so long after all cores but one were idle: fewer of their threads
run at once (measured: benchmarks/turns.py waking)."""
HEADROOM = 1.1  # aim this far above the minimum block, so that later, faster blocks are long enough too

quartiles = functools.partial(statistics.quantiles, n=4, method="inclusive")

RunSteps = Callable[[int], float]
"""Runs that many steps, closed by one synchronisation; returns milliseconds."""


@dataclass(frozen=True)
class WarmUp:
    """Result of a warm-up. ``step_ms`` is the median step of the last window (of all samples when not steady).

    ``singles_ms``: the steps of both last windows, if those agree and a sample is one step.
    """

    steps: int
    ms: float
    steady: bool
    step_ms: float
    singles_ms: tuple[float, ...] = ()


def windows_agree(before: Sequence[float], after: Sequence[float]) -> bool:
    """Return whether two successive windows of samples show the same steady state (pyperf's rules, adapted).

    The medians may differ by 5 %, or by two standard errors of their difference on a noisy machine: no amount of
    warm-up reduces noise.
    """
    q1, centre_before, q3 = quartiles(before)
    if before[0] > q3 + OUTLIER_IQR * (q3 - q1):
        return False
    later_mean = statistics.fmean(after)
    shift = (statistics.fmean(before) - later_mean) / later_mean
    if not -MEAN_RISE <= shift <= MEAN_FALL:
        return False
    q1_after, centre_after, q3_after = quartiles(after)
    # a median's standard error is about 1.25 sd / sqrt(n), and sd about IQR / 1.35, for a normal distribution
    noise = 1.25 / 1.35 * math.hypot(q3 - q1, q3_after - q1_after) / math.sqrt(len(after))
    return abs(centre_before - centre_after) <= max(CENTRE_TOLERANCE * centre_after, 2 * noise)


def warm_up(run: RunSteps, cap_ms: float, at_least_steps: int = 0) -> WarmUp:
    """Run until successive windows agree or ``cap_ms`` is spent, after ``at_least_steps`` in any case.

    A sample is one step, or as many as last 1 ms. At least three samples are taken, even past the cap.
    """
    steps, spent = 0, 0.0
    while steps < at_least_steps:
        spent += run(1)
        steps += 1
    first = run(1)
    a_sample = max(1, math.ceil(MIN_SAMPLE_MS / max(first, 1e-6)))
    steps, spent = steps + 1, spent + first
    samples: list[float] = []
    start_ms, steady = spent, False
    while not steady and (spent - start_ms < cap_ms or len(samples) < 3):
        ms = run(a_sample)
        steps, spent = steps + a_sample, spent + ms
        samples.append(ms / a_sample)
        window = min(WINDOW, len(samples) // 2)
        if window >= MIN_WINDOW and spent - start_ms >= MIN_WARMUP_SHARE * cap_ms:
            steady = windows_agree(samples[-2 * window : -window], samples[-window:])
    window = min(WINDOW, len(samples) // 2)
    recent = samples[-window:] if steady else samples
    singles = tuple(samples[-2 * window :]) if steady and a_sample == 1 else ()
    return WarmUp(steps, spent, steady, statistics.median(recent), singles)


def latencies(run: RunSteps, warm: WarmUp, most: int) -> tuple[float, ...]:
    """Return latencies of single steps, each with its own synchronisation, in ms.

    They are the warm-up's last ones, if it timed single steps that agree; else ``most`` new ones, or at least
    :data:`FEWEST_LATENCIES` if steps are slow.
    """
    if len(warm.singles_ms) >= most:
        return warm.singles_ms[len(warm.singles_ms) - most :]
    return singles(run, most)


def singles(run: RunSteps, most: int, pause: Callable[[], object] = lambda: None) -> tuple[float, ...]:
    """Return latencies of ``most`` single steps in ms, each after a pause; of fewer if steps are slow."""
    samples: list[float] = []
    while len(samples) < most and (len(samples) < FEWEST_LATENCIES or sum(samples) < LATENCY_MS):
        pause()
        samples.append(run(1))
    return tuple(samples)


def pause() -> None:
    """Let :data:`PAUSE_MS` pass in which nothing runs."""
    time.sleep(PAUSE_MS / 1000)


def wake_ms(idle_ms: float) -> float:
    """Return how long to run a GPU untimed after ``idle_ms``, so that its clocks have risen again."""
    return 0.0 if idle_ms < AWAKE_MS else min(MAX_WAKE_MS, max(MIN_WAKE_MS, WAKE_SHARE * idle_ms))


def wake(run: RunSteps, idle_ms: float, already_ms: float = 0.0) -> float:
    """Run single steps for :func:`wake_ms` less ``already_ms``; return the ms that took, 0 if not needed."""
    return untimed(run, wake_ms(idle_ms) - already_ms)


def untimed(run: RunSteps, at_least_ms: float) -> float:
    """Run single steps for that long; return the ms that took."""
    spent = 0.0
    while spent < at_least_ms:
        spent += run(1)
    return spent


def clock_resolution_ms() -> float:
    """Return the smallest observed step of the monotonic clock, in ms (or its stated resolution if larger)."""
    smallest = math.inf
    for _ in range(CLOCK_SAMPLES):
        start = now = time.perf_counter_ns()
        while now == start:
            now = time.perf_counter_ns()
        smallest = min(smallest, now - start)
    return max(smallest * 1e-6, time.get_clock_info("perf_counter").resolution * 1e3)


def calibrate(run: RunSteps, step_ms: float, block_ms: float, resolution_ms: float) -> int:
    """Return the steps that make a block last ``block_ms`` and keep the clock under 0.1 % of it.

    ``step_ms`` is the initial estimate.
    """
    needed = max(block_ms, resolution_ms / MAX_CLOCK_SHARE)
    if step_ms >= needed:
        return 1
    steps = _steps_for(needed, step_ms)
    for _ in range(CALIBRATION_TRIES):
        took = run(steps)
        if took >= needed or steps == MAX_STEPS:
            break
        wanted = _steps_for(needed, max(took / steps, 1e-9))
        steps = min(max(wanted, steps + 1), steps * GROWTH_LIMIT)
    return steps


def _steps_for(needed_ms: float, step_ms: float) -> int:
    if step_ms >= needed_ms:
        return 1
    return min(MAX_STEPS, max(1, math.ceil(HEADROOM * needed_ms / step_ms)))

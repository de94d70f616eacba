"""Floor and slope of a target's step time, and the share of a step that is overhead.

T(b) = (floor^q + (slope·b)^q)^(1/q), 1 ≤ q ≤ 4: floor is the fixed cost of a step, slope the marginal cost of a sample,
q the sharpness of the transition (q = 1: they add; large q: the larger one counts). With q from 1.5 to 2 it fits 80
published batch sweeps to a median of 3.1 % (docs/design.md, Fixed cost and cost per sample). It is fitted in log(T), so
that small and large batches have equal weight.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass
from statistics import median

import numpy as np

from core.analysis.numerics import levenberg_marquardt
from core.analysis.statistics import MIN_UNITS, Array, t_quantile
from core.base.numbers import percent
from core.rounds.answer.answer import CellStats, Fit
from core.rounds.run import Run

QS = tuple(1.0 + 0.25 * i for i in range(13))
DEFAULT_Q = 2.0
MIN_BATCHES = 3
TRUSTED_ERROR = 0.10  # above this median error the model does not describe the curve
MAX_FITTED = 200  # most processes fitted alone, evenly chosen: gives their scatter to 5 %
FARTHEST = 10.0  # log: limit of floor and slope below the data's bounds, where the data no longer show them
WIDEST_FACTOR = 10.0  # an interval wider than this factor each way is uninformative and withheld


@dataclass(frozen=True)
class _Solution:
    log_floor: float
    log_slope: float
    q: float
    residuals: Array
    covariance: Array  # of (log floor, log slope) for unit residual variance


def fit_target(run: Run, target: int, cells: tuple[CellStats, ...]) -> Fit | None:
    """Fit one target of a run from its cells' step times; None with fewer than three batch sizes.

    Intervals cover two sources: the misfit of the curve (residuals, t distribution) and, with at least three worker
    processes, the scatter of fits made in each process alone. The wider one counts.
    """
    mine = [c for c in cells if c.target == target]
    if len(mine) < MIN_BATCHES:
        return None
    batches = np.array([c.batch for c in mine], dtype=float)
    times = np.array([c.step_ms for c in mine])
    solution = solve(batches, times)
    spread = _spread(run, target, solution.q)
    df = max(1, len(mine) - (3 if len(mine) > MIN_BATCHES else 2))
    misfit = float(np.sum(solution.residuals**2)) / df
    half = t_quantile(0.975, df) * np.sqrt(misfit * np.diag(solution.covariance))
    knee = np.sqrt(misfit * (np.array([1.0, -1.0]) @ solution.covariance @ np.array([1.0, -1.0])))
    halves = np.maximum([half[0], half[1], t_quantile(0.975, df) * knee], spread)
    return _as_fit(target, solution, batches, halves)


def solve(batches: Array, times_ms: Array, q: float | None = None) -> _Solution:
    """Minimise squared errors in log T over floor, slope and (with more than three points) q; ``q`` fixes it."""
    log_b, log_times = np.log(batches), np.log(times_ms)
    start = np.array([log_times.min(), (log_times - log_b).min()])  # the fastest step and the cheapest sample
    lowest, fits = start - FARTHEST, []
    for candidate in (q,) if q is not None else QS if len(batches) > MIN_BATCHES else (DEFAULT_Q,):
        fits.append(_fit(log_b, log_times, candidate, start, lowest))
        start = np.array([fits[-1].log_floor, fits[-1].log_slope])  # the next q's solution is near
    return min(fits, key=lambda s: float(np.sum(s.residuals**2)))


def _fit(log_b: Array, log_times: Array, q: float, start: Array, lowest: Array) -> _Solution:
    """Fit log floor and log slope for one q."""

    def model(theta: Array) -> tuple[Array, Array]:
        floor, work = q * theta[0], q * (theta[1] + log_b)
        log_t = np.logaddexp(floor, work) / q
        share = np.exp(work - q * log_t)  # d log T / d log slope; the rest belongs to the floor
        return log_times - log_t, np.stack([share - 1, -share], axis=1)

    theta, residuals, jacobian = levenberg_marquardt(model, start, lowest=lowest)
    covariance: Array = np.asarray(np.linalg.pinv(jacobian.T @ jacobian, rcond=1e-10), dtype=float)
    return _Solution(float(theta[0]), float(theta[1]), q, residuals, covariance)


def _spread(run: Run, target: int, q: float) -> Array:
    """Return half widths (log floor, log slope, log half-overhead batch) from fits within each process; zero if < 3."""
    samples: dict[int, dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    for item in run.rounds:
        for block in item.blocks:
            if block.target == target:
                samples[block.process][item.batch].append(block.step_ms)
    rich = [by_batch for by_batch in samples.values() if len(by_batch) >= MIN_BATCHES]
    if len(rich) < MIN_UNITS:
        return np.zeros(3)
    fits = []
    for by_batch in rich[:: -(-len(rich) // MAX_FITTED)]:
        batches = np.array(sorted(by_batch), dtype=float)
        medians = np.array([median(by_batch[int(b)]) for b in batches])
        fit = solve(batches, medians, q)
        fits.append((fit.log_floor, fit.log_slope, fit.log_floor - fit.log_slope))
    scatter = np.std(fits, axis=0, ddof=1) / math.sqrt(len(rich))
    return np.asarray(t_quantile(0.975, len(fits) - 1) * scatter)


def _as_fit(target: int, solution: _Solution, batches: Array, halves: Array) -> Fit:
    floor, slope, q = math.exp(solution.log_floor), math.exp(solution.log_slope), solution.q
    # slope·b is half of T(b) where (slope·b)^q · (2^q − 1) = floor^q
    half_batch = floor / slope / (2**q - 1) ** (1 / q)
    error = float(np.median(np.abs(np.expm1(solution.residuals))))
    knee_batches = (float(batches.min()) / 2, 2 * float(batches.max()))
    work = (slope * batches) ** q / (floor**q + (slope * batches) ** q)
    note = ""
    if error > TRUSTED_ERROR:
        note = f"The curve misses the measured step times by {percent(error)} at the median: read the share with care."
    elif work.max() < 0.5:
        note = "Most of the largest batch is fixed cost, so that a sample may cost less; measure larger batches."
    elif work.min() > 0.8:
        note = "Little of the smallest batch is fixed cost, which may be less; measure smaller batches."
    bounds = [_bounds(v, h) for v, h in zip((floor, slope, half_batch), halves, strict=True)]
    inside = knee_batches[0] <= half_batch <= knee_batches[1]
    return Fit(
        target=target,
        floor_ms=floor,
        floor_low_ms=bounds[0][0],
        floor_high_ms=bounds[0][1],
        slope_ms=slope,
        slope_low_ms=bounds[1][0],
        slope_high_ms=bounds[1][1],
        q=q,
        half_overhead_batch=half_batch if inside else None,
        half_overhead_low=bounds[2][0] if inside else None,
        half_overhead_high=bounds[2][1] if inside else None,
        median_error=error,
        trusted=not note,
        note=note,
    )


def _bounds(value: float, half: float) -> tuple[float | None, float | None]:
    if not np.isfinite(half) or half > math.log(WIDEST_FACTOR):
        return None, None
    return value * math.exp(-half), value * math.exp(half)

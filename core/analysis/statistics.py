"""Basic statistics on NumPy and the standard library; comments give the mathematics.

Intervals are two-sided. If the data cannot support one, its bounds are infinite, never invented.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from statistics import NormalDist
from typing import NamedTuple

import numpy as np

from core.analysis.numerics import Array, bisect

CONFIDENCE = 0.95
MIN_UNITS = 3  # fewer say nothing about the variation between units
ROUNDING = 1e-12  # relative to a sum of squares: a remainder below it after subtraction is rounding error
TRIM = 0.2  # each side; Tukey and McLaughlin 1963, Yuen 1974: the usual amount for heavy-tailed samples
FEWEST_FOR_TREND = 4  # fewest columns for fitting a trend of their variances
STEEPEST = 1.0  # limit of that trend's slope, in natural logarithms
_LARGE_DF = 200


@cache
def t_quantile(probability: float, df: int) -> float:
    """Return the quantile of Student's t with integer degrees of freedom ``df`` ≥ 1, for 0.5 ≤ probability < 1.

    The distribution function for integer df is a finite series (Abramowitz and Stegun 26.7.3, 26.7.4), inverted by
    bisection in θ = atan(t / √df), which is finite even if t is huge. Above 200 degrees of freedom an expansion is
    used: its error is below 1e-9 up to probability 0.9999 and below 2e-7 up to 1 − 1e-9.
    """
    if not 0.5 <= probability < 1 or df < 1:
        raise ValueError(f"t quantile asked at probability {probability} with {df} degrees of freedom")
    if df > _LARGE_DF:
        return _t_expansion(normal_quantile(probability), df)
    theta = bisect(lambda theta: 0.5 + 0.5 * _central_probability(theta, df) < probability, 0.0, math.pi / 2)
    return math.sqrt(df) * math.tan(theta)


def _t_expansion(z: float, df: int) -> float:
    """Compute Student's t from the normal quantile z: Cornish-Fisher to the fourth order (Abramowitz and Stegun
    26.7.5).
    """
    z2 = z * z
    terms = (
        (z2 + 1) / 4,
        ((5 * z2 + 16) * z2 + 3) / 96,
        (((3 * z2 + 19) * z2 + 17) * z2 - 15) / 384,
        ((((79 * z2 + 776) * z2 + 1482) * z2 - 1920) * z2 - 945) / 92160,
    )
    return z + sum(z * term / df**order for order, term in enumerate(terms, start=1))


def _central_probability(theta: float, df: int) -> float:
    """Compute P(|t| ≤ √df·tan θ)."""
    sine, cosine = math.sin(theta), math.cos(theta)
    odd = df % 2 == 1
    term, total = (cosine, 0.0) if odd else (1.0, 0.0)
    for k in range(1, df // 2 + 1):
        total += term
        term *= cosine**2 * ((2 * k) / (2 * k + 1) if odd else (2 * k - 1) / (2 * k))
    if odd:
        return (2 / math.pi) * (theta + sine * total)
    return sine * total


def normal_quantile(probability: float) -> float:
    """Return the quantile of the standard normal distribution."""
    return NormalDist().inv_cdf(probability)


@cache
def chi_square_quantile(probability: float, df: int) -> float:
    """Return the quantile of chi-square with ``df`` ≥ 1 degrees of freedom, for 0 < probability < 1.

    The distribution function is a series of positive terms (Abramowitz and Stegun 26.4.6); inverted by bisection.
    """

    def below(x: float) -> bool:
        term = total = 1.0
        k = df
        while term > ROUNDING * total:
            k += 2
            term *= x / k
            total += term
        log = df / 2 * math.log(x / 2) - x / 2 - math.lgamma(df / 2 + 1) if x > 0 else -math.inf
        return math.exp(log) * total < probability

    return bisect(below, 0.0, df + 20 * math.sqrt(df) + 20)


class Estimate(NamedTuple):
    """Location of each column, its standard error and that error's degrees of freedom (0: error unknown)."""

    center: Array
    error: Array
    df: Array

    def half_width(self, alpha: float) -> Array:
        """Return half the width of the 1 − alpha interval; infinite if there are no degrees of freedom."""
        width = np.full(self.center.shape, np.inf)
        for df in np.unique(self.df[self.df > 0]):
            at = self.df == df
            width[at] = _t_between(1 - alpha / 2, float(df)) * self.error[at]
        return width


def _t_between(probability: float, df: float) -> float:
    """Return the quantile of Student's t for fractional df ≥ 1, with its logarithm interpolated in 1 / df (to 1 %)."""
    whole = math.floor(df)
    if df == whole:
        return t_quantile(probability, whole)
    place = (1 / whole - 1 / df) * whole * (whole + 1)
    return t_quantile(probability, whole) ** (1 - place) * t_quantile(probability, whole + 1) ** place


def t_at(probability: Array | float, df: Array) -> Array:
    """Return quantiles of Student's t, each for its own probability and degrees of freedom.

    Degrees of freedom are rounded down to quarters; below one the quantile is infinite. Each distinct probability is
    computed once, so few distinct ones are fast.
    """
    quarters = np.floor(4 * np.minimum(df, _LARGE_DF)).astype(np.int64)
    present = [quarter for quarter in np.flatnonzero(np.bincount(quarters.ravel())).tolist() if quarter >= 4]
    same = np.size(probability) and np.min(probability) == np.max(probability)  # sorting would dominate the time
    levels = [float(np.max(probability))] if same else np.unique(probability).tolist()
    quantiles = np.full(df.shape, np.inf)
    for level in levels:
        table = np.full(4 * _LARGE_DF + 1, np.inf)
        table[present] = [_t_between(level, quarter / 4) for quarter in present]
        quantiles = table[quarters] if same else np.where(probability == level, table[quarters], quantiles)
    return quantiles


def estimate_columns(values: Array, trimmed: bool) -> Estimate:
    """Estimate the location of each column of ``values`` (units × columns, NaN: missing).

    Mean and s/√n; with ``trimmed``, the trimmed mean and Yuen's error s_w / ((1 − 2γ) √n) with h − 1 degrees of
    freedom, h the values left after trimming: heavy tails and stalls then neither shift nor inflate the estimate.
    """
    ordered = np.sort(values, axis=0)  # NaN sorts last
    counts = np.sum(~np.isnan(values), axis=0)
    center = np.full(counts.shape, np.nan)
    error = np.full(counts.shape, np.inf)
    df = np.zeros(counts.shape)
    for n in np.unique(counts[counts > 0]):
        at = counts == n
        cut = math.floor(TRIM * n) if trimmed and n >= 5 else 0
        kept = n - 2 * cut
        column = ordered[:n, at]
        center[at] = column[cut : n - cut].mean(axis=0)
        if kept >= 2:
            winsorised = np.clip(column, column[cut], column[n - cut - 1])
            error[at] = winsorised.std(axis=0, ddof=1) / ((kept / n) * math.sqrt(n))
            df[at] = kept - 1
    return Estimate(center, error, df)


def shared_scatter(values: Array) -> float:
    """Return the mean squared correlation r² between columns, over units that have both; 1 for a single column.

    The variances of m columns are worth those of m / (1 + (m − 1) r²) independent ones. The part expected by chance
    alone from n units, 1 / (n − 1), is removed.
    """
    known = (~np.isnan(values)).astype(float)
    # sums over the units that two columns share, as matrix products; centred first, to limit cancellation
    filled = np.nan_to_num(values)
    a = np.where(known > 0, filled - filled.sum(axis=0) / np.maximum(known.sum(axis=0), 1), 0.0)
    count, sums, own = known.T @ known, a.T @ known, (a * a).T @ known
    pairs = np.tril(count >= MIN_UNITS, -1)
    if not pairs.any():
        return 1.0
    n = count[pairs]
    cross = (a.T @ a)[pairs] - sums[pairs] * sums.T[pairs] / n
    spread = own - sums**2 / np.maximum(count, 1)
    spread[spread < ROUNDING * own] = 0.0
    scale = spread[pairs] * spread.T[pairs]
    squares = np.where(scale > 0, np.minimum(1.0, cross**2 / np.where(scale > 0, scale, 1.0)), 1.0)
    expected = float(np.mean(1 / (n - 1)))
    return max(0.0, (float(np.mean(squares)) - expected) / (1 - expected))


def pooled_variances(x: Array, variance: Array, df: Array) -> Array:
    """Return the variance of each column after pooling over all columns.

    Scatter falls or rises along ``x``: from four columns on, a line through the logarithms of the variances gives a
    trend, and the variances relative to it are pooled (as in limma's trended variances, Law et al. 2014).

    Args:
        x: position of each column.
        variance: variance of each column.
        df: degrees of freedom of each variance; zero if unknown.
    """
    known = (df > 0) & (variance > ROUNDING)
    slope, total = 0.0, float(df.sum())
    if known.sum() >= FEWEST_FOR_TREND:
        off = x[known] - np.average(x[known], weights=df[known])
        slope = float(np.sum(df[known] * off * np.log(variance[known])) / np.sum(df[known] * off**2))
    trend = np.exp(np.clip(slope, -STEEPEST, STEEPEST) * (x - x[:1].sum()))
    over = float(np.sum(df * variance / trend)) / total if total else 0.0
    return trend * over


def median_interval(samples: Array, confidence: float = CONFIDENCE) -> tuple[float, float]:
    """Return the distribution-free interval of the median from order statistics; infinite for n < 6 at 95 %.

    P(x_(k) ≤ median ≤ x_(n+1−k)) = 1 − 2·P(Binomial(n, ½) ≤ k − 1); the largest k that keeps the confidence is taken.
    """
    n = len(samples)
    tail, k = 0.0, 0
    for i in range(n // 2 + 1):  # in logarithms: the coefficients themselves have thousands of digits
        tail += math.exp(math.lgamma(n + 1) - math.lgamma(i + 1) - math.lgamma(n - i + 1) - n * math.log(2))
        if 2 * tail > 1 - confidence:
            break
        k = i + 1
    if k == 0:
        return -math.inf, math.inf
    ordered = np.sort(samples)
    return float(ordered[k - 1]), float(ordered[n - k])


def bounded_median(samples: Array) -> tuple[float, float | None, float | None]:
    """Return the median with its 95 % interval (:func:`median_interval`); bounds are None for too few samples."""
    low, high = median_interval(samples)
    known = math.isfinite(low)
    return float(np.median(samples)), low if known else None, high if known else None


MOST_UNITS = 60
"""No forecast is given beyond this many: a scatter estimated from a handful of units says little about so many."""
STEPS_S = (15, 30, 45, 60, 90, 120, 180, 240, 300, 450, 600, 900, 1200, 1800, 2700, 3600)


def units_for(deviation: float, wanted: float, *, df_a_unit: float = 1.0, statements: int = 1) -> int | None:
    """Return the least number of independent units that fix their mean to ± ``wanted`` (95 %), at most ``MOST_UNITS``.

    None if more are needed.

    Args:
        deviation: standard deviation of one unit.
        df_a_unit: degrees of freedom of that deviation gained per unit beyond the first, more than one if several
            batches share it.
        statements: number of statements that hold jointly.
    """
    level = 1 - (1 - CONFIDENCE) / (2 * statements)
    counts = range(MIN_UNITS, MOST_UNITS + 1)
    return next(
        (n for n in counts if t_quantile(level, int(df_a_unit * (n - 1))) * deviation / math.sqrt(n) <= wanted), None
    )


def round_time_s(enough: Callable[[float], bool]) -> float | None:
    """Return the shortest of :data:`STEPS_S` that is ``enough``; None if not even an hour is."""
    return next((float(step) for step in STEPS_S if enough(step)), None)


LEVEL = 0.001
MIN_SAMPLES = 20  # with fewer than ten in each band LEVEL cannot be reached
MIN_RATIO = 1.25  # modes closer to each other change no conclusion


@dataclass(frozen=True)
class TwoModes:
    """Median of the quicker and of the slower samples, the number of slower ones, and of all."""

    quick: float
    slow: float
    slower: int
    samples: int


def two_modes(samples: Sequence[float]) -> TwoModes | None:
    """Return the modes if there are two, else None; also None for fewer than ``MIN_SAMPLES`` positive samples."""
    times = np.sort(np.asarray(samples, dtype=float))
    count = len(times)
    if count < MIN_SAMPLES or times[-1] < MIN_RATIO * times[0]:
        return None
    split = _split(times)
    quick, slow = float(np.median(times[:split])), float(np.median(times[split:]))
    if slow < MIN_RATIO * quick:
        return None
    edge = (slow - quick) / 4
    lower, upper = (int(np.sum(np.abs(times - centre) <= edge)) for centre in (quick, slow))
    between = int(np.sum((times > quick + edge) & (times < slow - edge)))
    fewest = min(lower, upper)
    if _at_most(between, between + fewest) > LEVEL:
        return None
    return TwoModes(quick, slow, count - split, count)


def _at_most(few: int, count: int) -> float:
    """Return the probability of at most ``few`` heads in ``count`` tosses."""
    number = np.arange(1, few + 1)
    logs = np.r_[0.0, np.cumsum(np.log((count - number + 1) / number))]
    return math.exp(float(np.logaddexp.reduce(logs)) - count * math.log(2))


def _split(times: np.ndarray) -> int:
    """Return the number of sorted samples in the first of two clusters, by least squares within clusters."""
    below = np.arange(1, len(times))
    above = len(times) - below
    sums = np.cumsum(times)[:-1]
    apart = sums / below - (times.sum() - sums) / above
    return int(np.argmax(apart**2 * below * above)) + 1

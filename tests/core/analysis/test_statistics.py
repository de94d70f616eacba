"""Quantiles against published tables, intervals against their defining probabilities."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.analysis.statistics import estimate_columns, median_interval, t_quantile


@pytest.mark.parametrize(
    ("df", "value"),
    # Abramowitz and Stegun, table 26.10 (two-sided 95 %)
    [(1, 12.706), (2, 4.303), (3, 3.182), (4, 2.776), (5, 2.571), (10, 2.228), (30, 2.042), (120, 1.980)],
)
def test_t_quantile_agrees_with_the_table(df: int, value: float) -> None:
    assert t_quantile(0.975, df) == pytest.approx(value, abs=6e-4)


@pytest.mark.parametrize(
    ("df", "values"),
    # scipy 1.17, stats.t.isf(1 - p, df); 201 and more are beyond the switch to the expansion
    [
        (2, (0.8164965809277261, 4.302652729749462, 70.70007107496818, 22360.68005765849)),
        (30, (0.6827556933212927, 2.0422724563012378, 4.23398595727206, 8.445862807441596)),
        (200, (0.6757184114042201, 1.9718962236339088, 3.789120788747759, 6.286347432114155)),
        (201, (0.6757122888309558, 1.971836506779859, 3.7887662069769807, 6.284854119813135)),
        (250, (0.675472361397439, 1.9694983934211532, 3.7749127906181994, 6.226782265641518)),
        (1000, (0.6747351646070093, 1.9623390808264083, 3.7328516045753966, 6.0536902768005225)),
        (10000, (0.6745142844835927, 1.960201239890626, 3.7203958691176684, 6.003355452553619)),
    ],
)
def test_t_quantile_is_as_exact_as_it_says(df: int, values: tuple[float, ...]) -> None:
    for probability, value in zip((0.75, 0.975, 0.9999), values, strict=False):
        assert t_quantile(probability, df) == pytest.approx(value, abs=1e-9)
    assert t_quantile(1 - 1e-9, df) == pytest.approx(values[3], abs=2e-7 if df > 2 else 1e-3)
    assert t_quantile(0.5, df) == pytest.approx(0.0, abs=1e-9)


@given(st.integers(1, 60), st.floats(0.6, 0.999))
def test_t_quantile_shrinks_with_df_and_grows_with_probability(df: int, probability: float) -> None:
    assert t_quantile(probability, df) >= t_quantile(probability, df + 1)
    assert t_quantile(probability, df) > t_quantile(probability - 0.05, df)


def test_median_interval_is_infinite_below_six_samples() -> None:
    for n in range(6):
        assert median_interval(np.arange(float(n))) == (-math.inf, math.inf)
    assert median_interval(np.arange(6.0)) == (0.0, 5.0)


@pytest.mark.parametrize("n", [6, 9, 20, 51])
def test_median_interval_has_the_smallest_sufficient_coverage(n: int) -> None:
    low, _ = median_interval(np.arange(float(n)))
    k = int(low) + 1

    def coverage(rank: int) -> float:
        return 1 - 2 * sum(math.comb(n, i) for i in range(rank)) / 2**n

    assert coverage(k) >= 0.95
    assert coverage(k + 1) < 0.95


def test_plain_columns_are_mean_and_standard_error_which_one_value_has_not() -> None:
    values = np.array([[1.0, 4.0], [2.0, np.nan], [6.0, 8.0]])
    found = estimate_columns(values, trimmed=False)
    assert found.center == pytest.approx([3.0, 6.0])
    assert found.error == pytest.approx([np.std([1, 2, 6], ddof=1) / 3**0.5, np.std([4, 8], ddof=1) / 2**0.5])
    assert list(found.df) == [2, 1]
    found = estimate_columns(np.array([[5.0]]), trimmed=True)
    assert found.half_width(0.05)[0] == math.inf


def test_trimming_shrugs_off_a_stall_and_covers_as_often_as_it_says() -> None:
    rng = np.random.default_rng(1)
    calm = rng.normal(0, 1, (20, 1))
    stalled = calm.copy()
    stalled[3] = 1000.0
    assert abs(estimate_columns(stalled, True).center[0] - estimate_columns(calm, True).center[0]) < 0.5
    assert estimate_columns(stalled, True).error[0] < 2 * estimate_columns(calm, True).error[0]
    rng = np.random.default_rng(2)
    samples = rng.standard_t(3, (12, 4000))
    found = estimate_columns(samples, trimmed=True)
    covered = np.abs(found.center) <= found.half_width(0.05)
    assert 0.935 <= covered.mean() <= 0.97

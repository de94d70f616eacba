"""Input-bound share of a step, and the preprocessing cost from which it shows that a device starves."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Literal

from core.base.numbers import percent, rounded

MODERATE, HIGH = 0.05, 0.20
"""Shares of a step from which xprof calls it moderately and highly input-bound
(``kModeratelyInfeedBoundThresholdInPercent`` and ``kHighly…`` in op_stats_to_input_pipeline_analysis.cc)."""

Level = Literal["unknown", "none", "low", "moderate", "high"]
LEVELS: dict[Level, str] = {
    "unknown": "not clear",
    "none": "none beyond noise",
    "low": "not input-bound",
    "moderate": "moderately input-bound",
    "high": "highly input-bound",
}


@dataclass(frozen=True)
class Share:
    """Input-bound share of a step (0 to 1) with its 95 % interval; bounds are None if rounds are too few.

    ``value`` and bounds may be negative if an arm is faster than resident data; :meth:`shown` is the form to display.
    """

    value: float
    low: float | None
    high: float | None

    @property
    def level(self) -> Level:
        if self.low is None or self.high is None:
            return "unknown"
        if self.low <= 0:
            return "none"
        return "low" if self.value < MODERATE else "moderate" if self.value < HIGH else "high"

    @property
    def settled(self) -> bool:
        """Tell whether more than 5 % of the step is ruled out."""
        return self.high is not None and self.high <= MODERATE

    @property
    def is_clear(self) -> bool:
        """Tell whether the interval lies on one side of 5 % of a step."""
        return self.low is not None and self.high is not None and (self.high <= MODERATE or self.low > MODERATE)

    @property
    def at_most(self) -> str:
        """Upper end of the interval: ``4 %``."""
        return "unknown" if self.high is None else percent(max(0.0, self.high))

    @property
    def starves(self) -> bool:
        """Tell whether clearly (95 %) more than 5 % of the step is input."""
        return self.low is not None and self.low > MODERATE

    @property
    def shown(self) -> tuple[float, float | None, float | None]:
        """Value and bounds clipped to 0 to 1."""
        low, high = (None if bound is None else max(0.0, bound) for bound in (self.low, self.high))
        return max(0.0, self.value), low, high

    @property
    def words(self) -> str:
        """``34 % (95 %: 30 to 38 %)``; no number without an interval."""
        value, low, high = self.shown
        if low is None or high is None:
            return "not clear (too few rounds for an interval)"
        return f"{percent(value)} (95 %: {100 * low:.0f} to {100 * high:.0f} %)"


@dataclass(frozen=True)
class Starvation:
    """Preprocessing cost (µs per sample) from which the input-bound share exceeds 5 % beyond its interval.

    ``from``: between ``low_us`` (does not starve) and ``high_us`` (starves), at about ``cost_us``. ``always``: already
    at the smallest measured cost. ``never``: not up to ``high_us``. ``unknown``: no intervals to judge by.
    """

    kind: Literal["from", "always", "never", "unknown"]
    cost_us: float | None
    low_us: float | None
    high_us: float | None
    sentence: str


def starvation(points: Sequence[tuple[float, Share]]) -> Starvation:
    """Locate where the device starves, from (cost in µs per sample, share) by rising cost, at least one.

    The cost is interpolated in its logarithm between the last one that does not starve and the first from which on all
    do; linearly from a cost of 0, which has no logarithm.
    """
    first, last = points[0][0], points[-1][0]
    if all(share.low is None for _, share in points):
        words = "Too few rounds to say from which preprocessing cost on the device starves; give it more time."
        return Starvation("unknown", None, None, None, words)
    starving = len(list(takewhile(lambda point: point[1].starves, reversed(points))))
    if starving == 0:
        words = f"The device does not clearly starve (95 %) at any cost measured, up to {rounded(last)} µs per sample."
        return Starvation("never", None, None, last, words)
    if starving == len(points):
        at = f"{rounded(first)} µs of preprocessing per sample"
        words = f"The device starves at the smallest cost measured already, {at}."
        return Starvation("always", None, None, first, words)
    (low_us, low), (high_us, high) = points[-starving - 1], points[-starving]
    cost_us = _between(low_us, high_us, low.value, high.value)
    words = (
        f"The device starves from about {rounded(cost_us)} µs of preprocessing per sample on "
        f"(measured: not clear at {rounded(low_us)} µs, clear at {rounded(high_us)} µs)."
    )
    return Starvation("from", cost_us, low_us, high_us, words)


def _between(low_us: float, high_us: float, low: float, high: float) -> float:
    """Return the cost at which the share passes 5 %; the lower end if its own value is above (but not clearly)."""
    if low >= MODERATE:
        return low_us
    part = (MODERATE - low) / (high - low)
    if low_us <= 0:
        return part * high_us
    return math.exp(math.log(low_us) + part * math.log(high_us / low_us))

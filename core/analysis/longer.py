"""Planning of further measurement: units needed for a narrower interval, and a time in round numbers. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable

from core.analysis.statistics import CONFIDENCE, MIN_UNITS, t_quantile

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

"""How much longer to measure: how many units a narrower interval takes, and a time in round numbers. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable

from core.analysis.statistics import CONFIDENCE, MIN_UNITS, t_quantile

MOST_UNITS = 60
"""Beyond them nothing is promised: a scatter known from a handful of units says little about so many."""
STEPS_S = (15, 30, 45, 60, 90, 120, 180, 240, 300, 450, 600, 900, 1200, 1800, 2700, 3600)


def units_for(deviation: float, wanted: float, *, df_a_unit: float = 1.0, statements: int = 1) -> int | None:
    """The least number of independent units whose mean is known to ± ``wanted`` (95 %), None beyond ``MOST_UNITS``.

    ``deviation`` is the standard deviation of one unit. ``df_a_unit``: degrees of freedom of that deviation that each
    unit beyond the first brings, more than one where several batches share it. ``statements``: how many hold together.
    """
    level = 1 - (1 - CONFIDENCE) / (2 * statements)
    counts = range(MIN_UNITS, MOST_UNITS + 1)
    return next(
        (n for n in counts if t_quantile(level, int(df_a_unit * (n - 1))) * deviation / math.sqrt(n) <= wanted), None
    )


def round_time_s(enough: Callable[[float], bool]) -> float | None:
    """The shortest of :data:`STEPS_S` that is ``enough``; None where not even an hour is."""
    return next((float(step) for step in STEPS_S if enough(step)), None)

"""Smallest difference between two targets that a run can resolve, from the intervals behind its verdict. Pure."""

from __future__ import annotations

import math

from core.studies.sweep.crossover import build_curve
from core.studies.sweep.observations import observe
from core.studies.sweep.record import Run


def half_widths(run: Run) -> dict[int, float]:
    """Return half of the 95 % interval of the log-ratio of the first two targets by batch; infinite without one."""
    seen = observe(run)
    if len(seen.batches) == 0:
        return {}
    at = build_curve(seen).at_batches()
    halves = [half if math.isfinite(half) else math.inf for half in ((at.high - at.low) / 2).tolist()]
    return {round(batch): half for batch, half in zip(seen.batches.tolist(), halves, strict=True)}


def shown_from(run: Run) -> float | None:
    """Return the difference (0.05 is 5 %) that half of the batches can resolve; None without intervals."""
    seen = observe(run)
    return build_curve(seen).shows_from if len(seen.batches) else None

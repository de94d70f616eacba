"""How small a difference of two targets a run shows, from the same intervals that its verdict rests on. Pure."""

from __future__ import annotations

import math

from core.studies.sweep.crossover import build_curve
from core.studies.sweep.observations import observe
from core.studies.sweep.record import Run


def half_widths(run: Run) -> dict[int, float]:
    """Return half of the 95 % interval of the log-ratio by batch; infinite where there is none."""
    seen = observe(run)
    if len(seen.batches) == 0:
        return {}
    at = build_curve(seen).at_batches()
    halves = (at.high - at.low) / 2
    return {
        round(b): float(half) if math.isfinite(half) else math.inf for b, half in zip(seen.batches, halves, strict=True)
    }

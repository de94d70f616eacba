"""Share of the all-reduce in a step, from traces, and a bound on the gain from fewer of them.

It may overlap with the arithmetic, and then costs the step less than its own time. So a traced share is an upper bound
on the saving, as is the whole cost of working together, which is measured.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from core.analysis.statistics import CONFIDENCE, estimate_columns
from core.studies.scaling.record import ScalingStudy

EVERY = 4
"""Steps of accumulation in the text: one all-reduce in four leaves a quarter of its time."""


@dataclass(frozen=True)
class AllReduce:
    """Share of a step at a global batch, the mean of the traced steps, with its 95 % interval over them."""

    batch: int
    a_replica: int
    value: float
    low: float
    high: float

    def most_gained(self, together: float | None, every: int = EVERY) -> float:
        """Return the largest possible speed-up with one all-reduce per ``every`` steps, predicted.

        ``together`` is the largest share of a step that working together costs, if known.
        """
        saved = self.high if together is None else min(self.high, max(0.0, together))
        return 1 / (1 - saved * (1 - 1 / every))


def all_reduces(study: ScalingStudy, target: int) -> tuple[AllReduce, ...]:
    """Return the shares of a target of several devices, by rising batch, from trusted traces that contain them."""
    replicas = study.plan.targets[target].replicas
    cells = (cell for cell in sorted(study.traces, key=lambda cell: cell.batch) if cell.target == target)
    found = ((cell.batch, _mean(cell.device.all_reduce_shares)) for cell in cells if cell.trusted)
    return tuple(AllReduce(batch, batch // replicas, *mean) for batch, mean in found if mean is not None)


def _mean(shares: tuple[float, ...]) -> tuple[float, float, float] | None:
    """Return the mean with its interval, clipped to 0 and 1; None for too few."""
    if not shares:
        return None
    estimate = estimate_columns(np.array(shares)[:, None], trimmed=False)
    middle, half = float(estimate.center[0]), float(estimate.half_width(1 - CONFIDENCE)[0])
    return (middle, max(0.0, middle - half), min(1.0, middle + half)) if math.isfinite(half) else None

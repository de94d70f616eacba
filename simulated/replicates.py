"""Tables of replicates without their rounds."""

from __future__ import annotations

import numpy as np

from core.analysis.statistics import Array
from core.rounds.answer.observations import Observations


def observed(batches: Array, values: Array, looks: int = 1, rounds: int = 8) -> Observations:
    """Return the observations of ``values`` [replicate, batch] (NaN: none), each the median of that many rounds."""
    return Observations(
        batches=np.asarray(batches, dtype=float),
        values=values,
        picture=np.nanmedian(values, axis=0),
        rounds=np.where(np.isnan(values), 0.0, float(rounds)),
        median_error=np.zeros(len(batches)),
        looks=looks,
    )

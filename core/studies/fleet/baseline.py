"""Unpaired comparison of each machine with the baseline machine: where it is faster, and crossovers with intervals."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from core.analysis.statistics import Array
from core.studies.fleet.unpaired import Ratio, Times, ratio
from core.studies.sweep.answer import Against, Crossover, Kind, SpeedUp, Verdict
from core.studies.sweep.crossover import Crossing, Curve, curve_of, find_crossings
from core.studies.sweep.observations import ALPHA


def against_baseline(times: Times, baseline: int, margin: float, names: Sequence[str]) -> list[Against | None]:
    """Return the comparison of each machine; None for the baseline and for machines that share no batch with it.

    Each comparison holds by itself, as that of two targets; the bands of the fastest hold simultaneously.
    """
    found = ratio(times.of([baseline]), times)
    at = found.at(times.measured)
    half, sure = at.half_width(ALPHA), at.scatter(2 * ALPHA)
    # A change of lead must show both sides, at least at this level: only such curves need be computed
    may_cross = np.any(at.center > sure, axis=1) & np.any(at.center < -sure, axis=1)
    curves = _Curves(times, found) if may_cross.any() else None
    answers: list[Against | None] = []
    for machine, name in enumerate(names):
        known = ~np.isnan(at.center[machine])
        if machine == baseline or not known.any():
            answers.append(None)
            continue
        crossings = find_crossings(curves.of(machine)) if curves is not None and may_cross[machine] else ()
        pair = (names[baseline], name)
        verdict = _verdict(pair, at.center[machine][known], half[machine][known], crossings, margin)
        batches = [batch for batch, has in zip(times.batches, known.tolist(), strict=True) if has]
        answers.append(Against(machine, verdict, _speed_ups(batches, at.center[machine][known], half[machine][known])))
    return answers


class _Curves:
    """Curves of each machine against the baseline, as for two targets, with shared work done once."""

    def __init__(self, times: Times, found: Ratio) -> None:
        self._times, self._center = times, found.center
        self._found = found
        self._levels: dict[float, Array] = {}

    def of(self, machine: int) -> Curve:
        """Return the curve over the batches that both machines have."""
        has = ~np.isnan(self._center[machine])
        x, center, measured = self._times.x[has], self._center[machine][has], self._times.measured[has]
        return curve_of(x, center, lambda alpha: self._half_width(alpha)[machine][has], measured)

    def _half_width(self, alpha: float) -> Array:
        if alpha not in self._levels:
            self._levels[alpha] = self._found.half_width(alpha)
        return self._levels[alpha]


def _verdict(
    pair: tuple[str, str], center: Array, half: Array, crossings: tuple[Crossing, ...], margin: float
) -> Verdict:
    low, high = center - half, center + half
    signs = np.where(low > 0, 1, np.where(high < 0, -1, 0))
    known = bool(np.isfinite(half).any())
    level = (low >= -math.log1p(margin)) & (high <= math.log1p(margin))
    kind: Kind = "inconclusive"
    ahead = None
    if crossings:
        kind = "crossover"
    elif (signs == signs[0]).all() and signs[0]:
        kind, ahead = "ahead", pair[int(signs[0] > 0)]
    elif level.all():
        kind = "tie"
    return Verdict(
        kind=kind, targets=pair, reason=f"unpaired_{kind}" if known else "unpaired_no_interval", sentence="",
        ahead=ahead, crossovers=tuple(Crossover(*c.batches, pair[int(c.rising)]) for c in crossings),
    )  # fmt: skip


def _speed_ups(batches: Sequence[int], center: Array, half: Array) -> tuple[SpeedUp, ...]:
    sure = np.isfinite(half)
    middle, low, high = np.exp(center), np.exp(center - half), np.exp(center + half)
    return tuple(
        SpeedUp(batch, float(middle[i]), float(low[i]) if sure[i] else None, float(high[i]) if sure[i] else None)
        for i, batch in enumerate(batches)
    )

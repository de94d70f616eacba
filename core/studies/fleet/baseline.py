"""Each machine against the baseline machine: where it is faster, crossovers with their intervals. Unpaired."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import fields

import numpy as np

from core.analysis.statistics import Array
from core.studies.fleet.unpaired import Ratio, Times, ratio
from core.studies.sweep.answer import Against, Crossover, Kind, SpeedUp, Verdict
from core.studies.sweep.candidates import Flags
from core.studies.sweep.crossover import ALPHA, SURE_ALPHA, Crossing, Curve, Segment, established_by, find_crossings


def against_baseline(times: Times, baseline: int, margin: float, names: Sequence[str]) -> list[Against | None]:
    """By machine; None for the baseline and where a machine shares no batch with it.

    Each comparison holds by itself, as that of two targets; the bands of the fastest hold together.
    """
    found = ratio(times.of([baseline]), times)
    at = _columns(found, times.measured)
    half, sure = at.half_width(ALPHA), at.scatter(2 * ALPHA)
    # A change of lead needs both sides to be shown, at the least of these levels: only such curves are worth drawing
    may_cross = np.any(at.center > sure, axis=1) & np.any(at.center < -sure, axis=1)
    crossing = set(np.flatnonzero(may_cross).tolist())
    whole = found.half_width(ALPHA) if crossing else half
    answers: list[Against | None] = []
    for machine, name in enumerate(names):
        known = ~np.isnan(at.center[machine])
        if machine == baseline or not known.any():
            answers.append(None)
            continue
        crossings: tuple[Crossing, ...] = ()
        if machine in crossing:
            crossings = find_crossings(_curve(times, _row(found, machine), whole[machine]))
        pair = (names[baseline], name)
        verdict = _verdict(pair, at.center[machine][known], half[machine][known], crossings, margin)
        batches = [batch for batch, has in zip(times.batches, known.tolist(), strict=True) if has]
        answers.append(Against(machine, verdict, _speed_ups(batches, at.center[machine][known], half[machine][known])))
    return answers


def _columns(found: Ratio, measured: Flags) -> Ratio:
    return Ratio(*(getattr(found, field.name)[:, measured] for field in fields(found)))


def _row(found: Ratio, machine: int) -> Ratio:
    return Ratio(*(getattr(found, field.name)[machine] for field in fields(found)))


def _curve(times: Times, found: Ratio, half: Array) -> Curve:
    """As that of two targets, over the batches that both machines have."""
    has = ~np.isnan(found.center)
    center, measured = found.center[has], times.measured[has]
    at = Ratio(*(getattr(found, field.name)[has][measured] for field in fields(found)))

    def margin(segment: Segment, alpha: float) -> float:
        """The batches of a segment are tested one by one, at the level divided by their number (Bonferroni)."""
        part = Ratio(*(getattr(at, field.name)[segment.start : segment.stop] for field in fields(at)))
        by = segment.sign * part.center / np.maximum(part.scatter(alpha / len(part.center)), 1e-12)
        return float(by.max()) - 1.0

    established, shown = np.zeros(len(center)), np.zeros(len(center))
    established[measured] = established_by(at.center, margin)
    sure = np.abs(center) > Ratio(*(getattr(found, f.name)[has] for f in fields(found))).scatter(SURE_ALPHA)
    shown = np.where(sure, np.sign(center), 0.0)
    return Curve(
        times.x[has], center, center - half[has], center + half[has], established, shown, measured.astype(float)
    )


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

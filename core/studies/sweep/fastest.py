"""The fastest of several targets at every batch: bands, and boundaries with simultaneous intervals.

:mod:`core.studies.sweep.candidates` gives the candidate sets at each batch; here they become bands. A band of several
targets is kept if it holds a measured batch, unless its neighbours share no target: then it is the interval of the
boundary between them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations, pairwise

import numpy as np

from core.analysis.numerics import HUGE, rising_zeros, runs
from core.studies.sweep.answer import Band, Boundary, Fastest
from core.studies.sweep.candidates import Contest, Race, Sets, confident, members
from core.studies.sweep.crossover import STEPS, between_batches, smooth
from core.studies.sweep.observations import Observations, observe
from core.studies.sweep.record import Run

DEFAULT_MARGIN = 0.05


def margin_of(run: Run, margin: float | None) -> float:
    """Return the given margin, else the plan's, else 0.05."""
    if margin is not None:
        return margin
    return run.plan.margin if run.plan is not None else DEFAULT_MARGIN


def fastest(run: Run, margin: float | None = None) -> Fastest:
    """Return bands and boundaries over the batches that at least two targets share; none without such a batch.

    Raises UserError if the run has more rounds than any sweep makes.
    """
    return find_fastest(tables_of(run), len(run.target_names), margin_of(run, margin), failed_from(run))


def tables_of(run: Run) -> dict[tuple[int, int], Observations]:
    """Return the observations of every pair of targets. Raises UserError as :func:`observe` does."""
    return {pair: observe(run, *pair) for pair in combinations(range(len(run.target_names)), 2)}


def failed_from(run: Run) -> dict[int, int]:
    """Return the smallest batch at which a target failed, for each target that failed above all batches with rounds."""
    largest: dict[int, int] = {}
    for item in run.rounds:
        for block in item.blocks:
            largest[block.target] = max(largest.get(block.target, 0), item.batch)
    found: dict[int, int] = {}
    for cell in run.cells:
        if cell.outcome not in ("measured", "pending", "skipped") and cell.batch > largest.get(cell.target, 0):
            found[cell.target] = min(cell.batch, found.get(cell.target, cell.batch))
    return found


def find_fastest(
    pairs: dict[tuple[int, int], Observations], count: int, margin: float, failed: dict[int, int] | None = None
) -> Fastest:
    """Return bands and boundaries from the tables of all pairs of ``count`` targets; ``failed`` maps targets to the
    batch from which they failed.
    """
    known = {pair: table for pair, table in pairs.items() if len(table.batches)}
    if not known:
        return Fastest((), ())
    x = between_batches(np.log2(np.unique(np.concatenate([table.batches for table in known.values()]))))
    first_out = [math.log2((failed or {}).get(target, math.inf)) for target in range(count)]
    race = Race(x, count, {pair: smooth(table) for pair, table in known.items()}, x >= np.array(first_out)[:, None])
    return bands_of(race, margin)


def bands_of(race: Contest, margin: float) -> Fastest:
    """Return bands and boundaries; ``margin`` defines a tie."""
    if not race.has_interval:
        return replace(_answer(race, _stretches(race.leaders()), None, margin), has_interval=False)
    sets, alpha = confident(race)
    return _answer(race, _reduced(_stretches(sets)), alpha, margin)


@dataclass(frozen=True)
class _Stretch:
    """Stretch of grid points ``first`` to ``last`` (inclusive) with the same set."""

    first: int
    last: int
    bits: int

    @property
    def is_single(self) -> bool:
        return self.bits & (self.bits - 1) == 0

    def joined(self, other: _Stretch) -> _Stretch:
        return _Stretch(min(self.first, other.first), max(self.last, other.last), self.bits | other.bits)


def _stretches(sets: Sets) -> list[_Stretch]:
    """Return the stretches of the same set that hold a measured batch."""
    found: list[_Stretch] = []
    for start, stop in runs(sets):
        stretch = _Stretch(start, stop - 1, int(sets[start]))
        if -(-start // STEPS) * STEPS >= stop:
            continue
        if found and found[-1].bits == stretch.bits:
            stretch = found.pop().joined(stretch)
        found.append(stretch)
    return found


def _reduced(stretches: list[_Stretch]) -> list[_Stretch]:
    """Drop stretches of several targets that are only transitions between two bands.

    A stretch that shares targets with both its neighbours, which share none, lies in the interval of the boundary
    between them. Of two neighbouring stretches of several targets, one a subset of the other, the larger set replaces
    both.
    """
    while True:
        over = next((i for i in range(1, len(stretches) - 1) if _leads_over(*stretches[i - 1 : i + 2])), None)
        if over is not None:
            stretches = [*stretches[:over], *stretches[over + 1 :]]
            continue
        nested = next((i for i in range(len(stretches) - 1) if _nested(*stretches[i : i + 2])), None)
        if nested is None:
            return stretches
        joined = stretches[nested].joined(stretches[nested + 1])
        stretches = [*stretches[:nested], joined, *stretches[nested + 2 :]]


def _leads_over(before: _Stretch, here: _Stretch, after: _Stretch) -> bool:
    apart = before.bits & after.bits == 0
    return apart and not here.is_single and here.bits & before.bits > 0 and here.bits & after.bits > 0


def _nested(here: _Stretch, after: _Stretch) -> bool:
    return not here.is_single and not after.is_single and here.bits | after.bits in (here.bits, after.bits)


def _answer(race: Contest, stretches: Sequence[_Stretch], alpha: float | None, margin: float) -> Fastest:
    """Turn stretches into bands and boundaries; ``alpha`` is the level of the tests behind them, None without
    intervals.
    """
    boundaries = tuple(_boundary(race, before, after, alpha) for before, after in pairwise(stretches))
    edges = [2.0 ** race.x[0], *(boundary.batch for boundary in boundaries), 2.0 ** race.x[-1]]
    bands = tuple(
        Band(float(start), float(stop), members(stretch.bits), _is_level(race, stretch, alpha, margin))
        for stretch, (start, stop) in zip(stretches, pairwise(edges), strict=True)
    )
    return Fastest(bands, boundaries)


def _is_level(race: Contest, stretch: _Stretch, alpha: float | None, margin: float) -> bool:
    """Tell whether all targets of a stretch are shown to be within ``margin`` at each of its measured batches."""
    if stretch.is_single or alpha is None:
        return False
    at = [i for i in range(stretch.first, stretch.last + 1) if i % STEPS == 0]
    return race.is_level(members(stretch.bits), at, alpha, margin)


def _boundary(race: Contest, before: _Stretch, after: _Stretch, alpha: float | None) -> Boundary:
    old, new = members(before.bits), members(after.bits)
    low, high = float(race.x[before.last]), float(race.x[after.first])
    if before.bits & after.bits:
        place = low if before.is_single else high if after.is_single else (low + high) / 2
        return Boundary(2.0**place, None, None, old, new)
    part = slice(before.last, after.first + 1)
    changes = rising_zeros(race.x[part], race.gain(old, new, part))
    place = changes[len(changes) // 2] if changes else (low + high) / 2
    if alpha is None:
        return Boundary(2.0**place, None, None, old, new)
    low = min(place, _end(race, before.bits, before.last, before.last + 1, alpha))
    high = max(place, _end(race, after.bits, after.first, after.first - 1, alpha))
    return Boundary(2.0**place, 2.0**low, 2.0**high, old, new)


def _end(race: Contest, bits: int, inside: int, outside: int, alpha: float) -> float:
    """Return where, between two points, the fastest is no longer shown to be in the set."""
    a, b = np.clip(race.margin(bits, alpha, (inside, outside)), -HUGE, HUGE)
    x = race.x
    return float(x[inside] + (x[outside] - x[inside]) * (a / (a - b))) if a > 0 >= b else float(x[inside])

"""Kinds of true step times of several targets, rounds simulated from them, and the check of an answer against them.

An answer is right if every statement holds: a band's single target is the fastest at all batches of the band outside
the intervals of its boundaries, a band of several includes the fastest, and each interval contains the change.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from itertools import combinations, pairwise

import numpy as np

from core.analysis.statistics import Array
from core.rounds.answer.answer import Fastest
from core.rounds.answer.observations import Observations
from simulated.replicates import observed
from simulated.simulation import Curve, NoiseModel

GRID = tuple(2**i for i in range(11))
PROCESSES, ROUNDS = (4, 5, 6, 8), (8,)
UNEVEN_PROCESSES, UNEVEN_ROUNDS = (3, 4, 5, 6), (2, 4, 8)  # typical of sweeps of one to three minutes
POINTS = np.geomspace(GRID[0], GRID[-1], 4001)
Curves = tuple[Curve, ...]
NOISE = NoiseModel()


def _ladder(changes: Iterable[float], factor: float) -> Curves:
    """Return targets whose slopes fall by the factor, each of which overtakes the one before at the next change."""
    found = [Curve(0.3, 0.03)]
    for change in changes:
        last = found[-1]
        slope = last.slope_ms / factor
        # equal at the change: floor² + (slope·b)² of both
        found.append(Curve(math.sqrt(last.floor_ms**2 + (last.slope_ms**2 - slope**2) * change**2), slope))
    return tuple(found)


def _apart(rng: np.random.Generator, count: int) -> Curves:
    """Return targets that are each the fastest somewhere, with changes far apart."""
    changes = np.geomspace(4, 400, count - 1) * np.exp(rng.uniform(-0.2, 0.2, count - 1))
    return _ladder(changes.tolist(), 2.5 if count == 3 else 1.8)


def _close(rng: np.random.Generator, count: int) -> Curves:
    """Return targets with two changes within an octave; further targets are slower by a third."""
    first = rng.uniform(12, 40)
    band = _ladder((first, first * rng.uniform(1.3, 1.9)), 1.8)
    return band + tuple(_slower(band[-1], 1.3 + 0.1 * i) for i in range(count - 3))


def _slower(curve: Curve, factor: float) -> Curve:
    return Curve(curve.floor_ms * factor, curve.slope_ms * factor)


def _near_ties(rng: np.random.Generator, count: int) -> Curves:
    """Return targets with one change, to targets each 1 % slower than the one before."""
    base, new = _ladder((rng.uniform(8, 100),), 2.5)
    return (base, *(_slower(new, 1.01**i) for i in range(count - 1)))


def _slower_throughout(rng: np.random.Generator, count: int) -> Curves:
    """Return targets with one change; all others are 10 % or more slower than one of these two at every batch."""
    pair = _ladder((rng.uniform(8, 100),), 2.5)
    return pair + tuple(_slower(pair[i % 2], 1.1 + 0.1 * i) for i in range(count - 2))


def _equal(_: np.random.Generator, count: int) -> Curves:
    """Return equal targets, of which every claim is wrong."""
    return (Curve(0.5, 0.01),) * count


def _equal_after(rng: np.random.Generator, count: int) -> Curves:
    """Return targets with one change, to targets that are equal."""
    first, second = _ladder((rng.uniform(8, 100),), 2.5)
    return (first, *(second,) * (count - 1))


def _ahead(_: np.random.Generator, count: int) -> Curves:
    """Return targets of which one is far ahead throughout, so that little can be wrong."""
    return tuple(Curve(0.5 * 1.3**i, 0.01 * 1.3**i) for i in range(count))


def _random(rng: np.random.Generator, count: int) -> Curves:
    """Return targets with independently drawn floors and slopes, as on unlike machines."""
    return tuple(Curve(*np.exp(rng.normal(np.log((0.6, 0.006)), 0.6)).tolist()) for _ in range(count))


TRUTHS: dict[str, Callable[[np.random.Generator, int], Curves]] = {
    "changes far apart": _apart,
    "changes close together": _close,
    "near ties of 1 %": _near_ties,
    "others slower throughout": _slower_throughout,
    "unlike machines": _random,
    "one change, then equal": _equal_after,
    "all equal": _equal,
    "one far ahead": _ahead,
}


def true_fastest(curves: Curves, batches: Array) -> Array:
    """Return a boolean array [target, batch] of the targets with the shortest step; several only if they are equal."""
    times = np.array([(c.floor_ms**c.q + (c.slope_ms * batches) ** c.q) ** (1 / c.q) for c in curves])
    return np.asarray(times <= times.min(axis=0) * (1 + 1e-12))


def true_changes(curves: Curves) -> tuple[float, ...]:
    """Return the batches at which the fastest target changes, in rising order."""
    best = true_fastest(curves, POINTS)
    return tuple(POINTS[1:][(best[:, 1:] != best[:, :-1]).any(axis=0)].tolist())


def _refined(changes: tuple[float, ...]) -> list[int]:
    batches = set(GRID)
    for change in (*changes, *changes):
        below, above = max(b for b in batches if b <= change), min(b for b in batches if b > change)
        batches.add(round(math.sqrt(below * above)))
    return sorted(batches)


def simulated(
    curves: Curves, rng: np.random.Generator, uneven: bool = False, noise: NoiseModel = NOISE
) -> dict[tuple[int, int], Observations]:
    """Simulate rounds and return the tables of every pair.

    The rounds have offsets of each process and its cells, heavy tails, drift and stalls. The bracket of each change is
    halved twice, as in a sweep, with batches that the first process lacks. ``uneven``: fewer processes, and two to
    eight rounds per cell.
    """
    in_cell = UNEVEN_ROUNDS if uneven else ROUNDS
    batches, count = np.array(_refined(true_changes(curves)), dtype=float), len(curves)
    processes = int(rng.choice(UNEVEN_PROCESSES if uneven else PROCESSES))
    shape = (processes, len(batches), max(in_cell), count)
    logs = np.log([[curve.step_ms(b) for curve in curves] for b in batches])[None, :, None]
    logs = logs + rng.normal(0, noise.process, (processes, 1, 1, count))
    logs = logs + rng.normal(0, noise.cell, (processes, len(batches), 1, count))
    logs = logs + noise.tail * rng.standard_t(3, shape) + rng.normal(0, noise.own_drift, shape)
    stalled = rng.random(shape) < noise.stall_share
    logs = logs + np.where(stalled, np.log1p(rng.random(shape) * (noise.stall_factor - 1)), 0.0)
    late, rounds = ~np.isin(batches, GRID), rng.choice(in_cell, shape[:2])
    found = {}
    for first, second in combinations(range(count), 2):
        ratios = logs[..., first] - logs[..., second]
        values = np.choose(np.searchsorted(in_cell, rounds), [np.median(ratios[..., :n], axis=2) for n in in_cell])
        values[0, late] = np.nan
        found[first, second] = observed(batches, values)
    return found


def wrong(found: Fastest, curves: Curves) -> tuple[str, ...]:
    """Return each statement of an answer that does not hold, in words."""
    said = []
    edges = [(None, None), *((b.low, b.high) for b in found.boundaries), (None, None)]
    for band, (before, after) in zip(found.bands, pairwise(edges), strict=True):
        start, stop = before[1] or band.from_batch, after[0] or band.to_batch
        ends = np.array([start * (1 + 1e-9), stop * (1 - 1e-9)])
        inside = np.concatenate([ends, np.clip(POINTS, *ends)])
        best, named = true_fastest(curves, inside), list(band.targets)
        right = best[named].any(axis=0)
        if len(named) == 1:  # a single name would overlook an equally fast target
            right &= best.sum(axis=0) == 1
        if not right.all():
            said.append(f"{band.targets} from {start:.1f} to {stop:.1f}, not at {inside[~right][0]:.1f}")
    return tuple(said)

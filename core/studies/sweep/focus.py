"""What decides the answer of a sweep so far: where the fastest target changes, and which targets are in question. Pure.

Of two targets that is what their verdict says. Of three and more it is the lower envelope of their curves: only targets
that are the fastest somewhere, or close to it, are visited in passes; of the others the coarse scan has the curve.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from core.analysis.numerics import runs
from core.analysis.statistics import Array
from core.spec import MAX_BATCHES
from core.studies.sweep import schedule
from core.studies.sweep.analyse import compare
from core.studies.sweep.answer import Verdict
from core.studies.sweep.crossover import Curve
from core.studies.sweep.record import Run

CLOSE = 0.15  # slower by less, in log step time: may be the fastest (a restart changes ratios by 3.5 %)
LEAST_AREA = 0.03  # of a stretch in which one target leads (log step time times octaves); below it is taken for noise
SAME_OCTAVES = 1.5  # a crossover of two targets this near to a change of the envelope is that change
STEPS = 24  # points between two batches
UNKNOWN = 1e6  # log step time of a target where it was not measured: never the fastest


@dataclass(frozen=True)
class Change:
    """Where the fastest target changes, between ``targets``; its bounds where it is established with an interval."""

    batch: float
    targets: tuple[int, ...]
    low: float | None = None
    high: float | None = None
    established: bool = False

    @property
    def width(self) -> float:
        """(high − low) / batch; infinite where the bounds are not known."""
        return math.inf if self.low is None or self.high is None else (self.high - self.low) / self.batch

    @property
    def span(self) -> tuple[float, float]:
        """Where it is looked for: one that is not established is shown by batches well to each side of it."""
        if self.established:
            return self.low or self.batch, self.high or self.batch
        return self.batch / schedule.DOUBTFUL_REACH, self.batch * schedule.DOUBTFUL_REACH


@dataclass(frozen=True)
class Focus:
    """``close``: by batch the targets that may be the fastest there, ``undecided``: where that is open though no change
    is near. ``decided``: everything is known where there is no change.
    """

    targets: tuple[int, ...]
    changes: tuple[Change, ...] = ()
    close: Mapping[int, frozenset[int]] = field(default_factory=dict)
    undecided: tuple[int, ...] = ()
    decided: bool = False

    def new_batches(self, tried: Sequence[int]) -> tuple[int, ...]:
        """Sizes that halve the gaps around every change."""
        return schedule.bracket_batches([change.batch for change in self.changes], tried)

    def deciding(
        self, tried: Sequence[int], most: int = MAX_BATCHES, narrow_enough: float | None = None
    ) -> tuple[int, ...]:
        """The batches in and next to each change's interval, else those that are undecided, else all; at most
        ``most``. Changes whose interval is no wider than ``narrow_enough`` have had their share.
        """
        wide = [c for c in self.changes if narrow_enough is None or c.width > narrow_enough]
        if not wide and self.undecided:
            return schedule.spread(self.undecided, most)
        return schedule.active_batches([change.span for change in wide or self.changes], tried, most)

    def targets_at(self, batch: int) -> tuple[int, ...]:
        """Whom a visit of a deciding batch compares: those close to the fastest, and those of changes it may show."""
        if len(self.targets) < 3:
            return self.targets
        beside = [b for b in self.close if b <= batch][-1:] + [b for b in self.close if b >= batch][:1]
        found = set().union(*(self.close[b] for b in beside)) if beside else set(self.targets)
        for change in self.changes:
            low, high = change.span
            if low / 2 <= batch <= 2 * high:
                found.update(change.targets)
        return tuple(sorted(found))

    @property
    def contenders(self) -> tuple[int, ...]:
        """Targets that are the fastest at some batch, or close to it."""
        if len(self.targets) < 3 or not self.close:
            return self.targets
        return tuple(sorted(frozenset().union(*self.close.values()).union(*(c.targets for c in self.changes))))

    def is_answered(self, width: float, cells_settled: bool) -> bool:
        """Whether nothing asked for is open: changes as narrow as wanted, or all decided and every cell settled."""
        if self.undecided:
            return False
        if established := [change for change in self.changes if change.established]:
            return all(change.width <= width for change in established)
        return self.decided and cells_settled


def focus_of(run: Run) -> Focus:
    """Of a run as it is so far."""
    targets = tuple(range(len(run.target_names)))
    if len(targets) == 1:
        return Focus(targets, decided=True)
    if not run.rounds:
        return Focus(targets)
    if len(targets) == 2:
        verdict, curve = compare(run)
        at = curve.at_batches() if curve is not None else None
        return of_two(verdict, () if at is None else schedule.sign_changes(np.exp2(at.x), at.center))
    return _of_many(run, targets)


def of_two(verdict: Verdict, estimated: Sequence[float]) -> Focus:
    """Of two targets; ``estimated`` are the sign changes of their curve, established or not."""
    changes = tuple(Change(c.batch, (0, 1), c.low, c.high, established=True) for c in verdict.crossovers)
    guessed = tuple(Change(batch, (0, 1)) for batch in estimated)
    return Focus((0, 1), changes or guessed, decided=verdict.kind in ("ahead", "tie"))


def _of_many(run: Run, targets: tuple[int, ...]) -> Focus:
    batches = np.array(run.batches, dtype=float)
    logs = log_steps(run, batches)
    pairs = _Pairs(run)
    changes = tuple(pairs.change(*found) for found in envelope_changes(np.log2(batches), logs))
    behind = logs - np.min(logs, axis=0)
    close = {
        int(batch): frozenset(np.flatnonzero(column <= CLOSE).tolist())
        for batch, column in zip(batches, behind.T, strict=True)
    }
    settled = [change.span for change in changes if change.established]
    undecided = tuple(
        int(batch)
        for batch, leader in zip(batches, np.argmin(logs, axis=0).tolist(), strict=True)
        if not any(low <= batch <= high for low, high in settled)
        and not all(pairs.is_decided(leader, other, int(batch)) for other in close[int(batch)] - {leader})
    )
    return Focus(targets, changes, close, undecided, decided=not undecided)


class _Pairs:
    """Verdicts of two targets of a run each, made when first asked for."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._margin = math.log1p(run.plan.margin) if run.plan is not None else 0.05
        self._found: dict[tuple[int, int], tuple[Verdict, Curve | None]] = {}

    def _of(self, first: int, second: int) -> tuple[Verdict, Curve | None]:
        pair = min(first, second), max(first, second)
        if pair not in self._found:
            self._found[pair] = compare(self._run, None, *pair)
        return self._found[pair]

    def change(self, batch: float, before: int, after: int) -> Change:
        """The crossover of two targets that is meant by a change of the envelope, where it is established."""
        verdict, _ = self._of(before, after)
        near = [
            c
            for c in verdict.crossovers
            if c.ahead_after == self._run.target_names[after] and abs(math.log2(c.batch / batch)) <= SAME_OCTAVES
        ]
        if not near:
            return Change(batch, (before, after))
        found = min(near, key=lambda c: abs(math.log2(c.batch / batch)))
        return Change(found.batch, (before, after), found.low, found.high, established=True)

    def is_decided(self, first: int, second: int, batch: int) -> bool:
        """Whether one of them is known to be ahead at a batch, or both to be within the margin; pointwise 95 %."""
        _, curve = self._of(first, second)
        if curve is None:
            return False
        at = curve.at_batches()
        place = int(np.argmin(np.abs(at.x - math.log2(batch))))
        low, high = at.low[place], at.high[place]
        return bool(low > 0 or high < 0 or max(-low, high) <= self._margin)


def log_steps(run: Run, batches: Array) -> Array:
    """Log of the median step time by target and batch, interpolated in log2(batch) where a target was left out;
    infinite beyond what it measured.
    """
    samples: dict[tuple[int, int], list[float]] = {}
    for item in run.rounds:
        for block in item.blocks:
            samples.setdefault((block.target, item.batch), []).append(block.step_ms)
    table = np.full((len(run.target_names), len(batches)), np.inf)
    for target, row in enumerate(table):
        own = np.array([(math.log2(b), math.log(np.median(v))) for (t, b), v in sorted(samples.items()) if t == target])
        if len(own):
            row[:] = np.interp(np.log2(batches), own[:, 0], own[:, 1], left=np.inf, right=np.inf)
    return table


def envelope_changes(x: Array, logs: Array) -> tuple[tuple[float, int, int], ...]:
    """Where the lowest of several curves changes: the batch, the target before and the one after it.

    Curves are straight between the places ``x`` (log2 of batches). A stretch in which the lead of one is very small is
    taken for noise and given to a neighbour, smallest first. That a target ends, since it failed, is no change.
    """
    if len(x) < 2:
        return ()
    grid = np.unique(np.concatenate([np.linspace(a, b, STEPS + 1) for a, b in pairwise(x)]))
    lines = np.array([np.interp(grid, x, np.minimum(row, UNKNOWN)) for row in logs])
    leaders = np.argmin(lines, axis=0)
    lead = (np.partition(lines, 1, axis=0)[1] - lines.min(axis=0)) * np.gradient(grid)
    while len(stretches := runs(leaders)) > 1:
        areas = [float(np.sum(lead[start:stop])) for start, stop in stretches]
        least = int(np.argmin(areas))
        if areas[least] >= LEAST_AREA:
            break
        start, stop = stretches[least]
        beside = [*leaders[max(0, start - 1) : start], *leaders[stop : stop + 1]]
        leaders[start:stop] = min(beside, key=lambda target: float(np.sum(lines[target, start:stop])))
        lead[start:stop] = 0.0
    found: list[tuple[float, int, int]] = []
    for (_, stop), (start, _) in pairwise(stretches):
        around = slice(int(np.searchsorted(x, grid[stop - 1], "right")) - 1, int(np.searchsorted(x, grid[start])) + 1)
        before, after = int(leaders[stop - 1]), int(leaders[start])
        if np.isfinite(logs[[before, after], around]).all():
            found.append((float(2 ** ((grid[stop - 1] + grid[start]) / 2)), before, after))
    return tuple(found)

"""Focus of a sweep: where the fastest target changes so far, and which targets are in question. Pure.

For two targets it follows from their verdict. For three or more it follows from the bands
(:mod:`core.rounds.answer.fastest`), or from the lower envelope of their curves until there are intervals: only targets
that may be the fastest somewhere are visited in passes; the coarse scan has measured the curves of the others.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

import numpy as np

from core.analysis.numerics import runs
from core.analysis.statistics import Array
from core.rounds.answer.analyse import compare
from core.rounds.answer.answer import Boundary, Verdict
from core.rounds.answer.fastest import fastest
from core.rounds.run import Run
from core.studies.sweep import schedule
from core.workload.spec import MAX_BATCHES

CLOSE = 0.15  # log step time: a target slower by less may be the fastest (a restart changes ratios by 3.5 %)
LEAST_AREA = 0.03  # a lead of less area (log step time times octaves) is taken for noise
STEPS = 24  # grid steps between two batches
UNKNOWN = 1e6  # log step time of an unmeasured target: never the fastest


@dataclass(frozen=True)
class Change:
    """Change of the fastest target, among ``targets``.

    ``low`` and ``high``: its interval if it is established, else the batches between which it is sought, if known.
    """

    batch: float
    targets: tuple[int, ...]
    low: float | None = None
    high: float | None = None
    established: bool = False

    @property
    def width(self) -> float:
        """Relative width (high − low) / batch; infinite without an interval."""
        if not self.established or self.low is None or self.high is None:
            return math.inf
        return (self.high - self.low) / self.batch

    @property
    def octaves(self) -> float:
        """Width of its interval in log2(batch); 0 without one."""
        return math.log2(self.high / self.low) if self.established and self.low and self.high else 0.0

    def span(self, narrowing: float = 1.0) -> tuple[float, float]:
        """Return the range in which the change is sought; one that is not established shows in batches far to each
        side.

        ``narrowing``: the share of an established interval, in log2, that is expected to remain.
        """
        if self.established or self.low is not None:
            low, high = self.low or self.batch, self.high or self.batch
            share = narrowing if self.established else 1.0
            return self.batch * (low / self.batch) ** share, self.batch * (high / self.batch) ** share
        return self.batch / schedule.DOUBTFUL_REACH, self.batch * schedule.DOUBTFUL_REACH


@dataclass(frozen=True)
class Focus:
    """Changes and open questions of a sweep so far.

    ``close``: by batch, the targets that may be the fastest there; ``undecided``: ranges in which several remain.
    ``decided``: nothing is open if there is no change. ``narrowing``: the share of intervals, in log2, that will remain
    after more processes.
    """

    targets: tuple[int, ...]
    changes: tuple[Change, ...] = ()
    close: Mapping[int, frozenset[int]] = field(default_factory=dict)
    undecided: tuple[tuple[float, float], ...] = ()
    decided: bool = False
    narrowing: float = 1.0

    def new_batches(self, tried: Sequence[int], multiple: int = 1) -> tuple[int, ...]:
        """Return new sizes, multiples of ``multiple``, that halve the gaps around every change."""
        return schedule.bracket_batches([(change.batch, change.octaves) for change in self.changes], tried, multiple)

    def deciding(
        self, tried: Sequence[int], most: int = MAX_BATCHES, narrow_enough: float | None = None
    ) -> tuple[int, ...]:
        """Return at most ``most`` batches in and next to each change's interval and undecided range, or of all if there
        is none.

        Changes whose interval is no wider than ``narrow_enough`` have had their share.
        """
        wide = [change for change in self.changes if narrow_enough is None or change.width > narrow_enough]
        if not wide and not self.undecided:
            wide = list(self.changes)
        if not tried or not (wide or self.undecided):
            return schedule.spread(tried, most)
        chosen = {b for change in wide for b in schedule.around(change.batch, change.span(self.narrowing), tried)}
        for span in self.undecided:
            chosen.update(schedule.inside(span, tried, max(2, schedule.MAX_ACTIVE // len(self.undecided))))
        return schedule.spread(sorted(chosen), most)

    def targets_at(self, batch: int) -> tuple[int, ...]:
        """Return the targets to compare at a deciding batch: those close to the fastest and those of nearby changes."""
        if len(self.targets) < 3:
            return self.targets
        beside = [b for b in self.close if b <= batch][-1:] + [b for b in self.close if b >= batch][:1]
        targets = set().union(*(self.close[b] for b in beside)) if beside else set(self.targets)
        for change in self.changes:
            low, high = change.span()
            if low / 2 <= batch <= 2 * high:
                targets.update(change.targets)
        return tuple(sorted(targets))

    @property
    def contenders(self) -> tuple[int, ...]:
        """Targets that are the fastest at some batch, or close to it."""
        if len(self.targets) < 3 or not self.close:
            return self.targets
        return tuple(sorted(frozenset().union(*self.close.values()).union(*(c.targets for c in self.changes))))

    def is_answered(self, width: float, cells_settled: bool) -> bool:
        """Tell whether the question is answered: changes as narrow as wanted, or all decided and every cell settled."""
        if self.undecided:
            return False
        if established := [change for change in self.changes if change.established]:
            return all(change.width <= width for change in established)
        return self.decided and cells_settled


def focus_of(run: Run) -> Focus:
    """Return the focus of a run so far."""
    targets = tuple(range(len(run.target_names)))
    if len(targets) == 1:
        return Focus(targets, decided=True)
    if not run.rounds:
        return Focus(targets)
    if len(targets) == 2:
        focus = of_two(compare(run)[0], _estimated(run))
        return replace(focus, narrowing=schedule.narrowing(len({pair.process for pair in run.rounds})))
    return _of_many(run, targets)


def _estimated(run: Run) -> tuple[float, ...]:
    """Return where the median log-ratio of two targets changes its sign, established or not."""
    ratios: dict[int, list[float]] = {}
    starts: dict[int, set[int]] = {}
    for item in run.rounds:
        if (ratio := item.log_ratio()) is not None:
            ratios.setdefault(item.batch, []).append(ratio)
            starts.setdefault(item.batch, set()).add(item.process)
    if not ratios:
        return ()
    batches = sorted(ratios)
    rounds, replicates = (np.array([len(of[b]) for b in batches], dtype=float) for of in (ratios, starts))
    errors = np.hypot(
        schedule.MEDIAN_ERROR * schedule.round_scatter(run) / np.sqrt(rounds),
        schedule.REPLICATE_SCATTER / np.sqrt(replicates),
    )
    return schedule.sign_changes(
        np.array(batches, dtype=float), np.array([np.median(ratios[b]) for b in batches]), errors
    )


def of_two(verdict: Verdict, estimated: Sequence[float]) -> Focus:
    """Return the focus for two targets; ``estimated`` are the sign changes of their curve, established or not."""
    changes = tuple(Change(c.batch, (0, 1), c.low, c.high, established=True) for c in verdict.crossovers)
    guessed = tuple(Change(batch, (0, 1)) for batch in estimated)
    return Focus((0, 1), changes or guessed, decided=verdict.kind in ("ahead", "tie"))


def _of_many(run: Run, targets: tuple[int, ...]) -> Focus:
    batches = np.array(run.batches, dtype=float)
    logs = log_steps(run, batches)
    guessed = envelope_changes(np.log2(batches), logs)
    ranking = fastest(run)
    if not any(len(band.targets) > 1 for band in ranking.bands) and not any(b.low for b in ranking.boundaries):
        near = logs - np.min(logs, axis=0) <= CLOSE  # there are no intervals yet
        close = {int(b): frozenset(np.flatnonzero(at).tolist()) for b, at in zip(batches, near.T, strict=True)}
        return Focus(targets, tuple(Change(batch, (a, b)) for batch, a, b in guessed), close)
    known = tuple(map(_established, filter(_is_clear, ranking.boundaries)))
    open_bands = [band for band in ranking.bands if len(band.targets) > 1 and not band.level]
    within = [(band, [g for g in guessed if band.from_batch <= g[0] <= band.to_batch]) for band in open_bands]
    doubtful = (
        Change(batch, tuple(sorted({*band.targets, a, b})), band.from_batch, band.to_batch)
        for band, changes in within
        for batch, a, b in changes
    )
    close = {
        batch: frozenset(t for band in ranking.bands if band.from_batch <= batch <= band.to_batch for t in band.targets)
        for batch in run.batches
    }
    undecided = tuple((band.from_batch, band.to_batch) for band in open_bands)
    changes = tuple(sorted((*known, *doubtful), key=lambda change: change.batch))
    return Focus(targets, changes, close, undecided, decided=not open_bands)


def _is_clear(boundary: Boundary) -> bool:
    """Tell whether a boundary lies between disjoint sets of targets and has an interval."""
    return not set(boundary.before) & set(boundary.after) and boundary.low is not None


def _established(boundary: Boundary) -> Change:
    targets = tuple(sorted({*boundary.before, *boundary.after}))
    return Change(boundary.batch, targets, boundary.low, boundary.high, established=True)


def log_steps(run: Run, batches: Array) -> Array:
    """Return the log of the median step time [target, batch], interpolated in log2(batch) at batches that a target
    skipped; infinite beyond its measured range.
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
    """Return the changes of the lowest of several curves: the batch, the target before and the one after it.

    Curves are straight between the points ``x`` (log2 of batches). A stretch with a very small lead is taken for noise
    and given to a neighbour, smallest first. A target that ends because it failed is no change.
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
    changes: list[tuple[float, int, int]] = []
    for (_, stop), (start, _) in pairwise(stretches):
        around = slice(int(np.searchsorted(x, grid[stop - 1], "right")) - 1, int(np.searchsorted(x, grid[start])) + 1)
        before, after = int(leaders[stop - 1]), int(leaders[start])
        if np.isfinite(logs[[before, after], around]).all():
            changes.append((float(2 ** ((grid[stop - 1] + grid[start]) / 2)), before, after))
    return tuple(changes)

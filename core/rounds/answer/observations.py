"""Replicates from rounds: the table of paired log-ratios behind every claim, and its precision.

The replicate is a batch prepared anew in another start of the workers. Neighbouring rounds share disturbances, and a
prepared batch keeps an offset for as long as it lives (measured on two cores: 1.6 to 6 % from one preparation to the
next, single ones 10 to 23 %). So the value of a replicate is the median of its rounds; more rounds and passes make that
value more exact and never add degrees of freedom.

Claims change only when a start ends. If a run is in progress, or was cut short, its unfinished start is only a picture:
it has values and no interval.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import median
from typing import NamedTuple

import numpy as np

from core.analysis.statistics import MIN_UNITS, Array, Estimate, estimate_columns, pooled_variances, shared_scatter
from core.base.frameworks import FRAMEWORKS
from core.base.schema import UserError
from core.rounds.run import Round, Run

ALPHA = 0.05
"""Family-wise error of all claims about one run, over batches and looks."""
LOOK_GROWTH = 1.5
"""Each look at growing data needs so many times the starts of the one before."""
ALLOWANCE = 0.06
"""Standard deviation allowed for between replicates of a batch that has fewer than three: the largest scatter from
batch to batch that equal targets showed within a run (15 recordings of 23 November 2026). It is more with a framework
whose processes differ by more."""
ALLOWANCE_DF = 4.0
"""Degrees of freedom for the tails of the allowance: single batches of those recordings were off by 10 to 23 %, up to
3.8 times the allowance."""
TRIMMED_FROM = 10
"""Replicates from which on the mean is trimmed: with fewer, trimming takes half of the degrees of freedom."""
TAIL_DISCOUNT, MOST_DF = 2.0, 16.0
"""Degrees of freedom pooled over batches count half, less if batches share the offsets of their starts, and are capped:
replicates have heavy tails, and batches differ in scatter (simulated: without r² 95 % intervals of ten batches that
differ by the offsets of starts alone held in 82 to 88 %, with it in 92 to 96 %)."""
UNSTABLE_SPREAD = 0.12
"""Standard deviation between replicates above which the machine is blamed (nvbench, pyperf: 10 %)."""
MEDIAN_ERROR = 1.25
"""Standard error of a median of n normal values times √n, in standard deviations."""
CLEAN_ROUNDS = 3
"""Fewest undisturbed rounds for the median of a replicate."""
QUIET_SHARE = 0.5
"""Share of the replicates that need so many for the answer to count as that of a quiet machine."""
MAX_REPLICATES = 20_000
"""A start of two workers takes seconds, so a budget of a day has no more of them."""
MAX_VALUES = 1_000_000
"""Replicates times batches: the cells of the table."""


class Value(NamedTuple):
    """Logarithm of a quantity in one round."""

    start: int
    batch: int
    log: float
    disturbed: bool


@dataclass(frozen=True)
class Observations:
    """Replicates by batch.

    Attributes:
        batches: rising.
        values: [replicate, batch] medians of the rounds of ended starts; NaN where a start has none.
        picture: [batch] the median of all rounds, from ended starts or not.
        rounds: [replicate, batch] rounds behind each value.
        median_error: [batch] standard error of a replicate's value by the scatter of its rounds, 0 if unknown.
        looks: looks at growing data, including this one.
        unpaired: rounds left out because only one target has a block.
        quiet: disturbed rounds were left out, so that the values are those of a quiet machine.
        allowance: standard deviation of the replicates of a batch with fewer than three.
        comparisons: comparisons of several targets with the same one, which hold simultaneously.
    """

    batches: Array
    values: Array
    picture: Array
    rounds: Array
    median_error: Array
    looks: int
    unpaired: int = 0
    quiet: bool = True
    allowance: float = ALLOWANCE
    comparisons: int = 1

    @property
    def x(self) -> Array:
        """log2 of the batches."""
        return np.log2(self.batches)

    @cached_property
    def counts(self) -> Array:
        """Number of replicates of each batch."""
        return np.sum(~np.isnan(self.values), axis=0)

    @property
    def few(self) -> tuple[int, ...]:
        """Batches with fewer than three replicates, whose intervals carry the allowance."""
        return tuple(int(batch) for batch in self.batches[self.counts < MIN_UNITS])

    @property
    def alpha(self) -> float:
        """Error that this look may spend: ALPHA / (k (k + 1)) for look k, which sums to ALPHA over all looks."""
        return ALPHA / (self.looks * (self.looks + 1) * self.comparisons)

    @property
    def spread(self) -> float:
        """Median over batches of the standard deviation between replicates; zero if no batch has three."""
        rich = self.counts >= MIN_UNITS
        return float(np.median(np.nanstd(self.values[:, rich], axis=0, ddof=1))) if rich.any() else 0.0

    @property
    def unstable(self) -> bool:
        """Tell whether replicates of the same step disagree so much that the machine is to be blamed: by more than
        processes of the targets' frameworks do.
        """
        return self.spread > max(UNSTABLE_SPREAD, self.allowance)

    @cached_property
    def estimate(self) -> Estimate:
        """Center, standard error and degrees of freedom of each batch; the error is infinite without an ended start.

        The variance between replicates is the larger of the batch's own and the one pooled over batches: a handful of
        replicates gives an erratic variance, and one that is too small by luck makes false claims. Short steps scatter
        more than long ones, so the pooled one follows a trend (simulated: if scatter falls from 7 to 1 %, equal targets
        differ clearly in 2 to 5 % at level 2.5 %, without the trend in 3 to 7 %, and intervals of large batches are a
        third as wide).
        """
        own = estimate_columns(self.values, trimmed=len(self.values) >= TRIMMED_FROM)
        counts = self.counts
        variance = np.where(own.df > 0, np.where(np.isfinite(own.error), own.error, 0.0) ** 2 * counts, 0.0)
        variance = np.maximum(variance, pooled_variances(self.x, variance, own.df))
        variance = np.maximum(variance, self.median_error**2)  # a floor for medians that agree by luck
        total_df = float(own.df.sum())
        batches = int((own.df > 0).sum())
        alike = 1 + (batches - 1) * shared_scatter(self.values) if batches > 1 else 1.0  # batches share their starts
        df = np.full(counts.shape, max(1.0, min(total_df / max(TAIL_DISCOUNT, alike), MOST_DF)))
        if (thin := counts < MIN_UNITS).any():
            variance = np.where(thin, np.maximum(variance, self.allowance**2 + self.median_error**2), variance)
            df = np.where(thin, ALLOWANCE_DF, df)
        known = (counts > 0) & (self.rounds.sum(axis=0) > 1)
        error = np.where(known, np.sqrt(variance / np.maximum(1, counts)), np.inf)
        return Estimate(np.where(counts > 0, own.center, self.picture), error, np.where(known, df, 0.0))


def observe(run: Run, first: int = 0, second: int = 1) -> Observations:
    """Return the replicates of log(t_first / t_second), above zero if the second target is ahead.

    Args:
        run: with rounds of both targets, by number; without any the arrays are empty.

    Raises:
        UserError: the table would be larger than any sweep makes.
    """
    return _observed(run, _values(run, lambda item: item.log_ratio(first, second)), _allowance(run, first, second))


def observe_alone(run: Run, target: int) -> Observations:
    """Return the replicates of the log step time (ms) of one target; disturbances shared with others do not cancel."""
    return _observed(run, _values(run, lambda item: _log(item.step_ms(target))), _allowance(run, target))


def observe_both(run: Run, first: int, second: int) -> tuple[Observations, Observations]:
    """Return tables of the log step times (ms) of two targets, from the rounds that have both."""
    whole = run.model_copy(update={"rounds": tuple(r for r in run.rounds if r.log_ratio(first, second) is not None)})
    before, after = observe_alone(whole, first), observe_alone(whole, second)
    unpaired = len(run.rounds) - len(whole.rounds)
    return replace(before, unpaired=unpaired), replace(after, unpaired=unpaired)


def _allowance(run: Run, *targets: int) -> float:
    """Return the allowance for the ratio of two targets, or for the step time of one."""
    if run.plan is None:
        return ALLOWANCE
    frameworks = (FRAMEWORKS[run.plan.targets[target].framework] for target in targets)
    return max(ALLOWANCE, math.hypot(*(framework.start_scatter for framework in frameworks)))


def _log(step_ms: float | None) -> float | None:
    return None if step_ms is None else math.log(step_ms)


def _values(run: Run, of: Callable[[Round], float | None]) -> list[Value]:
    """Return the logarithm of each round that has a value."""
    logs = ((item, of(item)) for item in run.rounds)
    return [Value(r.process, r.batch, log, bool(r.interference.disturbed)) for r, log in logs if log is not None]


def has_ended(run: Run) -> bool:
    """Tell whether the run is complete: its last start ended as planned."""
    return run.status not in ("running", "cancelled", "interrupted")


def looks_of(starts: int) -> tuple[int, int]:
    """Return how many planned looks this number of ended starts allows, at least one, and the starts at the last look.

    The first is at three starts, each further one at 1.5 times as many: 3, 4, 6, 9, 13, …
    """
    looks, at = 1, MIN_UNITS
    while (following := max(at + 1, math.floor(LOOK_GROWTH * at))) <= starts:
        looks, at = looks + 1, following
    return looks, at


def _observed(run: Run, values: Sequence[Value], allowance: float) -> Observations:
    kept, quiet = _undisturbed(values)
    settled, looks = _settled(run, kept)
    cells = _by_cell(settled)
    _refuse_large(cells)
    replicates = sorted({replicate for replicate, _ in cells})
    batches = sorted({value.batch for value in kept})
    table = np.full((len(replicates), len(batches)), np.nan)
    rounds = np.zeros(table.shape)
    row, column = ({key: place for place, key in enumerate(keys)} for keys in (replicates, batches))
    for (replicate, batch), several in cells.items():
        table[row[replicate], column[batch]] = median(several)
        rounds[row[replicate], column[batch]] = len(several)
    shown: dict[int, list[float]] = defaultdict(list)
    for value in kept:
        shown[value.batch].append(value.log)
    picture = np.array([median(shown[batch]) for batch in batches])
    unpaired = len(run.rounds) - len(values)
    of_batch: dict[int, list[list[float]]] = defaultdict(list)
    for (_, batch), several in cells.items():
        of_batch[batch].append(several)
    error = np.array([_median_error(of_batch[batch]) for batch in batches])
    return Observations(
        np.array(batches, dtype=float), table, picture, rounds, error, looks, unpaired, quiet, allowance
    )


def _settled(run: Run, values: Sequence[Value]) -> tuple[Sequence[Value], int]:
    """Return the rounds that claims may rest on, and the number of looks at growing data that this makes.

    For a run that is in progress, or was cut short, those are the starts up to the last planned look.
    """
    starts = sorted({value.start for value in values})
    if has_ended(run):
        looks, at = looks_of(len(starts))
        return values, looks + (len(starts) > at)
    newest = max((process.index for process in run.processes), default=0)
    ended = [start for start in starts if start < newest]
    looks, at = looks_of(len(ended))
    among = set(ended[:at]) if len(ended) >= MIN_UNITS else set()
    return [value for value in values if value.start in among], looks


def _undisturbed(values: Sequence[Value]) -> tuple[Sequence[Value], bool]:
    """Leave out rounds disturbed by other programs if enough others remain to represent a quiet machine.

    Selection is by cause alone and of whole rounds, never by block time. A replicate with too few undisturbed rounds is
    left out if its batch has three others, and otherwise keeps all of its rounds.
    """
    if not any(value.disturbed for value in values):
        return values, True
    every, undisturbed = _by_cell(values), _by_cell(value for value in values if not value.disturbed)
    enough = {cell for cell, several in undisturbed.items() if len(several) >= min(CLEAN_ROUNDS, len(every[cell]))}
    if len(enough) < QUIET_SHARE * len(every):
        return values, False
    replicates = Counter(batch for _, batch in enough)
    whole = {cell for cell in every.keys() - enough if replicates[cell[1]] < MIN_UNITS}
    chosen = [
        value
        for value in values
        if (cell := (value.start, value.batch)) in whole or (cell in enough and not value.disturbed)
    ]
    return chosen, True


def _by_cell(values: Iterable[Value]) -> dict[tuple[int, int], list[float]]:
    """Return the values of each replicate and batch."""
    cells: dict[tuple[int, int], list[float]] = defaultdict(list)
    for start, batch, log, _ in values:
        cells[start, batch].append(log)
    return dict(cells)


def _median_error(replicates: Sequence[Sequence[float]]) -> float:
    """Return the standard error of the median of a replicate's rounds.

    It uses their robust standard deviations, 1.48 times the median absolute deviation and, for few rounds, n / (n −
    0.8) times (Croux and Rousseeuw 1992).
    """
    rich = [values for values in replicates if len(values) >= CLEAN_ROUNDS]
    if not rich:
        return 0.0
    deviations = []
    for values in rich:
        middle = median(values)
        spread = median([abs(value - middle) for value in values])
        deviations.append(1.4826 * len(values) / (len(values) - 0.8) * spread)
    rounds = np.array([len(values) for values in replicates])
    return MEDIAN_ERROR * math.sqrt(float(np.mean(np.square(deviations))) * float(np.mean(1 / rounds)))


def check_table(rounds: Iterable[Round]) -> None:
    """Raise UserError if the table of these rounds would be larger than any sweep makes."""
    _refuse_large({(item.process, item.batch) for item in rounds})


def _refuse_large(cells: Collection[tuple[int, int]]) -> None:
    """Raise UserError if a table of these replicates and batches is larger than any sweep makes."""
    replicates, batches = (len({cell[part] for cell in cells}) for part in (0, 1))
    if replicates > MAX_REPLICATES or replicates * batches > MAX_VALUES:
        raise UserError(
            f"The rounds lie in {replicates:,} starts at {batches:,} batch sizes; accepted are {MAX_REPLICATES:,}, and "
            f"at most {MAX_VALUES:,} of both multiplied."
        )

"""From rounds to the table that inference works on: paired log-ratios by batch and by independent unit.

Neighbouring rounds are not independent: drift and memory layout live longer than a round (docs/design.md, Independent
observations). So rounds are first reduced to *units* that are: worker processes where there are at least three, else
passes, else the rounds themselves, many of them as ten stretches of neighbours (the "batch means" of simulation
practice). The value of a unit at a batch is the median of its rounds' log(t_first / t_second): above zero, the second
target is ahead. Medians inside a unit remove stalls; what differs between units is what the interval must carry.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Literal

import numpy as np

from core.analysis.statistics import MIN_UNITS, Array
from core.schema import UserError
from core.studies.sweep.record import Round, Run

Unit = Literal["process", "pass", "round"]
MAX_STRETCHES = 10
MAX_UNITS = 20_000
"""A start of two workers and the shortest epoch take some 5 s: a budget of a day has no more of them."""
MAX_VALUES = 1_000_000
"""Units times batches: the table's cells, each of which becomes 24 of the curve."""
# Standard deviation of log(t_first / t_second) between worker processes, allowed for where a sweep's budget was too
# short to restart its workers and so to see it (measured: benchmarks/repeatability.py, 2-core machine).
PROCESS_ALLOWANCE = 0.035
UNSTABLE_SPREAD = 0.12  # sd between units of the log-ratio; nvbench and pyperf distrust 10 % likewise


@dataclass(frozen=True)
class Observations:
    """``values[u, j]``: unit u's median log-ratio at ``batches[j]`` (rising), NaN where it has none.

    ``unpaired`` counts rounds left out because only one target has a block. ``allowance`` is the standard deviation to
    add for what the units cannot show: zero where processes are the units, and for imported points, of whose
    processes nothing is known.
    """

    batches: Array
    values: Array
    unit: Unit
    unpaired: int
    allowance: float = 0.0

    @property
    def spread(self) -> float:
        """Median over batches of the standard deviation between units; zero for rounds, whose scatter is expected."""
        return _spread(self.values) if self.unit != "round" else 0.0

    @property
    def unstable(self) -> bool:
        """Whether units disagree so much about the same step that the machine is to be named as the reason."""
        return self.spread > UNSTABLE_SPREAD

    @property
    def x(self) -> Array:
        """log2 of the batches."""
        return np.log2(self.batches)


def observe(run: Run, first: int = 0, second: int = 1) -> Observations:
    """Table of a run's rounds that have both targets, ``first`` and ``second`` by number. Empty arrays where
    no round has both.

    Raises UserError where the table would be larger than any sweep makes one.
    """
    pairs = [(pair, ratio) for pair in run.rounds if (ratio := pair.log_ratio(first, second)) is not None]
    return _finished(run, pairs)


def observe_alone(run: Run, target: int) -> Observations:
    """The same of the log step times (ms) of one target alone. What hits its neighbours in a round does not cancel."""
    times = [(item, math.log(step_ms)) for item in run.rounds if (step_ms := item.step_ms(target)) is not None]
    return _finished(run, times)


def _finished(run: Run, values: Sequence[tuple[Round, float]]) -> Observations:
    """The table of these rounds, filled between batches, with what its units cannot show."""
    found = _tabulate(values, check_table(item for item, _ in values))
    return replace(
        found,
        values=fill(found.x, found.values) if len(found.batches) else found.values,
        unpaired=len(run.rounds) - len(values),
        allowance=_allowance(found.values, found.unit) if run.processes else 0.0,
    )


def observe_times(run: Run, first: int, second: int, by: Unit) -> tuple[Observations, Observations]:
    """Such tables of log step times (ms), from the rounds that have both targets, without anything interpolated. ``by``
    is the unit; of fewer than three passes the rounds.

    Raises UserError as :func:`observe` does.
    """
    times = [(pair, pair.step_ms(first), pair.step_ms(second)) for pair in run.rounds]
    both = [(pair, math.log(a), math.log(b)) for pair, a, b in times if a is not None and b is not None]
    check_table(pair for pair, _, _ in both)
    if by == "pass" and len({pair.pass_index for pair, _, _ in both}) < MIN_UNITS:
        by = "round"
    return _tabulate([(pair, a) for pair, a, _ in both], by), _tabulate([(pair, b) for pair, _, b in both], by)


def _tabulate(found: Sequence[tuple[Round, float]], unit: Unit) -> Observations:
    """The medians of a number of rounds by unit and batch."""
    cells: dict[tuple[int, int], list[float]] = defaultdict(list)
    total = Counter(item.batch for item, _ in found)
    seen: Counter[int] = Counter()
    for item, value in sorted(found, key=lambda one: one[0].index):
        stretch = seen[item.batch] * min(MAX_STRETCHES, total[item.batch]) // total[item.batch]
        seen[item.batch] += 1
        key = item.process if unit == "process" else item.pass_index if unit == "pass" else stretch
        cells[key, item.batch].append(value)
    batches = sorted({batch for _, batch in cells})
    units = sorted({key for key, _ in cells})
    values = np.full((len(units), len(batches)), np.nan)
    row, column = ({key: place for place, key in enumerate(keys)} for keys in (units, batches))
    for (key, batch), several in cells.items():
        values[row[key], column[batch]] = median(several)
    return Observations(np.array(batches, dtype=float), values, unit, 0)


def _allowance(values: Array, unit: Unit) -> float:
    """On an unsteady machine, processes are taken to differ at least as much as passes do."""
    if unit == "process":
        return 0.0
    spread = _spread(values)
    return spread if spread > UNSTABLE_SPREAD else PROCESS_ALLOWANCE


def _spread(values: Array) -> float:
    rich = np.sum(~np.isnan(values), axis=0) >= MIN_UNITS
    return float(np.median(np.nanstd(values[:, rich], axis=0, ddof=1))) if rich.any() else 0.0


def check_table(pairs: Iterable[Round]) -> Unit:
    """The unit of rounds that have both targets. Raises UserError where there are too many for an analysis."""
    found = [(pair.process, pair.pass_index, pair.batch) for pair in pairs]
    processes, passes, batches = (len(set(column)) for column in zip(*found, strict=True)) if found else (0, 0, 0)
    unit: Unit = "process" if processes >= MIN_UNITS else "pass" if passes >= MIN_UNITS else "round"
    units = {"process": processes, "pass": passes, "round": MAX_STRETCHES}[unit]
    if units > MAX_UNITS or units * batches > MAX_VALUES:
        raise UserError(
            f"The rounds lie in {units:,} {unit}es at {batches:,} batch sizes; accepted are {MAX_UNITS:,}, and at most "
            f"{MAX_VALUES:,} of both multiplied."
        )
    return unit


def fill(x: Array, values: Array) -> Array:
    """Values for batches a unit skipped between two that it has: the others' curve plus its own offset, interpolated.

    Without this a unit that measured a coarser grid would be interpolated across the curve's bend.
    """
    center = np.nanmean(values, axis=0)
    filled = values.copy()
    for unit in range(len(values)):
        have = ~np.isnan(values[unit])
        if have.sum() < 2 or have.all():
            continue
        first, last = np.flatnonzero(have)[[0, -1]]
        gap = ~have & (np.arange(len(x)) > first) & (np.arange(len(x)) < last)
        offset = values[unit, have] - center[have]
        filled[unit, gap] = center[gap] + np.interp(x[gap], x[have], offset)
    return filled

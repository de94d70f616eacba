"""From rounds to the table that inference works on: paired log-ratios by batch and by independent unit.

Neighbouring rounds are not independent: drift and memory layout live longer than a round (docs/design.md, Independent
observations). So rounds are first reduced to *units* that are: worker processes where there are at least three, else
passes, else the rounds themselves, many of them as ten stretches of neighbours (the "batch means" of simulation
practice). The value of a unit at a batch is the median of its rounds' log(t_first / t_second): above zero, the second
target is ahead. Medians inside a unit remove stalls; what differs between units is what the interval must carry.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from statistics import median
from typing import Literal

import numpy as np

from core.analysis.statistics import MIN_UNITS, Array
from core.studies.sweep.record import Round, Run

Unit = Literal["process", "pass", "round"]
MAX_STRETCHES = 10
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


def observe(run: Run) -> Observations:
    """Table of a run's paired rounds. Empty arrays where no round has both targets."""
    pairs = [pair for pair in run.rounds if pair.log_ratio is not None]
    unit = _choose_unit(pairs)
    cells: dict[tuple[int, int], list[float]] = defaultdict(list)
    total = Counter(pair.batch for pair in pairs)
    seen: Counter[int] = Counter()
    for pair in sorted(pairs, key=lambda p: p.index):
        stretch = seen[pair.batch] * min(MAX_STRETCHES, total[pair.batch]) // total[pair.batch]
        seen[pair.batch] += 1
        key = {"process": pair.process, "pass": pair.pass_index, "round": stretch}[unit]
        cells[key, pair.batch].append(pair.log_ratio or 0.0)
    batches = sorted({batch for _, batch in cells})
    units = sorted({key for key, _ in cells})
    values = np.full((len(units), len(batches)), np.nan)
    for (key, batch), ratios in cells.items():
        values[units.index(key), batches.index(batch)] = median(ratios)
    return Observations(
        batches=np.array(batches, dtype=float),
        values=_fill(np.log2(np.array(batches, dtype=float)), values) if batches else values,
        unit=unit,
        unpaired=len(run.rounds) - len(pairs),
        allowance=_allowance(values, unit) if run.processes else 0.0,
    )


def _allowance(values: Array, unit: Unit) -> float:
    """On an unsteady machine, processes are taken to differ at least as much as passes do."""
    if unit == "process":
        return 0.0
    spread = _spread(values)
    return spread if spread > UNSTABLE_SPREAD else PROCESS_ALLOWANCE


def _spread(values: Array) -> float:
    rich = np.sum(~np.isnan(values), axis=0) >= MIN_UNITS
    return float(np.median(np.nanstd(values[:, rich], axis=0, ddof=1))) if rich.any() else 0.0


def _choose_unit(pairs: list[Round]) -> Unit:
    if len({p.process for p in pairs}) >= MIN_UNITS:
        return "process"
    if len({p.pass_index for p in pairs}) >= MIN_UNITS:
        return "pass"
    return "round"


def _fill(x: Array, values: Array) -> Array:
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

"""Answer of a check: the ratio of step times at each batch and overall, with intervals and the verdict. Pure.

The observation is a worker process: the median of its rounds' log-ratio between the two sides at a batch (against a
stored run: of its log step time). Processes are compared by Student's t. ``low`` and ``high`` are one-sided bounds of
at least 97.5 % each. *Slower* may be claimed of any batch or of all together, so the lower bounds share their 2.5 %
among all of those comparisons (Bonferroni). *Unchanged* needs the upper bounds of all batches below the limit at once,
which takes no correction (an intersection-union test; Berger 1982).

For one comparison with the allowed slowdown L:

- slower: low > 1 and ratio > 1 + L. A slowdown is shown, and the best estimate is above the limit.
- faster: high < 1.
- unchanged: high ≤ 1 + L. A slowdown above the limit is excluded.
- inconclusive: none of these.

The whole check is slower if any comparison is; faster if all batches together are and each excludes such a slowdown;
unchanged if each batch excludes it; else inconclusive. A batch that one side could not run excludes nothing.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Literal

import numpy as np

from core.analysis.statistics import CONFIDENCE, MIN_UNITS, t_quantile
from core.rounds.answer.observations import ALLOWANCE
from core.rounds.run import Round
from core.studies.check.record import CheckRecord
from core.studies.sweep.even import MIN_ROUNDS
from core.workload.spec import MAX_BUDGET_S

Finding = Literal["unchanged", "faster", "slower", "inconclusive"]
TAIL = (1 - CONFIDENCE) / 2
OCCASION_ALLOWANCE = ALLOWANCE
"""Standard deviation of the log-ratio between two occasions on one machine, which neither run can show: assumed equal
to that between processes."""
TOO_FEW = "Fewer than three worker processes measured it, so there is no interval."
MOST_PROCESSES = 5_000  # no budget is named beyond that
CAUTION = 1.2  # factor on the scatter so far in a budget: else half of all guesses would be too short


@dataclass(frozen=True)
class Compared:
    """One comparison, at a batch or of all batches together (None). ``ratio`` is the step time over the baseline's,
    None if too little was measured, for the ``reason``.
    """

    batch: int | None
    verdict: Finding
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    baseline_ms: float | None = None
    step_ms: float | None = None
    processes: int = 0
    reason: str = ""


@dataclass(frozen=True)
class CheckAnswer:
    """Answer of a check. ``settles_s`` is the budget in seconds that should settle an inconclusive verdict, or None."""

    verdict: Finding
    overall: Compared
    batches: tuple[Compared, ...]
    settles_s: float | None = None


@dataclass(frozen=True)
class _Estimate:
    """Mean log-ratio over ``units`` processes with standard deviation ``spread``; ``other`` is a further variance with
    ``other_df`` degrees of freedom (infinite: it is known).
    """

    center: float
    spread: float
    units: int
    other: float = 0.0
    other_df: float = math.inf

    def half_width(self, tail: float, units: int | None = None) -> float:
        """Return the half width of a one-sided bound, for the given number of processes."""
        count = units or self.units
        own = self.spread**2 / count
        whole = own + self.other
        if not whole:
            return 0.0
        df = whole**2 / (own**2 / (count - 1) + self.other**2 / self.other_df)  # Welch and Satterthwaite
        return t_quantile(1 - tail, max(1, math.floor(min(df, 1e6)))) * math.sqrt(whole)


def check_answer(record: CheckRecord) -> CheckAnswer:
    """Derive the answer of a check."""
    batches, limit = record.plan.batches, math.log1p(record.plan.max_slowdown)
    low_tail = TAIL / (1 + len(batches) if len(batches) > 1 else 1)
    table = _table(record)
    estimates = {batch: _estimate(record, table, (batch,)) for batch in batches}
    known = {batch: estimate for batch, estimate in estimates.items() if estimate is not None}
    compared = tuple(
        _missing(record, batch) if estimate is None else _compared(record, batch, estimate, low_tail, limit)
        for batch, estimate in estimates.items()
    )
    if len(batches) == 1:
        overall = replace(compared[0], batch=None)
    else:
        whole = _estimate(record, table, tuple(known))
        few = Compared(None, "inconclusive", reason=TOO_FEW)
        overall = few if whole is None else _compared(record, None, whole, low_tail, limit)
    verdict = _verdict(overall, compared)
    settles_s = None
    if verdict == "inconclusive":
        pending = [estimate for estimate in known.values() if estimate.center + estimate.half_width(TAIL) > limit]
        if all(estimate.reason in ("", TOO_FEW) for estimate in compared):
            settles_s = _settling(record, pending, low_tail, limit)
    return CheckAnswer(verdict, overall, compared, settles_s)


def _verdict(overall: Compared, batches: Sequence[Compared]) -> Finding:
    if any(compared.verdict == "slower" for compared in (overall, *batches)):
        return "slower"
    if any(compared.verdict not in ("unchanged", "faster") for compared in batches):
        return "inconclusive"
    return "faster" if overall.verdict == "faster" else "unchanged"


def _compared(record: CheckRecord, batch: int | None, estimate: _Estimate, low_tail: float, limit: float) -> Compared:
    low = estimate.center - estimate.half_width(low_tail)
    high = estimate.center + estimate.half_width(TAIL)
    verdict: Finding = "inconclusive"
    if low > 0 and estimate.center > limit:
        verdict = "slower"
    elif high < 0:
        verdict = "faster"
    elif high <= limit:
        verdict = "unchanged"
    steps = (None, None) if batch is None else _steps_ms(record, batch)
    ratio, bounds = math.exp(estimate.center), (math.exp(low), math.exp(high))
    return Compared(batch, verdict, ratio, *bounds, *steps, estimate.units)


def _missing(record: CheckRecord, batch: int) -> Compared:
    reason = next((cell.reason for cell in record.run.cells if cell.batch == batch and cell.reason), "")
    reason = reason or TOO_FEW
    return Compared(batch, "inconclusive", None, None, None, *_steps_ms(record, batch), reason=reason)


def _table(record: CheckRecord) -> dict[int, dict[int, float]]:
    """Return by batch and process the median log-ratio of its rounds, or of its log step time against a stored run."""
    rounds: dict[tuple[int, int], list[float]] = defaultdict(list)
    paired = len(record.plan.sides) == 2
    for item in record.run.rounds:
        value = item.log_ratio(1, 0) if paired else _log_step(item)
        if value is not None:
            rounds[item.batch, item.process].append(value)
    table: dict[int, dict[int, float]] = defaultdict(dict)
    for (batch, process), values in rounds.items():
        if len(values) >= MIN_ROUNDS:
            table[batch][process] = median(values)
    return dict(table)


def _log_step(item: Round) -> float | None:
    step_ms = item.step_ms(0)
    return None if step_ms is None else math.log(step_ms)


def _estimate(record: CheckRecord, table: dict[int, dict[int, float]], batches: Sequence[int]) -> _Estimate | None:
    """Estimate the mean over these batches from the processes that measured them all; None for fewer than three."""
    shared = sorted(set.intersection(*(set(table.get(batch, ())) for batch in batches))) if batches else []
    if len(shared) < MIN_UNITS:
        return None
    values = np.array([[table[batch][process] for batch in batches] for process in shared]).mean(axis=1)
    own = _Estimate(float(values.mean()), float(values.std(ddof=1)), len(shared))
    if (stored := record.plan.stored) is None:
        return own
    logs = [np.log(stored.steps_ms[batch]) for batch in batches]
    center = own.center - float(np.mean([each.mean() for each in logs]))
    # a sweep's processes need not share their batches: treat the errors of all batches as one
    error = float(np.mean([each.std(ddof=1) / math.sqrt(len(each)) for each in logs]))
    return _with_stored(center, own, error, min(map(len, logs)) - 1)


def _with_stored(center: float, own: _Estimate, error: float, df: int) -> _Estimate:
    other = error**2 + OCCASION_ALLOWANCE**2
    return _Estimate(center, own.spread, own.units, other, other**2 / (error**4 / df) if error else math.inf)


def _steps_ms(record: CheckRecord, batch: int) -> tuple[float | None, float | None]:
    """Return the median step times of the baseline and of the checked side."""
    sides: list[float | None] = []
    for side in range(len(record.plan.sides)):
        steps = [ms for item in record.run.rounds if item.batch == batch and (ms := item.step_ms(side)) is not None]
        sides.append(median(steps) if steps else None)
    if record.plan.stored is not None:
        sides.insert(0, median(record.plan.stored.steps_ms[batch]))
    return sides[0], sides[1]


def _settling(record: CheckRecord, pending: Sequence[_Estimate], low_tail: float, limit: float) -> float | None:
    """Return the budget after which the verdict should be conclusive, by the scatter so far; None if none is.

    Above the limit it is one that shows a slowdown at some batch, else one with which each batch excludes it.
    """
    starts = len({process.index for process in record.run.processes})
    if not pending:  # some batch has too few processes
        return _budget(record, starts, 2 * MIN_UNITS)
    above = [_units(e, lambda e, n: e.half_width(low_tail, n) < e.center) for e in pending if e.center > limit]
    below = [_units(e, lambda e, n: e.center + e.half_width(TAIL, n) <= limit) for e in pending if e.center <= limit]
    known = [count for count in above if count is not None]
    needed = min(known) if known else None if above or None in below else max(count for count in below if count)
    return None if needed is None else _budget(record, starts, max(needed, 2 * MIN_UNITS))


def _units(estimate: _Estimate, is_enough: Callable[[_Estimate, int], bool]) -> int | None:
    """Return the fewest processes that are enough with somewhat larger scatter than seen; None if none are."""
    wide = _Estimate(estimate.center, CAUTION * estimate.spread, estimate.units, estimate.other, estimate.other_df)
    if not is_enough(wide, MOST_PROCESSES):
        return None
    low, high = MIN_UNITS - 1, MOST_PROCESSES
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if is_enough(wide, middle) else (middle, high)
    return high


def _budget(record: CheckRecord, starts: int, needed: int) -> float | None:
    """Return the seconds for so many starts, up to the next ten; None beyond the largest budget."""
    budget_s = math.ceil(needed * record.run.elapsed_s / starts / 10) * 10.0
    budget_s = max(budget_s, math.ceil((record.plan.budget_s + 1) / 10) * 10.0)
    return budget_s if budget_s <= MAX_BUDGET_S else None

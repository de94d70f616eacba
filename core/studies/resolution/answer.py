"""Answer of a resolution study: the smallest visible difference, and whether equal targets came out equal. Pure.

The difference is half of the interval of the log-ratio, as in a verdict, at the median over the batches. Its bounds
cover the differences of all batches and, by chi-square, the error of the deviation behind the intervals.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from core.analysis.statistics import CONFIDENCE, chi_square_quantile
from core.base.evidence import same_machine
from core.base.schema import UserError
from core.rounds.answer.analyse import analyse, cell_statistics
from core.rounds.answer.crossover import build_curve
from core.rounds.answer.observations import observe
from core.rounds.run import Run
from core.studies.resolution.record import ResolutionStudy


def half_widths(run: Run) -> dict[int, float]:
    """Return half of the 95 % interval of the log-ratio of the first two targets by batch; infinite without one."""
    seen = observe(run)
    if len(seen.batches) == 0:
        return {}
    at = build_curve(seen).at_batches()
    halves = [half if math.isfinite(half) else math.inf for half in ((at.high - at.low) / 2).tolist()]
    return {round(batch): half for batch, half in zip(seen.batches.tolist(), halves, strict=True)}


def shown_from(run: Run) -> float | None:
    """Return the difference (0.05 is 5 %) that half of the batches can resolve; None without intervals."""
    seen = observe(run)
    return build_curve(seen).shows_from if len(seen.batches) else None


EQUIVALENT = "equivalent"
TAIL = (1 - CONFIDENCE) / 2
MIN_OCCASIONS = 3
TOO_FEW = "Too little was measured for an interval; give it more time."


@dataclass(frozen=True)
class Shown:
    """Step time and smallest visible difference at one batch; 0.05 is 5 % (None: no interval)."""

    batch: int
    step_ms: float
    difference: float | None


@dataclass(frozen=True)
class Occasions:
    """Scatter of the step times of one target between runs: ``spread`` is a standard deviation (0.05 is 5 %), with its
    95 % interval.
    """

    count: int
    spread: float
    low: float
    high: float


@dataclass(frozen=True)
class Resolution:
    """Answer of a resolution study. ``claims`` are the codes of claims about the equal targets; ``occasions`` is None
    for too few.
    """

    difference: float
    low: float
    high: float
    batches: tuple[Shown, ...]
    claims: tuple[str, ...]
    starts: int
    occasions: Occasions | None = None

    @property
    def is_equal(self) -> bool:
        """Tell whether nothing was claimed but that the targets are equal."""
        return all(claim == EQUIVALENT for claim in self.claims)


def resolution(study: ResolutionStudy, earlier: Sequence[ResolutionStudy] = ()) -> Resolution:
    """Return the answer of a study and, with ``earlier`` ones of the same step, the scatter between occasions.

    Raises UserError if too little was measured for an interval.
    """
    if not study.run.rounds or (difference := shown_from(study.run)) is None:
        raise UserError(TOO_FEW)
    halves, steps = half_widths(study.run), steps_ms(study)
    each = {batch: math.expm1(half) if math.isfinite(half) else None for batch, half in halves.items()}
    known = [value for value in each.values() if value is not None]
    values = observe(study.run).values
    error = _deviation_bounds(int(np.maximum(0, np.sum(~np.isnan(values), axis=0) - 1).sum()))
    log = math.log1p(difference)
    return Resolution(
        difference,
        min(*known, math.expm1(error[0] * log)),
        max(*known, math.expm1(error[1] * log)),
        tuple(Shown(batch, steps[batch], value) for batch, value in each.items()),
        tuple(analyse(study.run).claims),
        len({item.process for item in study.run.rounds}),
        _occasions(study, earlier),
    )


def steps_ms(study: ResolutionStudy) -> dict[int, float]:
    """Return the median step time of both workers by batch."""
    times: dict[int, list[float]] = {}
    for cell in cell_statistics(study.run):
        times.setdefault(cell.batch, []).append(cell.step_ms)
    return {batch: float(np.mean(both)) for batch, both in sorted(times.items())}


def _deviation_bounds(df: int) -> tuple[float, float]:
    """Return the 95 % bounds of a deviation over its estimate from ``df`` degrees of freedom."""
    if df < 1:
        return 1.0, 1.0
    return math.sqrt(df / chi_square_quantile(1 - TAIL, df)), math.sqrt(df / chi_square_quantile(TAIL, df))


def _occasions(study: ResolutionStudy, earlier: Sequence[ResolutionStudy]) -> Occasions | None:
    """Return the scatter between occasions; all batches of an occasion move together, so it is one observation."""
    before = [past for past in earlier if past.created_at < study.created_at and _is_same(past, study)]
    times = [steps_ms(occasion) for occasion in (study, *before)]
    shared = sorted(set.intersection(*map(set, times)))
    if len(times) < MIN_OCCASIONS or not shared:
        return None
    logs = np.log([[each[batch] for batch in shared] for each in times])
    spread = float(np.sqrt(np.mean(np.var(logs, axis=0, ddof=1))))
    low, high = _deviation_bounds(len(times) - 1)
    return Occasions(len(times), *(math.expm1(factor * spread) for factor in (1.0, low, high)))


def _is_same(study: ResolutionStudy, other: ResolutionStudy) -> bool:
    """Tell whether two studies have the same step, target and machine."""
    same = [(plan.workload, plan.target, plan.pipeline) for plan in (study.plan, other.plan)]
    return same[0] == same[1] and same_machine(study.environment, other.environment) is True

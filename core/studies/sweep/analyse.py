"""The one entry point: a run (or bare points) in, an :class:`~core.studies.sweep.answer.Answer` out."""

from __future__ import annotations

import math
from collections import defaultdict
from statistics import median

import numpy as np

from core.analysis.statistics import MIN_UNITS, bounded_median, estimate_columns
from core.evidence import Warning
from core.schema import UserError
from core.studies.sweep.answer import Against, Answer, CellStats, SpeedUp, Verdict
from core.studies.sweep.crossover import Curve, build_curve
from core.studies.sweep.fastest import failed_from, find_fastest, margin_of, tables_of
from core.studies.sweep.observations import Observations, observe
from core.studies.sweep.overhead import fit_target
from core.studies.sweep.record import Run
from core.studies.sweep.reliability import distinct, judge, of_targets
from core.studies.sweep.verdict import Pair, decide
from core.studies.sweep.verdict_fastest import fastest_verdict
from core.studies.sweep.verdict_single import single_verdict


def analyse(run: Run, margin: float | None = None) -> Answer:
    """Answer for a run; ``margin`` is the lead asked for (default: the plan's, else 0.05).

    Raises UserError when the run has no round at all.
    """
    if not run.rounds:
        raise UserError("This run has no measured round yet, so there is nothing to say.")
    run = run.model_copy(update={"warnings": distinct((*run.warnings, *of_targets(run)))})
    margin, count = margin_of(run, margin), len(run.target_names)
    cells = cell_statistics(run)
    fits = tuple(fit_target(run, target, cells) for target in range(count))
    if count == 1:
        return Answer(single_verdict(run, fits[0], cells), cells, (), fits)
    if count == 2:
        only = _against(run, observe(run), margin, 1)
        return Answer(only.verdict, cells, (only,), fits)
    tables = tables_of(run)
    against = tuple(_against(run, tables[0, target], margin, target) for target in range(1, count))
    found = find_fastest(tables, count, margin, failed_from(run))
    unstable = any(table.unstable for table in tables.values())
    warnings = distinct(w for one in against for w in one.verdict.warnings if w.code != "unpaired_rounds")
    verdict = fastest_verdict(run, found, margin, warnings, unstable)
    return Answer(verdict, cells, against, fits, found)


def _against(run: Run, observations: Observations, margin: float, target: int) -> Against:
    verdict, curve = _compared(run, observations, margin, (0, target))
    return Against(target, verdict, speed_ups(curve) if curve is not None else ())


def compare(run: Run, margin: float | None = None, first: int = 0, second: int = 1) -> tuple[Verdict, Curve | None]:
    """Verdict and curve of two targets alone; the supervisor steers by them. No curve without a paired round."""
    return _compared(run, observe(run, first, second), margin_of(run, margin), (first, second))


def _compared(
    run: Run, observations: Observations, margin: float, targets: tuple[int, int]
) -> tuple[Verdict, Curve | None]:
    first, second = targets
    warnings = distinct((*run.warnings, *judge(run, observations)))
    if len(observations.batches) == 0:
        return _no_pairs(run, first, second, warnings), None
    curve = build_curve(observations)
    pair = Pair((run.target_names[first], run.target_names[second]), (run.names[first], run.names[second]))
    return decide(curve, pair, margin, warnings, observations.unstable), curve


def cell_statistics(run: Run) -> tuple[CellStats, ...]:
    """Step time of every cell that has a round, by target, then batch.

    The interval is that of the units: with at least three processes, a t interval over the processes' log medians
    (what a restart changes is in it); otherwise the distribution-free interval of the median over rounds.
    """
    samples: dict[tuple[int, int], dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    for item in run.rounds:
        for block in item.blocks:
            samples[block.target, item.batch][block.process].append(block.step_ms)
    return tuple(_cell(target, batch, samples[target, batch]) for target, batch in sorted(samples))


def _cell(target: int, batch: int, by_process: dict[int, list[float]]) -> CellStats:
    pooled = np.array([value for values in by_process.values() for value in values])
    center, low, high = bounded_median(pooled)
    if len(by_process) >= MIN_UNITS:
        logs = np.log([[median(values)] for values in by_process.values()])
        estimate = estimate_columns(logs, trimmed=False)
        half, middle = float(estimate.half_width(0.05)[0]), float(estimate.center[0])
        low, high = min(center, math.exp(middle - half)), max(center, math.exp(middle + half))
    return CellStats(target, batch, len(pooled), center, low, high)


def speed_ups(curve: Curve) -> tuple[SpeedUp, ...]:
    """At the measured batches, with the pointwise 95 % intervals of the curve."""
    at = curve.at_batches()
    return tuple(
        SpeedUp(
            batch=round(2.0 ** at.x[i]),
            ratio=math.exp(at.center[i]),
            low=math.exp(at.low[i]) if math.isfinite(at.low[i]) else None,
            high=math.exp(at.high[i]) if math.isfinite(at.high[i]) else None,
        )
        for i in range(len(at.x))
    )


def _no_pairs(run: Run, first: int, second: int, warnings: tuple[Warning, ...]) -> Verdict:
    return Verdict(
        kind="inconclusive",
        targets=(run.target_names[first], run.target_names[second]),
        reason="no_common_batch",
        sentence=f"Not clear: {run.names[first]} and {run.names[second]} share no measured batch size.",
        warnings=warnings,
    )

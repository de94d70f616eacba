"""Analysis of a sweep: turns a run into an :class:`~core.rounds.answer.answer.Answer`."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from core.analysis.statistics import Array
from core.base.evidence import Warning
from core.base.numbers import duration, percent
from core.base.schema import UserError
from core.rounds.answer.answer import Against, Answer, CellStats, Machine, SpeedUp, Verdict
from core.rounds.answer.crossover import Curve, build_curve
from core.rounds.answer.fastest import failed_from, find_fastest, margin_of, tables_of
from core.rounds.answer.observations import ALPHA, Observations, has_ended, observe, observe_alone
from core.rounds.answer.overhead import fit_target
from core.rounds.answer.reliability import distinct, judge, of_targets
from core.rounds.answer.verdict import Pair, decide, fastest_verdict, single_verdict
from core.rounds.run import Run


def analyse(run: Run, margin: float | None = None) -> Answer:
    """Return the answer of a run.

    Args:
        run: a sweep with at least one round.
        margin: the lead to look for; by default the plan's, else 0.05.

    Raises:
        UserError: if the run has no round.
    """
    if not run.rounds:
        raise UserError("This run has no measured round yet, so there is nothing to say.")
    run = run.model_copy(update={"warnings": distinct((*run.warnings, *of_targets(run)))})
    margin, count = margin_of(run, margin), len(run.target_names)
    cells = cell_statistics(run)
    fits = tuple(fit_target(run, target, cells) for target in range(count))
    if count == 1:
        verdict = replace(single_verdict(run, fits[0], cells), machine=machine_of(run, observe_alone(run, 0)))
        return Answer(verdict, cells, (), fits)
    if count == 2:
        only = _against(run, observe(run), margin, 1)
        return Answer(only.verdict, cells, (only,), fits)
    tables = tables_of(run)
    against = tuple(
        _against(run, replace(tables[0, target], comparisons=count - 1), margin, target) for target in range(1, count)
    )
    ranking = find_fastest(tables, count, margin, failed_from(run))
    machines = [machine_of(run, table) for table in tables.values()]
    warnings = distinct(w for pair in against for w in pair.verdict.warnings if w.code != "unpaired_rounds")
    verdict = fastest_verdict(run, ranking, margin, warnings, _worst(machines))
    return Answer(verdict, cells, against, fits, ranking)


def _against(run: Run, observations: Observations, margin: float, target: int) -> Against:
    verdict, curve = _compared(run, observations, margin, (0, target))
    return Against(target, verdict, speed_ups(curve, observations.counts) if curve is not None else ())


def compare(run: Run, margin: float | None = None, first: int = 0, second: int = 1) -> tuple[Verdict, Curve | None]:
    """Return the verdict and the curve of two targets alone, by which the supervisor steers; no curve without paired
    rounds.
    """
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
    verdict = decide(curve, pair, margin, warnings, machine_of(run, observations))
    if has_ended(run) and verdict.machine.quiet and verdict.has_interval and not verdict.claims:
        verdict = replace(verdict, sentence=verdict.sentence + _shows_words(run, curve))
    return verdict, curve


def _shows_words(run: Run, curve: Curve) -> str:
    """Return a sentence on the smallest difference that a run resolves, to follow a verdict that is not clear."""
    if (shown := curve.shows_from) is None or not run.elapsed_s:
        return ""
    return f" In {duration(run.elapsed_s)} this machine shows differences from {percent(shown)} on."


def machine_of(run: Run, observations: Observations) -> Machine:
    """Return the state of the machine during a comparison."""
    others = [n.other_cpu_pct for item in run.rounds if (n := item.interference).other_cpu_pct is not None]
    return Machine(
        quiet=observations.quiet,
        others_cores=float(np.mean(others)) / 100 if others else None,
        unstable=observations.unstable,
        starts_ended=bool(len(observations.values)),
    )


def _worst(machines: Sequence[Machine]) -> Machine:
    """Combine the states of the machine during all comparisons of one run into one."""
    return replace(
        machines[0],
        quiet=all(machine.quiet for machine in machines),
        unstable=any(machine.unstable for machine in machines),
        starts_ended=any(machine.starts_ended for machine in machines),
    )


def cell_statistics(run: Run) -> tuple[CellStats, ...]:
    """Return the step time of every cell that has a round, by target, then batch.

    The t interval over replicates includes what preparing the batch again in another start changes.
    """
    return tuple(cell for target in range(len(run.target_names)) for cell in _cells(run, target))


def _cells(run: Run, target: int) -> Iterator[CellStats]:
    seen = observe_alone(run, target)
    rounds = Counter(item.batch for item in run.rounds if item.step_ms(target) is not None)
    center, half = seen.estimate.center, seen.estimate.half_width(ALPHA)
    columns = zip(seen.batches, seen.picture, center, half, seen.counts, strict=True)
    for batch, shown, middle, width, starts in columns:
        bounds = (min(shown, middle - width), max(shown, middle + width)) if math.isfinite(width) else None
        low_ms, high_ms = map(math.exp, bounds) if bounds is not None else (None, None)
        yield CellStats(target, int(batch), rounds[int(batch)], math.exp(shown), low_ms, high_ms, int(starts))


def speed_ups(curve: Curve, starts: Sequence[int] | Array) -> tuple[SpeedUp, ...]:
    """Return the speed-ups at the measured batches with simultaneous 95 % intervals; ``starts`` has one count per
    batch.
    """
    at = curve.at_batches()
    return tuple(
        SpeedUp(
            batch=round(2.0 ** at.x[i]),
            ratio=math.exp(at.center[i]),
            low=math.exp(at.low[i]) if math.isfinite(at.low[i]) else None,
            high=math.exp(at.high[i]) if math.isfinite(at.high[i]) else None,
            starts=int(starts[i]),
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

"""Tables and phrases that compare each of three or more targets with the baseline, the first target."""

from __future__ import annotations

from dataclasses import dataclass

from core.analysis.numerics import evenly
from core.base.numbers import bounded, interval_words
from core.base.text import sentence_case
from core.rounds.answer.answer import Against, Answer, Boundary, SpeedUp
from core.rounds.run import Run
from core.workload.names import one_of

SHOWN_BATCHES = 4


@dataclass(frozen=True)
class BaselineTable:
    """Table of text with one row per target; the first column names the target."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def baseline_table(run: Run, answer: Answer) -> BaselineTable:
    """Return the speed-ups over the baseline at up to four batches with 95 % intervals, and where each target is
    faster.
    """
    batches = evenly(sorted({s.batch for pair in answer.against for s in pair.speed_ups}), SHOWN_BATCHES)
    rows = []
    for pair in answer.against:
        at = {s.batch: s for s in pair.speed_ups}
        speed_ups = (_times(at[batch]) if batch in at else "" for batch in batches)
        rows.append((sentence_case(run.names[pair.target]), *speed_ups, ahead_words(pair)))
    baseline = run.names[0]
    return BaselineTable(
        ("Target", *(f"At batch {batch:,}" for batch in batches), f"Faster than {baseline}"), tuple(rows)
    )


def _times(speed_up: SpeedUp) -> str:
    if speed_up.low is None:
        return "not clear"
    value, bracket, bounds = bounded(speed_up.ratio, speed_up.low, speed_up.high).partition(" (")
    return f"{value}×{bracket}{bounds}"


def ahead_words(pair: Against) -> str:
    """Describe where a target beats the baseline: ``from 41 (32 to 50)``, ``throughout``, ``nowhere`` and the like."""
    verdict = pair.verdict
    if not verdict.has_interval:
        return "not clear"
    if verdict.kind == "crossover":
        target = verdict.targets[1]
        changes = (
            f"{'from' if c.ahead_after == target else 'up to'} {interval_words(c.batch, c.low, c.high)}"
            for c in verdict.crossovers
        )
        return "; ".join(changes)
    if verdict.kind == "ahead":
        return "throughout" if verdict.ahead == verdict.targets[1] else "nowhere"
    return "a tie" if verdict.kind == "tie" else "not clear"


def boundary_label(run: Run, boundary: Boundary) -> str:
    """Return a heading for the fastest from a boundary on: ``GPU 0 fastest``, or ``GPU 0 or 2 threads fastest``."""
    return sentence_case(f"{one_of([run.names[target] for target in boundary.after])} fastest")


def is_change(boundary: Boundary) -> bool:
    """Tell whether the fastest target changes at a boundary; if both sides share a target, only the evidence ends."""
    return not set(boundary.before) & set(boundary.after)

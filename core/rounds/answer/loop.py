"""Cost that Keras's own loop adds to a step: the batch and time to measure it, and its description.

``fit`` (for inference ``predict``) adds work around each step: its Python, callbacks, metrics, the progress bar. It is
never part of the step time. Every number is derived from the recorded pairs, each time.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from core.analysis.statistics import bounded_median
from core.base.numbers import number
from core.base.text import sentence_case
from core.rounds.answer.answer import Answer
from core.rounds.plan import SweepPlan
from core.rounds.run import LoopCost, Run
from core.worker.protocol import LOOP_PAIRS, STEPS_A_PAIR
from core.workload.spec import Workload

SHARE, LEAST_S, MOST_S = 0.05, 1.5, 6.0  # share of the budget; seconds for two targets
MOST_SHARE = 0.1
SHORTEST_BUDGET_S = 15.0
NOT_RECORDED = "not recorded"


@dataclass(frozen=True)
class Added:
    """Milliseconds that the loop adds per step and per call: medians of ``pairs`` with their 95 % intervals (None: too
    few pairs).
    """

    step_ms: float
    low_ms: float | None
    high_ms: float | None
    call_ms: float
    call_low_ms: float | None
    call_high_ms: float | None
    pairs: int

    @property
    def is_clear(self) -> bool:
        return self.low_ms is not None and self.low_ms > 0


def added(cost: LoopCost) -> Added | None:
    """Compute what the loop adds, or None if nothing was measured."""
    if cost.times is None:
        return None
    short, long, own = np.array([(pair.short_ms, pair.long_ms, pair.own_ms) for pair in cost.times.pairs]).T
    a_step = bounded_median((long - short - own) / (2 * cost.times.steps))
    a_call = bounded_median((3 * short - long) / 2)
    return Added(*a_step, *a_call, len(short))


def batch_to_time(run: Run) -> int | None:
    """Return the smallest batch that all targets measured, since its step is the shortest. If a target failed, return
    the smallest that most of them measured; None if only one of several did.
    """
    most = max((len(r.blocks) for r in run.rounds), default=0)
    if most < min(2, len(run.target_names)):
        return None
    return min(r.batch for r in run.rounds if len(r.blocks) == most)


def reserve_s(plan: SweepPlan) -> float:
    """Return the seconds of the budget that are reserved for timing the loop."""
    if plan.budget_s < SHORTEST_BUDGET_S:
        return 0.0
    pairs = len(plan.targets) / 2
    return min(MOST_S * pairs, max(LEAST_S * pairs, SHARE * plan.budget_s), MOST_SHARE * plan.budget_s)


def why_not(plan: SweepPlan, step_ms: float, window_s: float) -> str:
    """Explain in a sentence why the loop cannot be measured on one target; empty if it can."""
    if plan.budget_s < SHORTEST_BUDGET_S:
        return f"A budget of {number(plan.budget_s)} s has no time for it; one of {number(SHORTEST_BUDGET_S)} s has."
    steps = LOOP_PAIRS * STEPS_A_PAIR
    if steps * step_ms > 1000 * window_s:
        left = number(max(0.0, window_s))
        return f"It takes {steps} steps of {number(step_ms)} ms at least, and {left} s were left for it."
    return ""


def loop_name(run: Run) -> str:
    """Return the name of the Keras function whose steps the run measured."""
    return "fit" if run.plan is None else loop_of(run.plan.workload)


def loop_of(workload: Workload) -> str:
    """Return the name of the Keras function that runs such steps."""
    return "fit" if workload.training else "predict"


def loop_lines(run: Run, answer: Answer | None) -> tuple[str, ...]:
    """Return one line per target with its step time and what the loop adds, or why that is unknown; none for a run
    without a record of it.
    """
    reasons = {cost.reason if cost.times is None else None for cost in run.loops}
    if len(run.loops) > 1 and len(reasons) == 1 and (reason := reasons.pop()) is not None:
        return (_not_measured(run, reason),)
    return tuple(_line(run, answer, cost) for cost in sorted(run.loops, key=lambda cost: cost.target))


def _not_measured(run: Run, reason: str, target: str = "") -> str:
    return f"{target}What {loop_name(run)} itself adds to a step was not measured. {reason}".rstrip()


def _line(run: Run, answer: Answer | None, cost: LoopCost) -> str:
    name, loop = sentence_case(run.names[cost.target]), loop_name(run)
    cost_added = added(cost)
    if cost_added is None:
        return _not_measured(run, cost.reason, f"{name}: ")
    cell = answer.cell(cost.target, cost.batch) if answer is not None else None
    takes = f"a step takes {number(cell.step_ms)} ms; " if cell is not None else ""
    adds = f"{number(cost_added.step_ms)} ms" if cost_added.is_clear else "nothing measurable"
    bounds = "no interval"
    if cost_added.low_ms is not None and cost_added.high_ms is not None:
        unit = "" if cost_added.is_clear else " ms"
        bounds = f"95 % interval {number(cost_added.low_ms)} to {number(cost_added.high_ms)}{unit}"
    return f"{name}: {takes}{loop} adds {adds} ({bounds}), {run.label} at batch {cost.batch:,}"


def loop_notes(run: Run) -> tuple[str, ...]:
    """Describe how that was measured and the cost of a call of the loop, or that nothing was recorded."""
    loop = loop_name(run)
    costs = [(run.names[cost.target], of) for cost in run.loops if (of := added(cost)) is not None]
    if not run.loops:
        return (f"What {loop} itself adds to a step: {NOT_RECORDED}.",)
    if not costs:
        return ()
    calls = [
        f"{name}: {number(of.call_ms)} ms ({number(of.call_low_ms)} to {number(of.call_high_ms)})"
        for name, of in costs
        if of.call_low_ms is not None and of.call_high_ms is not None and of.call_low_ms > 0
    ]
    pairs = " and ".join(str(of.pairs) for _, of in costs)
    feed = f" ({run.plan.pipeline.title})" if run.plan is not None else ""
    notes = [
        f"What {loop} adds ({run.label}): {loop} with its defaults, progress bar included, ran the same compiled "
        f"function on the same feed{feed} as blocks of steps, in turn ({pairs} pairs). No step time holds it."
    ]
    if calls:
        notes.append(f"A call of {loop} costs once, its data already set up. {'; '.join(calls)}.")
    return tuple(notes)

"""Proposed length of a sweep: until each batch of its plan is prepared in three starts of its workers. Pure."""

from __future__ import annotations

from core.analysis.longer import STEPS_S
from core.numbers import duration, number
from core.spec import Target
from core.studies.sweep import loop, schedule
from core.studies.sweep.experience import PREPARE_S, STARTUP_S
from core.studies.sweep.plan import SweepPlan
from core.studies.sweep.schedule import Costs
from core.worker.templates import FORKED

USUAL_S = 90.0
"""Shortest budget that is proposed."""
FORKED_S, FORKED_PREPARE_S, COMPILED_PREPARE_S = 0.1, 0.3, 0.9
"""Seconds of a start of TensorFlow's workers on a CPU, and of preparing a batch there without and with XLA (measured,
two cores)."""
IMPORTS_S = 8.0
"""Seconds in which the first two starts import the framework (measured, two cores)."""


def with_proposed_budget(plan: SweepPlan, least_s: float = USUAL_S) -> SweepPlan:
    """Return the plan with the shortest round time, from ``least_s`` on, that holds three starts with every batch."""
    longer = (plan.model_copy(update={"budget_s": float(step)}) for step in STEPS_S if step >= least_s)
    return next(filter(holds_three_starts, longer), plan.model_copy(update={"budget_s": float(STEPS_S[-1])}))


def holds_three_starts(plan: SweepPlan) -> bool:
    """Tell whether the budget should hold three starts with every batch, by costs assumed before any was measured."""
    left_s = plan.budget_s - schedule.trace_reserve_s(plan) - loop.reserve_s(plan) - IMPORTS_S
    startup_s = _startup_s(plan)
    batch = Costs(startup_s, sum(map(_prepare_s, plan.targets)), schedule.VISIT_S)
    start_s = startup_s + len(plan.batches) * batch.replicate_s(schedule.LEAST_VISITS)
    return (1 - schedule.SPARE_SHARE) * left_s >= schedule.REPLICATES * start_s


def budget_words(plan: SweepPlan) -> str:
    """Explain why the budget is longer than usual, or the effect of one that is too short; else empty."""
    proposed_s = with_proposed_budget(plan).budget_s
    why = (
        f"an interval takes three starts of the workers, of about {number(_startup_s(plan))} s each, with all "
        f"{len(plan.batches)} batch sizes"
    )
    if not holds_three_starts(plan):
        return f"In {duration(plan.budget_s)} fewer batch sizes will be measured than asked for: {why}."
    if plan.budget_s == proposed_s > USUAL_S:
        return f"{duration(proposed_s)} are proposed, since {why}."
    return ""


def _startup_s(plan: SweepPlan) -> float:
    return FORKED_S if all(map(_is_forked, plan.targets)) else STARTUP_S


def _prepare_s(target: Target) -> float:
    if target.execution == "xla":
        return COMPILED_PREPARE_S
    return FORKED_PREPARE_S if _is_forked(target) else PREPARE_S


def _is_forked(target: Target) -> bool:
    """Tell whether the target's workers are forked, once the framework is imported (docs/design.md, Processes)."""
    return target.framework in FORKED and target.on_cpu and target.python is None

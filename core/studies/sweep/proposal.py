"""Proposed length of a sweep: until each batch of its plan is prepared in three starts of its workers. Pure."""

from __future__ import annotations

from core.analysis.statistics import STEPS_S
from core.base.numbers import duration, number
from core.networks.families import Network
from core.rounds.answer import loop
from core.rounds.plan import SweepPlan
from core.studies.sweep import schedule
from core.studies.sweep.schedule import VISIT_S, VISIT_SHARE, Costs, expected_s, rounds_of_a_visit
from core.worker.templates import FORKED
from core.workload.execution import expected
from core.workload.spec import Target

STARTUP_S, PREPARE_S = 5.0, 0.5  # assumed before anything was measured
GPU_STARTUP_S, GPU_PREPARE_S, GPU_COMPILED_PREPARE_S = 10.0, 1.0, 5.0
"""The same on a GPU, without and with XLA (measured: H200, 8.2 to 13.1, 0.5 to 1.6 and 0.9 to 9.9 s)."""


class Experience:
    """Seconds per batch of preparing it for one target and of a round of all targets."""

    def __init__(self) -> None:
        self._startup_s = STARTUP_S
        self._imports_s: list[float] = []
        self._prepare_s: dict[int, float] = {}
        self._round_s: dict[int, float] = {}

    def started(self, took_s: float, own_s: float) -> None:
        """Record a start, and the part of it that its slowest worker took by itself."""
        self._startup_s = own_s
        self._imports_s.append(max(0.0, took_s - own_s))

    def prepared(self, batch: int, took_s: float, targets: int) -> None:
        self._prepare_s[batch] = took_s / targets

    def ran_rounds(self, batch: int, mean_s: float) -> None:
        """Record the mean of a visit's rounds so far: cores may be woken once per visit."""
        self._round_s[batch] = mean_s

    @property
    def imports_s(self) -> tuple[float, float]:
        """Seconds spent in starts on importing the framework into fork servers, and seconds that this will still take:
        a command does it in its first two starts (docs/design.md, Processes).
        """
        return sum(self._imports_s), self._imports_s[0] if len(self._imports_s) == 1 else 0.0

    def costs(self, batch: int, targets: int) -> Costs:
        """Return the expected costs of a start, of preparing this batch on so many targets, and of a visit."""
        prepare_s = expected_s(batch, self._prepare_s, PREPARE_S)
        round_s = expected_s(batch, self._round_s, VISIT_S)
        longer_s = max(0.0, VISIT_SHARE * targets * prepare_s - VISIT_S)
        visit_s = rounds_of_a_visit(round_s) * round_s if targets else 0.0
        return Costs(self._startup_s, targets * prepare_s + longer_s, visit_s)

    def rounds_of_a_visit(self, batch: int, expected_round_s: float, prepared_s: float) -> int:
        """Return the number of rounds of the batch's next visit, for which it was prepared for ``prepared_s``; the
        first visit uses the expected round time.
        """
        return rounds_of_a_visit(self._round_s.get(batch, expected_round_s), prepared_s)


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
    batch = Costs(startup_s, _prepare_s(plan), schedule.VISIT_S)
    start_s = startup_s + len(plan.batches) * batch.replicate_s(schedule.LEAST_VISITS)
    return (1 - schedule.SPARE_SHARE) * left_s >= schedule.REPLICATES * start_s


def budget_words(plan: SweepPlan) -> str:
    """Explain why the budget is longer than usual, or the effect of one that is too short; else empty."""
    proposed_s = with_proposed_budget(plan).budget_s
    why = (
        f"an interval takes three starts of the workers, each of about {number(_startup_s(plan))} s and "
        f"{number(_prepare_s(plan))} s per batch size, with all {len(plan.batches)} batch sizes"
    )
    if not holds_three_starts(plan):
        return f"In {duration(plan.budget_s)} fewer batch sizes will be measured than asked for: {why}."
    if plan.budget_s == proposed_s > USUAL_S:
        return f"{duration(proposed_s)} are proposed, since {why}."
    return ""


def _startup_s(plan: SweepPlan) -> float:
    if any(target.is_gpu for target in plan.targets):
        return GPU_STARTUP_S
    return FORKED_S if all(map(_is_forked, plan.targets)) else STARTUP_S


def _prepare_s(plan: SweepPlan) -> float:
    """Return the expected seconds of preparing one batch on every target."""
    return sum(_prepare_one_s(plan.workload.network, target) for target in plan.targets)


def _prepare_one_s(network: Network, target: Target) -> float:
    if target.is_gpu:
        return GPU_COMPILED_PREPARE_S if expected(network, target).execution == "xla" else GPU_PREPARE_S
    if target.execution == "xla":
        return COMPILED_PREPARE_S
    return FORKED_PREPARE_S if _is_forked(target) else PREPARE_S


def _is_forked(target: Target) -> bool:
    """Tell whether the target's workers are forked, once the framework is imported (docs/design.md, Processes)."""
    return target.framework in FORKED and target.on_cpu and target.python is None

"""Check that a plan fits into memory before anything is started."""

from __future__ import annotations

from core.analysis.memory import CONTEXT_BYTES, estimate_bytes
from core.numbers import byte_size
from core.schema import UserError
from core.spec import Target
from core.studies.sweep.plan import SweepPlan

_RESERVE = 0.9  # largest share of the memory that a plan may use


def check_fits(plan: SweepPlan, available_bytes: int, limited: str = "") -> None:
    """Raise UserError if the largest batch cannot fit beside the worker processes on the CPU. ``limited`` names what
    limits the memory (:attr:`core.evidence.Resources.limited_words`).

    GPU targets are judged by their worker, which knows the card's memory; there, running out is an outcome of a cell.
    """
    on_host = [target for target in plan.targets if not target.is_gpu]
    fixed = CONTEXT_BYTES * len(plan.targets)
    for batch in reversed(plan.batches):
        needed = fixed + sum(estimate_bytes(plan.workload, target, batch).total_bytes for target in on_host)
        if needed <= _RESERVE * available_bytes:
            if batch == plan.batches[-1]:
                return
            raise UserError(
                f"Batch {plan.batches[-1]:,} of {plan.workload.network.name} needs about "
                f"{byte_size(_needed(plan, on_host, fixed))}, more than the {byte_size(available_bytes)} this "
                f"machine has free{limited}; batches up to {batch:,} fit."
            )
    raise UserError(
        f"{plan.workload.network.name} needs about {byte_size(_needed(plan, on_host, fixed))}, more than the "
        f"{byte_size(available_bytes)} this machine has free{limited}, whatever the batch; choose a smaller depth or "
        "width."
    )


def _needed(plan: SweepPlan, targets: list[Target], fixed_bytes: int) -> int:
    return fixed_bytes + sum(estimate_bytes(plan.workload, t, plan.batches[-1]).total_bytes for t in targets)

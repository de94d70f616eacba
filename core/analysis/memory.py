"""Memory a workload needs, estimated before anything runs.

M = P·(weights + gradients + optimizer state) + b·k·(activation bytes) + data (DESIGN's notes: float32 training needs
4 + 4 + s bytes a parameter, s = 0 for SGD, 4 with momentum, 8 for Adam; mixed precision adds a 2-byte copy).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from core.spec import SweepPlan, Target, Workload

_STATE_BYTES = {"sgd": 0, "momentum": 4, "adam": 8}
# Activations live twice at the worst: kept for the backward pass, and its gradient beside it.
_TRAINING_COPIES, _INFERENCE_COPIES = 2, 1
_CONTEXT_BYTES = 600_000_000  # a process with TensorFlow imported (measured: notes on measurement, 0.6 GB)
_RESERVE = 0.9  # share of the memory that may be planned for


@dataclass(frozen=True)
class MemoryEstimate:
    """Bytes by part; ``total_bytes`` is without the framework's own process."""

    weights_bytes: int
    gradients_bytes: int
    optimizer_bytes: int
    activations_bytes: int
    data_bytes: int

    @property
    def total_bytes(self) -> int:
        return (
            self.weights_bytes + self.gradients_bytes + self.optimizer_bytes + self.activations_bytes + self.data_bytes
        )


def estimate_bytes(workload: Workload, target: Target, batch: int) -> MemoryEstimate:
    """Estimated memory of one cell."""
    network, training = workload.network, workload.training
    mixed = target.precision != "float32"
    copies = _TRAINING_COPIES if training else _INFERENCE_COPIES
    activation_bytes = 2 if mixed else 4
    return MemoryEstimate(
        weights_bytes=network.parameters * (6 if mixed else 4),
        gradients_bytes=network.parameters * 4 if training else 0,
        optimizer_bytes=network.parameters * _STATE_BYTES[workload.optimizer] if training else 0,
        activations_bytes=copies * batch * network.activations * activation_bytes,
        data_bytes=4 * batch * (math.prod(network.input_shape) + 1),
    )


def check_fits(plan: SweepPlan, available_bytes: int) -> None:
    """Raises ValueError with a sentence when the largest batch cannot fit beside two worker processes on the CPU.

    GPU targets are judged by the worker, which knows the card's memory; there, running out is an outcome of a cell.
    """
    on_host = [target for target in plan.targets if not target.is_gpu]
    fixed = _CONTEXT_BYTES * len(plan.targets)
    for batch in reversed(plan.batches):
        needed = fixed + sum(estimate_bytes(plan.workload, target, batch).total_bytes for target in on_host)
        if needed <= _RESERVE * available_bytes:
            if batch == plan.batches[-1]:
                return
            raise ValueError(
                f"Batch {plan.batches[-1]:,} of {plan.workload.network.name} needs about "
                f"{_needed(plan, on_host, fixed) / 1e9:.1f} GB, more than the {available_bytes / 1e9:.1f} GB this "
                f"machine has free; batches up to {batch:,} fit."
            )
    raise ValueError(
        f"{plan.workload.network.name} needs about {_needed(plan, on_host, fixed) / 1e9:.1f} GB, more than the "
        f"{available_bytes / 1e9:.1f} GB this machine has free, whatever the batch; choose a smaller depth or width."
    )


def _needed(plan: SweepPlan, targets: list[Target], fixed_bytes: int) -> int:
    return fixed_bytes + sum(estimate_bytes(plan.workload, t, plan.batches[-1]).total_bytes for t in targets)

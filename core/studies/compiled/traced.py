"""Traced steps of a real GPU beside the same steps as the compiler made them without it. Pure functions."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from core.base.numbers import counted, number
from core.rounds.run import Run
from core.studies.compiled.answer import CardStep, tensorflow_range
from core.studies.compiled.shipped import compiled_steps
from core.workload.spec import Target

SAME = (0.95, 1.05)
"""Kernels of a traced step of JAX over the compiled ones: 1.00 to 1.04 on an H200, since tuning adds and saves some
(docs/tables/h200.md).
"""

TRACED_COLUMNS = ("step", "batch", "kernels traced", "expected", "computed ms", "least ms", "step ms")


@dataclass(frozen=True)
class TracedStep:
    """One traced step beside its compiled facts.

    ``kernels`` are those of the trace per step, ``expected`` the range that the compiled count implies for the
    framework, ``step_ms`` the step without the profiler, ``compute_ms`` the time with a kernel running.
    """

    title: str
    compiled: CardStep
    kernels: float
    expected: tuple[int, int]
    step_ms: float
    compute_ms: float

    @property
    def within(self) -> bool:
        """True if as many kernels ran as were to be expected."""
        return self.expected[0] <= self.kernels <= self.expected[1]

    @property
    def above_floor(self) -> bool:
        """True if the kernels took no less than the least time that is claimed for them."""
        return self.compute_ms >= self.compiled.floor_ms


def expected_kernels(compiled: CardStep, target: Target) -> tuple[int, int]:
    """Return the range of kernels that a traced step of the target should have."""
    if target.framework != "jax":
        return tensorflow_range(compiled)
    low, high = SAME
    return math.floor(low * compiled.program.launches), math.ceil(high * compiled.program.launches)


def traced_steps(run: Run, card: str) -> Iterator[TracedStep]:
    """Yield the traced steps of a sweep whose compiled facts for that card ship."""
    if run.plan is None:
        return
    for trace in run.traces:
        target, device = run.plan.targets[trace.target], trace.device
        known = compiled_steps(run.plan.workload, target, card)
        compiled = next((step for step in known if step.batch == trace.batch), None)
        if compiled is None:
            continue
        steps = len(device.steps)
        yield TracedStep(
            run.plan.workload.title, compiled, device.kernels / steps,
            expected_kernels(compiled, target), trace.unprofiled_step_ms,
            sum(step.compute_ms for step in device.steps) / steps,
        )  # fmt: skip


def agreement_sentence(steps: Iterable[TracedStep]) -> str:
    """Say how many traced steps have the expected kernels and keep to the least time; empty without any."""
    known = list(steps)
    if not known:
        return ""
    within, above = sum(step.within for step in known), sum(step.above_floor for step in known)
    return (
        f"Of {counted(len(known), 'traced step')} {within} ran as many kernels as XLA compiles without the card, and "
        f"{above} computed no faster than its least time."
    )


def traced_row(step: TracedStep) -> tuple[str | float, ...]:
    """Return one step in the order of :data:`TRACED_COLUMNS`."""
    low, high = step.expected
    expected = f"{low:,} to {high:,}" if low < high else f"{low:,}"
    return (
        step.title, f"{step.compiled.batch:,}", number(step.kernels), expected, step.compute_ms,
        step.compiled.floor_ms, step.step_ms,
    )  # fmt: skip


def traced_data(step: TracedStep) -> dict[str, Any]:
    """Return one step as JSON data."""
    return {
        "step": step.title, "batch": step.compiled.batch, "kernels": step.kernels,
        "compiled_kernels": step.compiled.program.launches, "expected_kernels": step.expected, "within": step.within,
        "compute_ms": step.compute_ms, "floor_ms": step.compiled.floor_ms, "step_ms": step.step_ms,
    }  # fmt: skip

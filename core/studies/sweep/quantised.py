"""Accuracy cost of int8: the difference between a target's outputs and those in float32, beside its speed."""

from __future__ import annotations

from collections.abc import Sequence

from core.evidence import OutputDifference, Setup
from core.families.code import Code
from core.frameworks import FRAMEWORKS
from core.numbers import percent
from core.studies.sweep.ran_as import resolved_target
from core.studies.sweep.record import Run

RANDOM_WEIGHTS = "The weights are random; trained weights may differ"


def output_difference(setups: Sequence[Setup]) -> OutputDifference | None:
    """Return the worst difference recorded with these cells; None if nothing was."""
    found = [setup.output_difference for setup in setups if setup.output_difference is not None]
    if not found:
        return None
    return found[-1].model_copy(
        update={
            "samples": min(each.samples for each in found),
            "largest": max(each.largest for each in found),
            "mean": max(each.mean for each in found),
            "agreeing": min(each.agreeing for each in found),
        }
    )


def output_difference_lines(run: Run) -> tuple[str, ...]:
    """Return one line per target that ran in int8, over all its batches."""
    lines = []
    for target, name in enumerate(run.names):
        worst = output_difference([setup for setup in run.setups if setup.target == target])
        if worst is not None:
            lines.append(
                f"{name}: its outputs differ from those in float32 by {_share(worst.mean)} of their range on average, "
                f"{_share(worst.largest)} at most, and choose the same class for {percent(worst.agreeing)} of "
                f"{worst.samples:,} samples. In int8: {worst.quantised}.{_slower(run, target)}"
            )
    if lines:
        lines[-1] += f" {_weights(run)}."
    return tuple(lines)


def _share(share: float) -> str:
    return f"{100 * share:.2g} %"


def _slower(run: Run, target: int) -> str:
    """Explain why Keras's own int8 is often slower; measured with Keras 3.15 (docs/frameworks.md)."""
    if run.plan is None:
        return ""
    ran = resolved_target(run, target)
    framework = FRAMEWORKS[ran.framework]
    if not framework.through_keras:
        return ""
    why = "every step scales and rounds what enters each of these layers"
    if ran.on_cpu and ran.execution != "xla":
        why += f", and {framework.title} has no fast product of int8 matrices on the CPU"
    return f" Keras’s int8 saves memory and is often slower: {why}."


def _weights(run: Run) -> str:
    if run.plan is not None and isinstance(run.plan.workload.network, Code):
        return "The weights are those of your function; other weights may differ"
    return RANDOM_WEIGHTS

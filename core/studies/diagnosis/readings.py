"""Readings of the sweep itself about mistaken timings and wasted work: start-up in the timing, fallback, retracing."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import median
from typing import Literal

import numpy as np

from core.analysis.numerics import zeros
from core.numbers import number, percent, rounded
from core.studies.sweep.answer import Answer
from core.studies.sweep.record import Run

EPOCH_STEPS = 100  # steps of the first epoch that a hypothetical stopwatch times


@dataclass(frozen=True)
class Reading:
    """Observation from the recorded run; ``matters`` marks what a reader should not pass over."""

    code: Literal["startup", "fallback", "retracing"]
    title: str
    text: str
    matters: bool


def readings(run: Run, answer: Answer, target: int, batch: int) -> tuple[Reading, ...]:
    """Return the readings for one target of a run at the measured batch nearest to ``batch``."""
    found = (_startup(run, answer, target, batch), _fallback(run, target), _retracing(run, target))
    return tuple(reading for reading in found if reading is not None)


def stopwatch_ms(run: Run, answer: Answer, target: int, batch: int) -> float | None:
    """Return the step time (ms) that a stopwatch around a first epoch of ``EPOCH_STEPS`` steps would give; None if
    unknown.

    Build and first call (trace, compile) are added to the steps, spread over the epoch.
    """
    cell = answer.cell(target, batch)
    setups = [s for s in run.setups if s.target == target and s.batch == batch]
    if cell is None or not setups:
        return None
    return cell.step_ms + median(s.build_ms + s.first_call_ms for s in setups) / EPOCH_STEPS


def stopwatch_crossover(run: Run, answer: Answer) -> float | None:
    """Return the first batch at which the stopwatch's times would cross, interpolated in log2(batch); None if none."""
    x, y = [], []
    if len(run.target_names) != 2:
        return None
    for batch in run.batches:
        first, second = (stopwatch_ms(run, answer, target, batch) for target in (0, 1))
        if first is not None and second is not None:
            x.append(math.log2(batch))
            y.append(math.log(first / second))
    return next((2.0**at for at in zeros(np.array(x), np.array(y))), None)


def _startup(run: Run, answer: Answer, target: int, batch: int) -> Reading | None:
    known = [c.batch for c in answer.cells if c.target == target and stopwatch_ms(run, answer, target, c.batch)]
    if not known:
        return None
    nearest = min(known, key=lambda b: abs(math.log(b / batch)))
    said, cell = stopwatch_ms(run, answer, target, nearest), answer.cell(target, nearest)
    assert said is not None
    assert cell is not None
    text = (
        f"A stopwatch around the first epoch of {EPOCH_STEPS} steps at batch {nearest:,} would have said "
        f"{number(said)} ms a step on {run.names[target]}; in steady state it is {number(cell.step_ms)} ms "
        f"({said / cell.step_ms:.1f} times less)."
    )
    ours = answer.verdict.crossovers[0].batch if answer.verdict.crossovers else None
    theirs = stopwatch_crossover(run, answer)
    if ours is not None or theirs is not None:
        mine = f"at batch {rounded(ours)}" if ours is not None else "nowhere in the range"
        other = f"at batch {rounded(theirs)}" if theirs is not None else "nowhere in the range"
        text += f" By that stopwatch the targets cross {other}; in steady state {mine}."
    return Reading("startup", "Start-up inside the timing", text, said / cell.step_ms > 1.1)


def _fallback(run: Run, target: int) -> Reading | None:
    if run.plan is None or not run.plan.targets[target].is_gpu:
        return None
    traces = [t for t in run.traces if t.target == target]
    if not traces:
        return None
    worst = max(traces, key=lambda t: sum(op.total_ms for op in t.host_ops if not op.expected))
    fell = [op for op in worst.host_ops if not op.expected]
    if not fell:
        return Reading("fallback", "Operations on the host", "No operation of the traced steps fell back.", False)
    traced_ms = sum(step.step_ms for step in worst.device.steps)
    names = ", ".join(f"{op.op_type} ({op.count}×, {number(op.total_ms)} ms)" for op in fell[:5])
    text = (
        f"At batch {worst.batch:,} operations of the step ran on the host although the target is a GPU: {names}. "
        f"They take at most {percent(sum(op.total_ms for op in fell) / traced_ms)} of the traced steps, which is the "
        "most that moving them could gain."
    )
    return Reading("fallback", "Operations that fell back to the host", text, True)


def _retracing(run: Run, target: int) -> Reading | None:
    traces = [t for t in run.traces if t.target == target]
    if not traces:
        return None
    again = [t for t in traces if t.retraces]
    if not again:
        return Reading("retracing", "Retracing", "No function was traced again in the traced steps.", False)
    worst = max(again, key=lambda t: t.retraces)
    text = (
        f"Within {len(worst.device.steps)} traced steps at batch {worst.batch:,} a function was traced again "
        f"{worst.retraces} times. Give inputs one shape and dtype, and no Python numbers."
    )
    return Reading("retracing", "Retracing found", text, True)

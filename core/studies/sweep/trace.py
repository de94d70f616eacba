"""Tracing a cell: on a sweep's own worker, or later, of a stored run, on a worker started for it."""

from __future__ import annotations

import math
from dataclasses import dataclass

from core.base.schema import UserError
from core.rounds.run import Run
from core.studies.kind import Task
from core.studies.runner import Asking, StudyTools
from core.traces.record import TracedCell
from core.worker.protocol import CellFailed, Prepare, TraceSteps, Worker

TRACE_MS = 60.0  # length to trace: some steps of a slow cell, not thousands of a fast one
MIN_STEPS, MAX_STEPS = 3, 20
WARMUP_MS = 500.0


def steps_to_trace(step_ms: float) -> int:
    """Return the number of steps in a trace, for a step of that length."""
    return min(MAX_STEPS, max(MIN_STEPS, math.ceil(TRACE_MS / step_ms)))


def trace_prepared(asking: Asking, worker: Worker, target: int, batch: int, step_ms: float) -> TracedCell:
    """Trace a cell that ``worker`` has prepared. Raises CellFailed or WorkerLost."""
    request = TraceSteps(batch=batch, steps=steps_to_trace(step_ms))
    return asking.ask(worker, request, target).to_cell(target)


def trace_cell(tools: StudyTools, run: Run, target: int, batch: int) -> TracedCell:
    """Start a worker for the run's target, prepare the batch and trace it, within about the run's budget.

    Raises CellFailed or WorkerLost.
    """
    if run.plan is None:
        raise CellFailed("error", NO_PLAN)
    plan, asking = run.plan, Asking(tools, run.plan.budget_s)
    (worker,) = asking.start((plan.targets[target],))
    try:
        request = Prepare(workload=plan.workload, pipeline=plan.pipeline, batch=batch, warmup_ms=WARMUP_MS)
        prepared = asking.prepare(worker, request)
        return trace_prepared(asking, worker, target, batch, min(prepared.latency_ms, default=1.0))
    finally:
        worker.close()


@dataclass(frozen=True)
class CellToTrace:
    """A cell of a stored run: the index of its target, and its batch."""

    run: Run
    target: int
    batch: int


NO_PLAN = "Only points were imported for this run. Without its plan nothing can be traced."


def why_untraceable(run: Run) -> str | None:
    """Return why no cell of this run can be traced here, or None."""
    if run.plan is None:
        return NO_PLAN
    if run.label != "measured":
        return (
            f"Nothing can be traced here: this run is {run.label}, and a trace from this machine would not belong to "
            "it. Measure the same plan here first."
        )
    return None


def traceable_batches(run: Run, target: int) -> list[int]:
    """Return the measured batches of a target, rising."""
    return sorted({r.batch for r in run.rounds if r.step_ms(target) is not None})


def _check(cell: CellToTrace) -> None:
    if (why := why_untraceable(cell.run)) is not None:
        raise UserError(why)


def _trace(tools: StudyTools, cell: CellToTrace) -> TracedCell:
    """Trace a cell and add it to its run, where it replaces an earlier trace of the cell."""
    traced = trace_cell(tools, cell.run, cell.target, cell.batch)
    tools.recorder.record(cell.run.id, (traced,))
    return traced


TRACE: Task[CellToTrace, TracedCell] = Task(
    name="trace",
    describe=lambda cell: f"Trace of {cell.run.names[cell.target]} at batch {cell.batch:,}",
    run=_trace,
    targets=lambda cell: (cell.run.plan.targets[cell.target],) if cell.run.plan is not None else (),
    check=_check,
)

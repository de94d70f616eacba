"""Tracing of one cell of a run on request, in a worker of its own."""

from __future__ import annotations

import math

from core.studies.runner import Asking, StudyTools
from core.studies.sweep.record import Run
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
        raise CellFailed("error", "Only points were imported for this run; without its plan nothing can be traced.")
    plan, asking = run.plan, Asking(tools, run.plan.budget_s)
    (worker,) = asking.start((plan.targets[target],))
    try:
        request = Prepare(workload=plan.workload, pipeline=plan.pipeline, batch=batch, warmup_ms=WARMUP_MS)
        prepared = asking.prepare(worker, request)
        return trace_prepared(asking, worker, target, batch, min(prepared.latency_ms, default=1.0))
    finally:
        worker.close()

"""Trace one cell of a run on request, in a worker of its own."""

from __future__ import annotations

import math

from core.studies.runner import PREPARE_DEADLINE_S, START_DEADLINE_S
from core.studies.sweep.record import Run
from core.traces.record import TracedCell
from core.worker.protocol import CellFailed, Launcher, Prepare, TraceSteps, Worker

TRACE_MS = 60.0  # of steps to trace: some steps of a slow cell, not thousands of a fast one
MIN_STEPS, MAX_STEPS = 3, 20
TRACE_DEADLINE_S = 120.0
WARMUP_MS = 500.0


def steps_to_trace(step_ms: float) -> int:
    """How many steps a trace holds, for a step of that length."""
    return min(MAX_STEPS, max(MIN_STEPS, math.ceil(TRACE_MS / step_ms)))


def trace_prepared(worker: Worker, target: int, batch: int, step_ms: float) -> TracedCell:
    """Trace a cell that ``worker`` has prepared. Raises CellFailed or WorkerLost."""
    request = TraceSteps(batch=batch, steps=steps_to_trace(step_ms))
    return worker.ask(request, TRACE_DEADLINE_S).to_cell(target)


def trace_cell(run: Run, target: int, batch: int, launcher: Launcher) -> TracedCell:
    """Start a worker for the run's target, prepare the batch and trace it. Raises CellFailed or WorkerLost."""
    if run.plan is None:
        raise CellFailed("error", "Only points were imported for this run; without its plan no cell can be traced.")
    (worker,) = launcher((run.plan.targets[target],), START_DEADLINE_S)
    try:
        plan = run.plan
        request = Prepare(workload=plan.workload, pipeline=plan.pipeline, batch=batch, warmup_ms=WARMUP_MS)
        prepared = worker.ask(request, PREPARE_DEADLINE_S)
        return trace_prepared(worker, target, batch, min(prepared.latency_ms, default=1.0))
    finally:
        worker.close()

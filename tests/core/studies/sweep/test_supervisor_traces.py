"""The traces at the end of a sweep: their cells, their time limit, and the cost of a failure."""

import functools
import math
import threading

import pytest

from core.rounds.answer.analyse import analyse
from core.rounds.run import Run
from core.studies.progress import Progress
from core.studies.sweep.trace import steps_to_trace
from core.traces.record import TracedCell
from core.worker.protocol import CellFailed, Traced, WorkerError, WorkerLost
from simulated.simulation import Curve, Machine, NoiseModel
from simulated.sweeps import MemoryRecorder, plan, sweep

CROSSING = (Curve(0.3, 0.02), Curve(1.0, 0.003))


def traced(run: Run) -> set[tuple[int, int]]:
    return {(cell.target, cell.batch) for cell in run.traces}


def test_a_finished_sweep_has_traces_of_three_batches_on_both_targets() -> None:
    recorder = MemoryRecorder()
    machine = Machine(CROSSING)
    run = sweep(machine, plan(), recorder=recorder)
    (crossover,) = analyse(run).verdict.crossovers
    nearest = min(run.batches, key=lambda b: abs(math.log(b / crossover.batch)))
    assert nearest not in (1, 1024)
    assert traced(run) == {(t, b) for t in (0, 1) for b in (1, nearest, 1024)}
    assert [r for r in recorder.others if isinstance(r, TracedCell)] != []
    assert {(r.target, r.batch) for r in recorder.others if isinstance(r, TracedCell)} == traced(run)
    for cell in run.traces:
        step_ms = CROSSING[cell.target].step_ms(cell.batch)
        assert cell.unprofiled_step_ms == pytest.approx(step_ms)
        assert len(cell.device.steps) == pytest.approx(steps_to_trace(step_ms), abs=1)


@pytest.mark.parametrize(("step_ms", "steps"), [(0.01, 20), (3.0, 20), (10.0, 6), (19.0, 4), (20.1, 3), (5000.0, 3)])
def test_a_trace_has_some_steps_of_a_slow_cell_and_not_thousands_of_a_fast_one(step_ms: float, steps: int) -> None:
    assert steps_to_trace(step_ms) == steps


def test_no_traces_where_they_are_not_wanted_or_the_sweep_was_cancelled() -> None:
    assert sweep(Machine(CROSSING), plan(trace=False)).traces == ()
    cancel = threading.Event()
    run = sweep(
        Machine(CROSSING), plan(), cancel=cancel, report=lambda s: cancel.set() if len(s.record.rounds) > 30 else None
    )
    assert (run.status, run.traces) == ("cancelled", ())


def test_at_each_batch_the_gpu_is_traced_first() -> None:
    recorder = MemoryRecorder()
    run = sweep(Machine(CROSSING), plan(), recorder=recorder)
    places = [(cell.batch, cell.target) for cell in recorder.others if isinstance(cell, TracedCell)]
    assert run.target_names == ("cpu", "gpu:0")
    assert [target for _, target in places] == [1, 0] * 3
    assert all(one[0] == other[0] for one, other in zip(places[::2], places[1::2], strict=True))


def test_cancelling_while_tracing_keeps_the_traces_so_far() -> None:
    cancel = threading.Event()

    def stop(progress: Progress) -> None:
        if progress.phase == "tracing" and len(progress.record.traces) == 2:
            cancel.set()

    machine = Machine(CROSSING)
    run = sweep(machine, plan(), cancel=cancel, report=stop)
    assert run.status == "cancelled"
    assert len(run.traces) == 2


class BadTraces(Machine):
    """Machine that fails every trace of the second target."""

    kind: type[WorkerError] = CellFailed

    def launch(self, targets, deadline_s, *_):
        workers = super().launch(targets, deadline_s)

        def trace(*_: object) -> Traced:
            raise self.kind("error", "The profiler is busy.")

        workers[1].trace = trace
        return workers


def test_failing_traces_are_one_warning_a_cause_and_no_more() -> None:
    run = sweep(BadTraces(CROSSING), plan())
    assert run.status == "finished"
    assert len(run.traces) == 3
    assert {cell.target for cell in run.traces} == {0}
    (told,) = run.warnings
    batches = sorted(cell.batch for cell in run.traces)
    low, middle, high = (f"{batch:,}" for batch in batches)
    assert f"batches {low}, {middle} and {high}" in told.text
    assert told.code in {f"trace_1_{batch}" for batch in batches}
    assert {c.outcome for c in run.cells} == {"measured"}


def test_a_worker_lost_while_tracing_ends_the_traces_and_not_the_sweep() -> None:
    machine = BadTraces(CROSSING)
    machine.kind = WorkerLost
    run = sweep(machine, plan())
    assert run.status == "finished"
    assert {c.outcome for c in run.cells} == {"measured"}
    assert run.traces == ()
    (told,) = run.warnings
    assert told.code in {f"trace_1_{batch}" for batch in run.batches}


@pytest.mark.parametrize("budget_s", [20.0, 45.0, 120.0])
def test_traces_stay_within_the_budget(budget_s: float) -> None:
    machine = Machine(CROSSING, NoiseModel())
    run = sweep(machine, plan(budget_s=budget_s))
    assert machine.clock.now_s() <= budget_s + 1.0
    assert run.traces, "the time kept for them is enough for some"


def test_slow_traces_are_no_reason_why_sampling_stopped() -> None:
    class Slow(Machine):
        def launch(self, targets, deadline_s, *_):
            workers = super().launch(targets, deadline_s)
            for worker in workers:
                worker.trace = functools.partial(self.slow, worker.trace)
            return workers

        def slow(self, trace, *arguments):
            self.clock.advance(1000.0)
            return trace(*arguments)

    run = sweep(Slow(CROSSING), plan(budget_s=600, crossover_width=0.25))
    assert len(run.traces) == 1, "after it the budget was used up"
    assert "budget" not in {c.stop_reason for c in run.cells}

"""Findings from a sweep alone: start-up inside a stopwatch's timing, operations that fell back, retracing."""

import math

import pytest

from core.base.evidence import Setup
from core.rounds.answer.analyse import analyse
from core.rounds.plan import SweepPlan
from core.rounds.run import Run
from core.studies.diagnosis.answer import Reading, readings, stopwatch_crossover, stopwatch_ms
from core.traces.record import HostOp, TracedCell
from core.workload.spec import Target, Workload
from simulated.runs import make_run
from tests.support.points import run_of as points
from tests.support.traced import cpu_cell, gpu_cell, with_traces


def setup(target: int, batch: int, build_ms: float, first_call_ms: float, process: int = 0) -> Setup:
    return Setup(
        target=target, batch=batch, process=process, build_ms=build_ms, first_call_ms=first_call_ms, warmup_steps=1,
        warmup_ms=1.0, warmup_steady=True, steps_per_block=1,
    )  # fmt: skip


def timed(first_ms: dict[int, float], second_ms: dict[int, float], setups: tuple[Setup, ...]) -> Run:
    """Return a run with exactly these step times, in 8 rounds per batch."""
    run = points(lambda _: 1.0, tuple(sorted(first_ms)), rounds=8)
    times = (first_ms, second_ms)
    rounds = tuple(
        item.model_copy(
            update={"blocks": tuple(b.model_copy(update={"step_ms": times[b.target][item.batch]}) for b in item.blocks)}
        )
        for item in run.rounds
    )
    return run.model_copy(update={"rounds": rounds, "setups": setups})


def read(run: Run, code: str, target: int = 1, batch: int = 8) -> Reading | None:
    return next((r for r in readings(run, analyse(run), target, batch) if r.code == code), None)


def on_gpu(run: Run) -> Run:
    plan = SweepPlan(
        workload=Workload(network="784-128-10"), targets=(Target(), Target(device="gpu:0")), batches=run.batches
    )
    return run.model_copy(update={"plan": plan, "target_names": plan.target_names})


FIRST, SECOND = {1: 1.0, 4: 2.0, 16: 8.0}, {1: 4.0, 4: 4.0, 16: 4.0}


def test_the_stopwatch_spreads_build_and_first_call_over_the_epoch() -> None:
    found = tuple(setup(1, 4, build, first, n) for n, (build, first) in enumerate([(50, 350), (10, 90), (300, 900)]))
    run = timed(FIRST, SECOND, found)
    # the median process took 400 ms: 4 ms over each of 100 steps
    assert stopwatch_ms(run, analyse(run), 1, 4) == pytest.approx(4.0 + 4.0)
    assert stopwatch_ms(run, analyse(run), 0, 4) is None, "no setup of that target"
    assert stopwatch_ms(run, analyse(run), 1, 16) is None
    assert stopwatch_ms(run, analyse(run), 1, 99) is None


def test_start_up_in_the_timing_is_told_with_both_numbers() -> None:
    run = timed(FIRST, SECOND, (setup(1, 4, 50, 350), setup(1, 16, 0, 8)))
    told = read(run, "startup", batch=4)
    assert told.matters
    assert "first epoch of 100 steps at batch 4 would have said 8 ms per step on " in told.text
    assert "in steady state it is 4 ms (2.0 times less)." in told.text
    small = read(run, "startup", batch=1000)
    assert "at batch 16 would have said 4.08 ms" in small.text, "the nearest batch of which it is known"
    assert not small.matters
    assert read(timed(FIRST, SECOND, ()), "startup") is None


def every_setup(first_ms: float, second_ms: float) -> tuple[Setup, ...]:
    return tuple(setup(t, b, 0.0, ms) for b in FIRST for t, ms in ((0, first_ms), (1, second_ms)))


def test_the_stopwatchs_crossover_is_interpolated() -> None:
    """Check the steps alone: log₂ 2 below at batch 4, log₂ 2 above at 16, so 8. The start-up moves it."""
    plain = timed(FIRST, SECOND, every_setup(0.0, 0.0))
    assert stopwatch_crossover(plain, analyse(plain)) == pytest.approx(8.0)
    # 2 + 1 against 4 + 3 ms at batch 4, 8 + 1 against 4 + 3 at 16
    late = timed(FIRST, SECOND, every_setup(100.0, 300.0))
    below, above = math.log(3 / 7), math.log(9 / 7)
    expected = 4 * 4 ** (-below / (above - below))
    assert stopwatch_crossover(late, analyse(late)) == pytest.approx(expected)
    never = timed(FIRST, SECOND, every_setup(0.0, 900.0))
    assert stopwatch_crossover(never, analyse(never)) is None
    told = read(never, "startup")
    assert "nowhere in the" in told.text


def test_no_crossover_on_either_side_is_not_mentioned() -> None:
    run = timed({1: 1.0, 4: 1.0}, {1: 3.0, 4: 3.0}, tuple(setup(t, b, 1, 1) for t in (0, 1) for b in (1, 4)))
    told = read(run, "startup")
    assert "By that stopwatch" not in told.text


def test_a_stopwatch_alone_can_see_a_crossover() -> None:
    run = timed({1: 1.0, 4: 2.0}, {1: 0.5, 4: 1.9}, (
        setup(0, 1, 0, 0), setup(1, 1, 0, 0), setup(0, 4, 0, 0), setup(1, 4, 0, 100),
    ))  # fmt: skip
    told = read(run, "startup")
    assert "cross at batch" in told.text
    assert "state nowhere in" in told.text


FELL = (
    HostOp(name="a", op_type="Unique", count=4, total_ms=0.2, expected=False),
    HostOp(name="b", op_type="Where", count=8, total_ms=0.6, expected=False),
    HostOp(name="c", op_type="IteratorGetNext", count=4, total_ms=9.0, expected=True, why="input"),
)


def traced(*cells: TracedCell) -> Run:
    return with_traces(on_gpu(make_run()), *cells)


def test_operations_that_fell_back_are_named_with_what_they_could_gain() -> None:
    """Check four steps of 2 ms: 0.8 of 8 ms are 10 %. The cell with the most is reported; expected fallbacks are
    not.
    """
    run = traced(gpu_cell(8, host_ops=FELL), gpu_cell(64, host_ops=FELL[:1]))
    told = read(run, "fallback")
    assert told.matters
    assert "At batch 8 operations of the step ran on the host although the target is a GPU" in told.text
    assert "Unique (4×, 0.2 ms), Where (8×, 0.6 ms)" in told.text
    assert "at most 10 % of the traced steps" in told.text
    assert "IteratorGetNext" not in told.text


def test_no_fallback_is_said_too_and_only_of_gpus() -> None:
    told = read(traced(gpu_cell(8, host_ops=FELL[2:])), "fallback")
    assert not told.matters
    assert "No operation" in told.text
    run = traced(gpu_cell(8), cpu_cell(8, host_ops=FELL))
    assert read(run, "fallback", target=0) is None, "a CPU target has nothing to fall back to"
    assert read(run, "fallback", target=1) is not None
    assert read(traced(cpu_cell(8)), "fallback", target=1) is None, "no trace of that target"
    assert read(run.model_copy(update={"plan": None}), "fallback") is None


def test_retracing_is_found_and_its_absence_said() -> None:
    run = traced(gpu_cell(8, retraces=2), gpu_cell(64, retraces=5), cpu_cell(8))
    told = read(run, "retracing")
    assert told.matters
    assert "again 5 times" in told.text
    calm = read(run, "retracing", target=0)
    assert not calm.matters
    assert "No function" in calm.text
    assert read(traced(), "retracing") is None

"""Measurement of a scaling study: one device and several side by side, in many starts of their workers; then traces."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from core.machine.environment import capture_environment
from core.rounds.answer.analyse import compare
from core.rounds.run import MAX_NAME, Run
from core.studies.runner import NullRecorder, StudyTools, now
from core.studies.scaling.record import ScalingPlan, ScalingStudy
from core.studies.sweep import schedule
from core.studies.sweep.even import Even


def run_scaling(tools: StudyTools, plan: ScalingPlan) -> ScalingStudy:
    """Measure within the budget. Failures become outcomes of their cells, and the other targets continue there.

    Raises Cancelled if nothing was measured yet, StudyFailed if nothing could be compared.
    """
    sweep = plan.as_sweep
    run = Run(
        id="scaling",
        name=plan.title[:MAX_NAME],
        created_at=now(),
        label="measured",
        status="running",
        target_names=sweep.target_names,
        plan=sweep,
        environment=capture_environment(),
    )
    even = Even(
        replace(tools, recorder=NullRecorder()),  # the study is kept as a whole
        sweep,
        run,
        targets_at=plan.targets_at,
        whole=False,
        reserve_s=schedule.trace_reserve_s(sweep),
        closing=partial(_trace, plan),
        so_far=partial(ScalingStudy.of, plan),
    )
    return ScalingStudy.of(plan, even.execute())


def _trace(plan: ScalingPlan, even: Even) -> None:
    """Trace steps of several devices at the most informative batches; one device has no all-reduce."""
    if not plan.trace:
        return
    batches_of = {target: _telling(even.run, target) for target in plan.several}
    for place in range(max(map(len, batches_of.values()))):
        for target, batches in batches_of.items():
            if place < len(batches) and even.clock.now_s() < even.final_s:
                even.tell("tracing", f"Tracing some steps of batch {batches[place]:,} on {plan.names[target]}")
                even.workers.trace(target, batches[place])


def _telling(run: Run, target: int) -> tuple[int, ...]:
    """Return the largest batch of a target, the one nearest its crossover with one device, and the smallest."""
    measured = tuple(sorted({item.batch for item in run.rounds if item.step_ms(target) is not None}))
    verdict, _ = compare(run, None, 0, target)
    batches = schedule.batches_to_trace(measured, tuple(change.batch for change in verdict.crossovers))
    return tuple(sorted(batches, key=lambda batch: batch != measured[-1]))

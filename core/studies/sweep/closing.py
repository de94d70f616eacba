"""Work after the rounds of finished targets: energy windows, timing Keras's own loop, tracing some batches.

A single block is too short for energy: counters move every 20 to 100 ms, and NVML's power and utilisation are means of
up to a second. A window is the same steps back to back for at least two seconds, after a run-up of one second that
flushes earlier activity out of those means. Several windows per cell give an interval.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import pairwise

from core.base.numbers import number, percent
from core.rounds.answer import loop
from core.rounds.answer.energy import leads
from core.rounds.plan import ENERGY_SHARE, SweepPlan, energy_reserve_s
from core.rounds.run import EnergyWindow, LoopCost, Run, StopReason
from core.studies.progress import Phase
from core.studies.runner import Asking, StudyTools
from core.studies.sweep import schedule
from core.studies.sweep.ledger import Ledger
from core.studies.sweep.timetable import Timetable
from core.studies.sweep.workers import Workers
from core.worker.protocol import RunBlock, TimeLoop, Worker, WorkerError
from core.workload.names import shown_names
from core.workload.spec import steps_per_call

LEAST_LOOP_S = 0.3  # least time for Keras's own loop, however long preparing took
WINDOW_S, RUN_UP_S = 2.0, 1.0
WINDOWS = 3  # per cell, and of the idle machine: the fewest that show their scatter
BLOCK_S = 0.5  # length of the blocks in a window, after each of which a request to stop is served
PAUSE_S = 0.1
MOST_BATCHES = 8
CELL_S = RUN_UP_S + WINDOWS * WINDOW_S
SETUP_S = 1.0  # per batch, for planning
IDLE_S = WINDOWS * WINDOW_S  # per GPU
NOT_REACHED: dict[StopReason, str] = {
    "cancelled": "The sweep was cancelled first.",
    "interrupted": "The sweep was interrupted first.",
    "failed": "The sweep failed first.",
    "budget": "The budget ended first.",
    "answered": "The sweep ended without it.",
}
"""Reason why a cell was not tried, by what ended the sweep; a resumed sweep may still reach it."""


class Closing:
    """Work on a sweep's workers after their rounds. ``tell`` takes the phase and the activity. Not thread-safe."""

    def __init__(
        self,
        plan: SweepPlan,
        workers: Workers,
        ledger: Ledger,
        tools: StudyTools,
        times: Timetable,
        tell: Callable[[Phase, str], None],
    ) -> None:
        self._plan, self._workers, self._attempts = plan, workers, workers.attempts
        self._ledger, self._tools, self._times, self._tell = ledger, tools, times, tell
        self._clock, self._names = tools.clock, shown_names(plan.targets)
        self._no_energy: dict[int, str] = {}
        """Targets whose energy cannot be read, and why."""

    def watch_idle(self) -> None:
        """Find out which targets' energy can be read, and record their power while nothing runs."""
        self._no_energy = refusals(self._plan, self._tools)
        if self._no_energy:
            self._ledger.add(*(EnergyWindow(target=t, skipped=why) for t, why in self._no_energy.items()))
        refused = len(self._no_energy) == len(self._plan.targets)
        if self._tools.meter is None or refused or not any(t.is_gpu for t in self._plan.targets):
            return
        self._tell("starting", "Watching what the idle machine takes")
        begin_s = self._clock.now_s()
        for window in idle_windows(self._tools, self._plan, self._workers.process, self._no_energy):
            self._ledger.add(window)
        self._times.energy_s = energy_reserve_s(self._plan) - (self._clock.now_s() - begin_s)

    def measure_energy(self, run: Callable[[], Run], first: Sequence[int], end_s: float) -> None:
        """Take energy windows: of the ``first`` batches until ``end_s``, of others within their share."""
        if self._times.energy_s <= 0:
            return
        share_end_s = min(self._clock.now_s() + self._times.energy_s, end_s)
        measured, targets = run().batches, sorted(set(self._workers.running) - self._no_energy.keys())
        done: dict[int, int | None] = {}
        while (batch := next_batch(measured, tuple(first), done | leads(run()))) is not None:
            last_s = end_s if batch in first else share_end_s
            if self._clock.now_s() + self._windows_s(targets, batch) > last_s:
                break
            done[batch] = None
            for target in targets:
                self._tell("tracing", f"Measuring the energy of batch {batch:,} on {self._names[target]}")
                self._measure_energy(target, batch)
        if not done and batch is not None:
            why = f"Energy was not measured: too little of the budget was left for batch {batch:,}."
            self._ledger.add(*(EnergyWindow(target=t, index=WINDOWS, skipped=why) for t in targets))

    def _windows_s(self, targets: Collection[int], batch: int) -> float:
        """Return the seconds that energy windows of these cells take."""
        steps_ms = [self._attempts.step_ms(target, batch) for target in targets]
        new = [target for target in targets if not self._workers.is_prepared(target, batch)]
        return self._workers.costs(batch, new).prepare_s + sum(map(cell_s, steps_ms))

    def _measure_energy(self, target: int, batch: int) -> None:
        """Record energy windows of a cell; a failure becomes one that was skipped. Cancelled is raised."""
        if (worker := self._workers.ready_for(target, batch)) is None:
            return
        window = EnergyWindow(target=target, batch=batch, process=self._workers.process)
        step_ms = self._attempts.step_ms(target, batch)
        try:
            per_call = steps_per_call(self._plan.workload, self._plan.targets[target])
            for taken in cell_windows(self._workers.asking, self._tools, worker, window, step_ms, per_call):
                self._ledger.add(taken)
        except WorkerError as error:
            why = f"The energy of {self._names[target]} at batch {batch:,} could not be measured: {error.reason}"
            self._ledger.add(window.model_copy(update={"index": WINDOWS, "skipped": why}))
            self._workers.forget(target, batch)
            self._workers.end_lost(target, batch, error)

    def finish(self, run: Run, batches: Sequence[int], targets: Collection[int], share: float = 1.0) -> None:
        """Time Keras's own loops, then trace ``batches``, in that share of the time kept for it; 1 lasts to the end.

        GPUs are traced first: the overhead of their steps is the purpose of a trace.
        """
        loops_s, traces_s = share * loop.reserve_s(self._plan), share * schedule.trace_reserve_s(self._plan)
        final_s = self._times.final_s
        end_s = final_s if share == 1 else min(final_s, self._clock.now_s() + loops_s + traces_s)
        self._time_loops(run, targets, min(loops_s, end_s - traces_s - self._clock.now_s()))
        if not self._plan.trace:
            return
        gpus_first = sorted(targets, key=lambda target: not self._plan.targets[target].is_gpu)
        for batch in batches:
            for target in gpus_first:
                if self._clock.now_s() < end_s:
                    self._tell("tracing", f"Tracing some steps of batch {batch:,} on {self._names[target]}")
                    self._workers.trace(target, batch)

    def _time_loops(self, run: Run, targets: Collection[int], window_s: float) -> None:
        """Time what Keras's own loop adds to a step, once per run, on these targets at one batch."""
        batch = loop.batch_to_time(run)
        done = {cost.target for cost in run.loops if cost.times is not None}
        left = [target for target in targets if target not in done and self._plan.targets[target].call == "step"]
        if batch is None or not left:
            return
        begin_s = self._clock.now_s()
        for place, target in enumerate(left, start=1):
            self._tell("finishing", f"Timing Keras's own loop at batch {batch:,} on {self._names[target]}")
            self._time_loop(target, batch, begin_s + window_s * place / len(left))

    def _time_loop(self, target: int, batch: int, until_s: float) -> None:
        """Time Keras's own loop around a cell's step and record it, or why not. Cancelled is raised."""
        self._tools.check()
        step_ms = self._attempts.step_ms(target, batch, 0.0)
        reason, worker = loop.why_not(self._plan, step_ms, until_s - self._clock.now_s()), None
        if not reason and (worker := self._workers.ready_for(target, batch)) is None:
            reason = "No worker could prepare that batch again."
        if worker is None:
            self._ledger.add(LoopCost(target=target, batch=batch, reason=reason))
            return
        limit_s = max(LEAST_LOOP_S, until_s - self._clock.now_s())
        request = TimeLoop(batch=batch, limit_ms=1000 * limit_s)
        try:
            times = self._workers.asking.ask(worker, request, target, limit_s).to_times()
            self._ledger.add(LoopCost(target=target, batch=batch, times=times))
        except WorkerError as error:
            self._ledger.add(LoopCost(target=target, batch=batch, reason=error.reason))
            self._workers.end_lost(target, batch, error)

    def settle(self, run: Run, ended: StopReason, cells: Collection[tuple[int, int]]) -> None:
        """Record in each of these cells (target, batch) why its sampling stopped."""
        for target, batch in sorted(cells):
            self._attempts.is_runnable(target, batch)  # if it is not, this records the reason in the cell
            cell = self._ledger.cell(target, batch)
            if cell is None or cell.reason in NOT_REACHED.values():
                self._ledger.set_cell(target, batch, "skipped", NOT_REACHED[ended], ended)
            elif cell.outcome == "measured":
                stopped: StopReason = "failed" if self._attempts.is_given_up(target) else ended
                stop = schedule.cell_state(run, target, batch, self._plan.step_width) or stopped
                self._ledger.set_cell(target, batch, "measured", "", stop)


def refusals(plan: SweepPlan, tools: StudyTools) -> dict[int, str]:
    """Return by target why it has no windows: for all if no GPU has any, for none if no GPU is measured."""
    gpus = [index for index, target in enumerate(plan.targets) if target.is_gpu]
    if not gpus or tools.meter is None:
        return {}
    every = range(len(plan.targets))
    refused = {index: why for index in every if (why := tools.meter.refused(plan.targets[index].device))}
    if refused.keys() >= set(gpus):
        return dict.fromkeys(every, refused[gpus[0]])
    needed_s = _least_s(plan, refused)
    if energy_reserve_s(plan) < needed_s:
        why = (
            f"Energy was not measured: {percent(ENERGY_SHARE)} of the budget of {number(plan.budget_s)} s may go to "
            f"it, and {needed_s:.0f} s are needed at the least; give the sweep {math.ceil(needed_s / ENERGY_SHARE)} s "
            "or more."
        )
        return dict.fromkeys(every, why)
    return refused


def _least_s(plan: SweepPlan, refused: Mapping[int, str]) -> float:
    """Return the seconds for the idle machine and one batch."""
    targets = [target for index, target in enumerate(plan.targets) if index not in refused]
    return IDLE_S * len({t.device for t in targets if t.is_gpu}) + SETUP_S + CELL_S * len(targets)


def idle_windows(
    tools: StudyTools, plan: SweepPlan, process: int, refused: Mapping[int, str]
) -> Iterator[EnergyWindow]:
    """Yield windows in which the workers are ready and nothing runs, for each target that is not refused.

    A GPU is watched once, whatever targets run on it, and the CPU packages beside the first.
    """
    meter = tools.meter
    assert meter is not None
    targets = [(index, target) for index, target in enumerate(plan.targets) if index not in refused]
    devices = list(dict.fromkeys(target.device for _, target in targets if target.is_gpu))
    for index in range(WINDOWS):
        for device in devices:
            begin_j, begin_s = meter.package_j(), tools.clock.now_s()
            meter.begin(device)
            try:
                while tools.clock.now_s() - begin_s < WINDOW_S:
                    tools.check()
                    meter.pause(PAUSE_S)
                length_s, package_j = tools.clock.now_s() - begin_s, _more(begin_j, meter.package_j())
            finally:
                card = meter.end()
            window = EnergyWindow(
                target=0, index=index, process=process, length_s=round(length_s, 4), package_j=package_j
            )
            for place, target in targets:
                if target.device == device:
                    yield window.model_copy(update={"target": place, "card": card})
                elif not target.is_gpu and device == devices[0]:
                    yield window.model_copy(update={"target": place})


def cell_windows(
    asking: Asking, tools: StudyTools, worker: Worker, window: EnergyWindow, step_ms: float, per_call: int = 1
) -> Iterator[EnergyWindow]:
    """Yield windows of a prepared cell, after a run-up; ``window`` names the cell. Raises CellFailed or WorkerLost."""
    meter, batch = tools.meter, window.batch
    assert meter is not None
    assert batch is not None
    request = RunBlock(batch=batch, steps=per_call * max(1, math.ceil(1000 * BLOCK_S / step_ms / per_call)))
    expected_s = request.steps * step_ms / 1000

    def run(at_least_s: float) -> tuple[int, float]:
        begin_s, steps = tools.clock.now_s(), 0
        while True:
            tools.check()
            steps += asking.block(worker, request, expected_s).steps
            if (length_s := tools.clock.now_s() - begin_s) >= at_least_s:
                return steps, length_s

    run(RUN_UP_S)
    for index in range(WINDOWS):
        begin_j = meter.package_j()
        with asking.watched(worker):
            steps, length_s = run(WINDOW_S)
            package_j = _more(begin_j, meter.package_j())
        yield window.model_copy(
            update={"index": index, "steps": steps, "length_s": round(length_s, 4), "card": asking.card,
                    "package_j": package_j}
        )  # fmt: skip


def cell_s(step_ms: float) -> float:
    """Return the seconds that the windows of a prepared cell take."""
    step_s = step_ms / 1000
    return max(RUN_UP_S, step_s) + WINDOWS * max(WINDOW_S, step_s)


def next_batch(measured: tuple[int, ...], first: tuple[int, ...], leads: Mapping[int, int | None]) -> int | None:
    """Return the measured batch to take windows of next, or None if there are enough.

    The batches in ``first`` come first. Then the middle of the bracket in which the target that needs less energy
    changes; ``leads`` maps the finished batches to that target, if known. Else the middle of the widest gap.
    """
    for batch in first:
        if batch not in leads:
            return batch
    done = sorted(leads)
    if len(done) >= MOST_BATCHES:
        return None
    gaps = list(pairwise(done))
    ends = {gap: (leads[gap[0]], leads[gap[1]]) for gap in gaps}
    changes = {gap for gap, (low, high) in ends.items() if None not in (low, high) and low != high}
    for low, high in sorted(gaps, key=lambda gap: (gap not in changes, gap[0] / gap[1])):
        inside = [batch for batch in measured if low < batch < high]
        if inside:
            return min(inside, key=lambda batch: abs(math.log(batch * batch / (low * high))))
    return None


def _more(before: float | None, after: float | None) -> float | None:
    return None if before is None or after is None else round(max(0.0, after - before), 3)

"""Work after the rounds of finished targets: energy windows, timing Keras's own loop, tracing some batches."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from core.rounds.answer import loop
from core.rounds.answer.energy import leads
from core.rounds.plan import SweepPlan
from core.rounds.run import EnergyWindow, Run, StopReason
from core.studies.progress import Phase
from core.studies.runner import StudyTools
from core.studies.sweep import schedule, windows
from core.studies.sweep.ledger import Ledger
from core.studies.sweep.workers import Workers
from core.workload.names import shown_names

NOT_REACHED: dict[StopReason, str] = {
    "cancelled": "The sweep was cancelled first.",
    "interrupted": "The sweep was interrupted first.",
    "failed": "The sweep failed first.",
    "budget": "The budget ended first.",
    "answered": "The sweep ended without it.",
}
"""Reason why a cell was not tried, by what ended the sweep; a resumed sweep may still reach it."""


class Closing:
    """Closing work on a sweep's workers. ``tell`` takes the phase and the activity. Not thread-safe."""

    def __init__(
        self,
        plan: SweepPlan,
        workers: Workers,
        ledger: Ledger,
        tools: StudyTools,
        tell: Callable[[Phase, str], None],
    ) -> None:
        self._plan, self._workers, self._ledger, self._tools, self._tell = plan, workers, ledger, tools, tell
        self._clock, self._names = tools.clock, shown_names(plan.targets)
        self.energy_s = 0.0
        """Seconds reserved for energy windows."""
        self._no_energy: dict[int, str] = {}

    def watch_idle(self) -> None:
        """Find out which targets' energy can be read, and record their power while nothing runs."""
        self._no_energy = windows.refusals(self._plan, self._tools)
        if self._no_energy:
            self._ledger.add(*(EnergyWindow(target=t, skipped=why) for t, why in self._no_energy.items()))
        refused = len(self._no_energy) == len(self._plan.targets)
        if self._tools.meter is None or refused or not any(t.is_gpu for t in self._plan.targets):
            return
        self._tell("starting", "Watching what the idle machine takes")
        begin_s = self._clock.now_s()
        self._workers.idle(self._no_energy)
        self.energy_s = windows.reserve_s(self._plan, self._no_energy) - (self._clock.now_s() - begin_s)

    def measure_energy(self, run: Callable[[], Run], first: Sequence[int], end_s: float) -> None:
        """Take energy windows: of the ``first`` batches until ``end_s``, of others within their share."""
        if self.energy_s <= 0:
            return
        share_end_s = min(self._clock.now_s() + self.energy_s, end_s)
        measured, targets = run().batches, sorted(set(self._workers.running) - self._no_energy.keys())
        done: dict[int, int | None] = {}
        while (batch := windows.next_batch(measured, tuple(first), done | leads(run()))) is not None:
            if self._clock.now_s() + self._workers.energy_s(targets, batch) > (
                end_s if batch in first else share_end_s
            ):
                break
            done[batch] = None
            for target in targets:
                self._tell("tracing", f"Measuring the energy of batch {batch:,} on {self._names[target]}")
                self._workers.energy(target, batch)
        if not done and batch is not None:
            why = f"Energy was not measured: too little of the budget was left for batch {batch:,}."
            self._ledger.add(*(EnergyWindow(target=t, index=windows.WINDOWS, skipped=why) for t in targets))

    def finish(
        self, run: Run, batches: Sequence[int], targets: Collection[int], loops_s: float, traces_s: float, end_s: float
    ) -> None:
        """Time Keras's own loops for at most ``loops_s``, then trace ``batches`` until ``end_s``.

        ``traces_s`` are reserved for the traces. GPUs are traced first: the overhead of their steps is the purpose of a
        trace.
        """
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
        left = [target for target in targets if target not in done]
        if batch is None or not left:
            return
        begin_s = self._clock.now_s()
        for place, target in enumerate(left, start=1):
            self._tell("finishing", f"Timing Keras's own loop at batch {batch:,} on {self._names[target]}")
            self._workers.time_loop(target, batch, begin_s + window_s * place / len(left))

    def settle(self, run: Run, ended: StopReason, asked: Collection[tuple[int, int]]) -> None:
        """Record in every ``asked`` cell (target, batch) why its sampling stopped."""
        for target, batch in sorted(asked):
            self._workers.is_runnable(target, batch)  # if it is not, this records the reason in the cell
            cell = self._ledger.cell(target, batch)
            if cell is None or cell.reason in NOT_REACHED.values():
                self._ledger.set_cell(target, batch, "skipped", NOT_REACHED[ended], ended)
            elif cell.outcome == "measured":
                stopped: StopReason = "failed" if self._workers.is_given_up(target) else ended
                stop = schedule.cell_state(run, target, batch, self._plan.step_width) or stopped
                self._ledger.set_cell(target, batch, "measured", "", stop)

"""Energy windows of a sweep: their length, their cells, and their share of the budget.

A single block is too short for energy: counters move every 20 to 100 ms, and NVML's power and utilisation are means of
up to a second. A window is the same steps back to back for at least two seconds, after a run-up of one second that
flushes earlier activity out of those means. Several windows per cell give an interval.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from itertools import pairwise

from core.base.numbers import number, percent
from core.rounds.plan import ENERGY_SHARE, SweepPlan, energy_reserve_s
from core.rounds.run import EnergyWindow
from core.studies.runner import Asking, StudyTools
from core.worker.protocol import RunBlock, Worker

WINDOW_S, RUN_UP_S = 2.0, 1.0
WINDOWS = 3  # per cell, and of the idle machine: the fewest that show their scatter
BLOCK_S = 0.5  # length of the blocks in a window, after each of which a request to stop is served
PAUSE_S = 0.1
MOST_BATCHES = 8
CELL_S = RUN_UP_S + WINDOWS * WINDOW_S
SETUP_S = 1.0  # per batch, for planning
IDLE_S = WINDOWS * WINDOW_S  # per GPU


def reserve_s(plan: SweepPlan, refused: Mapping[int, str]) -> float:
    """Return the seconds of the budget that are reserved for windows of the targets that are not refused."""
    return 0.0 if len(refused) == len(plan.targets) else energy_reserve_s(plan)


def refusals(plan: SweepPlan, tools: StudyTools) -> dict[int, str]:
    """Return by target why it has no windows: for all if no GPU has any, for none if no GPU is measured."""
    gpus = [index for index, target in enumerate(plan.targets) if target.is_gpu]
    if not gpus or tools.meter is None:
        return {}
    asked = {index: tools.meter.refused(target.device) for index, target in enumerate(plan.targets)}
    refused = {index: why for index, why in asked.items() if why}
    if refused.keys() >= set(gpus):
        return dict.fromkeys(asked, refused[gpus[0]])
    needed_s = _least_s(plan, refused)
    if reserve_s(plan, refused) < needed_s:
        why = (
            f"Energy was not measured: {percent(ENERGY_SHARE)} of the budget of {number(plan.budget_s)} s may go to "
            f"it, and {needed_s:.0f} s are needed at the least; give the sweep {math.ceil(needed_s / ENERGY_SHARE)} s "
            "or more."
        )
        return dict.fromkeys(asked, why)
    return refused


def _least_s(plan: SweepPlan, refused: Mapping[int, str]) -> float:
    """Return the seconds for the idle machine and one batch."""
    targets = [target for index, target in enumerate(plan.targets) if index not in refused]
    return IDLE_S * len({t.device for t in targets if t.is_gpu}) + SETUP_S + CELL_S * len(targets)


def idle(tools: StudyTools, plan: SweepPlan, process: int, refused: Mapping[int, str]) -> Iterator[EnergyWindow]:
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


def of_cell(
    asking: Asking, tools: StudyTools, worker: Worker, window: EnergyWindow, step_ms: float
) -> Iterator[EnergyWindow]:
    """Yield windows of a prepared cell, after a run-up; ``window`` names the cell. Raises CellFailed or WorkerLost."""
    meter, batch = tools.meter, window.batch
    assert meter is not None
    assert batch is not None
    request = RunBlock(batch=batch, steps=max(1, math.ceil(1000 * BLOCK_S / step_ms)))
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

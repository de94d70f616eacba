"""The cost that ``fit`` itself adds to a step on a host, from a run that measured it around steps on the host's CPU."""

from __future__ import annotations

from dataclasses import replace

from core.evidence import Environment, same_machine
from core.hardware.host import FitCost, HostCosts, HostLabel
from core.studies.sweep.loop import added, loop_name
from core.studies.sweep.record import Run

US_PER_MS = 1e3


def with_loop_of(costs: HostCosts, host: Environment | None, run: Run, index: int) -> HostCosts:
    """Return costs measured on ``host`` with what the loop added to the steps of the run's target ``index``.

    They are returned unchanged if the run is of another machine or did not measure the loop.
    """
    found = next((added(cost) for cost in run.loops if cost.target == index), None)
    if found is None or not same_machine(host, run.environment):
        return costs
    us = _us(found.step_ms)
    low_us, high_us = (None if ms is None else _us(ms) for ms in (found.low_ms, found.high_ms))
    label: HostLabel = "measured" if run.label == "measured" else "recorded"
    source = f"what {loop_name(run)} added to a step of {run.names[index]} in {run.name}"
    fit = FitCost(us, low_us, high_us, source, label)
    return replace(costs, host=costs.host.model_copy(update={"fit_us": us}), fit=fit)


def _us(ms: float) -> float:
    """Convert to microseconds; noise may put the loop below the bare steps, but it saves nothing."""
    return US_PER_MS * max(0.0, ms)

"""The framework's cost on a machine's CPU, per step and per operation, from a host study.

For each execution, T = step + op · n, where n is the number of kernels that :func:`core.hardware.work.ops_of` counts,
so that the slope has the unit by which the model multiplies it. The line is fitted in each round and the median over
rounds is taken. The cost has two limits: it includes the arithmetic of the tiny kernels, which makes it an upper bound
of the framework's own, and it lacks the time that a GPU's driver takes on the host to launch a kernel, which no machine
without a GPU can show.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from statistics import median

import numpy as np

from core.analysis.statistics import Array, bounded_median
from core.base.evidence import Environment, same_machine
from core.base.frameworks import Compiled
from core.base.schema import UserError
from core.hardware.host import FILL_IN_KIND, Cost, FitCost, HostCosts, HostLabel, HostOverhead, costs_of_kind, op_field
from core.hardware.host_record import HostStudy, host_target
from core.hardware.work import ops_of
from core.rounds.answer.loop import added, loop_name
from core.rounds.run import Run
from core.workload.spec import Mode

US_PER_MS = 1e3
DRIVER_US, DRIVER_LOW_US, DRIVER_HIGH_US = 6.0, 3.0, 9.0
"""Assumed: what a driver adds to an operation. Three machines with a GPU took 6 to 10 µs per operation (one Dense layer
in TensorFlow 1: CDECatapult, ml-performance-prediction; a line through each machine's smallest steps), while host
studies without one take 1 to 3.
"""

CAVEAT = (
    "The host's costs were measured with operations on the CPU: the small kernels' own arithmetic is inside, what a "
    "GPU's driver takes on the host to launch a kernel is not. For that 6 µs per operation are added (3 to 9: "
    "published steps of three machines with GPUs)."
)


@dataclass(frozen=True)
class HostLine:
    """T = step + op · n for one execution.

    ``misfit``: the largest relative distance of a cell's median step time from the line (0 for two cells, which always
    lie on one).
    """

    execution: Compiled
    mode: Mode
    step: Cost
    op: Cost
    misfit: float


def host_of_study(study: HostStudy, mode: Mode = "train", execution: Compiled = "graph") -> HostCosts:
    """Return the costs of a measured host for steps of that mode and execution.

    Executions have different fixed costs: ``step_us`` is that of the one asked for; for XLA, the cost beyond the fixed
    cost of a graph is ``xla_call_us``. No host study measures the loop of ``fit``, so that of a desktop is assumed.

    Raises:
        UserError: The study lacks that execution.
    """
    lines = {line.execution: line for line in host_lines(study) if line.mode == mode}
    if execution not in lines:
        raise UserError(
            f"This host study holds no {execution} steps in {'training' if mode == 'train' else 'inference'}; "
            "measure the host again."
        )
    own, assumed = lines[execution], costs_of_kind(FILL_IN_KIND, execution)
    graph, eager, xla = lines.get("graph"), lines.get("eager"), lines.get("xla")
    step_us, call_us = own.step.us, 0.0
    if xla is not None and graph is not None:
        call_us = max(0.0, xla.step.us - graph.step.us)
        step_us -= call_us if execution == "xla" else 0.0
    host = HostOverhead(
        per_op_us=graph.op.us + DRIVER_US if graph is not None else assumed.host.per_op_us,
        xla_call_us=call_us,
        eager_op_us=eager.op.us + DRIVER_US if eager is not None else assumed.host.eager_op_us,
        step_us=step_us,
        fit_us=assumed.fit.us,
        label="measured",
    )
    label: HostLabel = "measured" if study.label == "measured" else "recorded"
    op = with_a_driver(graph.op if execution == "xla" and graph is not None else own.op)
    source = f"{study.title}, {study.created_at}. {CAVEAT}"
    return HostCosts(host, execution, own.step, op, source, label, assumed.fit)


def with_a_driver(op: Cost) -> Cost:
    """Return the cost of an operation on a host with a GPU; the driver's part is not measurable here and is assumed."""
    low_us = op.us if op.low_us is None else op.low_us
    high_us = op.us if op.high_us is None else op.high_us
    return Cost(op.us + DRIVER_US, low_us + DRIVER_LOW_US, high_us + DRIVER_HIGH_US)


def as_if_measured(costs: HostCosts) -> HostCosts:
    """Return the costs that a study of a host without a GPU would leave: known, except for what a driver adds."""
    host = costs.host.model_copy(update={"label": "measured"})
    op_us = getattr(host, op_field(costs.execution))
    op = Cost(op_us, max(0.0, op_us - (DRIVER_US - DRIVER_LOW_US)), op_us + DRIVER_HIGH_US - DRIVER_US)
    step = Cost(costs.step.us, None, None)
    return replace(costs, host=host, step=step, op=op, label="measured", kind=None, spread=None)


def host_lines(study: HostStudy) -> tuple[HostLine, ...]:
    """Return the line of every execution that has at least two depths in some round."""
    kinds = dict.fromkeys((cell.execution, cell.mode) for cell in study.cells)
    lines = (_line(study, execution, mode) for execution, mode in kinds)
    return tuple(line for line in lines if line is not None)


def _line(study: HostStudy, execution: Compiled, mode: Mode) -> HostLine | None:
    members = [i for i, cell in enumerate(study.cells) if (cell.execution, cell.mode) == (execution, mode)]
    counts = {i: kernels_of(study, i) for i in members}
    fits = []
    for each in study.rounds:
        times = {i: ms for i in members if (ms := each.step_ms(i)) is not None}
        if len({counts[i] for i in times}) > 1:
            fits.append(fit_line(np.array([counts[i] for i in times]), US_PER_MS * np.array(list(times.values()))))
    if not fits:
        return None
    steps, slopes = np.array(fits).T
    step, op = (Cost(*bounded_median(values)) for values in (steps, slopes))
    return HostLine(execution, mode, step, op, _misfit(study, counts, step.us, op.us))


def kernels_of(study: HostStudy, cell: int) -> float:
    """Return the kernels of a cell's step as the model counts them in graph execution: the unit of ``per_op_us``."""
    measured = study.cells[cell]
    target = host_target(study.threads, "eager" if measured.execution == "eager" else "graph")
    return float(sum(op.kernels for op in ops_of(measured.workload, target, 1)))


def fit_line(counts: Array, times_us: Array) -> tuple[float, float]:
    """Fit intercept and slope, both at least 0, by least squares in relative error, as scatter grows with the time."""
    weights = 1 / times_us
    design = np.stack([np.ones(len(counts)), counts], axis=1)
    (step, op), *_ = np.linalg.lstsq(design * weights[:, None], times_us * weights, rcond=None)
    if op < 0:  # a cost that falls with the number of operations is noise
        return float((weights @ (times_us * weights)) / (weights @ weights)), 0.0
    if step < 0:
        scaled = counts * weights
        return 0.0, float(scaled.sum() / (scaled @ scaled))
    return float(step), float(op)


def _misfit(study: HostStudy, counts: dict[int, float], step_us: float, op_us: float) -> float:
    if len(set(counts.values())) < 3:
        return 0.0
    worst = 0.0
    for cell, count in counts.items():
        times = [ms for item in study.rounds if (ms := item.step_ms(cell)) is not None]
        if times:
            worst = max(worst, abs(US_PER_MS * median(times) / (step_us + op_us * count) - 1))
    return worst


def with_loop_of(costs: HostCosts, host: Environment | None, run: Run, index: int) -> HostCosts:
    """Return costs measured on ``host`` with what the loop added to the steps of the run's target ``index``.

    They are returned unchanged if the run is of another machine or did not measure the loop.
    """
    loop = next((added(cost) for cost in run.loops if cost.target == index), None)
    if loop is None or not same_machine(host, run.environment):
        return costs
    us = _us(loop.step_ms)
    low_us, high_us = (None if ms is None else _us(ms) for ms in (loop.low_ms, loop.high_ms))
    label: HostLabel = "measured" if run.label == "measured" else "recorded"
    source = f"what {loop_name(run)} added to a step of {run.names[index]} in {run.name}"
    fit = FitCost(us, low_us, high_us, source, label)
    return replace(costs, host=costs.host.model_copy(update={"fit_us": us}), fit=fit)


def _us(ms: float) -> float:
    """Convert to microseconds; noise may put the loop below the bare steps, but it saves nothing."""
    return US_PER_MS * max(0.0, ms)

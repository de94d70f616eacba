"""What the framework costs on a machine's CPU, by step and by operation, from a host study; assumed without one.

For each way of executing, T = step + op · n: n is the number of kernels that :func:`core.hardware.work.ops_of` counts,
so that the slope is in the unit that the model multiplies it by. The line is fitted in each round and the median over
rounds taken. Two things it cannot separate from the framework: the arithmetic of the tiny kernels, which makes the
cost an upper bound of the framework's own; and, missing in it, what a GPU's driver takes on the host to launch a
kernel, which no machine without a GPU can show.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median
from typing import Literal

import numpy as np

from core.analysis.statistics import Array, bounded_median
from core.evidence import Compiled
from core.hardware.model import HostOverhead
from core.hardware.work import ops_of
from core.schema import UserError
from core.spec import Mode
from core.studies.host.record import HostStudy, host_target

US_PER_MS = 1e3

TF1_SOURCE = (
    "assumed: published step times of one Dense layer in TensorFlow 1 (CDECatapult, ml-performance-prediction, six "
    "GPUs) come to 5 to 15 µs an operation and 145 to 378 µs for the smallest step, more by host than by GPU"
)
ASSUMED_OP_US, ASSUMED_OP_LOW_US, ASSUMED_OP_HIGH_US = 8.7, 5.0, 15.0
ASSUMED_STEP_US, ASSUMED_STEP_LOW_US, ASSUMED_STEP_HIGH_US = 234.0, 145.0, 378.0
EAGER_FACTOR, EAGER_FACTOR_HIGH = 3.0, 12.0
"""Keras run eagerly passes every operation through Python: nothing published says by how much more; a guess, so the
interval is wide."""

CAVEAT = (
    "The host's costs were measured with operations on the CPU: the small kernels' own arithmetic is inside, what a "
    "GPU's driver takes on the host to launch a kernel is not. The upper bound is therefore the largest cost of an "
    "operation that was published with a GPU (15 µs), at least."
)


@dataclass(frozen=True)
class Cost:
    """Microseconds with 95 % bounds; None where rounds are too few to support them."""

    us: float
    low_us: float | None
    high_us: float | None


@dataclass(frozen=True)
class HostLine:
    """T = step + op · n for one way of executing. ``misfit``: the largest relative distance of a cell's median step
    time from the line (0 for two cells, through which there always is one).
    """

    execution: Compiled
    mode: Mode
    step: Cost
    op: Cost
    misfit: float


@dataclass(frozen=True)
class HostCosts:
    """The model's view of a host for steps of one execution, with the intervals of the two costs that enter these and
    where they are from. Of a compiled step only ``step`` enters.
    """

    host: HostOverhead
    execution: Compiled
    step: Cost
    op: Cost
    source: str
    label: Literal["measured", "recorded", "assumed"]

    def bounds(self) -> tuple[tuple[HostOverhead, HostOverhead], ...]:
        """The host with one cost at its lower and at its upper bound, for each cost that has them."""
        fields = {"step_us": self.step}
        if self.execution != "xla":
            fields["eager_op_us" if self.execution == "eager" else "per_op_us"] = self.op
        return tuple(
            (self._with(field, cost.low_us - cost.us), self._with(field, cost.high_us - cost.us))
            for field, cost in fields.items()
            if cost.low_us is not None and cost.high_us is not None
        )

    def _with(self, field: str, more_us: float) -> HostOverhead:
        return self.host.model_copy(update={field: max(0.0, getattr(self.host, field) + more_us)})


def assumed_costs(execution: Compiled = "graph") -> HostCosts:
    """What is taken where nothing was measured; the bounds are the published spread."""
    host = assumed_host()
    step = Cost(ASSUMED_STEP_US, ASSUMED_STEP_LOW_US, ASSUMED_STEP_HIGH_US)
    op = {
        "graph": Cost(ASSUMED_OP_US, ASSUMED_OP_LOW_US, ASSUMED_OP_HIGH_US),
        "eager": Cost(host.eager_op_us, ASSUMED_OP_LOW_US, EAGER_FACTOR_HIGH * ASSUMED_OP_HIGH_US),
        "xla": Cost(0.0, None, None),
    }
    return HostCosts(host, execution, step, op[execution], TF1_SOURCE, "assumed")


def assumed_host() -> HostOverhead:
    """Middle of the published spread (:data:`TF1_SOURCE`), the geometric mean of its ends."""
    return HostOverhead(
        per_op_us=ASSUMED_OP_US,
        xla_call_us=0.0,  # a compiled step's fixed cost is within that of any step
        eager_op_us=EAGER_FACTOR * ASSUMED_OP_US,
        step_us=ASSUMED_STEP_US,
        label="assumed",
    )


def host_of_study(study: HostStudy, mode: Mode = "train", execution: Compiled = "graph") -> HostCosts:
    """Costs of a measured host for steps of that mode and execution.

    Steps of different executions have different fixed costs: ``step_us`` is that of the one asked for; of an XLA step,
    what it costs beyond the fixed cost of a graph is its ``xla_call_us``. Raises UserError where the
    study lacks that execution.
    """
    lines = {line.execution: line for line in host_lines(study) if line.mode == mode}
    if execution not in lines:
        raise UserError(
            f"This host study holds no {execution} steps in {'training' if mode == 'train' else 'inference'}; "
            "measure the host again."
        )
    asked, assumed = lines[execution], assumed_host()
    graph, eager, xla = lines.get("graph"), lines.get("eager"), lines.get("xla")
    step_us, call_us = asked.step.us, 0.0
    if xla is not None and graph is not None:
        call_us = max(0.0, xla.step.us - graph.step.us)
        step_us -= call_us if execution == "xla" else 0.0
    host = HostOverhead(
        per_op_us=graph.op.us if graph is not None else assumed.per_op_us,
        xla_call_us=call_us,
        eager_op_us=eager.op.us if eager is not None else assumed.eager_op_us,
        step_us=step_us,
        label="measured",
    )
    label: Literal["measured", "recorded"] = "measured" if study.label == "measured" else "recorded"
    op = asked.op if execution == "xla" else _with_a_driver(asked.op)
    return HostCosts(host, execution, asked.step, op, f"{study.title}, {study.created_at}. {CAVEAT}", label)


def _with_a_driver(op: Cost) -> Cost:
    """The cost of an operation on a host with a GPU: its upper bound is the largest published one at least, since what
    the driver adds cannot be seen here and would make a GPU look better than it is.
    """
    low_us = op.us if op.low_us is None else op.low_us
    return Cost(op.us, low_us, max(op.us if op.high_us is None else op.high_us, ASSUMED_OP_HIGH_US))


def host_lines(study: HostStudy) -> tuple[HostLine, ...]:
    """The line of every way of executing that has at least two depths in some round."""
    kinds = dict.fromkeys((cell.execution, cell.mode) for cell in study.cells)
    found = (_line(study, execution, mode) for execution, mode in kinds)
    return tuple(line for line in found if line is not None)


def _line(study: HostStudy, execution: Compiled, mode: Mode) -> HostLine | None:
    members = [i for i, cell in enumerate(study.cells) if (cell.execution, cell.mode) == (execution, mode)]
    counts = {i: kernels_of(study, i) for i in members}
    found = []
    for item in study.rounds:
        times = {i: ms for i in members if (ms := item.step_ms(i)) is not None}
        if len({counts[i] for i in times}) > 1:
            found.append(fit_line(np.array([counts[i] for i in times]), US_PER_MS * np.array(list(times.values()))))
    if not found:
        return None
    steps, slopes = np.array(found).T
    step, op = (Cost(*bounded_median(values)) for values in (steps, slopes))
    return HostLine(execution, mode, step, op, _misfit(study, counts, step.us, op.us))


def kernels_of(study: HostStudy, cell: int) -> float:
    """Kernels of a cell's step as the model counts them, in graph execution: the unit of ``per_op_us``."""
    one = study.cells[cell]
    target = host_target(study.threads, "eager" if one.execution == "eager" else "graph")
    return float(sum(op.kernels for op in ops_of(one.workload, target, 1)))


def fit_line(counts: Array, times_us: Array) -> tuple[float, float]:
    """Intercept and slope, both at least 0, by least squares in relative error: scatter grows with the step time."""
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

"""Host studies, CPU runs and modelled curves with known truth."""

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from core.base.evidence import Block, Process
from core.hardware.compare import Against, against
from core.hardware.constants import constants
from core.hardware.crossing import cross
from core.hardware.curve import CardCurve
from core.hardware.host import Cost, FitCost, HostCosts, HostOverhead
from core.hardware.host_record import HostBlock, HostRound, HostStudy, host_cells, host_target
from core.hardware.interval import Modelled, Withheld
from core.hardware.model import predict
from core.hardware.work import ops_of
from core.rounds.answer.analyse import analyse, cell_statistics
from core.rounds.answer.answer import Answer
from core.rounds.run import Round, Run
from core.studies.runner import StudyTools
from core.worker.protocol import Prepare
from core.workload.spec import Target, Workload
from simulated.hardware import round_card
from simulated.runs import make_run
from simulated.simulation import QUIET, Curve, Machine, NoiseModel
from simulated.tools import tools_for

MADE_UP = "made up for a test"
TRUE_STEP_US = {"graph": 300.0, "xla": 340.0, "eager": 900.0}
TRUE_OP_US = {"graph": 2.0, "xla": 0.5, "eager": 60.0}
CARD = round_card(
    name="Card 1", title="A card for tests", architecture="Volta", fp32_tflops=15.0, half_tflops=None,
    bandwidth_gb_s=900.0, link="PCIe 3.0 x16", link_gb_s=12.0, launch_us=3.0, tdp_w=None,
)  # fmt: skip


def true_step_ms(workload: Workload, execution: str) -> float:
    """Return the step time of a tiny network on the simulated host."""
    counted = host_target(None, "eager" if execution == "eager" else "graph")
    kernels = sum(op.kernels for op in ops_of(workload, counted, 1))
    return (TRUE_STEP_US[execution] + TRUE_OP_US[execution] * kernels) / 1000


def law(request: Prepare, target: Target) -> float:
    return true_step_ms(request.workload, target.execution)


def host_machine(noise: NoiseModel = QUIET, **options: object) -> Machine:
    """Return a simulated machine on which tiny networks take :func:`law`'s time."""
    settings = {"startup_s": 3.0, "prepare_s": 0.3, "law": law} | options
    return Machine((Curve(1.0, 0.01),) * 2, noise, **settings)  # type: ignore[arg-type]


def tools_of(machine: Machine, told: list | None = None) -> StudyTools:
    return tools_for(machine, (lambda _: None) if told is None else told.append)


def make_host_study(
    rng: np.random.Generator | None = None, noise: float = 0.0, rounds: int = 9, cells: Sequence | None = None
) -> HostStudy:
    """Make a study whose blocks are the true step times with lognormal scatter."""
    cells = tuple(cells if cells is not None else host_cells())
    rng = rng or np.random.default_rng(0)
    truth = [true_step_ms(cell.workload, cell.execution) for cell in cells]
    made = []
    for number in range(rounds):
        times = np.array(truth) * (np.exp(rng.normal(0, noise, len(cells))) if noise else 1.0)
        blocks = (HostBlock(cell=i, process=0, steps=10, step_ms=float(ms)) for i, ms in enumerate(times))
        made.append(HostRound(index=number, blocks=tuple(blocks)))
    return HostStudy(threads=1, cells=cells, rounds=tuple(made), created_at="2026-01-05T09:00:00+00:00")


def make_costs(step_us: float = 300.0, op_us: float = 5.0, spread: float = 1.0) -> HostCosts:
    """Return a host whose costs are known to a factor of ``spread`` either way."""
    fit_us = 2 * step_us
    host = HostOverhead(
        per_op_us=op_us, xla_call_us=0.0, eager_op_us=5 * op_us, step_us=step_us, fit_us=fit_us, label="measured"
    )
    step, op = (Cost(us, us / spread, us * spread) for us in (step_us, op_us))
    fit = FitCost(fit_us, fit_us / spread, fit_us * spread, MADE_UP, "measured")
    return HostCosts(host, "graph", step, op, MADE_UP, "measured", fit)


def make_curve(
    step_ms: Callable[[float], float],
    batches: Sequence[int],
    log_low: float = 0.0,
    log_high: float = 0.0,
    withheld: Sequence[int] = (),
    gpu: str = CARD.name,
) -> CardCurve:
    """Return a modelled curve with an error from exp(log_low) ≤ 1 to exp(log_high) ≥ 1 at every batch."""
    run = make_run()
    assert run.plan is not None
    parts = predict(CARD, run.plan.workload, Target(device="gpu:0"), 1, make_costs().host, constants())
    points: list[Modelled | Withheld] = []
    for batch in batches:
        if batch in withheld:
            points.append(Withheld(gpu, batch, "Nothing was ever measured there."))
            continue
        ms = step_ms(batch)
        low_ms, high_ms = ms * math.exp(log_low), ms * math.exp(log_high)
        points.append(Modelled(gpu, batch, ms, low_ms, high_ms, "launch", "a test's errors", "launch", parts))
    return CardCurve(gpu, tuple(points))


def with_curve(run: Run, answer: Answer, curve: CardCurve) -> Against:
    """Compare :data:`CARD` with the run's second target, with ``curve`` in place of its own."""
    comparison = against(run, answer, 1, CARD, make_costs())
    return dataclasses.replace(comparison, curve=curve, crossovers=tuple(cross(run, answer, curve, i) for i in (1, 0)))


def cpu_run(
    step_ms: Callable[[float], float],
    batches: Sequence[int],
    offsets: Sequence[float] = (0.0, 0.0, 0.0),
    rounds: int = 2,
) -> Run:
    """Make a run whose target 0 takes exp(offset) times the true step time per process; target 1 is twice as slow."""
    made: list[Round] = []
    processes: list[Process] = []
    for process, offset in enumerate(offsets):
        processes += [
            Process(index=process, target=target, pid=1 + process, startup_ms=1.0, device="CPU:0") for target in (0, 1)
        ]
        for batch in batches:
            for _ in range(rounds):
                ms = step_ms(batch) * math.exp(offset)
                blocks = tuple(
                    Block(target=target, process=process, steps=10, step_ms=ms * (1 + target)) for target in (0, 1)
                )
                made.append(Round(index=len(made), pass_index=process, batch=batch, blocks=blocks))
    return make_run(processes=1, passes=1, rounds_per_pass=1).model_copy(
        update={"rounds": tuple(made), "processes": tuple(processes), "cells": (), "setups": ()}
    )


_ANY = analyse(make_run(processes=1, passes=1, rounds_per_pass=2))


def cells_of(run: Run) -> Answer:
    """Return the part of an answer that comparisons with a card use, without the time of a whole analysis."""
    return dataclasses.replace(_ANY, cells=cell_statistics(run))


def with_blocks(study: Any, changed: Callable[[Any], Any]) -> Any:
    """Return the study with each block replaced by ``changed`` of it."""
    rounds = (item.model_copy(update={"blocks": tuple(map(changed, item.blocks))}) for item in study.rounds)
    return study.model_copy(update={"rounds": tuple(rounds)})

"""Checks on a simulated machine with two sides of known time ratio, and checks made by hand."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from core.base.evidence import Block, Process
from core.networks.families.code import Code
from core.rounds.run import Cell, Round, Run
from core.studies.check.record import CheckPlan, CheckRecord, Side, StoredSteps, stored_steps
from core.studies.check.run import SIDES, run_check
from core.worker.protocol import Prepare
from core.workload.spec import Target, Workload
from simulated.runs import make_environment, make_run, planned
from simulated.simulation import Curve, Machine, NoiseModel
from simulated.sweeps import plan, sweep
from simulated.tools import tools_for

WORKLOAD = Workload(network="784-128-10")
STEP = Curve(0.5, 0.01)
BATCHES = (1, 256)
OLD = Side(title="commit 1a2b3c4d5e", workload=WORKLOAD, commit="1a2b3c4d5e" * 4, committed_ms=1_790_000_000_000)
NEW = Side(title="this folder", workload=WORKLOAD, commit="9f8e7d6c5b" * 4, committed_ms=1_790_100_000_000)


def check_plan(**changes: Any) -> CheckPlan:
    """Return a plan for two checkouts at two batch sizes, 60 s, 5 %."""
    usual: dict[str, Any] = {"sides": (OLD, NEW), "target": Target(), "batches": BATCHES, "max_slowdown": 0.05}
    return CheckPlan.model_validate(usual | changes)


def check_machine(
    ratios: Mapping[int, float] | float = 1.0, noise: NoiseModel | None = None, factor: float = 1.0, **options: Any
) -> Machine:
    """Return a machine whose second worker takes ``ratios`` times as long as the first, by batch or for all.

    Both take ``factor`` times the default.
    """
    machine = Machine((STEP, STEP), noise or NoiseModel(), **options)

    def step_ms(index: int, _: Target, request: Prepare) -> float:
        ratio = ratios if isinstance(ratios, float) else ratios.get(request.batch, 1.0)
        return factor * STEP.step_ms(request.batch) * (ratio if index else 1.0)

    machine.step_ms = step_ms  # type: ignore[assignment, method-assign]
    return machine


def checked(machine: Machine, wanted: CheckPlan | None = None, **options: Any) -> CheckRecord:
    return run_check(tools_for(machine, **options), wanted or check_plan())


def stored_run(seed: int, noise: NoiseModel | None = None) -> Run:
    """Return a sweep of 120 s, whose first target is the checked one."""
    machine = Machine((STEP, Curve(0.9, 0.004)), noise or NoiseModel(), seed=seed)
    return sweep(machine, plan(budget_s=120.0))


def stored_code(entry: str, folder: str) -> Run:
    """Return a made-up run of code that a function builds."""
    layer = dict.fromkeys(("parameters", "forward_flops", "weight_gradient_flops", "activations"), 8)
    entry_facts = {"entry": entry, "folder": folder, "sample_shape": (6,), "outputs": 3}
    code = Code.model_validate(entry_facts | {"counts": [{"name": "dense", "input_gradient_flops": 0} | layer]})
    run = make_run()
    assert run.plan is not None
    return planned(run, workload=run.plan.workload.model_copy(update={"network": code}))


def checked_against(run: Run, machine: Machine, **changes: Any) -> CheckRecord:
    """Check against the first target of a stored run. The worker of a single side is the machine's first."""
    steps = stored_steps(run, 0)
    stored = StoredSteps(title="run of Monday", created_at="", environment=make_environment(), steps_ms=steps)
    batches = (min(steps), max(steps))
    return checked(machine, check_plan(sides=(NEW,), stored=stored, batches=batches, **changes))


def made(
    ratios: Mapping[int, Sequence[float]],
    limit: float = 0.05,
    cells: Sequence[Cell] = (),
    rounds: int = 4,
    **changes: Any,
) -> CheckRecord:
    """Return a check whose processes found exactly these ratios, by batch; a block of the baseline takes 2 ms."""
    blocks = [
        (batch, process, ratio)
        for batch, of_processes in ratios.items()
        for process, ratio in enumerate(of_processes)
        if not math.isnan(ratio)
        for _ in range(rounds)
    ]
    starts = max(map(len, ratios.values()))
    run = Run(
        id="20260105-made01", name="made", created_at="2026-01-05T09:00:00+00:00", label="measured", status="finished",
        target_names=SIDES, elapsed_s=60.0, environment=make_environment(), cells=tuple(cells),
        processes=tuple(Process(index=p, target=t, pid=1, startup_ms=1.0, device="cpu")
                        for p in range(starts) for t in (0, 1)),
        rounds=tuple(
            Round(index=i, batch=batch, blocks=(Block(target=0, process=p, steps=1, step_ms=2.0),
                                                Block(target=1, process=p, steps=1, step_ms=2.0 * ratio)))
            for i, (batch, p, ratio) in enumerate(blocks)
        ),
    )  # fmt: skip
    return CheckRecord(plan=check_plan(batches=tuple(ratios), max_slowdown=limit, **changes), run=run)

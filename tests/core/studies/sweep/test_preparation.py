"""The preparation of cells that a sweep asks for."""

import pytest

from core.rounds.plan import SweepPlan
from core.studies.sweep.workers import PAUSED
from core.worker.protocol import Prepare, Prepared
from core.workload.spec import Target, Workload
from simulated.simulation import Curve, Machine, SimulatedWorker
from simulated.sweeps import sweep

WORKLOAD = Workload(network="784-512-512-10")
ONE, TWO = Target(threads=1), Target(threads=2)
CURVES = (Curve(0.6, 0.003), Curve(0.5, 0.00375))


def test_inference_times_steps_after_pauses_at_its_smallest_batch_and_training_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: dict[int, set[int]] = {}
    prepare = SimulatedWorker.prepare

    def noted(worker: SimulatedWorker, request: Prepare, deadline_s: float) -> Prepared:
        asked.setdefault(request.batch, set()).add(request.paused_samples)
        return prepare(worker, request, deadline_s)

    monkeypatch.setattr(SimulatedWorker, "prepare", noted)
    plan = SweepPlan(workload=WORKLOAD, targets=(ONE, TWO), batches=(8, 64, 512), budget_s=30.0, refine=False)
    sweep(Machine(CURVES), plan)
    assert set().union(*asked.values()) == {0}
    asked.clear()
    served = plan.model_copy(update={"workload": WORKLOAD.model_copy(update={"mode": "infer"})})
    sweep(Machine(CURVES), served)
    assert asked == {8: {PAUSED}, 64: {0}, 512: {0}}

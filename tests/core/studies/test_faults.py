"""Any failure at any time: a study of any kind is kept with its measurements, or states why there are none."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from core.base.schema import UserError
from core.studies.diagnosis.run import DiagnosisPlan
from core.studies.host.run import HostPlan
from core.studies.kind import Context
from core.studies.memory.record import MemoryPlan
from core.studies.memory.run import MemorySearch
from core.studies.noise.record import NoisePlan
from core.studies.registry import kind_of, kinds
from core.workload.spec import Target, Workload
from simulated import resolutions, validations
from simulated.causes import BATCH, make_case
from simulated.frontiers import SMALL, make_plan, random_truth
from simulated.frontiers import machine as frontier_machine
from simulated.hosts import host_machine
from simulated.memories import GB, MemoryMachine, linear
from simulated.noises import SimulatedTrainer
from simulated.pipelines import make_study, true_step_ms
from simulated.scalings import scaling_machine, scaling_plan
from simulated.selfchecks import REFUSAL
from simulated.simulation import Curve, Machine, NoiseModel
from simulated.sweeps import MemoryRecorder, new_run, plan
from simulated.tools import tools_for
from simulated.validations import Card
from tests.support.faults import OUTCOMES, Faulty

SEEDS = 24
CASE = make_case("precision", 1)
WORKLOAD = Workload(network="784-512-512-10")


def _machine(seed: int, law: Any = None) -> Machine:
    return Machine((Curve(0.3, 0.02), Curve(1.0, 0.003)), NoiseModel(), seed=seed, startup_s=2.0, law=law)


def _fed(request: Any, _: Target) -> float:
    arms = make_study().arms
    return true_step_ms(next(arm for arm in arms if arm.pipeline == request.pipeline))


STUDIES: dict[str, tuple[Callable[[int], Any], Callable[[], Any]]] = {
    "sweep": (_machine, lambda: new_run(plan(batches="1:64", budget_s=40.0))),
    "pipeline": (lambda seed: _machine(seed, _fed), make_study),
    "diagnosis": (lambda seed: _machine(seed, CASE.law), lambda: DiagnosisPlan(CASE.run, 1, BATCH, 60.0)),
    "frontier": (lambda seed: frontier_machine(random_truth(seed), seed), lambda: make_plan(**SMALL)),
    "memory": (
        lambda seed: MemoryMachine(linear(30e6, 20e3), noise=0.01, seed=seed),
        lambda: MemorySearch(MemoryPlan(workload=WORKLOAD, target=Target(), limit_bytes=2 * GB)),
    ),
    "noise": (lambda seed: SimulatedTrainer(seed=seed), lambda: NoisePlan(workload=WORKLOAD, budget_s=60.0)),
    "host": (lambda seed: host_machine(seed=seed), HostPlan),
    "resolution": (_machine, lambda: resolutions.plan(budget_s=40.0)),
    "validation": (lambda seed: Card(seed=seed), lambda: validations.plan(minutes=4.0)),
    "scaling": (lambda seed: scaling_machine(seed=seed), lambda: scaling_plan(batches=(32, 128, 512), budget_s=40.0)),
}
"""Simulated machine and plan of each kind."""


@pytest.mark.parametrize("seed", range(SEEDS))
@pytest.mark.parametrize("name", STUDIES)
def test_any_sequence_of_failures_leaves_what_was_measured_or_one_sentence(
    name: str, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine, asked = STUDIES[name][0](seed), STUDIES[name][1]()
    monkeypatch.setattr("core.studies.memory.run.available_memory_bytes", lambda: 64 * GB)
    monkeypatch.setattr(REFUSAL, lambda _: ())
    faults, recorder, kind = Faulty(machine, seed), MemoryRecorder(), kind_of(name)
    tools = tools_for(machine, cancel=faults.stop, recorder=recorder, launch=faults.launch)
    try:
        record = kind.run(tools, asked)
    except UserError:
        record = None
    assert faults.open_workers == 0
    if record is not None:
        _check_record(name, record, faults)
    if name == "sweep":
        assert recorder.finished is not None
        assert record is None or recorder.rounds == list(record.rounds)
        _check_blocks(recorder.rounds, 2, faults)
    elif name in ("frontier", "pipeline", "host") or (name == "scaling" and record is not None):
        most = {"frontier": 2, "scaling": 2, "host": 64}.get(name, len(make_study().arms))
        _check_blocks(() if record is None else record.rounds, most, faults)
    elif name == "noise":
        assert (0 if record is None else len(record.draws)) == 8 * faults.answered["sample_gradients"]
    elif name == "memory":
        assert (0 if record is None else len(record.probes)) >= faults.answered["prepare"]


def _check_record(name: str, record: Any, faults: Faulty) -> None:
    """Check that it reads back, answers or gives the reason, and has the status of the stop, if there was one."""
    kind, context = kind_of(name), Context(run=CASE.run)
    assert kind.record.from_json(record.to_json()) == record
    stopped = {faults.stop.status} if faults.stop.is_set() else set()
    assert record.status in {"finished", "failed", *stopped}
    try:
        answer = kind.answer(record, context)
    except UserError:
        return
    assert kind.text(record, answer, context)
    assert json.dumps(kind.export(record, answer, context), allow_nan=False)


def _check_blocks(rounds: Any, of_round: int, faults: Faulty) -> None:
    """Check that a failure, or the stop, costs the blocks of its round, and no others."""
    kept = sum(len(item.blocks) for item in rounds)
    lost = faults.answered["block"] - kept
    assert 0 <= lost <= (of_round - 1) * (faults.failed + faults.stop.is_set())


def test_every_kind_is_tried() -> None:
    """Check all kinds but the fleet, which has its own faults: tests/core/studies/fleet/test_run.py."""
    assert set(STUDIES) == set(kinds()) - {"fleet"}
    assert "nan_loss" in OUTCOMES

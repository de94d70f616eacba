"""Sweeps with targets of several devices, on simulated ones with known truth."""

from __future__ import annotations

import math
import re

import pytest
from pydantic import ValidationError

from core.rounds.answer.analyse import analyse
from core.rounds.run import Run
from core.studies.diagnosis.remedies import arms_for, family
from core.studies.frontier.record import FrontierPlan
from core.studies.memory.record import MemoryPlan
from core.studies.noise.record import NoisePlan
from core.studies.pipeline.plan import PipelinePlan
from core.studies.sweep.schedule import bracket_batches
from core.worker.protocol import Prepare
from core.workload.memory import estimate_bytes
from core.workload.spec import Target, Workload
from simulated.simulation import Curve, Machine, Mirrored
from simulated.sweeps import plan, sweep

ONE, TWO = Target(device="gpu:0"), Target(device="gpu:0+1")
LAW = Mirrored(Curve(1.0, 0.02), exchange_ms=0.5)


def truth(law: Mirrored) -> float:
    """Return the batch from which two devices beat one, by bisection of the law itself."""

    def lead(batch: float) -> float:
        return law.curve.step_ms(batch) - law.curve.step_ms(batch / 2) - law.exchange_ms

    low, high = 1.0, 1024.0
    for _ in range(60):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if lead(middle) < 0 else (low, middle)
    return low


@pytest.fixture(scope="module")
def run() -> Run:
    return sweep(Machine((), law=LAW), plan(targets=(ONE, TWO)))


def test_the_batch_from_which_two_gpus_beat_one_is_found(run: Run) -> None:
    assert run.status == "finished"
    (crossover,) = analyse(run).verdict.crossovers
    assert crossover.low <= truth(LAW) <= crossover.high
    assert crossover.batch == pytest.approx(truth(LAW), rel=0.1)


def test_batches_that_cannot_be_shared_out_evenly_are_left_out_with_a_sentence(run: Run) -> None:
    cells = {cell.batch: cell for cell in run.cells if cell.target == 1}
    assert cells[1].outcome == "skipped"
    assert cells[1].reason == (
        "Skipped, because 1 sample cannot be shared out evenly among the 2 devices of gpu:0+1; choose a batch size "
        "that is a multiple of 2."
    )
    ran = {item.batch for item in run.rounds for block in item.blocks if block.target == 1}
    assert ran
    assert not any(batch % 2 for batch in ran)
    assert {cells[batch].outcome for batch in ran} == {"measured"}
    assert {cell.batch for cell in run.cells} - set(plan().batches), "new sizes were tried around the crossover"
    assert {cell.batch for cell in run.cells if cell.batch % 2} == {1}
    assert len({cell.outcome for cell in run.cells if cell.target == 0}) == 1


def test_a_trace_of_two_devices_tells_the_all_reduce_and_one_of_one_device_none(run: Run) -> None:
    assert {trace.target for trace in run.traces} == {0, 1}
    for trace in run.traces:
        exchange_ms = None if trace.target == 0 else pytest.approx(1.1 * 0.5)
        assert trace.device.all_reduce_ms == exchange_ms
    trace = next(trace for trace in run.traces if trace.target == 1)
    share = 0.5 / LAW(_cell(trace.batch), TWO)
    assert trace.device.all_reduce_shares == pytest.approx([share] * len(trace.device.steps))


def _cell(batch: int) -> Prepare:
    asked = plan()
    return Prepare(workload=asked.workload, pipeline=asked.pipeline, batch=batch)


def test_inference_has_no_exchange_to_pay_for() -> None:
    infers = Workload(network="784-512-512-10", mode="infer")
    found = sweep(Machine((), law=LAW), plan("64:256", targets=(ONE, TWO), workload=infers))
    assert analyse(found).verdict.kind == "ahead"
    assert {trace.device.all_reduce_ms for trace in found.traces} == {None}


def test_a_plan_of_which_a_target_could_run_nothing_is_refused() -> None:
    three = Target(device="gpu:0+1+2")
    with pytest.raises(ValidationError, match=re.escape("devices of gpu:0+1+2")):
        plan("1:1024", targets=(ONE, three))
    assert plan("3:768", targets=(ONE, three)).batch_multiple == 3
    assert plan("12:768", targets=(Target(device="gpu:0+1+2+3"), three)).batch_multiple == 12


def test_new_batch_sizes_are_multiples_and_lie_between_those_that_were_tried() -> None:
    assert bracket_batches([(20.0, 0.0)], (16, 32), 4) == (24,)
    assert bracket_batches([(5.5, 0.0)], (5, 7), 4) == ()
    assert bracket_batches([(20.0, 0.0)], (16, 32)) == (23,)


def test_logical_devices_are_said_to_show_no_speed_up() -> None:
    law = Mirrored(Curve(0.3, 0.02), exchange_ms=0.1)
    found = sweep(Machine((), law=law), plan("2:64", targets=(Target(), Target(device="cpu:2")), trace=False))
    texts = {warning.code: warning.text for warning in analyse(found).verdict.warnings}
    assert texts["logical_1"].startswith("2 logical CPUs")
    assert not [code for code in {w.code for w in analyse(found).verdict.warnings} if code == "logical_0"]
    both = (Target(device="cpu:2"), Target(device="cpu:2", framework="jax"))
    found = sweep(Machine((), law=law), plan("2:64", targets=both, trace=False))
    texts = {warning.code: warning.text for warning in analyse(found).verdict.warnings}
    assert texts["logical_1"].startswith("JAX: 2 logical")


def test_studies_of_one_device_refuse_several_with_a_sentence() -> None:
    asked = {"workload": Workload(network="784-128-10"), "target": TWO}
    with pytest.raises(ValidationError, match="choose gpu:0"):
        MemoryPlan(**asked, limit_bytes=10**9)
    with pytest.raises(ValidationError, match="noise scale"):
        NoisePlan(**asked)


def test_studies_of_keras_s_own_step_refuse_a_call_with_a_sentence() -> None:
    called, leaves = Target(call="predict"), "with Keras's own steps; leave call=predict out"
    workload = Workload(network="784-128-10", mode="infer")
    for make in (
        lambda: MemoryPlan(workload=workload, target=called, limit_bytes=10**9),
        lambda: NoisePlan(workload=Workload(network="784-128-10"), target=called),
        lambda: PipelinePlan(workload=workload, target=called),
        lambda: FrontierPlan(depths=(1, 2), widths=(8,), batches=(1,), mode="infer", targets=(Target(), called)),
    ):
        with pytest.raises(ValidationError, match=leaves):
            make()


def test_a_diagnosis_of_several_devices_tries_what_runs_there(run: Run) -> None:
    arms, skipped = arms_for(run, 1, 64)
    assert {family(arm.code) for arm in arms} == {"as", "precision", "batch"}
    assert "several devices" in skipped["xla"] == skipped["steps"]
    jax = sweep(Machine(("gpu:0", "gpu:1"), law=LAW), plan("16:64", targets=tuple(
        target.model_copy(update={"framework": "jax"}) for target in (ONE, TWO)), trace=False))  # fmt: skip
    arms, skipped = arms_for(jax, 1, 64)
    assert {family(arm.code) for arm in arms} == {"as", "precision", "batch"}
    assert "XLA already." in skipped["xla"]
    assert "no execution" in skipped["graph"]


def test_each_gpu_holds_the_network_and_its_share_and_logical_cpus_hold_all_of_it_in_one_process() -> None:
    workload = Workload(network="784-512-512-10")
    one, each = (estimate_bytes(workload, target, 64) for target in (ONE, TWO))
    assert (each.weights_bytes, each.data_bytes) == (one.weights_bytes, one.data_bytes // 2)
    cpu, both = (estimate_bytes(workload, Target(device=device), 64) for device in ("cpu", "cpu:2"))
    assert (both.weights_bytes, both.optimizer_bytes) == (2 * cpu.weights_bytes, 2 * cpu.optimizer_bytes)
    assert both.activations_bytes == cpu.activations_bytes

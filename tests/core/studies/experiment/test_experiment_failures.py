"""Failures in an experiment, its cancellation, and its progress reports."""

import threading
from typing import Any

import pytest

from core.studies.experiment.effects import effects
from core.studies.experiment.record import Arm
from core.studies.experiment.run import MAX_STARTS, MIN_STARTS
from core.studies.progress import Progress
from core.studies.runner import Cancelled, StudyFailed
from simulated.simulation import Fault, NoiseModel, SimulatedWorker
from tests.support.experiments import FOUR, Noted, arm, law, machine, measure, processes


def test_a_variant_that_cannot_be_prepared_is_out_and_not_tried_again() -> None:
    made = machine(faults=(Fault(0, 1024, "out_of_memory"),))
    found = measure(made, (*FOUR, arm("batch-1024", batch=1024)))
    (outcome,) = found.outcomes
    assert (outcome.arm, outcome.outcome) == (4, "out_of_memory")
    assert "Planted fault" in outcome.reason
    assert found.status == "finished"
    assert [request.slot for _, _, request in made.asked].count(4) == 1
    assert made.starts >= MIN_STARTS
    assert all(len(item.blocks) == 4 for item in found.rounds)


def test_a_variant_that_fails_in_a_block_ends_its_start_only() -> None:
    made = machine(faults=(Fault(0, 1024, "nan_loss", in_block=True),))
    found = measure(made, (*FOUR, arm("batch-1024", batch=1024)), budget_s=90.0)
    assert [(o.arm, o.outcome) for o in found.outcomes] == [(4, "nan_loss")]
    assert len(processes(found)) >= MIN_STARTS
    assert all({block.arm for block in item.blocks} == {0, 1, 2, 3} for item in found.rounds)


def lossy(count: int) -> tuple[Arm, ...]:
    """Return the first arm, a good one, and ``count`` arms whose worker is lost, each with the next larger batch."""
    return (*FOUR[:2], *(arm(f"batch-{1000 + i}", batch=1000 + i) for i in range(count)))


@pytest.mark.parametrize("in_block", [False, True])
def test_lost_workers_cost_their_variants_only(in_block: bool) -> None:
    """Lose many workers: each costs a start, which is none of the measuring ones."""
    lost = MAX_STARTS + 1
    made = machine(NoiseModel(), faults=(Fault(0, 1000, "crashed", in_block=in_block, lost=True),))
    found = measure(made, lossy(lost), budget_s=240.0)
    assert found.status == "finished"
    assert [(o.arm, o.outcome) for o in found.outcomes] == [(2 + i, "crashed") for i in range(lost)]
    assert len(processes(found)) >= MIN_STARTS
    assert sum("was lost" in warning.text for warning in found.warnings) == lost
    assert effects(found)[1].speed_up == pytest.approx(1.5, rel=0.1)


def test_a_hung_variant_does_not_outlast_the_budget_for_ever() -> None:
    """Hang every arm beyond the second one until its deadline; the experiment ends within a start of its budget."""
    made = machine(faults=(Fault(0, 1000, "hung", lost=True),))
    with pytest.raises(StudyFailed, match="Planted fault: hung"):
        measure(made, lossy(6), budget_s=60.0)
    assert made.starts == 1
    assert made.clock.now_s() < 70.0


def test_a_slow_variant_is_skipped_with_a_reason() -> None:
    made = machine(law=lambda request, target: 10_000.0 if target.execution == "xla" else law(request, target))
    found = measure(made, budget_s=60.0)
    assert [(o.arm, o.outcome) for o in found.outcomes] == [(1, "skipped")]
    assert "about 11 s" in found.outcomes[0].reason
    assert all({block.arm for block in item.blocks} == {0, 2, 3} for item in found.rounds)


def test_a_machine_that_becomes_slow_ends_it_within_a_round(monkeypatch: pytest.MonkeyPatch) -> None:
    """Slow down eight variants to 18 s per block: the round in progress is given up."""
    real, asked = SimulatedWorker.block, []

    def slows_down(self: Any, request: Any, deadline_s: float) -> Any:
        asked.append(request)
        if len(asked) > 20:
            self._machine.clock.advance(18.0)
        return real(self, request, deadline_s)

    monkeypatch.setattr(SimulatedWorker, "block", slows_down)
    made = machine()
    found = measure(made, (*FOUR, *(arm(f"batch-{100 + i}", batch=100 + i) for i in range(4))), budget_s=40.0)
    assert made.clock.now_s() < 40.0 * 1.25 + 20.0
    assert found.rounds
    assert all(len(item.blocks) == 8 for item in found.rounds)


def test_a_slow_first_arm_is_measured_all_the_same() -> None:
    found = measure(machine(law=lambda *_: 7000.0), FOUR[:1], budget_s=60.0)
    assert found.outcomes == ()
    assert len(found.rounds) >= 1


def test_a_slow_block_gets_a_longer_deadline() -> None:
    """Check for thirty times a block's expected time, if that is more than twenty seconds."""
    quick, slow = machine(), machine(law=lambda *_: 2000.0)
    measure(quick, FOUR[:1])
    measure(slow, FOUR[:1])
    assert set(quick.deadlines) == {20.0}
    assert min(slow.deadlines) > 50.0


@pytest.mark.parametrize(("in_block", "lost"), [(False, False), (False, True), (True, False), (True, True)])
def test_without_the_first_arm_the_experiment_has_failed(in_block: bool, lost: bool) -> None:
    made = machine(faults=(Fault(0, 64, "error", in_block=in_block, lost=lost),))
    with pytest.raises(StudyFailed, match="Planted fault: error"):
        measure(made)
    assert made.starts == 1


@pytest.mark.parametrize("phase", ["Starting", "Preparing: Variant steps-8", "Measuring"])
def test_cancelling_ends_every_phase_in_order(phase: str) -> None:
    made, cancel = machine(), threading.Event()

    def stop(progress: Progress) -> None:
        if progress.activity.startswith(phase):
            cancel.set()

    with pytest.raises(Cancelled, match="before the first"):
        measure(made, cancel=cancel, report=stop)
    assert made.starts == 1


def test_cancelling_keeps_whole_rounds() -> None:
    made, cancel = machine(), threading.Event()

    block = Noted.block
    count = 0

    def counted(self: Noted, *arguments: Any, **named: Any) -> Any:
        nonlocal count
        count += 1
        if count == 10:  # the second block of the third round
            cancel.set()
        return block(self, *arguments, **named)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Noted, "block", counted)
        found = measure(made, cancel=cancel)
    assert found.status == "cancelled"
    assert [len(item.blocks) for item in found.rounds] == [4, 4]
    assert count == 10


@pytest.mark.parametrize("status", ["finished", "cancelled"])
def test_progress_tells_the_truth(status: str) -> None:
    faults = (Fault(0, 1024, "out_of_memory"),)
    made, cancel, seen = machine(NoiseModel(), faults=faults), threading.Event(), []

    def hear(progress: Progress) -> None:
        seen.append((made.clock.now_s(), progress))
        if status == "cancelled" and progress.elapsed_s > 20:
            cancel.set()

    arms = (*FOUR, arm("batch-1024", batch=1024))
    found = measure(made, arms, cancel=cancel, report=hear)
    assert found.status == status
    for now_s, progress in seen:
        assert progress.elapsed_s == pytest.approx(now_s)
        assert progress.remaining_s == pytest.approx(max(0.0, 60.0 - now_s))
        assert 0 <= progress.cells_done <= progress.cells_total == 5
    done = [progress.cells_done for _, progress in seen]
    assert done[0] == 0
    assert done == sorted(done)
    said = [progress.activity for _, progress in seen]
    assert said[:2] == ["Starting 1 worker process", "Preparing: Variant as-is"]
    if status == "finished":
        assert done[-1] == 5
        assert "Measuring all variants in turn" in said
    assert said[-1] == status.capitalize()


def test_a_broken_launcher_or_worker_leaves_no_worker_behind() -> None:
    made = machine()

    def broken(*_: object, **__: object) -> Any:
        raise RuntimeError("a defect")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Noted, "block", broken)
        with pytest.raises(RuntimeError, match="a defect"):
            measure(made)

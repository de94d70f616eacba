"""Noise studies by a simulated trainer with a known noise scale, on a virtual clock."""

import pytest

from core.studies.noise.answer import training_noise
from core.studies.noise.record import TARGET_SHARE, NoisePlan
from core.studies.noise.run import FIRST_PARTS, run_noise_study
from core.studies.runner import StudyFailed
from core.worker.protocol import CellFailed, SampleGradients, Train
from simulated.noises import INITIAL_LOSS, WORKLOAD, SimulatedTrainer, simulated_tools


def measured(trainer: SimulatedTrainer, cancel_after: int | None = None, **choices: object):
    plan = NoisePlan(workload=WORKLOAD, **choices)
    told: list = []
    tools = simulated_tools(trainer, told)
    if cancel_after is not None:
        real = tools.report

        def report(progress):
            real(progress)
            if len(told) == cancel_after:
                tools.cancel.set()

        tools = type(tools)(tools.launcher, tools.clock, tools.cancel, tools.interference, report)
    study = run_noise_study(tools, plan)
    assert trainer.closed == 1
    return study, told


def test_the_known_noise_scale_and_steps_are_found():
    study, told = measured(SimulatedTrainer(noise=100.0), run_id="20260105-x", budget_s=120.0)
    found = training_noise(study)
    assert study.status == "finished"
    assert study.run_id == "20260105-x"
    assert study.initial_loss == pytest.approx(INITIAL_LOSS)
    assert study.target_loss == pytest.approx(TARGET_SHARE * INITIAL_LOSS)
    assert found.value == pytest.approx(100.0, rel=0.1)
    assert found.low < 100.0 < found.high
    assert found.steps == pytest.approx(50 * (1 + 100 / 64), rel=0.02)
    assert found.minimal_steps == pytest.approx(50, rel=0.1)
    assert any("teacher" in one.activity for one in told)


def test_noise_that_grows_is_measured_along_the_training():
    study, _ = measured(SimulatedTrainer(noise=50.0, doubling=30.0), target_loss=1.0, budget_s=120.0)
    scales = training_noise(study).scales
    assert len(scales) >= 5
    assert scales[-1].value > 4 * scales[0].value
    for scale in scales:
        assert scale.value == pytest.approx(50.0 * 2 ** (scale.step / 30.0), rel=0.6)
    assert study.draws[-1].step == study.steps  # the end, where noise is largest, is measured too


def test_where_noise_dominates_batches_become_larger_until_the_gradient_shows():
    quiet, loud = SimulatedTrainer(noise=20.0), SimulatedTrainer(noise=5_000.0, minimal_steps=2.0)
    measured(quiet, budget_s=120.0)
    study, _ = measured(loud, budget_s=120.0)
    parts = [max(one.parts for one in t.asked if isinstance(one, SampleGradients)) for t in (quiet, loud)]
    assert parts[0] == FIRST_PARTS
    assert parts[1] >= 8 * FIRST_PARTS
    assert training_noise(study).high is not None


def test_small_batches_fit_the_reference_batch():
    trainer = SimulatedTrainer()
    measured(trainer, batch=4, budget_s=60.0)
    assert {one.small for one in trainer.asked if isinstance(one, SampleGradients)} == {2}


def test_the_budget_ends_a_training_that_does_not_reach_its_loss():
    trainer = SimulatedTrainer(minimal_steps=1e6)
    study, _ = measured(trainer, budget_s=30.0)
    assert study.status == "finished"
    assert study.steps_to_loss is None
    assert 20.0 < study.elapsed_s < 36.0
    assert training_noise(study).steps is None


def test_no_request_takes_long_so_that_cancelling_is_quick():
    trainer = SimulatedTrainer(minimal_steps=1e5, step_s=0.3)
    measured(trainer, budget_s=600.0)
    assert max(one.steps for one in trainer.asked if isinstance(one, Train)) * 0.3 <= 2.1


def test_cancelling_keeps_what_there_is():
    study, _ = measured(SimulatedTrainer(minimal_steps=1e4), cancel_after=12)
    assert study.status == "cancelled"
    assert study.draws
    assert training_noise(study) is not None


def test_cancelled_before_the_first_gradients_there_is_nothing():
    trainer = SimulatedTrainer()
    with pytest.raises(StudyFailed, match="nothing was measured"):
        measured(trainer, cancel_after=1)
    assert trainer.closed == 1


def test_a_training_that_diverges_keeps_what_was_measured_and_says_so():
    study, _ = measured(SimulatedTrainer(minimal_steps=1e4, diverges_at=40))
    assert study.status == "failed"
    assert [warning.code for warning in study.warnings] == ["nan_loss"]
    assert "diverged" in study.warnings[0].text
    assert study.steps <= 40


def test_a_training_that_cannot_begin_is_an_error():
    class Refusing(SimulatedTrainer):
        def open_training(self, request, deadline_s):  # noqa: ARG002
            raise CellFailed("error", "x.npy holds no labels.")

    trainer = Refusing()
    with pytest.raises(CellFailed, match="no labels"):
        measured(trainer)
    assert trainer.closed == 1


def test_a_target_above_the_untrained_loss_is_refused():
    with pytest.raises(StudyFailed, match=r"loss of 2\.4"):
        measured(SimulatedTrainer(), target_loss=3.0)

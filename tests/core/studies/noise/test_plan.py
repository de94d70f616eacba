"""Noise plans and studies: limits, defaults, JSON, the steps to the loss, and data without labels."""

import numpy as np
import pytest
from pydantic import ValidationError

from core.networks.families import network_from_name
from core.studies.noise.record import DEFAULT_RATES, GradientDraw, LossPoint, NoisePlan, steps_to
from core.userdata.arrays import DataError
from core.userdata.source import check_labelled
from core.workload.spec import Workload
from simulated.noises import TRUE_STEPS, WORKLOAD, make_noise_study

INFER = WORKLOAD.model_copy(update={"mode": "infer"})


def test_defaults():
    plan = NoisePlan(workload=WORKLOAD)
    assert plan.rate == DEFAULT_RATES["adam"]
    assert plan.model_copy(update={"learning_rate": 0.5}).rate == 0.5
    assert "teacher" in plan.task
    assert NoisePlan(workload=WORKLOAD, data="/data/mine.npz").task == "own data (mine.npz)"


@pytest.mark.parametrize(
    ("field", "value"),
    [("batch", 3), ("batch", 65_537), ("learning_rate", 0.0), ("target_loss", -1.0), ("budget_s", 1.0),
     ("data", "https://example.org/x.npz"), ("data", "a\nb"), ("workload", INFER)],
)  # fmt: skip
def test_what_cannot_be_measured_is_refused(field, value):
    with pytest.raises(ValidationError):
        NoisePlan(**({"workload": WORKLOAD} | {field: value}))


def test_inference_is_refused_with_the_reason():
    with pytest.raises(ValidationError, match="no noise scale"):
        NoisePlan(workload=Workload(network=network_from_name("20-16-4"), mode="infer"))


def test_a_draw_needs_two_sizes():
    with pytest.raises(ValidationError, match="larger"):
        GradientDraw(step=0, small=8, big=8, small_norm2=1.0, big_norm2=1.0)


def points(*losses: float) -> list[LossPoint]:
    return [LossPoint(step=10 * index, loss=loss) for index, loss in enumerate(losses)]


def test_steps_to_the_loss_are_interpolated_on_the_smoothed_curve():
    study = make_noise_study()
    assert study.steps_to_loss == pytest.approx(TRUE_STEPS, rel=1e-3)
    falling = points(*(3.0 - 0.1 * index for index in range(25)))
    assert steps_to(1.55, falling) == pytest.approx(145.0)
    assert steps_to(0.1, falling) is None
    assert steps_to(5.0, falling) is None  # there from the start
    assert steps_to(1.0, []) is None


def test_a_single_dip_below_the_target_does_not_count():
    dip = points(*[3.0] * 10, 0.9, *[3.0] * 10)
    assert steps_to(1.0, dip) is None
    assert steps_to(1.0, points(*[3.0] * 10, *[0.9] * 10)) == pytest.approx(120.0, abs=15)


def test_data_without_labels_are_refused(tmp_path):
    workload = Workload(network=network_from_name("20-16-4"))
    bare, labelled = tmp_path / "x.npy", tmp_path / "xy.npz"
    np.save(bare, np.zeros((30, 20), np.float32))
    np.savez(labelled, x=np.zeros((30, 20), np.float32), y=np.arange(30) % 4)
    assert check_labelled(str(labelled), workload).samples == 30
    with pytest.raises(DataError, match="holds no labels"):
        check_labelled(str(bare), workload)
    with pytest.raises(DataError, match="values"):
        check_labelled(str(labelled), WORKLOAD)

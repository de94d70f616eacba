"""The permitted measurements of a scaling study, and the grids and targets proposed for it."""

import pytest

from core.base.schema import UserError, as_user_error
from core.studies.scaling.record import ScalingStudy, doubling, of_counts, shared_grid, usual_targets
from core.workload.spec import Target
from simulated.scalings import FOUR, LOGICAL, ONE, TWO, make_scaling_study, scaling_plan


@pytest.mark.parametrize(
    ("targets", "says"),
    [
        ("gpu:0+1 gpu:0+1+2", "the first target is one device, such as gpu:0; “gpu:0[+]1” has several"),
        ("gpu:0 gpu:0+1+2 gpu:0+1", "each target has more devices than the one before it; “gpu:0[+]1” has not"),
        ("gpu:0 gpu:1", "each target has more devices than the one before it; “gpu:1” has not"),
        ("gpu:0 gpu:0+1,precision=mixed_float16", "differ in nothing but their devices"),
        ("cpu gpu:0+1", "lacks the one device that it is held against, cpu"),
        ("gpu:2 gpu:0+1", "“gpu:0[+]1” lacks the one device that it is held against, gpu:2"),
        ("gpu:0", "at least 2 items"),
        ("gpu:0 gpu:0+1+2", "no batch size is a multiple of 3, so 3 devices share none"),
    ],
)
def test_what_cannot_be_compared_is_refused_with_one_sentence(targets: str, says: str) -> None:
    with pytest.raises(UserError, match=says) as caught, as_user_error():
        scaling_plan(*map(Target.parse, targets.split()))
    assert "\n" not in str(caught.value)


def test_each_target_has_the_batches_that_it_can_share_out() -> None:
    plan = scaling_plan(ONE, TWO, FOUR, batches=(1, 2, 6, 8, 8))
    assert plan.batches == (1, 2, 6, 8)
    assert [plan.targets_at(batch) for batch in plan.batches] == [(0,), (0, 1), (0, 1), (0, 1, 2)]
    assert plan.names == ("GPU 0", "GPUs 0 and 1", "GPUs 0 to 3")
    assert plan.title == "784-512-512-10 (training, adam): GPU 0 · GPUs 0 and 1 · GPUs 0 to 3"


def test_the_gpus_of_a_machine_are_doubled() -> None:
    gpus = tuple(f"gpu:{index}" for index in range(6))
    assert [str(target) for target in usual_targets(gpus)] == ["gpu:0", "gpu:0+1", "gpu:0+1+2+3", "gpu:0+1+2+3+4+5"]
    assert [str(target) for target in of_counts(("gpu:1", "gpu:3"), (1, 2))] == ["gpu:1", "gpu:1+3"]
    assert [doubling(most) for most in (1, 2, 3, 8)] == [(1,), (1, 2), (1, 2, 3), (1, 2, 4, 8)]
    assert len(usual_targets(tuple(f"gpu:{index}" for index in range(12)))) == 4  # eight at most


@pytest.mark.parametrize(("gpus", "found"), [((), "no GPU"), (("gpu:0",), "one, gpu:0")])
def test_fewer_than_two_gpus_are_said_with_what_can_be_done(gpus: tuple[str, ...], found: str) -> None:
    with pytest.raises(UserError, match=f"machine has {found}") as caught:
        usual_targets(gpus)
    assert "--targets cpu cpu:2" in str(caught.value)


def test_a_grid_holds_what_weak_scaling_needs() -> None:
    three = Target.parse("gpu:0+1+2")
    assert shared_grid((16, 32, 64), (ONE, TWO)) == (16, 32, 64)
    assert shared_grid((16, 32, 64), (ONE, three)) == (16, 32, 48, 64)
    with pytest.raises(UserError, match="65 batch sizes"):
        shared_grid(range(1, 66), (ONE, TWO))


def test_a_study_is_read_again_and_one_of_unknown_targets_refused() -> None:
    study = make_scaling_study(trace=(64,))
    assert ScalingStudy.from_json(study.to_json()) == study
    fewer = study.model_dump(mode="json")
    fewer["traces"][0]["target"] = 3
    with pytest.raises(UserError, match="target 3 has"):
        ScalingStudy.from_data(fewer)


def test_the_try_out_is_known_as_one() -> None:
    assert scaling_plan(*LOGICAL).is_tried_out
    assert not scaling_plan().is_tried_out

"""Parts of a script's time, its causes, and the workload that it runs, from captures made by hand."""

from __future__ import annotations

import pytest

from core.base.schema import UserError
from core.studies.job.breakdown import (
    breakdown,
    captured_batch,
    captured_target,
    captured_workload,
    causes,
    main_phase,
    mean_step_s,
    usual_step_s,
)
from core.studies.job.capture import Capture
from core.workload.spec import Target
from simulated.jobs import BATCH, EPOCHS, FIRST_S, STEP_S, STEPS, VALIDATION_S, fit_phase, made_capture

STEPS_S = STEP_S * STEPS * EPOCHS


def test_the_parts_sum_to_the_wall_time_and_compiling_is_taken_out_of_the_steps() -> None:
    seconds = breakdown(made_capture())
    assert seconds["compile"] == pytest.approx(FIRST_S)
    assert seconds["steps"] == pytest.approx(STEPS_S)
    assert sum(seconds.values()) == pytest.approx(made_capture().wall_s)
    assert seconds["loop"] == pytest.approx(0.0, abs=1e-9)


def test_what_no_part_holds_is_unexplained() -> None:
    capture = made_capture()
    longer = capture.model_copy(update={"wall_s": capture.wall_s + 2.0})
    assert breakdown(longer)["loop"] == pytest.approx(2.0)


def test_waiting_for_input_is_taken_out_of_the_steps_but_not_out_of_compiling() -> None:
    waited = fit_phase(wait_s=0.6, traced=[[FIRST_S + STEP_S, 0.2]])
    seconds = breakdown(made_capture(waited))
    assert seconds["input"] == pytest.approx(0.6)
    assert seconds["steps"] + seconds["compile"] == pytest.approx(STEPS_S + FIRST_S - 0.6, abs=0.01)
    assert seconds["compile"] == pytest.approx(FIRST_S - 0.2, abs=0.01)


def test_a_usual_step_is_the_median_without_the_mean_wait() -> None:
    phase = made_capture(fit_phase(wait_s=0.4 + 0.5e-3 * (STEPS * EPOCHS - 1), traced=[[1.0, 0.4]])).phases[0]
    assert usual_step_s(phase) == pytest.approx(STEP_S - 0.5e-3)


def test_what_a_callback_computes_stays_the_callbacks() -> None:
    inside = fit_phase(kind="predict", facts={"in_callbacks": True}, seconds=5.0, traced=[[5.0, 0.0]])
    assert breakdown(made_capture(fit_phase(), inside)) == breakdown(made_capture())
    assert main_phase(made_capture(fit_phase(), inside)).kind == "fit"


def test_causes_are_named_by_their_seconds_largest_first() -> None:
    again = [[FIRST_S + STEP_S, 0.0], *[[1.0 + STEP_S, 0.0]] * 4]
    seconds = {"steps": FIRST_S + 4.0 + STEPS_S, "callbacks": 3.0}
    capture = made_capture(fit_phase(traced=again), seconds=seconds, callbacks={"Slow": 2.9, "Quick": 0.1})
    named = [(cause.code, round(cause.seconds, 3)) for cause in causes(capture)]
    assert named == [("retracing", 4.0), ("callback", 2.9), ("validation", VALIDATION_S * EPOCHS), ("first_call", 0.5),
                     ("epoch", 0.4)]  # fmt: skip


def test_the_workload_is_the_main_phases() -> None:
    workload = captured_workload(made_capture())
    assert (workload.network.parameters, workload.network.name) == (101770, "train")
    assert (workload.mode, workload.optimizer) == ("train", "adam")
    assert captured_batch(made_capture()) == BATCH
    assert captured_target(made_capture()) == Target()


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"versions": {"backend": "jax"}}, Target(framework="jax")),
        ({"gpus": 1}, Target(device="gpu:0")),
    ],
)
def test_the_target_is_where_the_script_ran(changes: dict[str, object], expected: Target) -> None:
    assert captured_target(made_capture(**changes)) == expected


@pytest.mark.parametrize(
    ("model", "optimizer"),
    [
        ({"optimizer": "SGD"}, "sgd"),
        ({"optimizer": "SGD", "momentum": True}, "momentum"),
        ({"optimizer": "Lion"}, "adam"),
    ],
)
def test_optimizers_are_measured_as_those_like_them(model: dict[str, object], optimizer: str) -> None:
    assert captured_workload(_with_model(model)).optimizer == optimizer


@pytest.mark.parametrize(
    ("capture", "words"),
    [
        (lambda: made_capture(phases=[]), "called no model of Keras 3"),
        (lambda: _with_model({"architecture": None, "kind": "Net"}), "Net is code of your own"),
        (lambda: _with_model({"inputs": [[None, 4], [None, 5]]}), "has 2 inputs"),
        (lambda: _with_model({"architecture": None, "inputs": None, "kind": "VAE"}), "VAE is never called as a whole"),
        (lambda: made_capture(fit_phase(kind="function step", model=None), models=[{}, {}]), "2 models together"),
    ],
)
def test_what_has_no_workload_says_why(capture: object, words: str) -> None:
    with pytest.raises(UserError, match=words):
        captured_workload(capture())  # type: ignore[operator]


def test_lengths_that_only_the_data_tell_are_those_of_the_first_call() -> None:
    """Check Input((None,)), whose network a sweep cannot size by its configuration alone."""
    model = made_capture().models[0]
    assert model.architecture is not None
    open_ended = model.architecture.replace("784", "null", 1)
    assert open_ended != model.architecture
    found = {"architecture": open_ended, "inputs": [[None, None]]}
    with pytest.raises(UserError, match="no length"):
        captured_workload(_with_model(found))
    network = captured_workload(_with_model(found | {"called_with": [None, 784]})).network
    assert network.input_shape == (784,)


def test_a_file_keeps_the_architecture_of_the_main_model_alone() -> None:
    other = made_capture().models[0].model_dump()
    capture = made_capture(fit_phase(model=1), models=[other, other])
    assert [model.architecture is None for model in capture.models] == [True, False]


def test_a_phase_must_name_a_model_that_is_there() -> None:
    with pytest.raises(ValueError, match="a model that is not there"):
        made_capture(fit_phase(model=3))


def _with_model(changes: dict[str, object]) -> Capture:
    model = made_capture().models[0].model_dump() | changes
    return made_capture(models=[model])


def test_results_that_come_after_a_step_has_returned_belong_to_it() -> None:
    """Check a step on a GPU that returns at once and whose loss is waited for later."""
    phase = made_capture(fit_phase(late_s=STEP_S * STEPS * EPOCHS)).phases[0]
    assert usual_step_s(phase) == pytest.approx(2 * STEP_S)
    assert mean_step_s(phase) == pytest.approx(2 * STEP_S)

"""A validation finds the factor by which a simulated card is off, and reports predictions made before measuring."""

import math
import threading
from typing import Any

import numpy as np
import pytest

from core.base.evidence import Interference, ProcessUse, Warning
from core.base.schema import UserError
from core.hardware.curve import card_curve
from core.hardware.host import Modelling, costs_of_kind
from core.studies.kind import Context
from core.studies.runner import Cancelled
from core.studies.selfcheck.record import UNSAID
from core.studies.validation.answer import Factor, common_factor, validation
from core.studies.validation.figures import validation_figure
from core.studies.validation.kind import VALIDATION
from core.studies.validation.record import CONDITIONS, NETWORKS, Prediction, ValidationStudy, parts, private
from core.studies.validation.run import new_study
from simulated.runs import make_run
from simulated.selfchecks import GPU
from simulated.validations import HOST, SPEC, Card, made_validation, make_validation, plan


@pytest.mark.statistical
@pytest.mark.parametrize("factor", [0.6, 1.0, 1.5])
def test_the_factor_of_a_card_lies_within_its_interval(factor: float) -> None:
    held = 0
    for seed in (3, 4, 5, 6):
        study = make_validation(Card(factor, seed=seed))
        found = validation(study).first
        assert (found.measured, study.status) == (40, "finished")
        assert found.factor is not None
        held += found.factor.low < factor < found.factor.high
        assert found.factor.value == pytest.approx(factor, rel=0.05)
        assert found.factor.high / found.factor.low < 1.25
        assert found.error == pytest.approx(abs(1 / factor - 1), abs=0.06)
        shown = found.factor.low > 1 or found.factor.high < 1
        assert shown is (factor != 1)
    assert held >= 3, "a 95 % interval may miss once in twenty times"


@pytest.mark.statistical
def test_truth_that_differs_by_network_widens_the_interval_and_counts_outside() -> None:
    off = dict(zip(NETWORKS, (0.4, 1.0, 1.0, 1.0, 2.5), strict=True))
    found = validation(make_validation(Card(by_network=off, seed=2)))
    assert found.first.factor is not None
    assert found.first.factor.low < 1 < found.first.factor.high
    assert found.first.factor.high / found.first.factor.low > 3
    outside = [one for one in found.steps if one.inside is False]
    assert outside
    assert {one.workload.network.name for one in outside} <= {name for name, factor in off.items() if factor != 1}
    assert found.first.inside == found.first.measured - len(outside)


def test_the_interval_over_networks_holds_the_factor_as_often_as_it_says() -> None:
    """Draw networks that scatter by 30 % about a factor of 1.3, with eight steps each and 4 % noise."""
    rng, held, times = np.random.default_rng(7), 0, 2_000
    for _ in range(times):
        networks = rng.normal(math.log(1.3), 0.3, 5)
        found = common_factor([rng.normal(middle, 0.04, 8).tolist() for middle in networks])
        assert found is not None
        held += found.low <= 1.3 <= found.high
    assert held / times == pytest.approx(0.95, abs=0.015)


def test_a_factor_needs_two_networks_and_stays_a_number_for_any_file() -> None:
    assert common_factor([[0.1, 0.2]]) is None
    found = common_factor([[-700.0], [700.0]])
    assert isinstance(found, Factor)
    assert 0 < found.low < found.high < math.inf


def test_forty_steps_are_predicted_as_the_hardware_page_models_them() -> None:
    made = plan().predictions.steps
    assert len(made) == 40
    assert {one.batch for one in made} >= {1, 8192}
    for number, part in enumerate(parts()):
        execution = "xla"  # what Keras chooses for each of these networks
        how = Modelling(part.workload, GPU, costs_of_kind(HOST, execution), CONDITIONS)
        curve = card_curve(SPEC, how, part.batches)
        mine = [(one.batch, one.step_ms, one.low_ms, one.high_ms) for one in made if one.part == number]
        assert mine == [(one.batch, one.step_ms, one.low_ms, one.high_ms) for one in curve.known]


def test_each_network_is_measured_in_the_first_half_and_in_both_modes() -> None:
    planned = parts()
    assert {part.workload.network.name for part in planned[:5]} == set(NETWORKS)
    assert len({part.workload for part in planned}) == 10
    assert {part.workload.mode for part in planned} == {"train", "infer"}


def test_predictions_are_older_than_the_first_block_and_left_as_they_were() -> None:
    asked: list[str] = []
    card = Card()
    whole = card.launch

    def launch(*arguments: Any) -> Any:
        asked.append(written.written_at)
        return whole(*arguments)

    written = plan().predictions
    study = make_validation(card, launch=launch)
    assert asked
    assert study.predictions.steps == written.steps
    assert study.predictions.written_at <= min(run.created_at for run in study.sweeps)


def test_with_the_measured_host_it_is_predicted_again_before_the_first_sweep() -> None:
    study = made_validation()
    assert study.selfcheck is not None
    assert study.selfcheck.host is not None
    assert study.host is None
    assert study.again is not None
    assert study.predictions.host.startswith("assumed")
    assert study.again.host == "measured"
    assert study.again.steps != study.predictions.steps
    found = validation(study)
    assert found.again is not None
    assert found.again.factor != found.first.factor


def test_sweeps_are_traced() -> None:
    assert all(len(run.traces) == 3 for run in made_validation().sweeps)


@pytest.mark.parametrize("minutes", [3.0, 8.0])
def test_a_short_time_measures_fewer_steps_keeps_within_it_and_says_so(minutes: float) -> None:
    card = Card(startup_s=8.0)
    card.sweeps.startup_s, card.sweeps.prepare_s = 12.0, 4.0
    study = make_validation(card, minutes)
    found = validation(study)
    assert card.clock.time_s < 1.25 * 60 * minutes
    assert 0 < found.first.measured < 40
    missing = [one for one in found.steps if one.factor is None]
    assert len(missing) == 40 - found.first.measured
    assert all(one.reason for one in missing)
    text = VALIDATION.text(study, found, Context())
    assert f"{len(missing)} of 40" in text
    assert ("no time for" in text) is (len(study.sweeps) < 10)


def test_where_the_self_check_had_no_time_for_the_host_it_is_measured_by_itself() -> None:
    study = make_validation(Card(request_s=12.0), 12.0)
    assert study.selfcheck is not None
    assert study.selfcheck.host is None
    assert study.host is not None
    assert study.again is not None


def test_cancel_leaves_what_was_measured() -> None:
    cancel, told = threading.Event(), list[str]()

    def report(progress: Any) -> None:
        told.append(progress.activity)
        if progress.activity.startswith("Sweep 3 of 10") and "Measuring batch" in progress.activity:
            cancel.set()

    card = Card()
    study = make_validation(card, report=report, cancel=cancel)
    assert study.status == "cancelled"
    assert len(study.sweeps) in (2, 3)
    assert 8 <= validation(study).first.measured < 40
    assert card.open_workers == card.sweeps.open_workers == 0
    assert told[0].startswith("Self-check: ")


def test_cancelled_in_the_self_check_there_is_nothing() -> None:
    cancel = threading.Event()
    with pytest.raises(Cancelled):
        make_validation(Card(), report=lambda _: cancel.set(), cancel=cancel)


def test_predictions_alone_say_that_nothing_was_measured() -> None:
    alone = new_study(plan())
    assert ValidationStudy.from_json(alone.to_json()) == alone
    with pytest.raises(UserError, match="No predicted step"):
        validation(alone)


def test_it_names_no_machine_and_no_other_program() -> None:
    """Check for names, since the file may be shared."""
    seen = Interference(busiest=(ProcessUse(name="secret-project", cpu_pct=9.0),), gpu_shared_by=("secret-project",))
    run = make_run(1)
    rounds = tuple(item.model_copy(update={"interference": seen}) for item in run.rounds)
    said = (Warning(code="x", text="It failed in /home/someone/secret-project/model.py"),)
    mine = private(run.model_copy(update={"rounds": rounds, "warnings": said}))
    assert "secret-project" not in mine.to_json()
    assert mine.environment is None
    assert mine.rounds[0].interference.gpu_shared_by == (UNSAID,)
    assert "secret-project" not in made_validation().to_json()


@pytest.mark.parametrize("times", [(2.0, 1.0, 3.0), (1.0, 2.0, None), (1.0, 3.0, 2.0)])
def test_a_prediction_is_whole_or_none(times: tuple[float | None, ...]) -> None:
    low, middle, high = times
    with pytest.raises(ValueError, match="low_ms <= step_ms"):
        Prediction(part=0, batch=1, low_ms=low, step_ms=middle, high_ms=high)


def test_the_picture_holds_every_measured_step_with_its_interval() -> None:
    study = made_validation(1.5)
    found = validation(study)
    figure = validation_figure(study, found)
    assert [trace.name for trace in figure.data] == list(NETWORKS)
    shown = {(x, y) for trace in figure.data for x, y in zip(trace.x, trace.y, strict=True)}
    assert shown == {(one.predicted.step_ms, one.factor) for one in found.steps}
    first = figure.data[0]
    (step, *_) = [one for one in found.steps if one.workload.network.name == first.name]
    low, high = step.bounds or (0.0, 0.0)
    assert first.y[0] - first.error_y.arrayminus[0] == pytest.approx(low)
    assert first.y[0] + first.error_y.array[0] == pytest.approx(high)
    words = str(figure.layout.meta)
    assert "simulated" in words
    assert "modelled as T4" in words


def test_what_it_says_is_in_its_file() -> None:
    study = made_validation(1.5)
    found = validation(study)
    data = VALIDATION.export(study, found, Context())
    assert data["first"]["factor"]["value"] == found.first.factor.value  # type: ignore[union-attr]
    assert len(data["steps"]) == 40
    assert {step["predicted"]["label"] for step in data["steps"]} == {"modelled"}
    assert "(simulated)" in data["verdict"]

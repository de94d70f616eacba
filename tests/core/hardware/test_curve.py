"""Recordings of a card replace the model, and correct it elsewhere: closed forms against the model itself."""

import math
import statistics
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.hardware.catalogue import catalogue
from core.hardware.curve import (
    CardCurve,
    RecordedStep,
    Recording,
    card_curve,
    card_share,
    credibility,
    host_part,
    recordings_of,
)
from core.hardware.host import USUAL, Conditions, HostCosts, Modelling
from core.hardware.interval import FEED_SPREAD, Modelled, Withheld, errors, modelled_step
from core.networks.families import network_from_name
from core.rounds.answer.answer import CellStats
from core.workload.spec import Pipeline, Target, Workload
from simulated.hosts import CARD, make_costs
from simulated.runs import make_run, on_card

GPU, XLA = (Target(device="gpu:0", execution=execution) for execution in ("graph", "xla"))
HERE = Workload(network=network_from_name("784-512-512-10"))
THERE = Workload(network=network_from_name("784-128-10"))
FURTHER = Workload(network=network_from_name("100-50-10"))
COSTS = make_costs()
BATCHES = (1, 8, 64, 512)


def recording(workload: Workload, factor, batches=BATCHES, gpu=CARD.name, target=GPU, conditions=USUAL) -> Recording:
    """Return a run whose step times are ``factor`` times the model's."""
    cells = []
    for batch in batches:
        there = modelled_step(CARD, Modelling(workload, target, COSTS, conditions), batch)
        assert isinstance(there, Modelled)
        ms = there.step_ms * (factor(batch) if callable(factor) else factor)
        cells.append(CellStats(0, batch, 20, ms, 0.98 * ms, 1.03 * ms))
    return Recording(
        gpu, f"run-{workload.network.name}", "A run", workload, target, conditions, tuple(cells), "recorded"
    )


def curve(*recordings: Recording, batches=BATCHES, conditions=USUAL, target=GPU) -> CardCurve:
    return card_curve(CARD, Modelling(HERE, target, COSTS, conditions), batches, recordings)


def plain(batch: int) -> Modelled:
    one = modelled_step(CARD, Modelling(HERE, GPU, COSTS), batch)
    assert isinstance(one, Modelled)
    return one


def test_without_recordings_the_curve_is_the_models_and_recorded_batches_replace_it():
    made = curve()
    assert made.corrected_by is None
    assert [point.step_ms for point in made.known] == [plain(batch).step_ms for batch in BATCHES]
    assert {point.label for point in made.known} == {"modelled"}
    made = curve(recording(HERE, 1.4), batches=(1, 4, 64, 4096))
    first, second, third, last = made.points
    assert isinstance(first, RecordedStep)
    assert (first.label, first.step_ms) == ("recorded", pytest.approx(1.4 * plain(1).step_ms))
    assert (first.low_ms, first.high_ms) == pytest.approx((0.98 * first.step_ms, 1.03 * first.step_ms))
    assert isinstance(third, RecordedStep)
    assert isinstance(second, Modelled)  # between two recorded ones
    assert second.step_ms == pytest.approx(1.4 * plain(4).step_ms)
    assert isinstance(last, Modelled)  # beyond all recorded ones
    assert last.step_ms == pytest.approx(plain(4096).step_ms)
    assert f"{CARD.name}: A run" in made.corrected_by


def test_between_recorded_batches_the_error_is_interpolated_and_its_change_is_in_the_interval():
    made = curve(recording(HERE, lambda batch: 1.0 if batch == 1 else 2.0), batches=(1, 2, 8))
    middle = made.points[1]
    assert isinstance(middle, Modelled)
    assert middle.step_ms == pytest.approx(2 ** (1 / 3) * plain(2).step_ms)
    half = math.hypot(math.log(1.03), math.log(2) / 2)
    assert middle.high_ms / middle.step_ms == pytest.approx(math.exp(half) * 1.0, rel=0.02)
    assert middle.low_ms < plain(2).step_ms
    assert "two recorded batches" in middle.basis


@pytest.mark.parametrize("other", [{"gpu": "Card 2"}, {"target": XLA}, {"conditions": Conditions(fed=True)}])
def test_recordings_of_other_circumstances_replace_nothing(other: dict):
    made = curve(recording(HERE, 1.4, **other))
    assert not any(isinstance(point, RecordedStep) for point in made.points)


def test_other_workloads_on_the_card_move_the_model_by_what_cards_have_in_common():
    region = plain(1).region
    found = errors().classes[f"dense/{region}/train"]
    share = card_share(found)
    one, two = curve(recording(THERE, 1.5)), curve(recording(THERE, 1.5), recording(FURTHER, 1.5))
    for made, number in ((one, 1), (two, 2)):
        weight, _ = credibility(share, number)
        point = made.points[0]
        assert isinstance(point, Modelled)
        assert point.step_ms == pytest.approx(1.5**weight * plain(1).step_ms)
        assert point.label == "modelled"
        assert f"corrected by {number} recorded workload" in point.basis
    assert "run-784-128-10" in made.corrected_by
    assert "run-100-50-10" in made.corrected_by
    # each recording narrows the interval, and none turns the model into a measurement
    widths = [math.log(each.points[0].high_ms / each.points[0].low_ms) for each in (curve(), one, two)]
    assert widths[0] >= widths[1] >= widths[2] > 0


def test_another_family_says_nothing_of_this_one(monkeypatch: pytest.MonkeyPatch):
    foreign = recording(THERE, 1.5)
    assert curve(foreign) != curve()
    monkeypatch.setattr("core.hardware.curve.family_of", lambda one: "cnn" if one == THERE else "dense")
    assert curve(foreign) == curve()


@given(st.floats(0, 1), st.integers(0, 50))
def test_credibility_rises_with_recordings_and_leaves_less_of_the_width(share: float, recorded: int):
    weight, left = credibility(share, recorded)
    more, less = credibility(share, recorded + 1)
    assert 0 <= weight <= more + 1e-12 <= 1 + 1e-9
    assert 0 <= less <= left + 1e-7 <= 1 + 1e-6  # the root of what is left of 1 − c·w, rounded


def test_the_corrected_interval_covers_what_it_says_where_errors_are_drawn_as_assumed():
    """Draw card and workload parts anew each time: the predictor's 95 % interval covers the next workload's error."""
    rng = np.random.default_rng(5)
    between, within = 0.2, 0.1
    share = between**2 / (between**2 + within**2)
    for recorded in (1, 3):
        weight, left = credibility(share, recorded)
        card = rng.normal(0, between, 20_000)
        seen = card + rng.normal(0, within / math.sqrt(recorded), card.size)
        coming = card + rng.normal(0, within, card.size)
        half = 1.959964 * math.hypot(between, within) * left
        assert statistics.fmean(np.abs(coming - weight * seen) <= half) == pytest.approx(0.95, abs=0.006)


def test_a_curve_has_each_batch_once_in_order():
    assert [point.batch for point in curve(batches=(64, 1, 8, 8)).points] == [1, 8, 64]


def test_where_the_model_is_withheld_a_recording_is_a_number_and_limited_as_the_model_says(
    monkeypatch: pytest.MonkeyPatch,
):
    one = recording(HERE, 1.4, batches=(8,))

    def unbounded(*arguments):
        return replace(modelled_step(*arguments), low_ms=0.0, high_ms=math.inf)

    monkeypatch.setattr("core.hardware.curve.modelled_step", unbounded)
    first, second = curve(one, batches=(1, 8)).points
    assert isinstance(first, Withheld)
    assert "too little evidence" in first.reason
    assert isinstance(second, RecordedStep)
    one = recording(HERE, 1.4, batches=(65536,))
    monkeypatch.undo()
    expected = plain(65536).limited_by
    assert expected != "host"
    withheld = Withheld(CARD.name, 65536, "Nothing.")
    monkeypatch.setattr("core.hardware.curve.modelled_step", lambda *_: withheld)
    (point,) = curve(one, batches=(65536,)).points
    assert isinstance(point, RecordedStep)
    assert point.limited_by == expected


def test_the_hosts_own_interval_widens_the_models():
    sure, unsure = (card_curve(CARD, Modelling(HERE, GPU, make_costs(spread=s)), (1,)).points[0] for s in (1.0, 3.0))
    assert isinstance(sure, Modelled)
    assert isinstance(unsure, Modelled)
    assert unsure.step_ms == sure.step_ms
    assert unsure.low_ms < sure.low_ms < sure.high_ms < unsure.high_ms
    assert "measured host's" in unsure.basis


def on(card, label="recorded", **plan):
    return on_card(make_run(processes=1, passes=1, rounds_per_pass=6, label=label), card, **plan)


def test_what_fit_costs_widens_the_interval_of_steps_under_fit_alone():
    sure = make_costs()
    low_us, high_us = sure.fit.us / 3, 3 * sure.fit.us
    unsure = replace(sure, fit=replace(sure.fit, low_us=low_us, high_us=high_us))

    def point(costs: HostCosts, conditions: Conditions) -> Modelled:
        (found,) = card_curve(CARD, Modelling(HERE, GPU, costs, conditions), (1,)).known
        return found

    assert point(unsure, USUAL) == point(sure, USUAL)
    under_fit = Conditions(under_fit=True)
    one, other = point(sure, under_fit), point(unsure, under_fit)
    assert other.step_ms == one.step_ms > point(sure, USUAL).step_ms
    assert other.low_ms < one.low_ms < one.high_ms < other.high_ms


def test_an_interval_is_wider_by_the_copy_where_batches_are_fed():
    costs = make_costs()

    how = Modelling(HERE, GPU, costs, Conditions(fed=True))
    (fed,), without = card_curve(CARD, how, (4096,)).known, modelled_step(CARD, how, 4096)
    assert isinstance(without, Modelled)
    less, more = host_part(CARD, how, 4096)
    slower = without.parts.transfer_ms * (FEED_SPREAD - 1) / without.step_ms
    faster = without.parts.transfer_ms * (1 - 1 / FEED_SPREAD) / without.step_ms
    assert slower > 0.2
    up = math.hypot(math.log(without.high_ms / without.step_ms), more, math.log(1 + slower))
    down = math.hypot(math.log(without.step_ms / without.low_ms), less, math.log(1 - faster))
    assert math.log(fed.high_ms / fed.step_ms) == pytest.approx(up)
    assert math.log(fed.step_ms / fed.low_ms) == pytest.approx(down)


@pytest.mark.parametrize("batch", [1, 1024, 8192])
def test_under_fit_the_models_part_of_an_interval_is_wider_by_a_factor_and_the_hosts_is_not(batch: int):
    free = replace(make_costs(), spread=2.0, host=make_costs().host.model_copy(update={"fit_us": 0.0}))
    how = Modelling(HERE, GPU, free, Conditions(under_fit=True))
    (fit,), without = card_curve(CARD, how, (batch,)).known, modelled_step(CARD, how, batch)
    assert isinstance(without, Modelled)
    less, more = host_part(CARD, how, batch)
    assert more > (0.1 if batch < 8192 else 0.0)
    up = math.hypot(more, errors().under_fit * math.log(without.high_ms / without.step_ms))
    down = math.hypot(less, errors().under_fit * math.log(without.step_ms / without.low_ms))
    assert math.log(fit.high_ms / fit.step_ms) == pytest.approx(up)
    assert math.log(fit.step_ms / fit.low_ms) == pytest.approx(down)


def test_runs_are_matched_by_the_name_that_the_driver_gives_the_card_and_others_are_none():
    cards = catalogue()
    spec = cards["A100-80GB-SXM"]
    run = on("NVIDIA A100-SXM4-80GB")
    (one,) = recordings_of([run], cards)
    assert (one.gpu, one.target, one.label, one.conditions.fed) == (
        spec.name,
        XLA,
        "recorded",
        False,
    )  # Keras's own choice
    assert {cell.target for cell in one.cells} == {1}
    assert [cell.batch for cell in one.cells] == list(run.batches)
    fed = on("NVIDIA A100-SXM4-80GB", "measured", pipeline=Pipeline(kind="host"))
    (two,) = recordings_of([fed], cards)
    assert (two.conditions.fed, two.label) == (True, "measured")
    of_a_t4 = {"environment": on("Tesla T4").environment}  # NVML's first card need not be the framework's
    (three,) = recordings_of([run.model_copy(update=of_a_t4)], cards)
    assert three.gpu == spec.name
    unnamed = tuple(process.model_copy(update={"device_name": ""}) for process in run.processes)
    assert len(recordings_of([run.model_copy(update={"processes": unnamed})], cards)) == 1
    runs = [
        on("Tesla T4"),
        on("A card of nobody"),
        on(""),
        on("NVIDIA A100-SXM4-80GB", "modelled"),
        on("NVIDIA A100-SXM4-80GB", targets=(Target(threads=1), Target(device="gpu:1"))),
        on("NVIDIA A100-SXM4-80GB").model_copy(update={"environment": None}),
        on("NVIDIA A100-SXM4-80GB").model_copy(update={"plan": None}),
        make_run(),
    ]
    assert [one.gpu for one in recordings_of(runs, cards)] == ["T4"]

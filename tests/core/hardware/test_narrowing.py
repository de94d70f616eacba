"""The interval that a measurement would leave: closed forms, and the interval once the measurement is made."""

import math
from dataclasses import replace
from typing import Any

import pytest

from core.hardware import curve, decision, interval
from core.hardware.catalogue import GpuSpec
from core.hardware.crossing import ModelledSpeedUp, speed_up
from core.hardware.curve import card_curve
from core.hardware.decision import Parts, narrowed, parts_of
from core.hardware.host import USUAL, HostCosts, Modelling, costs_of_kind
from core.hardware.host_study import as_if_measured
from core.hardware.interval import Modelled
from core.rounds.run import Run
from core.workload.spec import Target, Workload
from simulated.hardware import flat_errors
from simulated.hosts import CARD, cells_of, cpu_run, make_costs, make_curve

GPU = Target(device="gpu:0", execution="graph")
BATCHES = (1, 16, 64, 256)
RUN: Run = cpu_run(lambda b: 0.3 + 0.02 * b, BATCHES, offsets=(-0.05, 0.0, 0.05))
WORKLOAD: Workload = RUN.plan.workload  # type: ignore[union-attr]
NOTHING = Parts((0.3, 0.4), (0.0, 0.0), (0.3, 0.4), (0.0, 0.0), 0.0)
# a card whose step is arithmetic or traffic at every batch, so that its class has errors beside the host's
CARDS = {
    "launch": CARD, "arithmetic": CARD.model_copy(update={"fp32_tflops": 1e-3}),
    "bandwidth": CARD.model_copy(update={"bandwidth_gb_s": 0.1}),
}  # fmt: skip
NEAR = 0.01
KINDS = [costs_of_kind(kind, "graph") for kind in ("weak", "desktop", "server")]
KNOWN = flat_errors(between=0.3, within=0.1)


@pytest.fixture(autouse=True)
def known_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (interval, curve, decision):
        monkeypatch.setattr(module, "errors", lambda: KNOWN)


def one_step(down: float = 0.3, up: float = 0.4) -> Modelled:
    (step,) = make_curve(lambda _: 1.0, (64,), -down, up).known
    assert isinstance(step, Modelled)
    return step


def ratio(value: float, less: float, more: float) -> ModelledSpeedUp:
    return ModelledSpeedUp(64, value, value * math.exp(-less), value * math.exp(more))


def by_name(found: Any) -> dict[str, Any]:
    return {one.measurement: one for one in found}


def modelling(costs: HostCosts) -> Modelling:
    return Modelling(WORKLOAD, GPU, costs)


def seen(costs: HostCosts, batch: int = 64, card: GpuSpec = CARD, **options: Any) -> tuple[ModelledSpeedUp, Modelled]:
    curve = card_curve(card, Modelling(WORKLOAD, GPU, costs), BATCHES, **options)
    found = speed_up(cells_of(RUN), curve, batch)
    step = next(point for point in curve.known if point.batch == batch)
    assert found is not None
    assert isinstance(step, Modelled)
    return found, step


def test_a_share_that_is_taken_away_leaves_its_complement_of_the_square_and_the_cpus_noise_stays() -> None:
    noise = (0.05, 0.12)
    now = ratio(1.3, math.hypot(noise[0], 0.4), math.hypot(noise[1], 0.3))
    (one,) = narrowed(now, one_step(), replace(NOTHING, card=0.75))
    assert one.measurement == "recorded sweep"
    assert one.label == "modelled"
    # a card that is slower than modelled lowers the speed-up, so upwards of the step is downwards of the ratio
    assert one.low == pytest.approx(1.3 * math.exp(-math.hypot(noise[0], 0.2)))
    assert one.high == pytest.approx(1.3 * math.exp(math.hypot(noise[1], 0.15)))
    assert one.resolves


def test_a_host_study_leaves_the_models_part_and_the_hosts_as_they_are_once_it_is_measured() -> None:
    model, host, measured_model, measured_host = (0.3, 0.4), (0.2, 0.5), (0.25, 0.35), (0.1, 0.05)
    step = one_step(math.hypot(0.3, 0.2), math.hypot(0.4, 0.5))
    now = ratio(0.9, math.hypot(0.4, 0.5), math.hypot(0.3, 0.2))
    (one,) = narrowed(now, step, Parts(model, host, measured_model, measured_host, 0.0))
    assert one.measurement == "host study"  # a sweep that says nothing about another network is not named
    assert one.low == pytest.approx(0.9 * math.exp(-math.hypot(0.35, 0.05)))
    assert one.high == pytest.approx(0.9 * math.exp(math.hypot(0.25, 0.1)))
    assert not one.resolves


def test_resolved_is_said_of_an_interval_that_excludes_one_on_either_side_and_of_no_other() -> None:
    parts = replace(NOTHING, card=0.75)
    for value, expected in ((1.23, True), (1.21, False), (1.0, False), (0.87, False), (0.85, True)):
        (one,) = narrowed(ratio(value, 0.4, 0.3), one_step(), parts)
        assert one.resolves is expected, value
        assert one.resolves is (one.low > 1 or one.high < 1)


def test_what_would_hardly_narrow_it_is_not_named_unless_it_decides() -> None:
    assert narrowed(ratio(1.2, 0.4, 0.3), one_step(), NOTHING) == ()
    little = replace(NOTHING, card=0.05)
    assert narrowed(ratio(1.2, 0.4, 0.3), one_step(), little) == ()
    (decides,) = narrowed(ratio(math.exp(0.395), 0.4, 0.3), one_step(), little)
    assert decides.resolves


@pytest.mark.parametrize("region", CARDS)
@pytest.mark.parametrize("costs", KINDS)
def test_the_parts_are_those_of_the_interval_and_nothing_is_left_over(region: str, costs: HostCosts) -> None:
    card = CARDS[region]
    _, step = seen(costs, card=card)
    assert step.region == region
    parts = parts_of(card, step, modelling(costs))
    whole = [math.hypot(*pair) for pair in zip(parts.model, parts.host, strict=True)]
    assert whole == pytest.approx([math.log(step.step_ms / step.low_ms), math.log(step.high_ms / step.step_ms)])
    within = 0.1 * 1.96
    # where launches limit, an assumed host's spread is all of it; once measured, errors of known hosts come in
    assert parts.model == pytest.approx(2 * (0.0 if region == "launch" else within,), abs=NEAR)
    assert parts.measured_model == pytest.approx((within, within), abs=NEAR)
    share = 0.3**2 / (0.3**2 + 0.1**2)
    assert parts.card == pytest.approx(share**2, rel=1e-3)
    assert all(after < now for after, now in zip(parts.measured_host, parts.host, strict=True))


def test_of_a_host_that_was_measured_a_study_of_it_takes_nothing() -> None:
    costs = make_costs(spread=1.5)
    found, step = seen(costs)
    parts = parts_of(CARD, step, modelling(costs))
    assert (parts.measured_model, parts.measured_host) == (parts.model, parts.host)
    assert "host study" not in by_name(narrowed(found, step, parts))


@pytest.mark.parametrize("batch", [16, 64])
@pytest.mark.parametrize("region", CARDS)
@pytest.mark.parametrize("costs", KINDS)
def test_a_host_study_that_confirms_what_was_assumed_narrows_it_to_what_was_said(
    batch: int, region: str, costs: HostCosts, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Model the step again with such a host: the claim is what the program then shows."""
    monkeypatch.setattr(decision, "LEAST_GAIN", -math.inf)
    card = CARDS[region]
    found, step = seen(costs, batch, card)
    said = by_name(narrowed(found, step, parts_of(card, step, modelling(costs))))["host study"]
    after, _ = seen(as_if_measured(costs), batch, card)
    assert (said.low, said.high) == pytest.approx((after.low, after.high), rel=1e-6)


@pytest.mark.parametrize("region", ["arithmetic", "bandwidth"])
def test_a_recorded_sweep_that_confirms_the_model_narrows_it_to_what_was_said(region: str) -> None:
    """Give the model a recording of another network with the step times that it modelled."""
    costs, card = costs_of_kind("desktop", "graph"), CARDS[region]
    found, step = seen(costs, card=card)
    said = by_name(narrowed(found, step, parts_of(card, step, modelling(costs))))["recorded sweep"]
    other = Workload(network="784-256-256-10")
    as_modelled = card_curve(card, Modelling(other, GPU, costs), BATCHES)
    cells = tuple(
        replace(cell, target=0, batch=point.batch, step_ms=point.step_ms, low_ms=None, high_ms=None)
        for cell, point in zip(
            [cell for cell in cells_of(RUN).cells if cell.target == 0], as_modelled.known, strict=True
        )
    )
    sweep = curve.Recording(card.name, "r1", "another", other, GPU, USUAL, cells, "recorded")
    after, _ = seen(costs, card=card, recordings=(sweep,))
    assert (said.low, said.high) == pytest.approx((after.low, after.high), rel=1e-6)
    assert found.low < said.low < said.high < found.high

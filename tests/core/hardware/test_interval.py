import math

import numpy as np
import pytest

from benchmarks.hardware_accuracy import error_class
from benchmarks.hardware_fit import MachineHost, _line, robust_least_squares
from core.hardware.catalogue import catalogue
from core.hardware.interval import Modelled, Withheld, errors, family_of, modelled_step, region_of, thin_evidence
from core.hardware.model import ModelledParts
from core.spec import Target
from tests.support.hardware import GPU, XLA, flat_errors, plain_constants, round_card, steady_host, workload

KNOWN = {"model": plain_constants(), "known": flat_errors()}


def point(**changes) -> Modelled:
    given = {"spec": round_card(), "workload": workload(), "target": GPU, "batch": 64, "host": steady_host()}
    found = modelled_step(**{**given, **KNOWN, **changes})
    assert isinstance(found, Modelled)
    return found


def width(one: Modelled) -> float:
    return math.log(one.high_ms / one.low_ms)


@pytest.mark.parametrize("cards", [3, 5, 12])
@pytest.mark.parametrize(("between", "within"), [(0.2, 0.05), (0.05, 0.2), (0.1, 0.1)])
def test_intervals_hold_on_a_new_card_as_often_as_they_say(cards: int, between: float, within: float) -> None:
    chance = np.random.default_rng(7)
    inside = []
    for _ in range(400):
        offsets = 0.1 + between * chance.standard_normal(cards + 1)
        drawn = offsets[:, None] + within * chance.standard_normal((cards + 1, 200))
        known = error_class({("source", str(card)): drawn[card] for card in range(cards)})
        low, high = known.bounds(0.9)
        inside.append(np.mean((drawn[-1] >= low) & (drawn[-1] <= high)))
    assert 0.85 <= float(np.mean(inside)) <= 0.98


def test_few_cards_unknown_hosts_and_thin_evidence_widen_and_are_named() -> None:
    usual = width(point())
    assert width(point(known=flat_errors(gpus=3))) > usual
    assert width(point(host=steady_host(label="assumed"))) > usual
    assert width(point(target=Target(device="gpu:0", execution="eager"))) > usual
    assert width(point(spec=round_card(architecture="Blackwell"))) > usual
    assert width(point(spec=round_card(vendor="Nobody"))) > width(point(spec=round_card(vendor="AMD")))
    assert width(point(spec=round_card(vendor="AMD", architecture="CDNA 3"))) > width(
        point(spec=round_card(architecture="Blackwell"))
    )
    card = round_card(architecture="Blackwell", tf32_tflops=80.0)
    reasons = [reason for _, reason in thin_evidence(card, XLA, "work")]
    assert len(reasons) == 3
    assert all(reason in point(spec=card, target=XLA, batch=65_536).basis for reason in reasons)
    assert thin_evidence(round_card(), GPU, "work") == ()


def test_the_step_lies_within_its_interval_and_says_what_it_is() -> None:
    found = point()
    assert 0 < found.low_ms < found.step_ms < found.high_ms < math.inf
    assert found.label == "modelled"
    assert "10 cards held out" in found.basis
    alone = flat_errors(gpus=1).classes["dense/work/train"]
    assert alone.bounds() == (-math.inf, math.inf)


@pytest.mark.parametrize(
    ("spec", "network", "words"),
    [
        (round_card(vendor="Apple", architecture="Apple 9"), "784-128-10", "Apple"),
        (round_card(), "lstm-32x2-128x9-6", "recurrent"),
    ],
)
def test_what_nothing_was_measured_of_is_withheld_with_the_reason(spec, network: str, words: str) -> None:
    found = modelled_step(spec, workload(network), GPU, 8, steady_host())
    assert isinstance(found, Withheld)
    assert words in found.reason
    assert found.reason.endswith(".")


def test_regions_tell_overhead_from_work() -> None:
    def parts(overhead: float, work: float) -> ModelledParts:
        return ModelledParts(overhead, 0.1, work, 0.1, 0.0, overhead + work, "host")

    assert region_of(parts(10, 1)) == "launch"
    assert region_of(parts(10, 10)) == "knee"
    assert region_of(parts(1, 10)) == "work"


@pytest.mark.parametrize(
    ("network", "family"),
    [
        ("784-512-10", "dense"),
        ("resnet8", "cnn"),
        ("bert-tiny-like", "transformer"),
        ("lstm-32x2-128x9-6", "recurrent"),
        ("MobileNetV2@32:10", "cnn"),
    ],
)
def test_families_follow_from_the_layers(network: str, family: str) -> None:
    assert family_of(workload(network)) == family


def test_every_card_of_the_catalogue_gets_a_number_or_a_reason() -> None:
    for card in catalogue().values():
        for batch in (1, 256, 65_536):
            one = modelled_step(card, workload(), GPU, batch, steady_host())
            if isinstance(one, Modelled):
                assert 0 < one.low_ms <= one.step_ms <= one.high_ms < math.inf
            else:
                assert card.vendor == "Apple"


def test_shipped_errors_cover_every_family_but_the_recurrent_one_for_cards_of_the_catalogue() -> None:
    shipped = errors()
    names = {name.split("/")[0] for name in shipped.classes}
    assert names == {"dense", "cnn", "transformer", "other"}
    assert len(shipped.classes) == 4 * 3 * 2
    assert all(each.low_95 <= each.low_90 <= each.high_90 <= each.high_95 for each in shipped.classes.values())
    dense = shipped.classes["dense/work/train"]
    lent = shipped.classes["transformer/work/train"]
    assert lent.borrowed
    assert lent.bounds()[1] - lent.bounds()[0] > dense.bounds()[1] - dense.bounds()[0]
    assert set(shipped.gpus) <= set(catalogue())
    shares = [(each.share, each.cards_and_sources) for each in shipped.coverage_90.values()]
    assert 0.85 <= sum(s * n for s, n in shares) / sum(n for _, n in shares) <= 0.95
    assert all(each.median <= each.ninety for each in shipped.errors)
    for each in shipped.errors:  # the regions divide a card's points
        assert sum(one.points for one in each.by_region.values()) == each.points
        assert min(one.median for one in each.by_region.values()) <= each.median
        assert max(one.median for one in each.by_region.values()) >= each.median


def test_the_fit_finds_known_constants_despite_outliers_and_a_hosts_line() -> None:
    chance = np.random.default_rng(3)
    x = np.linspace(1, 4, 300)
    y = 0.7 * x**1.5 * np.exp(0.02 * chance.standard_normal(300))
    y[::10] *= 3

    def residuals(values):
        return np.log(y) - np.log(values[0] * x ** values[1])

    low, high = np.array([0.1, 0.1]), np.array([5.0, 5.0])
    found = robust_least_squares(residuals, np.array([2.0, 0.5]), low, high, np.ones(300))
    assert found == pytest.approx([0.7, 1.5], rel=0.03)
    line = _line({3.0: 0.16, 23.0: 0.36, 43.0: 0.56})
    assert (line.step_ms, line.op_ms) == (pytest.approx(0.13), pytest.approx(0.01))
    assert _line({1.0: 0.05}) == MachineHost(0.05, 0.0)

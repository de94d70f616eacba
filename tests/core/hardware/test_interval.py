import math

import pytest

from core.hardware.catalogue import catalogue
from core.hardware.compare import not_modelled
from core.hardware.host import USUAL
from core.hardware.interval import (
    REGION_WORDS,
    ErrorClass,
    HeldOutError,
    Modelled,
    Withheld,
    class_of,
    errors,
    family_of,
    modelled_step,
    region_of,
    region_shares,
    thin_evidence,
)
from core.hardware.model import ModelledParts
from core.networks.families.own import Own
from core.workload.spec import Target, Workload
from simulated.hardware import GPU, XLA, flat_errors, plain_constants, round_card, settings_of, steady_host, workload
from simulated.keras_files import called, functional, layer, source, text

KNOWN = {"model": plain_constants(), "known": flat_errors()}
LAUNCH, WORK = 1, 65_536
"""Batches at which launches, and arithmetic, are nearly all of a step on the test's cards and hosts."""
SLOW = {"per_op_us": 1e6}
NEAR = 2e-3


def card(**facts):
    """Return a card whose slow arithmetic dominates at a large batch."""
    return round_card(**{"fp32_tflops": 0.1, **facts})


def point(**changes) -> Modelled:
    settings = {"workload": workload(), "target": GPU, "host": steady_host(), "conditions": USUAL} | changes
    how = settings_of(*(settings.pop(name) for name in ("workload", "target", "host", "conditions")))
    found = modelled_step(**{"spec": card(), "how": how, "batch": WORK, **KNOWN, **settings})
    assert isinstance(found, Modelled)
    return found


def logs(one: Modelled) -> tuple[float, float]:
    return math.log(one.low_ms / one.step_ms), math.log(one.high_ms / one.step_ms)


def width(one: Modelled) -> float:
    return math.log(one.high_ms / one.low_ms)


def own_class(**values) -> ErrorClass:
    given = {"gpus": 5, "points": 50, "median": 0.0, "between": 0.1, "low_90": -0.2, "high_90": 0.3, "low_95": -0.3,
             "high_95": 0.5}  # fmt: skip
    return ErrorClass(**{**given, **values})


def known_with(**classes: ErrorClass):
    """Return dense errors with those of some regions replaced; a double underscore stands for the slash."""
    named = {f"dense/{name.replace('__', '/')}": one for name, one in classes.items()}
    return flat_errors().model_copy(update={"classes": {**flat_errors().classes, **named}})


def test_bounds_are_the_classs_quantiles_widened_where_evidence_is_thin() -> None:
    one = own_class()
    assert one.bounds() == pytest.approx((-0.3, 0.5))
    assert one.bounds(0.9) == pytest.approx((-0.2, 0.3))
    assert one.bounds(0.9, factor=1.5) == pytest.approx((-0.3, 0.45))


def test_a_steps_interval_is_its_classs_whatever_the_host_where_the_card_limits() -> None:
    known = known_with(arithmetic=own_class())
    for host in (steady_host(), steady_host(label="assumed")):
        found = point(known=known, host=host)
        assert found.region == "arithmetic"
        assert logs(found) == pytest.approx((-0.3, 0.5), rel=NEAR)
        assert found.low_ms < found.step_ms < found.high_ms
    assert found.label == "modelled"
    assert "5 cards held" in found.basis


def test_where_launches_limit_a_known_host_has_its_modes_errors_and_an_assumed_one_nothing_here() -> None:
    known = known_with(launch__train=own_class(), launch__infer=own_class(low_95=-0.1, high_95=0.1))
    measured = steady_host(**SLOW)
    found = point(known=known, batch=LAUNCH, host=measured)
    assert found.region == "launch"
    assert logs(found) == pytest.approx((-0.3, 0.5), rel=NEAR)
    infer = point(known=known, batch=LAUNCH, host=measured, workload=workload(mode="infer"))
    assert logs(infer) == pytest.approx((-0.1, 0.1), rel=NEAR)
    assumed = point(known=known, batch=LAUNCH, host=steady_host(label="assumed", **SLOW))
    assert logs(assumed) == pytest.approx((0.0, 0.0), abs=NEAR)


def test_regions_count_by_the_square_of_their_parts_so_that_intervals_do_not_jump() -> None:
    parts = ModelledParts(30.0, 20.0, 40.0, 10.0, 99.0, 100.0, "host")
    assert region_shares(parts) == pytest.approx(
        {"launch": 900 / 2600, "bandwidth": 100 / 2600, "arithmetic": 1600 / 2600}
    )
    assert region_shares(ModelledParts(0, 0, 0, 0, 0, 0, "host")) == {"launch": 1.0}
    found = point(spec=round_card(), batch=1024, known=known_with(arithmetic=own_class(), bandwidth=own_class()))
    share = region_shares(found.parts)["launch"]
    assert 0.01 < share < 0.99
    launch = flat_errors().classes["dense/launch/train"].bounds()
    expected = [share * end + (1 - share) * own for end, own in zip(launch, (-0.3, 0.5), strict=True)]
    assert logs(found) == pytest.approx(expected)


def test_a_card_has_a_class_of_its_own_where_there_is_one() -> None:
    known = known_with(arithmetic__P4=own_class(gpus=1))
    bound, free = card(name="P4"), card()
    assert "1 card held" in point(spec=bound, known=known).basis
    assert logs(point(spec=bound, known=known)) == pytest.approx((-0.3, 0.5), rel=NEAR)
    assert logs(point(spec=free, known=known)) == logs(point())
    assert logs(point(spec=bound)) == logs(point())


def test_the_models_own_number_is_always_inside() -> None:
    found = point(known=known_with(arithmetic=own_class(low_90=0.0, low_95=0.0, median=0.2)))
    assert found.low_ms == pytest.approx(found.step_ms, rel=NEAR)
    assert found.low_ms <= found.step_ms < found.high_ms


def test_thin_evidence_widens_by_its_factors_and_is_named() -> None:
    usual = width(point())
    newer, amd, nobody = (
        card(architecture="Rubin"), card(vendor="AMD", architecture="CDNA 3"), card(vendor="Nobody"),
    )  # fmt: skip
    eager = Target(device="gpu:0", execution="eager")
    for changes, factor in (
        ({"spec": newer}, 1.25), ({"target": eager}, 1.25), ({"spec": amd}, 1.5), ({"spec": nobody}, 2.0),
        ({"spec": newer, "target": eager}, 1.25**2), ({"target": XLA}, 1.25),
        ({"target": XLA, "host": steady_host(label="assumed")}, 1.0), ({"spec": card(architecture="Blackwell")}, 1.0),
    ):  # fmt: skip
        assert width(point(**changes)) == pytest.approx(factor * usual, rel=NEAR), changes
    reasons = [reason for _, reason in thin_evidence(newer, eager, host_known=True)]
    assert len(reasons) == 2
    assert all(reason in point(spec=newer, target=eager).basis for reason in reasons)
    assert thin_evidence(round_card(), GPU, host_known=True) == thin_evidence(round_card(), XLA) == ()
    lent = known_with(arithmetic=own_class(borrowed="errors of something else"))
    assert point(known=lent).basis.endswith("of something else")


@pytest.mark.parametrize(
    ("spec", "network", "words"),
    [
        (round_card(vendor="Apple", architecture="Apple 9"), "784-128-10", "Apple"),
        (round_card(), "lstm-32x2-128x9-6", "recurrent"),
    ],
)
def test_what_nothing_was_measured_of_is_withheld_with_the_reason(spec, network: str, words: str) -> None:
    found = modelled_step(spec, settings_of(workload(network)), 8)
    assert isinstance(found, Withheld)
    assert words in found.reason
    assert found.reason.endswith(".")


def test_a_step_is_limited_by_the_largest_of_overhead_traffic_and_arithmetic() -> None:
    def parts(host: float, launch: float, arithmetic: float, bandwidth: float) -> ModelledParts:
        return ModelledParts(host, launch, arithmetic, bandwidth, 50.0, 100.0, "host")

    assert region_of(parts(10, 1, 5, 5)) == region_of(parts(1, 10, 5, 5)) == region_of(parts(5, 1, 5, 5)) == "launch"
    assert region_of(parts(1, 1, 10, 5)) == "arithmetic"
    assert region_of(parts(1, 1, 5, 10)) == "bandwidth"


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


def test_a_network_with_recurrent_layers_and_attention_counts_as_recurrent() -> None:
    layers = (
        source(12, 8), layer("LSTM", "states", "image", units=8, return_sequences=True),
        layer("MultiHeadAttention", "heads", called("states", "states"), num_heads=2, key_dim=4),
        layer("GlobalAveragePooling1D", "mean", "heads"), layer("Dense", "out", "mean", units=3),
    )  # fmt: skip
    network = Own.from_file(text(functional(*layers)), "both.json")
    assert family_of(Workload(network=network)) == "recurrent"
    assert "--lengths 6,12" in (not_modelled(Workload(network=network, lengths=((6, 1), (12, 1)))) or "")


def test_every_card_of_the_catalogue_gets_a_number_or_a_reason() -> None:
    for card in catalogue().values():
        for batch in (1, 256, 65_536):
            one = modelled_step(card, settings_of(workload()), batch)
            if isinstance(one, Modelled):
                assert 0 < one.low_ms <= one.step_ms <= one.high_ms < math.inf
            else:
                assert card.vendor == "Apple"


def test_shipped_errors_cover_every_family_but_the_recurrent_one_in_every_region() -> None:
    shipped = errors()
    assert {name.split("/")[0] for name in shipped.classes} == {"dense", "cnn", "transformer", "other"}
    for network in ("784-512-10", "resnet8", "bert-tiny-like"):
        for region in REGION_WORDS:
            for mode in ("train", "infer"):
                for host_known in (True, False):
                    for card in (round_card(), round_card(name="P4")):
                        asked = workload(network, mode=mode)
                        assert class_of(shipped, card, asked, region, host_known=host_known) is not None
    for name, each in shipped.classes.items():
        assert each.low_95 <= each.low_90 <= 0 <= each.high_90 <= each.high_95
        assert (each.low_95 == each.high_95) is name.endswith("launch/assumed")
    assert class_of(shipped, round_card(), workload("lstm-32x2-128x9-6"), "launch", host_known=True) is None


def test_shipped_coverage_of_whole_networks_holds_and_the_goals_are_reported() -> None:
    shipped = errors()
    networks = {name: row for name, row in shipped.coverage_90.items() if name.endswith("batch 32 and above")}
    assert {name.split(",")[0] for name in networks} == {"dense", "cnn", "transformer"}
    for name, row in networks.items():
        assert row.chip >= 0.75, name
        assert row.high_over_low > 1
    assert {name for name in shipped.coverage_90 if "/" in name} <= set(shipped.classes) | {
        f"{family}/launch" for family in ("dense", "cnn", "transformer")
    }
    assert {goal.what for goal in shipped.goals} == {"CNN", "transformer", "Keras network under fit"}
    for goal in shipped.goals:
        assert 0 < goal.goal < 1
        assert max(goal.chip, goal.source) < 0.5


@pytest.mark.parametrize("rows", [errors().by_card, errors().by_source], ids=["by card", "by source"])
def test_what_was_held_out_adds_up_over_the_regions(rows: tuple[HeldOutError, ...]) -> None:
    assert len({(row.family, row.phase, row.name) for row in rows}) == len(rows)
    for row in rows:
        assert sum(region.points for region in row.by_region.values()) == row.points
        assert 0 <= row.median <= row.ninety
        medians = [region.median for region in row.by_region.values()]
        assert min(medians) - 1e-3 <= row.median <= max(medians) + 1e-3

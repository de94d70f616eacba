"""Many cards against one CPU: the table's rows and their order, costs, limits, and the roofline."""

from dataclasses import replace

import pytest

from core.hardware.catalogue import CardPrice
from core.hardware.compare import (
    Limited,
    batches_between,
    compare,
    cost_of,
    cpu_index,
    limits_of,
    roof_of,
    roofline,
    sort_readings,
)
from core.hardware.crossing import cross
from core.hardware.curve import card_curve
from core.hardware.host import Modelling
from core.hardware.interval import Modelled
from core.networks.families import network_from_name
from core.workload.spec import Target, Workload
from simulated.hosts import CARD, cells_of, cpu_run, make_costs, make_curve, with_blocks
from simulated.runs import planned

BATCHES = tuple(2**i for i in range(11))
GPU = Target(device="gpu:0")
FAST = CARD.model_copy(update={"name": "Fast", "launch_us": 0.5, "bandwidth_gb_s": 3000.0})
SLOW = CARD.model_copy(update={"name": "Slow", "launch_us": 40.0})
PRICE = CardPrice(per_hour=3.6, currency="EUR", dated="2026-11-01", source="yours")
COSTS = make_costs(step_us=100.0, op_us=0.5)


WORKLOAD = Workload(network=network_from_name("784-512-512-10"))
HOW = Modelling(WORKLOAD, GPU, COSTS)


def run():
    return cpu_run(lambda b: 0.1 * b**0.8, BATCHES)


def readings(key="crossover", prices=None, cards=(SLOW, FAST, CARD), **options):
    one = run()
    return compare(
        one,
        cells_of(one),
        0,
        cards,
        Modelling(one.plan.workload, GPU, COSTS),
        64,
        prices,
        key=key,
        **options,
    )


def test_each_card_has_its_crossover_speed_up_step_and_limits_at_the_persons_batch():
    for one in readings():
        assert one.label == one.crossover.label == "modelled"
        assert isinstance(one.step, Modelled)
        assert one.step.batch == 64
        assert one.speed_up.ratio == pytest.approx(0.1 * 64**0.8 / one.step.step_ms)
        assert one.speed_up.low < one.speed_up.ratio < one.speed_up.high
        assert (one.limits[0].first, one.limits[-1].last) == (1, 1024)
        assert one.withheld == ""
        assert set(BATCHES) <= {point.batch for point in one.curve.points}


def test_rows_are_sorted_by_the_key_and_those_without_a_price_stand_last():
    assert [one.spec.name for one in readings()] == ["Fast", "Card 1", "Slow"]
    assert [one.spec.name for one in readings("speed_up")] == ["Fast", "Card 1", "Slow"]
    prices = {"Fast": PRICE.model_copy(update={"per_hour": 36_000.0}), "Slow": PRICE}
    by_cost = readings("cost", prices)
    assert [one.spec.name for one in by_cost] == ["Slow", "Fast", "Card 1"]  # the last has no price
    assert by_cost[-1].cost is None


def test_a_card_that_may_be_ahead_at_once_stands_before_one_that_crosses_and_the_unresolved_after():
    one = run()
    answer = cells_of(one)
    made = {
        "at once": make_curve(lambda _: 0.01, BATCHES),
        "maybe at once": make_curve(lambda _: 0.09, BATCHES, -0.5, 0.5),
        "crosses": make_curve(lambda _: 0.5, BATCHES, -0.1, 0.1),
        "open above": make_curve(lambda _: 20.0, BATCHES, -0.5, 0.5),
        "never": make_curve(lambda _: 100.0, BATCHES, -0.1, 0.1),
    }
    (row,) = compare(one, answer, 0, (CARD,), Modelling(one.plan.workload, GPU, COSTS), 64)
    rows = [
        replace(row, spec=CARD.model_copy(update={"name": name}), crossover=cross(one, answer, curve))
        for name, curve in made.items()
    ]
    assert [each.spec.name for each in sort_readings(reversed(rows), "crossover")] == list(made)


def test_a_withheld_card_is_last_by_every_key_with_its_reason(monkeypatch: pytest.MonkeyPatch):
    real = card_curve

    def withheld_for_fast(spec, how, batches, recordings):
        if spec.name == "Fast":
            return make_curve(lambda _: 1.0, batches, withheld=batches, gpu="Fast")
        return real(spec, how, batches, recordings)

    monkeypatch.setattr("core.hardware.compare.card_curve", withheld_for_fast)
    for key in ("crossover", "speed_up", "cost"):
        last = readings(key, {"Fast": PRICE})[-1]
        assert (last.spec.name, last.step, last.speed_up, last.cost) == ("Fast", None, None, None)
        assert "withheld for Fast" in last.withheld
        assert sort_readings(reversed(readings(key)), key) == readings(key)


def test_limits_are_ranges_of_batches_without_gap_and_a_million_samples_cost_the_price_of_their_time():
    one = card_curve(CARD, HOW, (1, 64, 4096, 65536))
    found = limits_of(one)
    assert found[0].by in ("launch", "host")
    assert found[-1].by in ("arithmetic", "bandwidth")
    assert [each.by for each in found] == list(dict.fromkeys(each.by for each in found))
    assert limits_of(make_curve(lambda _: 1.0, (1, 2, 4))) == (Limited(1, 4, "launch"),)
    (step,) = make_curve(lambda _: 2.0, (100,), -0.1, 0.1).known
    cost = cost_of(step, PRICE)
    assert cost.per_million == pytest.approx(0.02)  # 10 000 steps of 2 ms are 20 s, at a thousandth of a euro a second
    assert cost.low < cost.per_million < cost.high
    assert (cost.label, cost.price.dated) == ("modelled", "2026-11-01")


def test_the_cpu_is_the_faster_of_two_at_the_largest_batch():
    one = run()  # target 1 takes twice the time
    assert cpu_index(one, cells_of(one)) == 0
    swapped = with_blocks(one, lambda block: block.model_copy(update={"target": 1 - block.target}))
    assert cpu_index(swapped, cells_of(swapped)) == 1
    mixed = planned(one, targets=(GPU, Target()))
    assert cpu_index(mixed, cells_of(mixed)) == 1
    gpus = planned(one, targets=(GPU, Target(device="gpu:1")))
    assert cpu_index(gpus, cells_of(gpus)) is None
    imported = one.model_copy(update={"plan": None})
    assert cpu_index(imported, cells_of(one)) is None


def test_batches_are_two_a_doubling_with_the_measured_and_the_persons():
    one = run()
    found = batches_between(cells_of(one), 0, 100, 5000)
    assert set(BATCHES) | {100, 5000} <= set(found)
    assert len([b for b in found if b <= 1024]) in (20, 21, 22)
    assert list(found) == sorted(set(found))


@pytest.mark.parametrize("execution", ["graph", "xla"])
def test_no_point_of_the_roofline_is_above_it_and_its_peak_is_that_of_the_precision(execution: str):
    how = Modelling(WORKLOAD, Target(device="gpu:0", execution=execution), COSTS)
    points = roofline(CARD, how, card_curve(CARD, how, BATCHES))
    assert len(points) == len(BATCHES)
    for one in points:
        assert one.reached_tflops <= one.attainable_tflops <= CARD.fp32_tflops
        assert one.low_tflops < one.reached_tflops < one.high_tflops
        assert one.label == "modelled"
    intensities = [one.intensity for one in points]
    assert intensities == sorted(intensities)


def test_a_fused_build_moves_less_for_its_arithmetic():
    how = Modelling(WORKLOAD, Target(device="gpu:0", execution="graph"), COSTS)
    curve = card_curve(CARD, how, BATCHES)
    keras, fused = (roofline(CARD, how.with_build(build), curve) for build in ("keras", "fused"))
    assert all(a.intensity < b.intensity for a, b in zip(keras, fused, strict=True))
    assert fused[-1].reached_tflops == pytest.approx(keras[-1].reached_tflops, rel=0.05)  # products dominate


def test_the_peak_is_that_of_the_precision():
    card = CARD.model_copy(update={"half_tflops": 120.0})
    assert roof_of(card, HOW) == 15.0
    assert roof_of(card, Modelling(WORKLOAD, Target(device="gpu:0", precision="mixed_float16"), COSTS)) == 120.0

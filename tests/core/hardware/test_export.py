"""No modelled number leaves without its label: every structure and every export is walked to its last number."""

import dataclasses
import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from core.hardware.catalogue import CardPrice
from core.hardware.compare import compare, roofline
from core.hardware.crossing import what_would_have_to_be_true
from core.hardware.curve import CardCurve, RecordedStep, card_curve
from core.hardware.decision import Decision, decide
from core.hardware.export import comparison_data, curve_data, roofline_data
from core.hardware.host import Conditions, Modelling, costs_of_kind
from core.workload.spec import Target
from simulated.hosts import CARD, cells_of, cpu_run, make_costs, make_curve
from simulated.runs import make_plan

LABELS = {"modelled", "recorded", "measured", "assumed"}
A_TIME = re.compile(r"(_ms|_us|_tflops|per_million)$|^(ratio|reached|needed|low|high|batch_low)$")
BATCHES = (1, 8, 64, 512)
GPU = Target(device="gpu:0")
COSTS, ASSUMED = make_costs(), costs_of_kind("desktop", "graph")
WORKLOAD = make_plan().workload
PRICE = CardPrice(per_hour=2.0, currency="EUR", dated="2026-11-01", source="yours")


def unlabelled(value: Any, labelled: bool = False, path: str = "") -> Iterator[str]:
    """Yield the paths of numbers derived from step times without a label in their own object or an enclosing one."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        value = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if isinstance(value, dict):
        labelled = labelled or value.get("label") in LABELS
        for key, inner in value.items():
            if isinstance(inner, (int, float)) and A_TIME.search(str(key)) and not labelled:
                yield f"{path}/{key}"
            yield from unlabelled(inner, labelled, f"{path}/{key}")
    elif isinstance(value, (list, tuple)):
        for number, inner in enumerate(value):
            yield from unlabelled(inner, labelled, f"{path}/{number}")


def labels_of(value: Any) -> Iterator[str]:
    """Yield the label of every object except the host's costs, which may have been measured."""
    if isinstance(value, dict):
        if "label" in value:
            yield value["label"]
        value = [inner for key, inner in value.items() if key != "host"]
    if isinstance(value, list):
        for inner in value:
            yield from labels_of(inner)


def points_of(value: Any) -> Iterator[dict[str, Any]]:
    """Yield every object with a step time."""
    if isinstance(value, dict):
        if "step_ms" in value:
            yield value
        for inner in value.values():
            yield from points_of(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from points_of(inner)


def table():
    run = cpu_run(lambda b: 0.1 * b**0.8, BATCHES)
    cards = (CARD, CARD.model_copy(update={"name": "Card 2", "launch_us": 30.0}))
    return run, compare(
        run,
        cells_of(run),
        0,
        cards,
        Modelling(run.plan.workload, GPU, COSTS),
        64,
        {CARD.name: PRICE},
    )


def recorded_curve() -> CardCurve:
    curve = make_curve(lambda _: 1.0, BATCHES, -0.1, 0.1, withheld=(512,))
    step = RecordedStep(CARD.name, 8, 1.5, 1.4, 1.6, "launch", "recorded: a run", "recorded")
    points = tuple(step if point.batch == 8 else point for point in curve.points)
    return CardCurve(CARD.name, points, "recorded on Card 1: a run")


def decision(readings: Any) -> Decision:
    return decide(readings, 64, Modelling(WORKLOAD, GPU, ASSUMED, Conditions()))


def everything() -> list[Any]:
    run, readings = table()
    curve = readings[0].curve
    how = Modelling(WORKLOAD, GPU, COSTS, Conditions(fed=True))
    needed = what_would_have_to_be_true(run, cells_of(run), 0, CARD, how, curve, 64)
    return [
        comparison_data(readings, decision(readings), COSTS),
        curve_data(recorded_curve(), COSTS),
        curve_data(curve, ASSUMED),
        [dataclasses.asdict(each) for each in needed],
        roofline_data(CARD, roofline(CARD, Modelling(WORKLOAD, GPU, COSTS), curve)),
    ]


def test_every_number_in_every_export_has_a_label_and_is_json():
    for data in everything():
        back = json.loads(json.dumps(data, allow_nan=False))
        assert back
        assert list(unlabelled(back)) == []
    assert sum(len(list(points_of(data))) for data in everything()) > 2 * len(BATCHES)


def test_what_is_modelled_is_called_nothing_else():
    compared, corrected, *others = json.loads(json.dumps(everything()))
    assert set(labels_of([compared, *others])) == {"modelled"}
    assert set(labels_of(corrected)) == {"modelled", "recorded"}


def test_every_structure_that_figures_draw_from_has_labels():
    _, readings = table()
    drawn = [*readings, *recorded_curve().known, *roofline(CARD, Modelling(WORKLOAD, GPU, COSTS), readings[0].curve)]
    assert drawn
    for one in drawn:
        assert list(unlabelled(one)) == []
        assert one.label in LABELS


@pytest.mark.parametrize(
    "naked",
    [
        {"points": [{"batch": 1, "step_ms": 1.0}]},
        {"label": "a guess", "step_ms": 1.0},
        [{"label": "modelled"}, {"ratio": 2.0}],
        {"cost": {"per_million": 1.0, "price": {"label": "modelled"}}},
    ],
)
def test_the_walk_itself_finds_what_has_no_label(naked: Any):
    assert len(list(unlabelled(naked))) == 1


def test_no_modelled_point_holds_more_than_asked_and_recorded_ones_and_the_host_say_what_they_are():
    data = curve_data(recorded_curve(), COSTS)
    assert (data["gpu"], data["label"]) == (CARD.name, "modelled")
    modelled, recorded, last = data["points"]
    assert list(modelled) == list(last) == ["batch", "step_ms", "low_ms", "high_ms", "limited_by", "samples_per_s"]
    assert recorded["label"] == "recorded"
    assert [row["batch"] for row in data["withheld"]] == [512]
    assert "Card 1" in data["corrected_by"]
    curve = card_curve(CARD, Modelling(WORKLOAD, GPU, COSTS), (1,))
    assert curve_data(curve, COSTS)["host"]["label"] == "measured"
    assert curve_data(curve, ASSUMED)["host"]["label"] == "assumed"

"""From the Frontier form to a plan: every wrong field has its sentence, a valid one is in the plan."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.networks.families import families
from core.studies.frontier.record import AXES, Axis, Setting, growing_families
from core.ui.frontier.draft import AxisRange, build_plan, fixed_choices, usual_range

RANGES: dict[Axis, AxisRange] = {
    "depth": AxisRange(1, 4, 3), "width": AxisRange(32, 512, 5), "batch": AxisRange(1, 256, 5)
}  # fmt: skip
GOOD: dict[str, Any] = dict(
    family="mlp", sizes={"inputs": 20, "classes": 3}, ranges=RANGES, mode="infer", optimizer="sgd",
    targets=({"device": "cpu", "threads": 1}, {"device": "gpu:0"}), point=(2, 100, 32), budget_s=60.0,
)  # fmt: skip


def test_a_good_draft_becomes_its_plan() -> None:
    chosen = build_plan(GOOD)
    assert chosen.errors == {}
    plan = chosen.plan
    assert (plan.depths, plan.widths, plan.batches) == ((1, 2, 4), (32, 64, 128, 256, 512), (1, 4, 16, 64, 256))
    assert plan.target_names == ("cpu,threads=1", "gpu:0")
    assert (plan.mode, plan.optimizer, plan.budget_s, plan.point) == ("infer", "sgd", 60.0, Setting(2, 100, 32))
    assert dict(plan.sizes) == {"inputs": 20, "classes": 3}


def test_no_operating_point_is_none() -> None:
    plan = build_plan(GOOD | dict(point=(None, None, None))).plan
    assert plan.point is None


def test_one_value_of_an_axis_is_a_map_of_the_two_others() -> None:
    plan = build_plan(GOOD | dict(ranges=RANGES | {"depth": AxisRange(2, 4, 1)})).plan
    assert (plan.depths, plan.held_axis) == ((2,), "depth")


@pytest.mark.parametrize(
    ("change", "field", "words"),
    [
        ({"sizes": {"inputs": None, "classes": 3}}, "size inputs", "Inputs (features) is empty"),
        ({"ranges": RANGES | {"depth": AxisRange(0, 4, 3)}}, "depth_low", "between 1 and 64"),
        ({"ranges": RANGES | {"depth": AxisRange(4, 1, 3)}}, "depth", "must rise"),
        ({"ranges": RANGES | {"width": AxisRange(32, 20_000, 3)}}, "width_high", "between 8 and 16,384"),
        ({"ranges": RANGES | {"width": AxisRange(32, None, 3)}}, "width_high", "between 8 and 16,384"),
        ({"ranges": RANGES | {"batch": AxisRange(1, 70_000, 3)}}, "batch_high", "between 1 and 65,536"),
        ({"ranges": RANGES | {"batch": AxisRange(1, 64, 17)}}, "batch_count", "between 1 and 16"),
        ({"targets": ({"device": "npu"}, {"device": "cpu"})}, "target 0", "accepted are cpu, gpu:0"),
        ({"targets": ({"device": "cpu"}, {"device": "cpu"})}, "targets", "choose targets that differ"),
        ({"point": (2, None, 32)}, "point", "or none of them"),
        ({"point": (2, 100, 512)}, "point", "Your batch is 512; the map goes from 1 to 256"),
        ({"budget_s": None}, "budget_s", "between 2 and 86,400 seconds"),
        (
            {"ranges": RANGES | {"depth": AxisRange(1, 1, 1), "width": AxisRange(64, 64, 4)}, "point": (None,) * 3},
            "plan", "two axes with more than one value",
        ),
    ],
)  # fmt: skip
def test_each_wrong_field_has_its_sentence(change: dict[str, Any], field: str, words: str) -> None:
    chosen = build_plan(GOOD | change)
    assert chosen.plan is None
    assert list(chosen.errors) == [field]
    assert words in chosen.errors[field]


def test_every_wrong_field_is_named_at_once() -> None:
    chosen = build_plan(GOOD | dict(budget_s=0.0, ranges=RANGES | {"batch": AxisRange(9, 3, 2)}, point=(1, 1, None)))
    assert set(chosen.errors) == {"budget_s", "batch", "point"}
    assert set(chosen.values) == {"depth", "width"}


@pytest.mark.parametrize("family", growing_families())
def test_what_the_form_proposes_is_possible_in_every_family(family: str) -> None:
    sizes: dict[str, int | None] = {choice.name: choice.default for choice in fixed_choices(family)}
    ranges = {axis: usual_range(family, axis) for axis in AXES}
    chosen = build_plan(GOOD | dict(family=family, sizes=sizes, ranges=ranges, point=(None,) * 3))
    assert chosen.errors == {}
    assert all(len(values) >= 3 for values in chosen.values.values())


@given(st.integers(8, 64), st.integers(65, 600), st.integers(2, 16))
def test_widths_become_multiples_of_the_heads(low: int, high: int, count: int) -> None:
    """Check a Transformer's d_model: values move to the nearest buildable one, and stay in the range."""
    sizes: dict[str, int | None] = {choice.name: choice.default for choice in families()["transformer"].choices}
    ranges = RANGES | {"width": AxisRange(low, high, count)}
    fixed = {choice.name: sizes[choice.name] for choice in fixed_choices("transformer")}
    chosen = build_plan(GOOD | dict(family="transformer", sizes=fixed, ranges=ranges, point=(None,) * 3))
    widths = chosen.values["width"]
    assert all(width % 4 == 0 for width in widths)
    assert all(low <= width <= high for width in widths)
    assert chosen.plan is not None

"""Plans and records of frontier studies: refusals, reading back, and the notation of values."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from core.base.schema import explain
from core.studies.frontier.answer import frontier_answer
from core.studies.frontier.export import frontier_data
from core.studies.frontier.record import (
    FrontierPlan,
    FrontierStudy,
    Setting,
    growing_families,
    log_spaced,
    parse_values,
)
from core.workload.spec import Target
from simulated.frontiers import FIRST, make_plan, make_study


def refused(**changes: Any) -> str:
    with pytest.raises(ValidationError) as caught:
        make_plan(**changes)
    return explain(caught.value)


def test_the_grid_has_every_setting_once_and_the_point_comes_last() -> None:
    plan = make_plan(depths=(2, 1), widths=(16, 32), batches=(1, 8), point=(2, 20, 3))
    assert plan.grid[:3] == ((1, 16, 1), (1, 16, 8), (1, 32, 1))
    assert len(set(plan.grid)) == 8
    assert plan.settings == (*plan.grid, Setting(2, 20, 3))
    assert make_plan(depths=(1, 2), point=(2, 16, 1)).settings == make_plan(depths=(1, 2)).settings


def test_sizes_left_out_become_the_defaults_of_the_family() -> None:
    plan = make_plan(sizes=(("classes", 3),))
    assert plan.sizes == (("inputs", 784), ("classes", 3))
    assert plan.workload(Setting(2, 64, 1)).network.name == "784-64-64-3"
    assert hash(plan) == hash(FrontierPlan.model_validate_json(plan.model_dump_json()))


@pytest.mark.parametrize("family", growing_families())
def test_every_growing_family_makes_a_plan(family: str) -> None:
    plan = make_plan(family=family, depths=(1, 2), widths=(16, 64))
    small, large = (plan.workload(Setting(d, w, 1)).flops_per_sample for d, w in ((1, 16), (2, 64)))
    assert large > 3 * small


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"family": "own"}, "family “own” has no depth and width to vary"),
        ({"sizes": (("heads", 2),)}, "“heads” is no fixed size here; accepted are inputs, classes"),
        ({"sizes": (("width", 2),)}, "“width” is no fixed size here"),
        ({"widths": (4, 16)}, "depth 1 with width 4 cannot be built"),
        ({"family": "transformer", "widths": (50,)}, "depth 1 with width 50 cannot be built: d_model 50"),
        ({"depths": ()}, "depths"),
        ({"depths": tuple(range(1, 18))}, "at most 16"),
        ({"batches": (0, 1)}, "at least 1"),
        ({"targets": (FIRST, FIRST)}, "two targets are “cpu,threads=1”; choose targets that differ"),
        ({"point": (9, 64, 8)}, "the operating point's depth is 9; the map goes from 1 to 8"),
        ({"point": (2, 64, 2048)}, "the operating point's batch is 2,048; the map goes from 1 to 1,024"),
        ({"depths": (1,), "widths": (16,), "batches": (8,)}, "one setting makes no map"),
        ({"budget_s": 1.0}, "at least 2"),
    ],
)
def test_what_cannot_be_measured_is_refused_with_a_sentence(changes: dict[str, Any], sentence: str) -> None:
    assert sentence in refused(**changes)


def test_the_held_axis_is_the_one_that_does_not_vary() -> None:
    assert make_plan().held_axis == "depth"
    assert make_plan(widths=(64,)).held_axis == "width"
    assert make_plan(batches=(8,)).free_axes == ("depth", "width")


@given(st.integers(1, 5000), st.integers(0, 60_000), st.integers(1, 16))
def test_log_spaced_values_rise_between_both_ends(low: int, more: int, count: int) -> None:
    found = log_spaced(low, low + more, count)
    assert found[0] == low
    assert len(found) <= count
    assert list(found) == sorted(set(found))
    if count > 1:
        assert found[-1] == low + more


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("1:8", (1, 2, 4, 8)),
        ("32:2048", (32, 64, 128, 256, 512, 1024, 2048)),
        ("1:1024:0.5", (1, 4, 16, 64, 256, 1024)),
        ("1:1024:0.7", (1, 3, 7, 20, 53, 141, 380, 1024)),
        ("8:8", (8,)),
        ("3,1", (3, 1)),
    ],
)
def test_values_are_written_as_ranges_or_lists(text: str, values: tuple[int, ...]) -> None:
    assert parse_values(text, "width") == values


@pytest.mark.parametrize("text", ["", "a", "1:2:3:4", "8:1", "0:4", "1:65536:8", "1:8:0", "1:8:nan", "1:8:inf"])
def test_values_that_make_no_sense_are_refused_with_a_sentence(text: str) -> None:
    with pytest.raises(ValueError, match=r"^The width .*\.$"):
        parse_values(text, "width")


@pytest.mark.parametrize(
    "damage",
    [{"rounds": [{"index": 0, "setting": 0, "blocks": []}]}, {"outcomes": [{"setting": 999, "outcome": "skipped"}]}],
)
def test_a_damaged_study_is_refused_with_a_sentence(damage: dict[str, Any]) -> None:
    data = json.loads(make_study().to_json())
    with pytest.raises(ValueError, match="frontier study"):
        FrontierStudy.from_json(json.dumps(data | damage))


def test_a_round_holds_both_targets() -> None:
    data = json.loads(make_study().to_json())
    data["rounds"][0]["blocks"][1]["target"] = data["rounds"][0]["blocks"][0]["target"]
    with pytest.raises(ValueError, match="of each target"):
        FrontierStudy.from_json(json.dumps(data))


def test_the_export_is_strict_json_and_tells_measured_from_interpolated() -> None:
    study = make_study()
    data = json.loads(json.dumps(frontier_data(frontier_answer(study)), allow_nan=False))
    assert data["label"] == "recorded"
    assert {one["label"] for one in data["measured"]} == {"recorded"}
    assert {one["label"] for key in ("cells", "readings", "slices") for one in data[key]} == {"interpolated"}
    assert len(data["measured"]) == len(study.measured)
    assert len(data["cells"]) == len(study.plan.grid)
    assert [one["depth"] for one in data["slices"]] == [2, 4]
    assert all(len(line["width"]) == len(line["batch"]) for one in data["slices"] for line in one["contour"])
    assert data["targets"] == [str(FIRST), str(Target())]
    assert data["point"]["setting"] == {"depth": 2, "width": 256, "batch": 8}
    assert FrontierStudy.model_validate(data["record"]) == study


@pytest.mark.parametrize("family", [["mlp"], {}, 3])
def test_a_family_that_is_no_word_is_refused(family: object) -> None:
    with pytest.raises(ValidationError, match="family"):
        FrontierPlan.model_validate({"family": family})

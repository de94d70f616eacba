"""The Frontier page: what it proposes and refuses, what it starts, and what it says of a study."""

from __future__ import annotations

import json
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from core.analysis.frontier_answer import frontier_answer
from core.frontier import FrontierStudy, Setting
from core.measure.frontier import FrontierProgress
from core.measure.studies import StudySnapshot
from core.ui import frontier_result, machine
from tests.support.frontier_studies import log2_speed_up, make_frontier_plan, make_frontier_study
from tests.support.pages import chart_titles, open_page, snapshot_of, text_of
from tests.support.runs import make_run

PAGE = "frontier"
CHART = "<b>Where the second target pays, at depth 2</b>"
FLAT = make_frontier_plan(depths=(2,), point=None)


@pytest.fixture(autouse=True)
def no_example(engine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    assert engine
    monkeypatch.setattr("core.ui.frontier.load_example_frontier", lambda: FrontierStudy.from_json("{}"))


def button(at: AppTest) -> Any:
    return at.button(key="measure_frontier")


def keep(engine: Any, study: FrontierStudy, study_id: str = "20260105-study") -> str:
    engine.store.add_study("frontier", study_id, None, study.to_json())
    return study_id


def plan_of(engine: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The plan that the started work measures."""
    seen: list[Any] = []
    monkeypatch.setattr("core.ui.frontier_form.run_frontier", lambda _, plan: seen.append(plan))
    kind, _, work = engine.jobs.studies[-1]
    assert kind == "frontier"
    work(None)
    return seen[0]


def running(_: str = "", description: str = "Measuring the frontier of x", so_far: Any = None) -> StudySnapshot:
    at = FrontierProgress("measuring", "Depth 2, width 64, batch 8: preparing", 5, 168, 30.0, 90.0, so_far)
    return StudySnapshot("frontier", description, active=True, progress=at)


def chart_of(at: AppTest) -> dict[str, Any]:
    chart: dict[str, Any] = json.loads(at.get("plotly_chart")[0].proto.spec)
    return chart


def test_before_anything_was_measured_the_page_says_what_will_be(engine: Any) -> None:
    at = open_page(PAGE)
    text = text_of(at)
    assert "What will be measured" in text
    assert "the map is interpolated" in text
    assert list(at.table[0].value["Values"]) == [
        "1, 2, 4, 8", "32, 64, 128, 256, 512, 1,024, 2,048", "1, 4, 16, 64, 256, 1,024",
    ]  # fmt: skip
    assert "The map has 168 settings (4 × 7 × 6)" in text
    assert "(modelled)" in text
    assert not chart_titles(at)
    assert not button(at).disabled
    assert not engine.jobs.studies


def test_choices_become_the_plan(engine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    at = open_page(PAGE)
    at.number_input(key="form_frontier_mlp_inputs").set_value(20)
    at.number_input(key="frontier_mlp_depth_count").set_value(1)
    at.number_input(key="frontier_mlp_width_high").set_value(512)
    at.number_input(key="frontier_mlp_width_count").set_value(3)
    at.number_input(key="frontier_mlp_batch_low").set_value(4)
    at.get_by_key("frontier_mode").set_value("infer")
    at.number_input(key="form_threads_frontier_1").set_value(3)
    for axis, value in (("depth", 1), ("width", 100), ("batch", 32)):
        at.number_input(key=f"frontier_mlp_point_{axis}").set_value(value)
    at.number_input(key="frontier_budget").set_value(40).run()
    button(at).click().run()
    plan = plan_of(engine, monkeypatch)
    assert dict(plan.sizes)["inputs"] == 20
    assert (plan.depths, plan.widths) == ((1,), (32, 128, 512))
    assert (plan.batches[0], plan.mode, plan.budget_s) == (4, "infer", 40.0)
    assert plan.target_names == ("cpu,threads=1", "cpu,threads=3")
    assert plan.point == Setting(1, 100, 32)


def test_each_family_brings_its_own_words_sizes_and_ranges(engine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    at = open_page(PAGE)
    at.selectbox(key="frontier_family").select("transformer").run()
    assert "Width (d_model)" in text_of(at)
    at.number_input(key="form_frontier_transformer_heads").set_value(8)
    at.number_input(key="frontier_transformer_width_count").set_value(6).run()
    button(at).click().run()
    plan = plan_of(engine, monkeypatch)
    assert (plan.family, dict(plan.sizes)["heads"]) == ("transformer", 8)
    assert all(width % 8 == 0 for width in plan.widths)


def test_with_a_gpu_it_is_cpu_against_gpu(engine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    found = machine.Machine(("cpu", "gpu:0"), {"cpu": "CPU", "gpu:0": "gpu:0 · Card"}, 8, ())
    monkeypatch.setattr(machine, "devices", lambda: found)
    button(open_page(PAGE)).click().run()
    assert plan_of(engine, monkeypatch).target_names == ("cpu", "gpu:0")


@pytest.mark.parametrize(
    ("key", "value", "sentence"),
    [
        ("frontier_mlp_depth_low", 0, "goes from 1 to 64"),
        ("frontier_mlp_width_high", 16, "must rise"),
        ("frontier_mlp_batch_count", 40, "1 to 16 values"),
        ("frontier_mlp_point_width", 64, "or none of them"),
        ("frontier_budget", 1, "between 2 and 86,400 seconds"),
        ("form_threads_frontier_0", 2, "choose two that differ"),
        ("form_frontier_mlp_classes", 0, "accepted are 1 to 10,000"),
    ],
)
def test_a_bad_choice_gets_one_sentence_and_no_start(key: str, value: float, sentence: str) -> None:
    at = open_page(PAGE)
    at.number_input(key=key).set_value(value).run()
    assert not at.exception
    assert len(at.error) == 1
    assert sentence in at.error[0].value
    assert button(at).disabled


def test_start_shows_progress_and_cancel_reaches_the_engine(engine: Any) -> None:
    engine.jobs.on_study = running
    at = open_page(PAGE)
    button(at).click().run()
    text = text_of(at)
    assert "Measuring the frontier" in text
    assert "Settings measured 5 of 168" in text
    assert "Time left, at most 1 min 30 s" in text
    assert button(at).disabled
    assert not chart_titles(at)
    at.button(key="cancel_frontier").click().run()
    assert engine.jobs.cancelled == 1


def test_a_running_study_shows_its_map_so_far_and_no_older_result(engine: Any) -> None:
    keep(engine, make_frontier_study())
    engine.jobs.study = running(so_far=make_frontier_study(starts=1))
    at = open_page(PAGE)
    assert chart_titles(at) == [CHART]
    assert "Estimate so far" in text_of(at)
    assert "Every setting that was visited" not in text_of(at)


def test_too_few_settings_so_far_are_no_map(engine: Any) -> None:
    engine.jobs.study = running(so_far=make_frontier_study(settings=(0, 40)))
    at = open_page(PAGE)
    assert not chart_titles(at)
    assert "The first map appears with the first settings" in text_of(at)


def test_a_refused_start_is_a_sentence(engine: Any) -> None:
    engine.jobs.refusal = "Busy."
    at = open_page(PAGE)
    button(at).click().run()
    assert "Something else is being measured" in at.warning[0].value
    at.run()
    assert not at.warning


def test_a_running_sweep_is_said_and_nothing_starts(engine: Any) -> None:
    engine.jobs.current = snapshot_of(make_run(5, status="running"))
    at = open_page(PAGE)
    assert "A sweep is running on this machine" in text_of(at)
    assert button(at).disabled


def test_a_study_that_failed_says_why(engine: Any) -> None:
    engine.jobs.study = StudySnapshot("frontier", "x", active=False, error="TensorFlow is not installed.")
    at = open_page(PAGE)
    assert [e.value for e in at.error] == ["TensorFlow is not installed."]
    assert "What will be measured" in text_of(at)


def test_the_result_is_verdict_read_outs_map_table_and_method(engine: Any) -> None:
    study = make_frontier_study(label="measured")
    keep(engine, study)
    at = open_page(PAGE)
    text = text_of(at)
    assert at.subheader[0].value.startswith("At depth 2, width 128, batch 32 cpu,threads=2 is ")
    assert "At depth 2 and batch 32 cpu,threads=2 pays from width" in text
    assert "At depth 2 and width 128 cpu,threads=2 pays from batch" in text
    assert chart_titles(at) == [CHART]
    rows = next(frame.value for frame in at.dataframe if "Ahead" in frame.value)
    assert len(rows) == len(study.measured)
    assert set(rows["Outcome"]) == {"measured"}
    assert "Settings measured 25 of 75" in text
    assert "Starts of the workers 3" in text
    assert "Every setting of the map in every start would have taken about 5 min 40 s (modelled" in text
    assert "Example CPU" in text
    assert "What will be measured" not in text


def test_the_map_follows_the_slider_and_the_choice_of_axes(engine: Any) -> None:
    study_id = keep(engine, make_frontier_study())
    at = open_page(PAGE)
    assert chart_titles(at) == ["<b>Where the second target pays, at depth 2</b>"]
    at.select_slider(key=f"frontier_at_depth-{study_id}").set_value(1).run()
    assert chart_titles(at) == ["<b>Where the second target pays, at depth 1</b>"]
    assert "At depth 1 and batch 32 cpu,threads=2 pays from width" in text_of(at)
    at.get_by_key(f"frontier_fixed-{study_id}").set_value("batch").run()
    assert not at.exception
    assert chart_titles(at) == ["<b>Where the second target pays, at batch 32</b>"]
    axes = {chart_of(at)["layout"][axis]["title"]["text"] for axis in ("xaxis", "yaxis")}
    assert axes == {"Depth (hidden layers)", "Width (units a layer)"}
    at.select_slider(key=f"frontier_at_batch-{study_id}").set_value(64).run()
    assert chart_titles(at) == ["<b>Where the second target pays, at batch 64</b>"]


def test_where_it_is_read_out_changes_the_sentences_and_not_the_map(engine: Any) -> None:
    study_id = keep(engine, make_frontier_study())
    at = open_page(PAGE)
    at.select_slider(key=f"frontier_at_batch-{study_id}").set_value(16).run()
    assert "At depth 2 and batch 16 cpu,threads=2 pays from width" in text_of(at)
    assert chart_titles(at) == ["<b>Where the second target pays, at depth 2</b>"]


def test_a_plan_of_two_axes_has_no_choice_of_axes_and_no_third_slider(engine: Any) -> None:
    study_id = keep(engine, make_frontier_study(FLAT))
    at = open_page(PAGE)
    assert chart_titles(at) == [CHART]
    assert {s.key for s in at.select_slider} == {f"frontier_at_{axis}-{study_id}" for axis in ("width", "batch")}
    assert not at.get("button_group") or "Axes of the map" not in text_of(at)


def test_a_plan_of_one_axis_has_no_map_and_says_so(engine: Any) -> None:
    plan = make_frontier_plan(depths=(2,), widths=(128,), point=None)
    keep(engine, make_frontier_study(plan, settings=range(5)))
    at = open_page(PAGE)
    assert not chart_titles(at)
    assert "One axis alone varies" in text_of(at)
    assert "At depth 2 and width 128 cpu,threads=2 pays from batch" in text_of(at)


@pytest.mark.parametrize(("shift", "ahead"), [(-6.0, "cpu,threads=1"), (6.0, "cpu,threads=2")])
def test_no_break_even_in_range_is_said(engine: Any, shift: float, ahead: str) -> None:
    keep(engine, make_frontier_study(truth=lambda s: log2_speed_up(s) + shift))
    at = open_page(PAGE)
    text = text_of(at)
    assert f"{ahead} is ahead throughout the map" in text
    assert "No break-even in this map." in text
    assert "No break-even line at depth 2." in text


def test_a_map_that_resolves_nothing_says_so(engine: Any) -> None:
    keep(engine, make_frontier_study(truth=lambda _: 0.0, noise=0.05))
    text = text_of(open_page(PAGE))
    assert "neither target is ahead beyond doubt" in text
    assert "does not resolve" in text


def test_a_cancelled_study_says_so_and_one_with_too_few_settings_too(engine: Any) -> None:
    keep(engine, make_frontier_study(status="cancelled", starts=1), "study-a")
    text = text_of(open_page(PAGE))
    assert "This study was cancelled" in text
    assert "started once only" in text
    keep(engine, make_frontier_study(status="cancelled", settings=(0,), starts=1), "study-b")
    at = open_page(PAGE)
    assert "too few for a map" in text_of(at)
    assert not chart_titles(at)


def test_a_setting_that_failed_stands_in_the_notices_and_the_table(engine: Any) -> None:
    keep(engine, make_frontier_study(failed={74: "The worker ran out of memory."}))
    at = open_page(PAGE)
    said = "Depth 4, width 512, batch 256 on cpu,threads=1: out of memory. The worker ran out of memory."
    assert said in text_of(at)
    rows = next(frame.value for frame in at.dataframe if "Ahead" in frame.value)
    assert rows.iloc[-1]["Outcome"] == "out of memory: The worker ran out of memory."
    assert rows.iloc[-1]["Lead"] == ""


def test_the_newest_study_is_shown_and_older_ones_can_be_chosen(engine: Any) -> None:
    keep(engine, make_frontier_study(truth=lambda s: log2_speed_up(s) + 6), "study-a")
    keep(engine, make_frontier_study(), "study-b")
    at = open_page(PAGE)
    assert "No break-even in this map." not in text_of(at)
    at.selectbox(key="frontier_study-study-b").select_index(1).run()
    assert "No break-even in this map." in text_of(at)


def test_the_address_opens_its_study_until_a_new_one_is_started(engine: Any) -> None:
    keep(engine, make_frontier_study(truth=lambda s: log2_speed_up(s) + 6), "study-a")
    keep(engine, make_frontier_study(), "study-b")
    at = open_page(PAGE, study="study-a")
    assert "No break-even in this map." in text_of(at)
    button(at).click().run()
    assert "study" not in at.query_params


def test_an_address_of_nothing_is_said() -> None:
    at = open_page(PAGE, study="study-z")
    assert "There is no study study-z here." in text_of(at)
    assert "What will be measured" in text_of(at)


def test_the_example_is_shown_until_there_is_a_study(engine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("core.ui.frontier.load_example_frontier", make_frontier_study)
    at = open_page(PAGE)
    assert "A finished example, recorded on another machine" in text_of(at)
    assert "What will be measured" in text_of(at)
    assert chart_titles(at) == [CHART]
    keep(engine, make_frontier_study(label="measured"))
    assert "A finished example" not in text_of(open_page(PAGE))


def test_a_missing_example_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> FrontierStudy:
        raise FileNotFoundError("example_frontier.json")

    monkeypatch.setattr("core.ui.frontier.load_example_frontier", missing)
    at = open_page(PAGE)
    assert not at.error
    assert "What will be measured" in text_of(at)


def test_embedded_it_is_the_verdict_and_the_map(engine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    keep(engine, make_frontier_study())
    from streamlit.runtime.context import ContextProxy

    monkeypatch.setattr(ContextProxy, "is_embedded", property(lambda _: True))
    at = open_page(PAGE)
    assert chart_titles(at) == [CHART]
    assert not at.button
    assert not at.select_slider
    assert not at.dataframe


def test_the_file_holds_what_is_said_and_what_was_measured() -> None:
    study = make_frontier_study()
    answer = frontier_answer(study)
    data = json.loads(frontier_result._file(answer))
    assert data["verdict"] == answer.sentence
    assert data["label"] == "recorded"
    assert {cell["label"] for cell in data["cells"]} == {"interpolated"}
    assert {point["label"] for point in data["measured"]} == {"recorded"}
    assert FrontierStudy.model_validate(data["record"]) == study

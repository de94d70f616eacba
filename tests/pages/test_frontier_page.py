"""The Frontier page: proposals, refusals, starts, and its sentences on a study."""

import json
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from core.studies.frontier.answer import frontier_answer, reading
from core.studies.frontier.record import Axis, FrontierStudy, Setting
from core.workload.spec import Workload
from simulated.commands import holds
from simulated.frontier_studies import make_frontier_plan, make_frontier_study
from simulated.pages import chart_titles, open_page, running, says, text_of, unfold
from simulated.pages import keep as keep_run
from simulated.runs import make_run
from tests.support.study_pages import keep, start

pytestmark = pytest.mark.usefixtures("no_example")
PAGE = "frontier"
FASTER, WHERE = "<b>Which target is faster, at depth {}</b>", "<b>Where 2 threads are clearly faster, at batch {}</b>"
CHART = FASTER.format(2)
SETTINGS = "Every setting that was visited"
FLAT = make_frontier_plan(depths=(2,), point=None)


def chart_of(at: AppTest) -> dict[str, Any]:
    chart: dict[str, Any] = json.loads(at.get("plotly_chart")[0].proto.spec)
    return chart


def test_before_anything_was_measured_the_page_says_what_will_be() -> None:
    at = open_page(PAGE)
    text = text_of(at)
    holds(text, "will be measured", "is interpolated")
    assert [len(values.split(", ")) for values in at.table[0].value["Values"]] == [4, 7, 6]
    holds(text, "168 settings", "(modelled)")
    assert not chart_titles(at)
    assert not at.button(key="measure_frontier").disabled


def test_choices_become_the_plan(engine: Any) -> None:
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
    plan = start(engine, at, PAGE)
    assert dict(plan.sizes)["inputs"] == 20
    assert (plan.depths, plan.widths) == ((1,), (32, 128, 512))
    assert (plan.batches[0], plan.mode, plan.budget_s) == (4, "infer", 40.0)
    assert plan.target_names == ("cpu,threads=1", "cpu,threads=3")
    assert plan.point == Setting(1, 100, 32)


def test_the_run_that_was_opened_comes_along(engine: Any) -> None:
    run = make_run(3)
    workload = Workload(network="784-64x3-10", mode="infer", optimizer="sgd")
    plan = run.plan.model_copy(update={"workload": workload})
    run_id = keep_run(engine.store, run.model_copy(update={"plan": plan}))
    at = open_page("crossover", run=run_id)
    at.switch_page("pages/frontier.py").run()
    taken = start(engine, at, PAGE)
    assert (taken.family, taken.mode, taken.optimizer) == ("mlp", "infer", "sgd")
    assert taken.point == Setting(3, 64, plan.batches[len(plan.batches) // 2])
    assert taken.target_names == run.target_names


def test_each_family_brings_its_own_words_sizes_and_ranges(engine: Any) -> None:
    at = open_page(PAGE)
    at.selectbox(key="frontier_family").select("transformer").run()
    assert "Width (d_model)" in text_of(at)
    at.number_input(key="form_frontier_transformer_heads").set_value(8)
    at.number_input(key="frontier_transformer_width_count").set_value(6).run()
    plan = start(engine, at, PAGE)
    assert (plan.family, dict(plan.sizes)["heads"]) == ("transformer", 8)
    assert all(width % 8 == 0 for width in plan.widths)


def test_a_running_study_shows_its_map_so_far_and_no_older_result(engine: Any) -> None:
    keep(engine, PAGE, make_frontier_study())
    engine.jobs.show(running(PAGE, record=make_frontier_study(starts=1)))
    at = open_page(PAGE)
    assert chart_titles(at) == [CHART]
    assert "Estimate so far" in text_of(at)
    assert SETTINGS not in text_of(at)


def test_too_few_settings_so_far_are_no_map(engine: Any) -> None:
    engine.jobs.show(running(PAGE, record=make_frontier_study(settings=(0, 40))))
    at = open_page(PAGE)
    assert not chart_titles(at)
    assert "The first map" in text_of(at)


def test_the_result_is_verdict_read_outs_map_table_and_method(engine: Any) -> None:
    study = make_frontier_study(label="measured")
    keep(engine, PAGE, study)
    at = open_page(PAGE)
    assert not at.dataframe
    unfold(at, SETTINGS, "How it was measured")
    text = text_of(at)
    assert frontier_answer(study).sentence.startswith(at.header[0].value.replace("&#58;", ":").replace("\u00a0", " "))
    says(at, *(read_out(study, axis) for axis in ("width", "batch")))
    assert chart_titles(at) == [CHART]
    rows = next(frame.value for frame in at.dataframe if "Faster" in frame.value)
    assert len(rows) == len(study.measured)
    assert set(rows["Outcome"]) == {"measured"}
    holds(text, "measured 25 of", "workers 3", "5 min 40", "Example CPU")


def read_out(study: FrontierStudy, axis: Axis, **place: int) -> str:
    answer = frontier_answer(study)
    return reading(answer, axis, answer.at._replace(**place)).sentence


def test_the_map_and_what_is_read_out_follow_the_slider_and_the_choice_of_axes(engine: Any) -> None:
    study = make_frontier_study()
    study_id = keep(engine, PAGE, study)
    at = open_page(PAGE)
    assert chart_titles(at) == [CHART]
    at.select_slider(key=f"frontier_at_batch-{study_id}").set_value(16).run()
    says(at, read_out(study, "width", batch=16))
    assert chart_titles(at) == [CHART]
    at.select_slider(key=f"frontier_at_batch-{study_id}").set_value(32)
    at.select_slider(key=f"frontier_at_depth-{study_id}").set_value(1).run()
    assert chart_titles(at) == [FASTER.format(1)]
    says(at, read_out(study, "width", depth=1))
    at.get_by_key(f"frontier_fixed-{study_id}").set_value("batch").run()
    assert chart_titles(at) == [WHERE.format(32)]
    axes = {chart_of(at)["layout"][axis]["title"]["text"].split()[0] for axis in ("xaxis", "yaxis")}
    assert axes == {"Depth", "Width"}
    at.select_slider(key=f"frontier_at_batch-{study_id}").set_value(64).run()
    assert chart_titles(at) == [WHERE.format(64)]


def test_a_plan_of_two_axes_has_no_choice_of_axes_and_no_third_slider(engine: Any) -> None:
    study_id = keep(engine, PAGE, make_frontier_study(FLAT))
    at = open_page(PAGE)
    assert chart_titles(at) == [CHART]
    assert {s.key for s in at.select_slider} == {f"frontier_at_{axis}-{study_id}" for axis in ("width", "batch")}
    assert f"frontier_fixed-{study_id}" not in [group.key for group in at.button_group]


def test_a_plan_of_one_axis_has_no_map_and_says_so(engine: Any) -> None:
    plan = make_frontier_plan(depths=(2,), widths=(128,), point=None)
    study = make_frontier_study(plan, settings=range(5))
    keep(engine, PAGE, study)
    at = open_page(PAGE)
    assert not chart_titles(at)
    says(at, "One axis alone", read_out(study, "batch"))


def test_a_setting_that_failed_stands_in_the_notices_and_the_table(engine: Any) -> None:
    reason = "The worker ran out of memory."
    keep(engine, PAGE, make_frontier_study(failed={74: reason}))
    at = unfold(open_page(PAGE), SETTINGS)
    says(at, "256 on 1 thread", reason)
    rows = next(frame.value for frame in at.dataframe if "Faster" in frame.value)
    assert rows.iloc[-1]["Outcome"] == f"out of memory: {reason}"
    assert rows.iloc[-1]["Speed-up"] == ""

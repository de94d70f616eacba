"""The Pipeline page: what it proposes and refuses, what it starts, and what it says of a study."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from core.experiment import Experiment
from core.measure.progress import Progress
from core.measure.studies import StudySnapshot
from core.ui import machine, pipeline_result
from tests.support.pages import chart_titles, open_page, snapshot_of, text_of
from tests.support.pipelines import make_pipeline_experiment
from tests.support.runs import make_run

pytestmark = pytest.mark.usefixtures("engine")
PAGE = "pipeline"


def button(at: AppTest) -> Any:
    return at.button(key="measure_pipeline")


def keep(engine: Any, experiment: Experiment, study_id: str = "20260105-study") -> str:
    engine.store.add_study("pipeline", study_id, None, experiment.to_json())
    return study_id


def plan_of(engine: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The plan that the started work measures."""
    seen: list[Any] = []
    monkeypatch.setattr("core.ui.pipeline_form.measure_arms", lambda _, plan: seen.append(plan))
    kind, _, work = engine.jobs.studies[-1]
    assert kind == "pipeline"
    work(None)
    return seen[0]


def running(_: str = "", description: str = "Measuring the input pipeline of x") -> StudySnapshot:
    at = Progress("measuring", "Preparing: Prefetch 2", 5, 14, 30.0, 90.0)
    return StudySnapshot("pipeline", description, active=True, progress=at)


def tables_text(at: AppTest) -> str:
    return "\n".join(str(table.value.to_dict("list")) for table in [*at.table, *at.dataframe])


@pytest.mark.usefixtures("engine")
def test_before_anything_was_measured_the_page_says_what_will_be() -> None:
    at = open_page(PAGE)
    assert "What will be measured" in text_of(at)
    assert "A finished example, recorded on another machine" in text_of(at)
    arms = next(table.value for table in at.table if "Pipeline" in table.value)
    assert list(arms["Way of feeding"][:3]) == [
        "Resident on the device", "Host array fed each step", "As chosen",
    ]  # fmt: skip
    assert len(arms) == 14


def test_without_the_example_nothing_is_drawn_before_a_measurement(engine: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr("core.ui.registry.load_example_pipeline", lambda: Experiment.from_json("{}"))
    at = open_page(PAGE)
    assert "What will be measured" in text_of(at)
    assert not chart_titles(at)
    assert not at.metric
    assert not button(at).disabled
    assert not engine.jobs.studies


def test_choices_become_the_plan(engine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    at = open_page(PAGE)
    at.selectbox(key="form_preset_mlp").select("Own sizes").run()
    at.number_input(key="form_mlp_width").set_value(64)
    at.get_by_key("form_mode").set_value("infer")
    at.number_input(key="form_threads_pipeline").set_value(1)
    at.number_input(key="pipeline_batch").set_value(32)
    at.selectbox(key="pipeline_prefetch").select("2")
    at.selectbox(key="pipeline_calls").select("one after another")
    at.number_input(key="pipeline_cost_random").set_value(75.0)
    at.number_input(key="pipeline_budget").set_value(40).run()
    button(at).click().run()
    plan = plan_of(engine, monkeypatch)
    base = next(arm for arm in plan.arms if arm.code == "base")
    assert plan.workload.mode == "infer"
    assert "64" in plan.workload.network.name
    assert (str(base.target), base.batch, plan.budget_s) == ("cpu,threads=1", 32, 40.0)
    assert (base.pipeline.prefetch, base.pipeline.parallel_calls, base.pipeline.preprocess_us) == (2, None, 75.0)
    assert plan.arms[0].pipeline.kind == "resident"


def test_with_a_gpu_it_is_the_proposed_target(engine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    found = machine.Machine(("cpu", "gpu:0"), {"cpu": "CPU", "gpu:0": "gpu:0 · Card"}, 8, ())
    monkeypatch.setattr(machine, "devices", lambda: found)
    button(open_page(PAGE)).click().run()
    assert {str(arm.target) for arm in plan_of(engine, monkeypatch).arms} == {"gpu:0"}


def test_without_a_gpu_the_whole_cpu_is_proposed(engine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    button(open_page(PAGE)).click().run()
    assert {str(arm.target) for arm in plan_of(engine, monkeypatch).arms} == {"cpu"}


@pytest.mark.parametrize(
    ("key", "value", "sentence"),
    [
        ("pipeline_batch", 0, "The batch size must lie between 1 and 65,536."),
        ("pipeline_cost_random", -1.0, "The preprocessing cost must lie between 0 and 1,000,000 µs a sample."),
        ("pipeline_budget", 1, "The budget must lie between 2 and 86,400 seconds."),
        ("form_threads_pipeline", 0, "greater than or equal to 1"),
    ],
)
def test_a_bad_choice_gets_one_sentence_and_no_start(key: str, value: float, sentence: str) -> None:
    at = open_page(PAGE)
    at.number_input(key=key).set_value(value).run()
    assert not at.exception
    assert len(at.error) == 1
    assert sentence in at.error[0].value
    assert button(at).disabled


def test_own_data_are_described_and_reach_the_plan(
    engine: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = tmp_path / "mine.npy"
    np.save(path, np.zeros((12, 784), np.uint8))
    at = open_page(PAGE)
    at.text_input(key="pipeline_data").set_value(f" {path} ").run()
    assert "mine.npy: 12 samples of 784" in text_of(at)
    assert "random arrays of the same shape" in text_of(at)
    button(at).click().run()
    arms = plan_of(engine, monkeypatch).arms
    assert [arm.pipeline.data for arm in arms[:3]] == [None, None, str(path)]
    assert arms[2].pipeline.preprocess_us == 0.0


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("nothing.npz", "There is nothing at"),
        ("wrong.npy", "the network takes 784"),
        ("empty.tfrecord", "is empty"),
        ("text.txt", "of no kind that can be read"),
        ("", "holds"),
    ],
)
def test_data_that_cannot_be_used_get_a_sentence(tmp_path: Path, name: str, sentence: str) -> None:
    np.save(tmp_path / "wrong.npy", np.zeros((3, 10), np.float32))
    (tmp_path / "empty.tfrecord").touch()
    (tmp_path / "text.txt").write_text("x")
    at = open_page(PAGE)
    at.text_input(key="pipeline_data").set_value(str(tmp_path / name)).run()
    assert not at.exception
    assert len(at.error) == 1
    assert sentence in at.error[0].value
    assert button(at).disabled


def test_start_shows_progress_and_cancel_reaches_the_engine(engine: Any) -> None:
    engine.jobs.on_study = running
    at = open_page(PAGE)
    button(at).click().run()
    text = text_of(at)
    assert "Measuring the input pipeline" in text
    assert "Ways of feeding seen 5 of 14" in text
    assert "Time left, at most 1 min 30 s" in text
    assert button(at).disabled
    at.button(key="cancel_pipeline").click().run()
    assert engine.jobs.cancelled == 1


def test_a_refused_start_is_a_sentence(engine: Any) -> None:
    engine.jobs.refusal = "Busy."
    at = open_page(PAGE)
    button(at).click().run()
    assert "Something else is being measured" in at.warning[0].value
    at.run()
    assert not at.warning


def test_a_running_sweep_or_study_is_said_on_both_pages(engine: Any) -> None:
    engine.jobs.current = snapshot_of(make_run(5, status="running"))
    at = open_page(PAGE)
    assert "A sweep is running on this machine" in text_of(at)
    assert button(at).disabled
    engine.jobs.current = None
    engine.jobs.study = running()
    sweep = open_page()
    assert "Measuring the input pipeline of x" in text_of(sweep)
    assert sweep.button(key="measure").disabled


def test_another_kind_of_study_is_no_progress_here(engine: Any) -> None:
    engine.jobs.study = StudySnapshot("diagnosis", "Diagnosing y", active=True)
    at = open_page(PAGE)
    assert "Ways of feeding seen" not in text_of(at)
    assert "Diagnosing y" in text_of(at)
    assert button(at).disabled


def test_a_study_that_failed_says_why(engine: Any) -> None:
    engine.jobs.study = StudySnapshot("pipeline", "x", active=False, error="TensorFlow is not installed.")
    at = open_page(PAGE)
    assert [e.value for e in at.error] == ["TensorFlow is not installed."]
    assert "What will be measured" in text_of(at)


def test_the_result_is_verdict_charts_table_and_method(engine: Any) -> None:
    experiment = make_pipeline_experiment(seed=4, label="measured")
    keep(engine, experiment)
    at = open_page(PAGE)
    text = text_of(at)
    assert at.subheader[0].value.startswith("Input-bound&#58; none beyond noise")
    assert "Prefetch stops helping at 2" in text
    assert "The device starves from about" in text
    assert "share the cores" in text
    assert chart_titles(at) == [
        "<b>Step time by way of feeding</b>",
        "<b>Step time and input-bound share by preprocessing cost</b>",
        "<b>Step time by parallel calls</b>",
    ]
    assert "Every way of feeding (measured)" in text
    arms = next(frame.value for frame in at.dataframe if "Way of feeding" in frame.value)
    assert len(arms) == len(experiment.arms)
    assert "Rounds 18" in text
    assert "Starts of the workers 3" in text
    assert "Example CPU" in text


def test_a_running_study_hides_the_older_result(engine: Any) -> None:
    keep(engine, make_pipeline_experiment())
    engine.jobs.study = running()
    at = open_page(PAGE)
    assert not chart_titles(at)
    assert "Ways of feeding seen" in text_of(at)


def test_the_newest_study_is_shown_and_older_ones_can_be_chosen(engine: Any) -> None:
    keep(engine, make_pipeline_experiment(truth=lambda _: 3.0), "study-a")
    keep(engine, make_pipeline_experiment(seed=4), "study-b")
    at = open_page(PAGE)
    assert "Prefetch stops helping at 2" in text_of(at)
    at.selectbox(key="pipeline_study-study-b").select_index(1).run()
    assert "Prefetch does not help here" in text_of(at)


def test_the_address_opens_its_study_until_a_new_one_is_started(engine: Any) -> None:
    keep(engine, make_pipeline_experiment(truth=lambda _: 3.0), "study-a")
    keep(engine, make_pipeline_experiment(seed=4), "study-b")
    at = open_page(PAGE, study="study-a")
    assert "Prefetch does not help here" in text_of(at)
    button(at).click().run()
    assert "study" not in at.query_params


def test_an_address_of_nothing_is_said(engine: Any) -> None:
    assert engine
    at = open_page(PAGE, study="study-z")
    assert "There is no study study-z here." in text_of(at)
    assert "What will be measured" in text_of(at)


def test_a_cancelled_study_says_so_and_one_without_rounds_too(engine: Any) -> None:
    keep(engine, make_pipeline_experiment(status="cancelled", processes=1), "study-a")
    text = text_of(open_page(PAGE))
    assert "This study was cancelled" in text
    assert "started once only" in text
    keep(engine, make_pipeline_experiment(status="cancelled", rounds=0, processes=1), "study-b")
    at = open_page(PAGE)
    assert "Nothing was measured in this pipeline study." in text_of(at)
    assert not chart_titles(at)


def test_an_arm_without_a_number_stands_in_the_table_with_its_reason(engine: Any) -> None:
    keep(engine, make_pipeline_experiment(failed={"cost-500": "The worker ran out of memory."}))
    assert "out of memory: The worker ran out of memory." in tables_text(open_page(PAGE))


def test_an_idle_base_has_no_chart_of_calls_and_says_why(engine: Any) -> None:
    from core.spec import Pipeline

    keep(engine, make_pipeline_experiment(base=Pipeline(kind="tfdata", prefetch=1)))
    at = open_page(PAGE)
    assert len(chart_titles(at)) == 2
    assert "Parallel calls were not varied" in text_of(at)


def test_embedded_it_is_the_verdict_and_the_charts(engine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    keep(engine, make_pipeline_experiment())
    from streamlit.runtime.context import ContextProxy

    monkeypatch.setattr(ContextProxy, "is_embedded", property(lambda _: True))
    at = open_page(PAGE)
    assert len(chart_titles(at)) == 3
    assert not at.button
    assert not at.dataframe


def test_the_file_holds_what_is_said_and_what_was_measured() -> None:
    from core.analysis.pipeline import pipeline_answer

    experiment = make_pipeline_experiment()
    data = json.loads(pipeline_result._file(experiment, pipeline_answer(experiment)))
    assert data["verdict"] == pipeline_answer(experiment).sentence
    assert data["label"] == "recorded"
    assert data["families"]["calls"] == ["calls-1", "calls-2", "calls-4", "base"]
    assert Experiment.model_validate(data["record"]) == experiment

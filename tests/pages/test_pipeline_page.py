"""The Pipeline page: proposals, refusals, starts, and its sentences on a study."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from simulated.commands import holds
from simulated.pages import chart_titles, open_page, says, text_of
from simulated.pipelines import make_pipeline_experiment
from tests.support.study_pages import keep, start

pytestmark = pytest.mark.usefixtures("engine")
PAGE = "pipeline"
FOLDS = ("Step time and input-bound share by preprocessing cost", "Step time by parallel calls", "Every way of feeding",
         "How it was measured")  # fmt: skip


def tables_text(at: AppTest) -> str:
    return "\n".join(str(table.value.to_dict("list")) for table in [*at.table, *at.dataframe])


@pytest.mark.usefixtures("engine")
def test_before_anything_was_measured_the_page_says_what_will_be() -> None:
    at = open_page(PAGE)
    says(at, "What will be measured", "A finished example stands below.")
    arms = next(table.value for table in at.table if "Pipeline" in table.value)
    assert list(arms["Way of feeding"][:3]) == [
        "Resident on the device", "Host array fed each step", "As chosen",
    ]  # fmt: skip
    assert len(arms) == 14


def test_choices_become_the_plan(engine: Any) -> None:
    at = open_page(PAGE)
    at.number_input(key="form_mlp_width").set_value(64)
    at.get_by_key("form_mode").set_value("infer")
    at.number_input(key="form_threads_pipeline").set_value(1)
    at.number_input(key="pipeline_batch").set_value(32)
    at.selectbox(key="pipeline_prefetch").select("2")
    at.selectbox(key="pipeline_parallel_calls").select("one after another")
    at.number_input(key="pipeline_cost_random").set_value(75.0)
    at.number_input(key="pipeline_budget").set_value(40).run()
    plan = start(engine, at, PAGE)
    base = next(arm for arm in plan.arms if arm.code == "base")
    assert plan.workload.mode == "infer"
    assert "64" in plan.workload.network.name
    assert (str(base.target), base.batch, plan.budget_s) == ("cpu,threads=1", 32, 40.0)
    assert (base.pipeline.prefetch, base.pipeline.parallel_calls, base.pipeline.preprocess_us) == (2, None, 75.0)
    assert plan.arms[0].pipeline.kind == "resident"


def test_without_a_gpu_the_whole_cpu_is_proposed(engine: Any) -> None:
    assert {str(arm.target) for arm in start(engine, open_page(PAGE), PAGE).arms} == {"cpu"}


def test_own_data_are_described_and_reach_the_plan(engine: Any, tmp_path: Path) -> None:
    path = tmp_path / "mine.npy"
    np.save(path, np.zeros((12, 784), np.uint8))
    at = open_page(PAGE)
    at.text_input(key="pipeline_data").set_value(f" {path} ").run()
    says(at, "mine.npy: 12 samples of 784", "random arrays of the same shape")
    arms = start(engine, at, PAGE).arms
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
    assert len(at.error) == 1
    assert sentence in at.error[0].value
    assert at.button(key="measure_pipeline").disabled


def test_the_result_is_verdict_charts_table_and_method(engine: Any) -> None:
    experiment = make_pipeline_experiment(seed=4, label="measured")
    keep(engine, PAGE, experiment)
    at = open_page(PAGE, folds=FOLDS)
    text = text_of(at)
    assert at.header[0].value.startswith("Not input-bound (95")
    holds(
        text, "Not input-bound (95 %", "Prefetch stops helping at 2", "The device starves from about", "share the cores"
    )
    assert chart_titles(at) == [
        "<b>Step time by way of feeding</b>",
        "<b>Step time and input-bound share by preprocessing cost</b>",
        "<b>Step time by parallel calls</b>",
    ]
    arms = next(frame.value for frame in at.dataframe if "Way of feeding" in frame.value)
    assert len(arms) == len(experiment.arms)
    holds(text, "Rounds 18", "Starts of the workers 3", "Example CPU")


def test_an_arm_without_a_number_stands_in_the_table_with_its_reason(engine: Any) -> None:
    keep(engine, PAGE, make_pipeline_experiment(failed={"cost-500": "The worker ran out of memory."}))
    assert "out of memory: The worker ran out of memory." in tables_text(open_page(PAGE, folds=FOLDS))


def test_an_idle_base_has_no_chart_of_calls_and_says_why(engine: Any) -> None:
    from core.workload.spec import Pipeline

    keep(engine, PAGE, make_pipeline_experiment(base=Pipeline(kind="tfdata", prefetch=1)))
    at = open_page(PAGE, folds=FOLDS)
    assert len(chart_titles(at)) == 2
    assert "Parallel calls were not varied" in text_of(at)

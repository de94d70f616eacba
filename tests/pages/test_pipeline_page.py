"""The Pipeline page: proposals, refusals, starts, and its sentences on a study."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from core.networks.families import network_from_name
from core.workload.spec import Target, Workload
from simulated.commands import holds
from simulated.pages import chart_titles, open_page, says, text_of, titles
from simulated.pages import keep as keep_run
from simulated.pipelines import make_pipeline_experiment
from simulated.runs import make_run, planned
from tests.support.study_pages import keep, start

pytestmark = pytest.mark.usefixtures("engine")
CPU, CPU_ALONE = Target(), Target(threads=1)
PAGE, FEEDING = "pipeline", "Step time by way of feeding"
FOLDS = ("Step time and input-bound share by preprocessing cost", "Step time by parallel calls", "Every way of feeding",
         "How it was measured")  # fmt: skip


def tables_text(at: AppTest) -> str:
    return "\n".join(str(table.value.to_dict("list")) for table in [*at.table, *at.dataframe])


def test_before_anything_was_measured_the_page_says_what_will_be(engine: Any) -> None:
    at = open_page(PAGE)
    says(at, "will be measured", "finished example")
    arms = next(table.value for table in at.table if "Pipeline" in table.value)
    assert [way.split()[0] for way in arms["Way of feeding"][:3]] == ["Resident", "Host", "As"]
    assert len(arms) == 14
    assert {str(arm.target) for arm in start(engine, at, PAGE).arms} == {"cpu"}


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


def test_the_form_takes_along_the_run_that_was_measured_last(engine: Any) -> None:
    workload = Workload(network=network_from_name("100-32-10"), mode="infer")
    keep_run(engine.store, planned(make_run(3, label="measured"), workload=workload, targets=(CPU, CPU_ALONE)))
    at = open_page(PAGE)
    assert at.number_input(key="pipeline_batch").value == make_run(3).plan.batches[len(make_run(3).plan.batches) // 2]
    at.number_input(key="pipeline_batch").set_value(7).run()  # what is changed afterwards stays
    plan = start(engine, at, PAGE)
    base = next(arm for arm in plan.arms if arm.code == "base")
    assert (plan.workload, base.target.threads, base.batch) == (workload, 1, 7)


def test_own_data_are_described_and_reach_the_plan(engine: Any, tmp_path: Path) -> None:
    path = tmp_path / "mine.npy"
    np.save(path, np.zeros((12, 784), np.uint8))
    at = open_page(PAGE)
    at.text_input(key="pipeline_data").set_value(f" {path} ").run()
    says(at, "mine.npy: 12 samples", "random arrays")
    arms = start(engine, at, PAGE).arms
    assert [arm.pipeline.data for arm in arms[:3]] == [None, None, str(path)]
    assert arms[2].pipeline.preprocess_us == 0.0


def test_data_that_cannot_be_used_are_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "wrong.npy", np.zeros((3, 10), np.float32))
    (tmp_path / "empty.tfrecord").touch()
    (tmp_path / "text.txt").write_text("x")
    at = open_page(PAGE)
    for name, words in (("nothing.npz", "nothing at"), ("wrong.npy", "takes 784"), ("empty.tfrecord", "is empty"),
                        ("text.txt", "no kind"), ("", "holds")):  # fmt: skip
        at.text_input(key="pipeline_data").set_value(str(tmp_path / name)).run()
        (error,) = at.error
        assert words in error.value
        assert at.button(key="measure_pipeline").disabled


def test_the_result_is_verdict_charts_table_and_method(engine: Any) -> None:
    experiment = make_pipeline_experiment(seed=4, label="measured")
    keep(engine, PAGE, experiment)
    at = open_page(PAGE, folds=FOLDS)
    text = text_of(at)
    assert at.header[0].value.startswith("Not input-bound (95")
    holds(text, "stops helping at 2", "device starves from", "share the cores")
    assert titles(at) == [FEEDING, *FOLDS[:2]]
    arms = next(frame.value for frame in at.dataframe if "Way of feeding" in frame.value)
    assert len(arms) == len(experiment.arms)
    holds(text, "Rounds 18", "workers 3", "Example CPU")


def test_an_arm_without_a_number_stands_in_the_table_with_its_reason(engine: Any) -> None:
    keep(engine, PAGE, make_pipeline_experiment(failed={"cost-500": "The worker ran out of memory."}))
    assert "out of memory: " in tables_text(open_page(PAGE, folds=FOLDS))


def test_an_idle_base_has_no_chart_of_calls_and_says_why(engine: Any) -> None:
    from core.workload.spec import Pipeline

    keep(engine, PAGE, make_pipeline_experiment(base=Pipeline(kind="tfdata", prefetch=1)))
    at = open_page(PAGE, folds=FOLDS)
    assert len(chart_titles(at)) == 2
    assert "were not varied" in text_of(at)

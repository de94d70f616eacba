"""“Measure N more” beside a verdict: its promise, its start, and where it is not offered."""

from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from core.rounds.answer.analyse import analyse
from core.rounds.run import Run
from simulated.diagnoses import make_diagnosis
from simulated.pages import chart_titles, keep, open_page, says, text_of
from simulated.pipelines import make_pipeline_experiment
from simulated.runs import make_environment, make_run
from tests.support import study_pages
from tests.support.diagnoses import kept
from tests.support.study_pages import started_plan

pytestmark = pytest.mark.usefixtures("this_machine")
RUN = make_run(4)
ONCE = RUN.model_copy(update={"rounds": tuple({item.batch: item for item in RUN.rounds}.values())})


def offered(at: AppTest) -> list[str]:
    return [button.label for button in at.button if button.key == "measure_more"]


def test_the_run_goes_on_with_what_it_has_and_more_time(engine: Any) -> None:
    run_id = keep(engine.store, RUN)
    at = open_page("crossover", run=run_id)
    (label,) = offered(at)
    assert label.startswith("Measure ")
    assert label.endswith(" more")
    at.button(key="measure_more").click().run()
    longer: Run = started_plan(engine, "sweep")
    assert (longer.id, longer.rounds) == (run_id, RUN.rounds)
    assert longer.plan.budget_s > RUN.elapsed_s


def test_the_batch_that_would_decide_is_measured_by_a_button(engine: Any) -> None:
    run = make_run(6, floors_ms=(0.3, 1.2), slopes_ms=(0.01, 0.02))
    at = open_page("crossover", run=keep(engine.store, run))
    at.button(key="measure_more").click().run()
    anew: Run = started_plan(engine, "sweep")
    assert anew.rounds == ()
    assert set(anew.plan.batches) - set(run.plan.batches) == {analyse(run).verdict.next_batch}


def test_one_value_a_batch_claims_nothing_and_says_what_an_interval_takes(engine: Any) -> None:
    at = open_page("crossover", run=keep(engine.store, ONCE))
    says(at, "No verdict: ", "Too few starts", "would give one.")
    assert len(offered(at)) == 1
    assert not at.metric
    assert "faster" not in at.header[0].value


def test_an_open_verdict_has_no_number_beside_it(engine: Any) -> None:
    close = make_run(3, floors_ms=(0.3, 0.3), slopes_ms=(0.02, 0.02))
    at = open_page("crossover", run=keep(engine.store, close))
    assert not [metric for metric in at.metric if "faster" in str(metric.value)]


@pytest.mark.parametrize(
    "change",
    [
        {"label": "recorded"},
        {"environment": make_environment().model_copy(update={"hostname_hash": "0"})},
    ],
    ids=["recorded", "another machine"],
)
def test_a_run_of_elsewhere_cannot_go_on_here(engine: Any, change: dict[str, Any]) -> None:
    run = RUN.model_copy(update=change)
    run_id = engine.store.add(run) if run.label == "recorded" else keep(engine.store, run)
    assert not offered(open_page("crossover", run=run_id))


def test_nothing_is_offered_in_a_frame_of_another_page_and_not_pressed_while_another_is_measured(engine: Any) -> None:
    run_id = keep(engine.store, RUN)
    assert not offered(open_page("crossover", embedded=True, run=run_id))
    engine.jobs.elsewhere = "Another sweep is being measured."
    assert open_page("crossover", run=run_id).button(key="measure_more").disabled


def test_a_pipeline_study_of_too_few_rounds_claims_nothing_and_is_measured_again_for_longer(engine: Any) -> None:
    made = make_pipeline_experiment(processes=1, rounds=2, label="measured")
    study_pages.keep(engine, "pipeline", made)
    at = open_page("pipeline")
    says(at, "is not clear", "will probably make")
    assert "%" not in at.header[0].value
    at.button(key="measure_more").click().run()
    plan = started_plan(engine, "pipeline")
    assert plan.arms == made.arms
    assert plan.budget_s >= 60


def test_a_diagnosis_of_one_round_draws_nothing_and_is_measured_again_for_longer(engine: Any) -> None:
    few = make_diagnosis(RUN, {"steps-32": 20.0}, processes=1, rounds=1, label="measured")
    at = open_page("diagnosis", run=kept(engine, RUN, few))
    assert not chart_titles(at)
    assert "20." not in text_of(at)
    at.button(key="measure_more").click().run()
    plan = started_plan(engine, "diagnosis")
    assert (plan.run.id, plan.target, plan.batch) == (RUN.id, few.target, few.batch)

"""The Serving page: the address is its state, a training run gets a command, wrong fields get a sentence."""

import json
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from core.studies.serving.service import Service
from core.ui.serving import PAGE
from core.ui.shown_run import LAST
from simulated.pages import keep, open_page, text_of, titles
from simulated.runs import make_run
from simulated.served import make_inference_run

pytestmark = [pytest.mark.pages, pytest.mark.usefixtures("this_machine")]
LATENCY, COST = "Latency by request rate (p99)", "Cost of a million requests by rate"
SERVED = "Measured latency by request rate (p99)"
CHOSEN = {"limit": "5", "percentile": "90", "max_batch": "16", "max_delay": "1", "rate": "500", "prices": "1~1.5"}


def kept(engine: Any) -> str:
    return keep(engine.store, make_inference_run(1, floors_ms=(0.8, 0.3)))


def figures(at: AppTest) -> list[Any]:
    """Return what the charts draw: their traces."""
    return [json.loads(chart.proto.spec)["data"] for chart in at.get("plotly_chart")]


def test_without_a_run_of_inference_the_example_stands(engine: Any) -> None:
    keep(engine.store, make_run(2))
    at = open_page("serving")
    assert at.query_params["run"].startswith("example-inference")
    assert LAST not in at.session_state  # other pages keep their run
    assert titles(at) == [LATENCY, SERVED]  # with the requests that the example was served
    assert "keeps it at" in text_of(at)
    assert not at.error


def test_the_button_serves_the_chosen_service_with_padded_batches(engine: Any) -> None:
    run_id = kept(engine)
    at = open_page("serving", run=run_id, limit="7", max_batch="16")
    assert titles(at) == [LATENCY]
    at.button(key="measure_serving").click().run()
    [(task, plan)] = engine.jobs.started
    assert (task.name, plan.run_id, plan.budget_s) == ("serving", run_id, 120.0)
    assert plan.service == Service(limit_ms=7.0, max_batch=16, pads=True)
    assert min(each.value for each in plan.predicted) > 0


def test_a_limit_that_no_request_keeps_is_not_served_and_says_why(engine: Any) -> None:
    at = open_page("serving", run=kept(engine), limit="0.01")
    at.button(key="measure_serving").click().run()
    assert engine.jobs.started == []
    assert "nothing to serve" in at.warning[0].value


def test_the_newest_run_of_inference_is_shown(engine: Any) -> None:
    run_id = kept(engine)
    assert open_page("serving").query_params["run"] == run_id


def test_the_address_holds_every_choice(engine: Any) -> None:
    run_id = kept(engine)
    at = open_page("serving", run=run_id, **CHOSEN)
    assert {name: at.query_params[name] for name in CHOSEN} == CHOSEN
    assert at.number_input(key="serving_limit").value == 5.0
    assert titles(at) == ["Latency by request rate (p90)", COST]
    again = open_page("serving", **dict(at.query_params.items()))
    assert figures(again) == figures(at)
    assert figures(open_page("serving", run=run_id)) != figures(at)


def test_a_choice_goes_into_the_address_and_the_picture(engine: Any) -> None:
    at = open_page("serving", run=kept(engine))
    before = figures(at)
    at.number_input(key="serving_limit").set_value(7.0).run()
    assert at.query_params["limit"] == "7"
    assert figures(at) != before
    at.number_input(key="serving_limit").set_value(Service().limit_ms).run()
    assert "limit" not in at.query_params
    assert figures(at) == before


@pytest.mark.parametrize("wrong", ["0", "-1", "x", "nan", "1e99"])
def test_a_wrong_address_is_left_out(engine: Any, wrong: str) -> None:
    at = open_page("serving", run=kept(engine), limit=wrong, max_batch=wrong, percentile=wrong, prices=wrong)
    assert at.number_input(key="serving_limit").value == Service().limit_ms
    assert titles(at) == [LATENCY]


def test_a_wrong_field_gets_one_sentence_and_no_picture(engine: Any) -> None:
    at = open_page("serving", run=kept(engine))
    at.number_input(key="serving_limit").set_value(0.0).run()
    assert len(at.error) == 1
    assert "above 0" in at.error[0].value
    assert titles(at) == []


def test_a_run_of_training_gets_the_command(engine: Any) -> None:
    at = open_page("serving", run=keep(engine.store, make_run(1)))
    assert "--mode infer" in text_of(at)
    assert titles(at) == []


def test_a_verdict_of_inference_leads_here_and_one_of_training_does_not(engine: Any) -> None:
    for run_id, leads in ((kept(engine), True), (keep(engine.store, make_run(2)), False)):
        labels = [link.label for link in open_page("crossover", run=run_id).page_link]
        assert (PAGE.link in labels) == leads


def test_a_modelled_card_stands_beside_the_targets(engine: Any) -> None:
    at = open_page("serving", run=kept(engine), gpu="T4", prices="1~1.5~3")
    assert "T4 (modelled)" in text_of(at)
    assert at.number_input(key="serving_price-T4").value == 3.0

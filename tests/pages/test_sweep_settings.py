"""The Sweep page's settings in its address: a link or a reload restores them, a hostile one gets a sentence."""

from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from core.ui import machine
from core.ui.sweep import settings
from simulated.commands import holds
from simulated.pages import open_page, text_of, with_gpu
from tests.support.study_pages import start

pytestmark = pytest.mark.usefixtures("engine")


@pytest.fixture(autouse=True)
def all_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "missing_frameworks", dict)


def settings_of(at: AppTest) -> dict[str, Any]:
    found = {name: at.query_params[name] for name in at.query_params}
    return {name: [value] if isinstance(value, str) else list(value) for name, value in found.items()}


def more(at: AppTest) -> str:
    """Return the label of the folded part."""
    return next(part.label for part in at.expander if part.label.startswith("More&#58;")).replace("&#58;", ":")


def change(at: AppTest) -> None:
    """Change some of every kind of setting."""
    at.menu_button(key="form_networks_mlp").set_value("128-256-128-1").run()
    at.menu_button(key="form_presets").set_value("machine").run()
    at.number_input(key="form_high").set_value(256)
    at.number_input(key="form_budget").set_value(30)
    at.selectbox(key="form_prefetch").set_value("2").run()
    at.number_input(key="form_parallel_calls").set_value(3)
    at.selectbox(key="form_optimizer").set_value("sgd")
    at.text_input(key="form_name").set_value("Mine").run()


def test_nothing_changed_leaves_the_address_clean() -> None:
    at = open_page()
    assert settings_of(at) == {}
    assert more(at) == "More: as proposed"


def test_a_reload_brings_every_setting_back(engine: Any) -> None:
    at = open_page()
    change(at)
    before = start(engine, at, "sweep")
    query = settings_of(at)
    assert query["target"] == ["cpu,threads=1", "cpu,threads=2", "cpu,threads=2,execution=xla"]
    again = open_page(**query)
    assert not again.error
    assert settings_of(again) == query
    after = start(engine, again, "sweep")
    assert (after.plan, after.name) == (before.plan, "Mine")
    holds(more(again), "SGD", "3 parallel calls", "30 s budget", "a name")


def test_a_wrong_choice_leaves_the_last_possible_plan_in_the_address() -> None:
    at = open_page()
    at.number_input(key="form_budget").set_value(30).run()
    query = settings_of(at)
    at.number_input(key="form_budget").set_value(1).run()
    assert at.error
    assert settings_of(at) == query


@pytest.mark.parametrize(
    "query",
    [
        {"target": "cpu,python=/bin/sh"},
        {"target": "gpu:0"},
        {"target": "cpu,framework=pytorch"},
        {"target": "cpu,steps_per_execution=7"},
        {"input": "tfdata,prefetch=3"},
        {"batches": "0:x", "budget": "30"},
        {"name": "![x](https://a.example/x.png)" * 60},
    ],
    ids=str,
)
def test_a_hostile_address_gets_one_sentence_and_the_proposal(engine: Any, query: dict[str, str]) -> None:
    at = open_page(**query)
    (said,) = [info.value for info in at.info if "address" in info.value]
    assert "left out&#58;" in said
    assert settings_of(at) == {}
    assert not at.error
    assert start(engine, at, "sweep").plan == settings.usual_plan(machine.devices())
    assert "left out" not in text_of(at)


def test_a_link_to_a_gpu_is_followed_where_there_is_one(engine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    with_gpu(monkeypatch)
    at = open_page(target="gpu:0,precision=mixed_float16")
    assert [str(target) for target in start(engine, at, "sweep").plan.targets] == ["gpu:0,precision=mixed_float16"]


def test_a_list_of_batches_and_inference_come_back(engine: Any) -> None:
    at = open_page(batches="1,7,30", mode="infer", target="cpu,framework=litert,precision=int8")
    plan = start(engine, at, "sweep").plan
    assert (plan.batches, plan.workload.mode) == ((1, 7, 30), "infer")
    holds(more(at), "inference, ", "list of batch")


def test_a_way_of_calling_is_chosen_for_inference_and_comes_back(engine: Any) -> None:
    at = open_page(target="cpu")
    assert not [field.key for field in at.selectbox if field.key.startswith("form_call_")]
    at.segmented_control(key="form_mode").set_value("infer").run()
    (field,) = [field for field in at.selectbox if field.key.startswith("form_call_")]
    field.set_value("predict").run()
    assert "host pipeline" in at.error[0].value
    at.selectbox(key="form_prefetch").set_value("host").run()
    assert settings_of(at)["target"] == ["cpu,call=predict"]
    again = open_page(**settings_of(at))
    assert start(engine, again, "sweep").plan.names == ("CPU, called by predict()",)


def test_an_address_that_comes_late_does_not_put_the_fields_back(engine: Any) -> None:
    """Start a second change before the browser had the address of the first one."""
    at = open_page()
    at.number_input(key="form_budget").set_value(30).run()
    late = settings_of(at)
    at.number_input(key="form_budget").set_value(40).run()
    for name, values in late.items():
        at.query_params[name] = values
    at.number_input(key="form_high").set_value(64).run()
    plan = start(engine, at, "sweep").plan
    assert (plan.budget_s, plan.batches[-1]) == (40.0, 64)
    assert settings_of(at)["budget"] == ["40"]


def test_other_parts_of_the_address_stay() -> None:
    at = open_page(gpu="T4")
    at.number_input(key="form_budget").set_value(30).run()
    assert settings_of(at) == {"gpu": ["T4"], "budget": ["30"], "target": ["cpu,threads=1", "cpu,threads=2"]}


def test_settings_survive_a_visit_elsewhere_and_stand_in_the_address_again(engine: Any) -> None:
    at = open_page()
    change(at)
    query = settings_of(at)
    before = start(engine, at, "sweep").plan
    at.switch_page("pages/method.py").run()
    at.switch_page("pages/sweep.py").run()
    at.run()  # AppTest gives a widget its kept value one run later than a browser does
    assert start(engine, at, "sweep").plan == before
    assert settings_of(at) == query

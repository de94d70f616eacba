"""“Against a modelled GPU” on Sweep and Crossover: chosen like a target, and no worker runs for it."""

import json
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from core.hardware.curve import CardCurve
from core.rounds.answer.analyse import analyse
from core.rounds.run import Run
from core.ui import downloads
from core.workload.spec import Target
from simulated.commands import holds
from simulated.hosts import make_curve, make_host_study
from simulated.pages import chart_titles, keep, open_page, says, sweeping, text_of, with_gpu
from simulated.runs import make_run, planned
from tests.support.batch_page import kept
from tests.support.downloads import content
from tests.support.study_pages import start

pytestmark = [pytest.mark.usefixtures("engine"), pytest.mark.pages]

NAMES = make_run(4).names
CARD = "V100-16GB-PCIe"
CHOICE = "modelled_gpu"
WITH_CARD = [
    "<b>Speed-up and crossover, with a modelled GPU</b>",
    "<b>Step time by batch size, with a modelled GPU</b>",
]


def names_in_charts(at: AppTest) -> list[str]:
    specs = [json.loads(chart.proto.spec) for chart in at.get("plotly_chart")]
    return [trace["name"] for spec in specs for trace in spec["data"] if trace.get("showlegend") is not False]


def choose(at: AppTest, name: str = CARD) -> AppTest:
    at.selectbox(key=CHOICE).set_value(name).run()
    return at


def withhold(monkeypatch: pytest.MonkeyPatch) -> None:
    """Withhold the numbers of all cards."""

    def nothing(spec: Any, _how: Any, batches: Any, *_: Any) -> CardCurve:
        return make_curve(lambda _: 1.0, batches, withheld=batches, gpu=spec.name)

    monkeypatch.setattr("core.ui.hardware.modelled.card_curve", nothing)
    monkeypatch.setattr("core.hardware.compare.card_curve", nothing)


def test_nothing_is_modelled_until_a_card_is_chosen_and_every_option_says_that_no_worker_runs() -> None:
    at = open_page()
    assert at.selectbox(key=CHOICE).value == ""
    assert "gpu" not in at.query_params
    assert not [name for name in names_in_charts(at) if "modelled" in name]
    first, *cards = at.selectbox(key=CHOICE).options
    assert first == "None"
    assert len(cards) > 25
    assert all("(modelled, runs no" in option for option in cards)


def test_a_card_on_sweep_stands_beside_the_measured_verdict_and_starts_nothing(engine: Any) -> None:
    measured = open_page().header[0].value
    at = choose(open_page())
    assert at.header[0].value == measured
    assert at.header[1].value.replace("&#58;", ":").startswith(f"Modelled: {CARD}")
    assert "No worker ran" in at.header[1].value
    assert chart_titles(at) == WITH_CARD[:1]
    assert [n for n in names_in_charts(at) if CARD in n] == [f"{CARD} over {NAMES[0]} (modelled)"]
    assert [part.label for part in at.expander if f"modelled {CARD}" in part.label]
    says(at, f"{CARD} is modelled", f"measures {' and '.join(NAMES)}")
    assert not engine.jobs.started


def test_every_number_of_its_own_card_is_labelled() -> None:
    before = {(m.label, m.value) for m in open_page("crossover").metric}
    added = [m.label for m in choose(open_page("crossover")).metric if (m.label, m.value) not in before]
    assert added
    assert all("(modelled)" in label for label in added)


def test_the_button_measures_the_two_real_targets_alone(engine: Any) -> None:
    plan = start(engine, choose(open_page()), "sweep").plan
    assert plan.targets == (Target(threads=1), Target(threads=2))


def test_the_card_is_drawn_during_the_sweep(engine: Any) -> None:
    engine.jobs.show(sweeping(make_run(5, processes=4, status="running")))
    at = choose(open_page())
    says(at, "Estimate so far", f"Modelled: {CARD}")
    assert chart_titles(at) == WITH_CARD


def test_the_choice_goes_along_to_crossover_and_stands_in_every_address(engine: Any) -> None:
    run_id = keep(engine.store, make_run(4))
    at = choose(open_page())
    assert at.query_params["gpu"] == CARD
    at.switch_page("pages/crossover.py").run()
    at.run()  # AppTest gives a widget its kept value one run later than a browser does
    assert at.selectbox(key=CHOICE).value == CARD
    assert (at.query_params["gpu"], at.query_params["run"]) == (CARD, run_id)
    assert chart_titles(at) == WITH_CARD[:1]
    at.session_state["folded-Step time by batch size"] = True
    assert chart_titles(at.run()) == WITH_CARD
    choose(at, "")
    assert "gpu" not in at.query_params
    assert "modelled" not in " ".join(chart_titles(at))


@pytest.mark.parametrize("page", ["sweep", "crossover"])
def test_an_address_opens_with_its_card_however_it_is_spelt(page: str) -> None:
    at = open_page(page, gpu="v100 16gb pcie")
    assert at.selectbox(key=CHOICE).value == CARD
    assert at.query_params["gpu"] == CARD
    assert f"Modelled: {CARD}" in text_of(at)


def test_an_address_changed_by_hand_counts_in_a_session_with_another_card() -> None:
    at = choose(open_page("crossover"))
    at.query_params["gpu"] = "T4"
    at.run()
    assert at.selectbox(key=CHOICE).value == "T4"
    choose(at)  # and the field again afterwards
    assert at.query_params["gpu"] == CARD


def test_an_unknown_card_in_the_address_is_answered_with_the_nearest_names() -> None:
    at = open_page("crossover", gpu="A100-81GB-SXM<b>")
    said = [info.value.replace("&#58;", ":").replace("\\", "") for info in at.info]
    assert any("you mean A100" in sentence for sentence in said)
    assert at.selectbox(key=CHOICE).value == ""


@pytest.mark.parametrize("page", ["sweep", "crossover"])
def test_a_withheld_card_says_why_and_draws_nothing(page: str, monkeypatch: pytest.MonkeyPatch) -> None:
    withhold(monkeypatch)
    at = choose(open_page(page))
    text = text_of(at)
    assert f"withheld for {CARD}." in text
    assert not [name for name in names_in_charts(at) if CARD in name]
    assert "modelled GPU" not in " ".join(chart_titles(at))
    if page == "sweep":
        assert f"{CARD} gets no" in text


def test_two_gpu_targets_leave_the_modelled_one_out(monkeypatch: pytest.MonkeyPatch) -> None:
    with_gpu(monkeypatch)
    at = choose(open_page())
    for row in (2, 3):
        at.button(key=f"form_remove_{row}").click().run()
    at.selectbox(key="form_device_0").set_value("gpu:0").run()
    at.selectbox(key="form_execution_1").select("xla").run()
    assert "come to the" in text_of(at)
    at.selectbox(key="form_execution_1").select("graph").run()
    assert "modelled GPU out" in text_of(at)


def test_with_a_real_gpu_the_choice_is_there_but_folded(monkeypatch: pytest.MonkeyPatch) -> None:
    with_gpu(monkeypatch)
    (more,) = (e for e in open_page().expander if e.label.startswith("More"))
    assert CHOICE in [box.key for box in more.selectbox]
    assert not more.proto.expanded
    at = open_page("crossover")
    (place,) = (e for e in at.expander if e.label == "Against a modelled GPU")
    assert not place.proto.expanded
    assert place.selectbox[0].key == CHOICE
    (place,) = (e for e in choose(at).expander if e.label == "Against a modelled GPU")
    assert place.proto.expanded


def test_a_run_without_cpu_or_plan_says_why_a_linked_card_is_not_shown(engine: Any) -> None:
    gpus = planned(make_run(4), targets=(Target(device="gpu:0"), Target(device="gpu:1")))
    at = open_page("crossover", run=keep(engine.store, gpus), gpu=CARD)
    assert "No CPU target" in text_of(at)
    assert CHOICE not in [box.key for box in at.selectbox]
    points = make_run(5).model_copy(update={"plan": None})
    at = open_page("crossover", run=keep(engine.store, points), gpu=CARD)
    assert "Only points" in text_of(at)


def test_the_embedded_view_of_a_link_shows_the_card_without_the_choice(engine: Any) -> None:
    run_id = keep(engine.store, make_run(4))
    at = open_page("crossover", embedded=True, run=run_id, gpu=CARD)
    assert f"Modelled: {CARD}" in text_of(at)
    assert chart_titles(at) == WITH_CARD[:1]
    assert not at.selectbox


def test_links_on_the_page_hold_the_card(engine: Any) -> None:
    run_id = keep(engine.store, make_run(4))
    at = choose(open_page("crossover", context={"url": "http://localhost:8501/crossover"}))
    base = f"http://localhost:8501/crossover?run={run_id}&gpu={CARD}"
    assert [code.value for code in at.code] == [base, f"{base}&embed=true"]


def test_exports_of_a_run_stay_measured(engine: Any) -> None:
    run: Run = engine.store.load(keep(engine.store, make_run(4)))
    choose(open_page("crossover", run=run.id))
    for suffix in ("json", "rounds.csv", "cells.csv", "html"):
        assert CARD.encode() not in content(run, suffix)
    assert analyse(run).verdict.sentence.encode() in content(run, "html")


def test_saved_pictures_are_titled_by_the_verdict_and_hold_the_card(
    engine: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    run: Run = engine.store.load(keep(engine.store, make_run(4), status="cancelled"))
    shared: list[downloads.File] = []
    monkeypatch.setattr(downloads, "draw", lambda _, files: shared.extend(files))
    words = analyse(run).verdict.sentence[:30]
    at = open_page("crossover", run=run.id)
    for holds_card in (False, True):
        if holds_card:
            shared.clear()
            choose(at)
        drawn = next(file for file in shared if file.ending == "svg").make().decode()
        assert f"Cancelled. {words}" in drawn
        assert (f"{CARD} over 1 thread (modelled)" in drawn) is holds_card


def test_the_card_says_where_the_hosts_overhead_is_from(engine: Any) -> None:
    assert "overhead is recorded." in text_of(choose(open_page("crossover")))  # of the example: its own
    run_id = kept(engine)
    text = text_of(choose(open_page("crossover", run=run_id)))
    assert "overhead is assumed, " in text
    engine.store.add_study("host", "20260105-host01", make_host_study())  # of a machine unknown here
    text = text_of(choose(open_page("crossover", run=run_id)))
    holds(text, "overhead is recorded.", "on another machine")


def test_a_damaged_file_of_own_cards_is_said_and_the_catalogue_remains(data_dir: Any) -> None:
    data_dir.mkdir(parents=True, exist_ok=True)
    (data_dir / "gpus.json").write_text("{", encoding="utf-8")
    at = open_page("crossover")
    assert any("Your cards in" in warning.value.replace("&#58;", ":") for warning in at.warning)
    assert f"Modelled: {CARD}" in text_of(choose(at))

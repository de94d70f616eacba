"""The Hardware page: what it says of a run, what it refuses, what it starts, and that nothing leaves it unlabelled."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from streamlit.runtime.context import ContextProxy
from streamlit.testing.v1 import AppTest

from core.analysis.analyse import analyse
from core.hardware import interval
from core.hardware.catalogue import catalogue
from core.hardware.own_cards import FILE_NAME, OwnCard, read_own, save_own
from core.measure.progress import Progress
from core.measure.studies import StudySnapshot, StudyTools
from core.results import Gpu, Run
from core.spec import Target
from core.store.database import data_dir
from core.ui import hardware, hardware_choices, hardware_form, hardware_result, machine
from tests.support.hosts import make_host_study
from tests.support.pages import chart_titles, keep, open_page, snapshot_of, text_of
from tests.support.runs import make_environment, make_run
from tests.support.simulation import VirtualClock

RUN = make_run(4, label="measured")
FIRST, SECOND = RUN.target_names
STEP, OVERTAKES = "Step time: measured CPU, modelled GPUs", "Where each card overtakes (modelled)"
AT = Progress("measuring", "Measuring steps of tiny networks in turn", 3, 14, 5.0, 10.0)
LABELS = {"modelled", "recorded", "measured", "assumed"}
STUDY = make_host_study(noise=0.02).model_copy(update={"environment": make_environment()})


@pytest.fixture(autouse=True)
def _this_machine(engine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    assert engine
    monkeypatch.setattr(machine, "now", make_environment)


def kept(engine: Any, run: Run = RUN, *, host: Any = None) -> str:
    run_id = keep(engine.store, run)
    if host is not None:
        engine.store.add_study("host", "20260107-host", None, host.to_json())
    return run_id


def turn(at: AppTest, tab: str) -> AppTest:
    at.session_state["hardware_tab"] = tab
    at.run()
    assert not at.exception, at.exception
    return at


def titles(at: AppTest) -> list[str]:
    return [title.removeprefix("<b>").removesuffix("</b>") for title in chart_titles(at)]


def traces(at: AppTest) -> list[str]:
    return [trace["name"] for chart in at.get("plotly_chart") for trace in json.loads(chart.proto.spec)["data"]]


def gpu_run() -> Run:
    """CPU against a T4, both measured."""
    assert RUN.plan is not None
    plan = RUN.plan.model_copy(update={"targets": (Target(threads=1), Target(device="gpu:0"))})
    machine_of = make_environment().model_copy(update={"gpus": (Gpu(name="Tesla T4"),)})
    names = plan.target_names
    return RUN.model_copy(
        update={"id": "20260105-t4", "plan": plan, "target_names": names, "environment": machine_of}
    )  # fmt: skip


def running() -> StudySnapshot:
    return StudySnapshot("host", "Measuring the host overhead of this machine", active=True, progress=AT)


def test_the_verdict_stands_first_and_says_modelled_wherever_it_is(engine: Any) -> None:
    at = open_page("hardware", run=kept(engine))
    text = text_of(at)
    assert at.subheader[0].value.replace("&#58;", ":").startswith("Modelled: ")
    assert titles(at) == [STEP, OVERTAKES]
    assert "Modelled, at batch 64, of 44 cards: " in text
    assert all(metric.label.endswith(", modelled") for metric in at.metric)
    badges = [str(one.proto) for one in at.get("markdown")]
    assert any("host overhead assumed" in badge for badge in badges)
    assert any("modelled" in badge and "violet" in badge for badge in badges)
    assert f"{SECOND} (measured)" in traces(at)
    others = [name for name in traces(at) if not name.startswith(SECOND)]
    assert others
    assert all("modelled" in name for name in others)
    assert not at.error
    assert engine.jobs.studies == []


def test_the_choices_are_in_the_address_and_an_address_reopens_them(engine: Any) -> None:
    run_id = kept(engine)
    at = open_page("hardware", run=run_id)
    at.multiselect(key=f"hardware_gpus-{run_id}").set_value(["L4"]).run()
    at.number_input(key=f"hardware_batch-{run_id}").set_value(128).run()
    at.selectbox(key=f"hardware_precision-{run_id}").select("mixed_float16").run()
    at.button_group(key=f"hardware_data-{run_id}").select("Fed each step").run()
    at.button_group(key=f"hardware_against-{run_id}").select(0).run()
    query = {name: value[0] if isinstance(value, list) else value for name, value in at.query_params.items()}
    assert query == {
        "run": run_id, "against": "first", "batch": "128", "gpus": "L4", "precision": "mixed_float16",
        "execution": "graph", "data": "fed",
    }  # fmt: skip
    again = open_page("hardware", **query)
    assert again.number_input(key=f"hardware_batch-{run_id}").value == 128
    assert again.multiselect(key=f"hardware_gpus-{run_id}").value == ["L4"]
    assert f"{FIRST} (measured)" in traces(again)
    assert "L4 (modelled)" in traces(again)
    assert not [name for name in traces(again) if name.startswith("T4")]


def test_an_unknown_batch_or_card_in_the_address_is_said_and_the_usual_counts(engine: Any) -> None:
    run_id = kept(engine)
    at = open_page("hardware", run=run_id, batch="many", gpus="T4~RTX-409")
    text = text_of(at)
    assert "“many” is no batch from 1 to 65,536; 64 counts." in text
    assert "“RTX-409” is no GPU of the catalogue; did you mean" in text
    assert at.multiselect(key=f"hardware_gpus-{run_id}").value == ["T4"]


def test_an_impossible_or_unmeasured_batch_is_said(engine: Any) -> None:
    run_id = kept(engine)
    at = open_page("hardware", run=run_id)
    at.number_input(key=f"hardware_batch-{run_id}").set_value(0).run()
    assert "A batch lies between 1 and 65,536. Until then 64 counts." in at.error[0].value
    assert titles(at) == [STEP, OVERTAKES]
    at.number_input(key=f"hardware_batch-{run_id}").set_value(4096).run()
    assert not at.error
    assert "no speed-up can be told at batch 4,096" in text_of(at)
    turn(at, "All cards")
    table = at.dataframe[0].value
    assert not table["speed_up"].any()
    assert table["step_ms"].any()


def test_runs_without_a_cpu_target_say_so(engine: Any) -> None:
    run = gpu_run()
    assert run.plan is not None
    targets = (Target(device="gpu:0"), Target(device="gpu:0", execution="xla"))
    both = run.plan.model_copy(update={"targets": targets})
    at = open_page("hardware", run=kept(engine, run.model_copy(update={"plan": both})))
    assert hardware_choices.NO_CPU in text_of(at)
    assert not at.get("plotly_chart")


def test_imported_points_running_sweeps_and_empty_runs_say_so(engine: Any) -> None:
    points = RUN.model_copy(update={"id": "20260105-points", "plan": None})
    assert hardware_choices.NO_PLAN in text_of(open_page("hardware", run=kept(engine, points)))
    engine.jobs.current = snapshot_of(make_run(5, status="running"))
    assert hardware_choices.STILL_RUNNING in text_of(open_page("hardware", run=make_run(5).id))
    engine.jobs.current = None
    empty = RUN.model_copy(update={"id": "20260105-empty", "rounds": ()})
    assert "No round was measured in this run" in text_of(open_page("hardware", run=kept(engine, empty)))


def test_a_family_that_is_withheld_gets_the_reason_and_no_number(engine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    known = interval.errors()
    none = {key: one for key, one in known.classes.items() if not key.startswith("dense/")}
    monkeypatch.setattr(interval, "errors", lambda: known.model_copy(update={"classes": none}))
    at = open_page("hardware", run=kept(engine))
    text = text_of(at)
    assert at.subheader[0].value.replace("&#58;", ":").startswith("Modelled: no number is given. ")
    assert "says how far the model errs for dense networks" in text
    assert titles(at) == [STEP]
    assert not [name for name in traces(at) if "modelled" in name]
    assert {metric.value for metric in at.metric} == {"withheld"}
    turn(at, "All cards")
    assert set(at.dataframe[0].value["label"]) == {"withheld"}
    turn(at, "What limits it")
    assert not at.get("plotly_chart")
    assert "how far the model errs" in text_of(at)


def test_the_table_has_every_card_sorted_as_chosen_and_withheld_ones_last(engine: Any) -> None:
    at = turn(open_page("hardware", run=kept(engine)), "All cards")
    table = at.dataframe[0].value
    assert sorted(table["card"]) == sorted(catalogue())
    withheld = [label == "withheld" for label in table["label"]]
    assert withheld == sorted(withheld)
    assert any(withheld)
    at.button_group(key="hardware_sort").select("speed_up").run()
    ratios = [float(words.split(" ")[0]) for words in at.dataframe[0].value["speed_up"] if words]
    assert ratios == sorted(ratios, reverse=True)
    at.button_group(key="hardware_sort").select("cost").run()
    costs = [float(words.split(" ")[0]) for words in at.dataframe[0].value["cost"] if words]
    assert len(costs) > 5
    assert costs == sorted(costs)


def test_a_price_of_ones_own_changes_the_cost_and_a_wrong_one_is_refused(engine: Any) -> None:
    at = turn(open_page("hardware", run=kept(engine)), "All cards")

    def row(name: str) -> Any:
        table = at.dataframe[0].value
        return table[table["card"] == name].iloc[0]

    assert row("RTX-4090")["cost"] == ""
    at.number_input(key="hardware_price-RTX-4090").set_value(0.5).run()
    at.run()
    assert row("RTX-4090")["price"].startswith("0.5 USD (")
    once = float(row("RTX-4090")["cost"].split(" ")[0])
    at.number_input(key="hardware_price-RTX-4090").set_value(1.0).run()
    assert float(row("RTX-4090")["cost"].split(" ")[0]) == pytest.approx(2 * once, rel=0.01)
    at.number_input(key="hardware_price-RTX-4090").set_value(-1.0).run()
    assert at.error[0].value.startswith("RTX-4090&#58; a price an hour is above 0")
    turn(turn(at, "Curves"), "All cards")
    assert at.number_input(key="hardware_price-RTX-4090").value == -1.0


def test_what_limits_a_card_its_roofline_and_what_would_have_to_be_true(engine: Any) -> None:
    run_id = kept(engine)
    at = turn(open_page("hardware", run=run_id), "What limits it")
    assert titles(at) == ["What limits T4 by batch (modelled)", "Roofline of T4 (steps modelled)"]
    at.selectbox(key=f"hardware_card-{run_id}").select("B200").run()
    assert titles(at)[0] == "What limits B200 by batch (modelled)"
    text = text_of(at)
    assert "Modelled: B200 is limited by " in text
    assert f"Modelled: for B200 to meet {SECOND} at batch 64, its spacing of small kernels" in text
    assert "link from host to card" not in text
    at.button_group(key=f"hardware_data-{run_id}").select("Fed each step").run()
    assert f"Modelled: for B200 to meet {SECOND} at batch 64, its link from host to card" in text_of(at)
    at.number_input(key=f"hardware_needed-{run_id}-64").set_value(5000).run()
    assert "can be compared from batch 1 to 1,024" in text_of(at)
    at.selectbox(key=f"hardware_card-{run_id}").select("Apple-M1").run()
    assert not at.get("plotly_chart")
    assert "Apple" in " ".join(info.value for info in at.info)


def test_the_button_measures_the_host(engine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    monkeypatch.setattr(hardware_form, "run_host_study", asked.append)
    engine.jobs.on_study = lambda *_: running()
    at = turn(open_page("hardware", run=kept(engine), host="assumed"), "Host and evidence")
    text = text_of(at)
    assert "Host overhead: assumed" in text
    assert "published step times of one Dense layer" in text
    at.button(key="measure_host").click().run()
    ((kind, description, work),) = engine.jobs.studies
    assert (kind, description) == ("host", "Measuring the host overhead of this machine")
    tools = StudyTools(lambda *_: (), VirtualClock(1.0), threading.Event(), lambda: None, lambda _: None)
    work(tools)
    assert asked == [tools]
    assert at.progress[0].text == AT.activity
    assert at.button(key="measure_host").disabled
    assert "host" not in at.query_params
    at.button(key="cancel_host").click().run()
    assert engine.jobs.cancelled == 1
    engine.store.add_study("host", "20260107-new", None, STUDY.to_json())
    engine.jobs.study = replace(running(), active=False)
    at.run()
    assert "Host overhead: measured" in text_of(at)
    assert at.query_params["host"] in ("20260107-new", ["20260107-new"])


def test_a_measured_host_counts_until_the_assumed_one_is_chosen(engine: Any) -> None:
    run_id = kept(engine, host=STUDY)
    at = turn(open_page("hardware", run=run_id), "Host and evidence")
    assert "Host overhead: measured" in text_of(at)
    step = next(metric for metric in at.metric if metric.label == "A step").value
    assert float(step.split(" ")[0]) == pytest.approx(300, rel=0.1)  # its true cost in µs
    lines = at.dataframe[0].value
    assert {"graph", "xla", "eager"} == set(lines["execution"])
    at.button_group(key=f"hardware_host-{run_id}-20260107-host").select("Assumed").run()
    assert "Host overhead: assumed" in text_of(at)
    at.button_group(key=f"hardware_host-{run_id}-assumed").select("Measured").run()
    assert "Host overhead: measured" in text_of(at)


def test_a_host_of_another_machine_is_recorded_and_said(engine: Any) -> None:
    other = make_environment().model_copy(update={"hostname_hash": "0"})
    at = turn(open_page("hardware", run=kept(engine, host=STUDY.model_copy(update={"environment": other}))),
              "Host and evidence")  # fmt: skip
    text = text_of(at)
    assert "Host overhead: recorded" in text
    assert hardware.NOT_THIS_HOST in text


def test_a_study_without_that_execution_or_unreadable_is_said_and_costs_are_assumed(engine: Any) -> None:
    graph_only = make_host_study(cells=[cell for cell in STUDY.cells if cell.execution == "graph"])
    run_id = kept(engine, host=graph_only.model_copy(update={"environment": make_environment()}))
    at = open_page("hardware", run=run_id, execution="eager")
    assert "This host study holds no eager steps in training" in text_of(at)
    assert "Until then they are assumed." in text_of(at)
    engine.store.add_study("host", "20260109-bad", None, "{}")
    at = open_page("hardware", run=run_id, host="gone")
    text = text_of(at)
    assert "This is no Breakeven host study" in text
    assert "There is no such host study here; the newest one counts." in text


def test_a_failed_study_and_a_busy_machine_say_why(engine: Any) -> None:
    engine.jobs.study = replace(running(), active=False, error="The worker died.")
    run_id = kept(engine)
    at = turn(open_page("hardware", run=run_id), "Host and evidence")
    assert "Measuring the host overhead of this machine failed: The worker died." in text_of(at)
    engine.jobs.refusal = "busy"
    at.button(key="measure_host").click().run()
    assert "try again when it is done" in at.warning[0].value
    engine.jobs.current = snapshot_of(make_run(5, status="running"))
    at.run()
    assert at.button(key="measure_host").disabled


def test_the_models_errors_stand_on_the_page_with_their_date(engine: Any) -> None:
    at = turn(open_page("hardware", run=kept(engine)), "Host and evidence")
    assert interval.errors().dated in next(one.label for one in at.expander if "held out" in one.label)
    frames = [set(frame.value.columns) for frame in at.dataframe]
    assert {"family", "phase", "gpu", "points", "median", "ninety", "launch", "knee", "work"} in frames
    assert any({"region", "interval", "held"} <= columns for columns in frames)
    assert any({"fact", "value", "source"} == columns for columns in frames)


def test_a_card_of_ones_own_is_kept_compared_with_and_removed(engine: Any) -> None:
    run_id = kept(engine)
    at = turn(open_page("hardware", run=run_id), "Your own card")
    assert at.button(key="keep_card").disabled
    at.text_input(key="own_name").input("T4").run()
    assert any("is there already" in error.value for error in at.error)
    at.text_input(key="own_name").input("Ours").run()
    for field, value in (("fp32_tflops", 20.0), ("memory_gb", 16.0), ("bandwidth_gb_s", 500.0), ("price", 2.0)):
        at.number_input(key=f"own_{field}").set_value(value).run()
    assert not at.error
    at.button(key="keep_card").click().run()
    assert not at.exception
    (card,) = read_own(data_dir() / FILE_NAME).gpus
    assert (card.name, card.fp32_tflops, card.price and card.price.per_hour) == ("Ours", 20.0, 2.0)
    assert at.text_input(key="own_name").value == ""
    assert "Ours" in at.multiselect(key=f"hardware_gpus-{run_id}").value
    turn(at, "Curves")
    assert "Ours" in "".join(traces(at)) or "Withheld for Ours" in text_of(at)
    turn(at, "Your own card")
    at.button(key="remove-Ours").click().run()
    assert read_own(data_dir() / FILE_NAME).gpus == ()
    assert "Ours" not in at.multiselect(key=f"hardware_gpus-{run_id}").value


def test_a_chosen_card_that_has_gone_from_the_file_is_no_longer_compared_with(engine: Any) -> None:
    path = data_dir() / FILE_NAME
    card = OwnCard(name="Ours", fp32_tflops=20.0, memory_gb=16.0, bandwidth_gb_s=500.0, link="PCIe 4.0 x16")
    save_own(path, (card,))
    run_id = kept(engine)
    at = open_page("hardware", run=run_id, gpus="Ours~T4")
    assert at.multiselect(key=f"hardware_gpus-{run_id}").value == ["Ours", "T4"]
    save_own(path, ())
    at.run()
    assert not at.exception
    assert at.multiselect(key=f"hardware_gpus-{run_id}").value == ["T4"]


def test_an_unreadable_file_of_cards_is_said_and_left_alone(engine: Any) -> None:
    path = data_dir() / FILE_NAME
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("[1]")
    at = open_page("hardware", run=kept(engine))
    assert "Your cards in" in text_of(at)
    assert titles(at) == [STEP, OVERTAKES]
    assert path.read_text() == "[1]"


def test_what_was_recorded_of_a_card_is_drawn_as_recorded(engine: Any) -> None:
    run = gpu_run()
    at = open_page("hardware", run=kept(engine, run), gpus="T4~L4")
    assert "T4 (measured)" in traces(at)
    assert "L4 (modelled)" in traces(at)
    assert "Corrected by recorded on T4" in text_of(at)
    turn(at, "All cards")
    table = at.dataframe[0].value
    assert "measured" in table[table["card"] == "T4"].iloc[0]["label"]
    assert table[table["card"] == "L4"].iloc[0]["label"] == "modelled"


def test_without_any_chosen_card_the_cpu_stands_alone(engine: Any) -> None:
    run_id = kept(engine)
    at = open_page("hardware", run=run_id)
    at.multiselect(key=f"hardware_gpus-{run_id}").set_value([]).run()
    assert "Choose a GPU above" in text_of(at)
    assert titles(at) == [STEP]
    turn(at, "Host and evidence")


def test_embedded_there_is_the_verdict_and_one_picture(engine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ContextProxy, "is_embedded", property(lambda _: True))
    at = open_page("hardware", run=kept(engine), gpus="L4")
    assert titles(at) == [STEP]
    assert at.subheader[0].value.replace("&#58;", ":").startswith("Modelled: L4 ")
    assert not at.button
    assert not at.multiselect


def unlabelled(value: Any, labelled: bool = False, path: str = "") -> Iterator[str]:
    """Paths of numbers with no label in their own object or one that holds it."""
    if isinstance(value, dict):
        labelled = labelled or value.get("label") in LABELS
        for key, inner in value.items():
            yield from unlabelled(inner, labelled, f"{path}/{key}")
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            yield from unlabelled(inner, labelled, f"{path}/{number}")
    elif isinstance(value, float) and not labelled:
        yield path


def test_the_file_holds_every_card_and_no_number_without_a_label(engine: Any) -> None:
    assert engine
    answer = analyse(RUN)
    usual = hardware_choices.usual_options(RUN, answer, 1, catalogue())
    seen = hardware.compared(RUN, answer, usual, {})
    data = json.loads(hardware_result.content(seen))
    assert list(unlabelled(data)) == []
    assert (data["label"], data["run"], data["run_label"], data["against"]) == ("modelled", RUN.id, "measured", SECOND)
    assert {card["gpu"] for card in data["cards"]} == set(catalogue())
    assert [one["gpu"] for one in data["chosen"]] == list(usual.gpus)
    assert all(one["needed"] and one["roofline"]["points"] for one in data["chosen"])
    assert all(card["curve"]["host"]["label"] == "assumed" for card in data["cards"])
    del data["label"]
    assert list(unlabelled(data)) == []  # cards and details carry their own, wherever they are copied to

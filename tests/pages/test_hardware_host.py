"""The Hardware page's host overhead and the user's own cards: measured, assumed, stored, refused."""

from typing import Any

import pytest
import streamlit as st

from core.hardware import interval
from core.hardware.catalogue import FILE_NAME, OwnCard, read_own, save_own
from core.hardware.host import KIND_WORDS
from core.rounds.run import Run
from core.store.database import data_dir
from core.studies.host.kind import HOST
from core.studies.host.run import HostPlan
from core.studies.registry import example_id
from core.ui.hardware import page
from core.ui.hardware.form import KINDS
from simulated.commands import holds
from simulated.hosts import make_host_study
from simulated.kinds import RUN
from simulated.pages import damage, open_page, says, text_of, titles, unfold
from simulated.runs import make_environment
from tests.support.batch_page import kept
from tests.support.hardware_page import ACCURACY, CLEAR, STEPS, STUDY, traces
from tests.support.study_pages import start

pytestmark = [pytest.mark.usefixtures("this_machine"), pytest.mark.pages]


def test_an_assumed_host_is_measured_on_demand(engine: Any) -> None:
    at = unfold(open_page("hardware", run=kept(engine), host="server"), "Host overhead")
    says(at, f"assumed, {KIND_WORDS['server']}", f"Assumed for {KIND_WORDS['server']}: ")
    assert start(engine, at, "host") == HostPlan()
    engine.store.add_study("host", "20260107-new", STUDY)
    at.run()
    assert "Host overhead: measured" in text_of(at)


def test_a_measured_host_counts_until_a_kind_is_chosen(engine: Any) -> None:
    run_id = kept(engine, host=STUDY)
    at = unfold(open_page("hardware", run=run_id, execution="graph"), "Host overhead")
    assert "Host overhead: measured" in text_of(at)
    step = next(metric for metric in at.metric if metric.label == "A step").value
    assert float(step.split(" ")[0]) == pytest.approx(300, rel=0.1)  # its true cost in µs
    lines = at.dataframe[0].value
    assert {"graph", "xla", "eager"} == set(lines["execution"])
    measured = at.selectbox(key=f"hardware_host-{run_id}-20260107-host")
    assert measured.options[1:] == [*KINDS.values()]
    measured.select("weak").run()
    assert f"assumed, {KIND_WORDS['weak']}" in text_of(at)
    at.selectbox(key=f"hardware_host-{run_id}-weak").select("20260107-host").run()
    assert "Host overhead: measured" in text_of(at)


def test_what_fit_costs_is_said_of_a_measured_host_too(engine: Any) -> None:
    at = unfold(open_page("hardware", run=kept(engine, host=STUDY), fit="with"), "Host overhead")
    assert [metric.label for metric in at.metric if metric.label.startswith("fit adds")]
    says(at, "Host overhead: measured", "fit itself adds, ", f"Assumed for {KIND_WORDS['recent_desktop']}: ")
    without = unfold(open_page("hardware", run=kept(engine)), "Host overhead")
    assert not [metric.label for metric in without.metric if "fit" in metric.label]


def test_a_host_of_another_machine_is_recorded_and_said(engine: Any) -> None:
    other = make_environment().model_copy(update={"hostname_hash": "0"})
    at = unfold(open_page("hardware", run=kept(engine, host=STUDY.model_copy(update={"environment": other}))),
              "Host overhead")  # fmt: skip
    text = text_of(at)
    assert "Host overhead: recorded" in text
    assert page.NOT_THIS_HOST in text


def test_a_study_without_that_execution_or_unreadable_is_said_and_costs_are_assumed(engine: Any) -> None:
    graph_only = make_host_study(cells=[cell for cell in STUDY.cells if cell.execution == "graph"])
    run_id = kept(engine, host=graph_only.model_copy(update={"environment": make_environment()}))
    at = open_page("hardware", run=run_id, execution="eager")
    says(at, "no eager steps", "no host is")
    text = text_of(open_page("hardware", run=run_id, host="gone", execution="graph"))
    assert "the newest one" in text
    damage(engine.store, "20260107-host")
    st.cache_resource.clear()
    text = text_of(open_page("hardware", run=run_id, host="gone"))
    holds(text, "Breakeven host study", "none is named.")


def test_the_models_errors_stand_on_the_page_with_their_date(engine: Any) -> None:
    at = unfold(open_page("hardware", run=kept(engine)), ACCURACY)
    assert interval.errors().dated in next(one.label for one in at.expander if "not fitted to" in one.label)
    frames = [set(frame.value.columns) for frame in at.dataframe]
    assert {"what", "points", "goal", "chip", "source"} in frames
    held_out = {"family", "phase", "name", "points", "median", "ninety", "launch", "bandwidth", "arithmetic"}
    assert frames.count(held_out) == 2  # by card and by source
    assert any({"region", "interval", "held"} <= columns for columns in frames)
    assert any({"fact", "value", "source"} == columns for columns in frames)


def test_the_shipped_host_counts_for_the_example_alone_and_is_missed_by_nothing(
    engine: Any, example: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    shipped = example_id(HOST)
    assert next(iter(page.studies(example))) == shipped
    assert shipped not in page.studies(RUN)
    assert page.counting("", page.studies(RUN)) == "unnamed"
    study = make_host_study().model_copy(update={"environment": RUN.environment})
    engine.store.add_study("host", "20260105-host01", study)
    assert list(page.studies(RUN)) == ["20260105-host01"]
    assert list(page.studies(example)) == [shipped, "20260105-host01"]
    monkeypatch.setattr(page, "load_example", refuse)
    assert list(page.studies(example)) == ["20260105-host01"]


def refuse(_: str) -> None:
    raise OSError


def test_a_card_of_ones_own_is_kept_compared_with_and_removed(engine: Any) -> None:
    run_id = kept(engine)
    at = unfold(open_page("hardware", run=run_id), "Your own card")
    assert at.button(key="keep_card").disabled
    at.text_input(key="own_name").input("T4").run()
    assert any("is there already" in error.value for error in at.error)
    at.text_input(key="own_name").input("Ours").run()
    for field, value in (("fp32_tflops", 20.0), ("memory_gb", 16.0), ("bandwidth_gb_s", 500.0), ("price", 2.0)):
        at.number_input(key=f"own_{field}").set_value(value).run()
    assert not at.error
    at.button(key="keep_card").click().run()
    (card,) = read_own(data_dir() / FILE_NAME).gpus
    assert (card.name, card.fp32_tflops, card.price and card.price.per_hour) == ("Ours", 20.0, 2.0)
    assert at.text_input(key="own_name").value == ""
    assert "Ours" in at.multiselect(key=f"hardware_gpus-{run_id}").value
    unfold(at, STEPS)
    assert "Ours" in "".join(traces(at)) or "Withheld for Ours" in text_of(at)
    unfold(at, "Your own card")
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
    assert at.multiselect(key=f"hardware_gpus-{run_id}").value == ["T4"]


def test_an_unreadable_file_of_cards_is_said_and_left_alone(engine: Any) -> None:
    path = data_dir() / FILE_NAME
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("[1]")
    at = open_page("hardware", run=kept(engine))
    assert "Your cards in" in text_of(at)
    assert titles(at) == [CLEAR]
    assert path.read_text() == "[1]"

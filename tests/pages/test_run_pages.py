"""Common behaviour of all pages of one run: the run that they open, their sentences without content, embedding."""

from typing import Any

import pytest
from streamlit.testing.v1 import AppTest
from streamlit.util import calc_hash

from core.networks.families import network_from_name
from core.rounds.plan import SweepPlan
from core.rounds.show.imports import read_run
from core.ui import menu
from core.workload.spec import Target, Workload
from simulated.noises import make_noise_study
from simulated.pages import chart_titles, keep, open_page, running, says, sweeping, text_of
from simulated.runs import make_run
from tests.support.traced import cpu_cell, gpu_cell, with_traces

pytestmark = [pytest.mark.usefixtures("this_machine"), pytest.mark.pages]
RUN = with_traces(make_run(4, label="measured"), cpu_cell(8), gpu_cell(32), gpu_cell(1024))
EMPTY = RUN.model_copy(update={"rounds": (), "cells": (), "traces": ()})
POINTS = "target,batch,step_ms\n" + "".join(
    f"{target},{batch},{slope * batch + floor}\n"
    for target, floor, slope in (("cpu", 0.1, 0.1), ("gpu", 2.0, 0.01))
    for batch in (1, 8, 64, 512)
)
every_page = pytest.mark.parametrize("page", ["crossover", "batch", "hardware", "overhead", "diagnosis"])


@every_page
@pytest.mark.parametrize("run_id", ["20260105-gone00", "../../etc/passwd", "<script>"])
def test_an_unknown_run_is_said_with_a_way_on(page: str, run_id: str) -> None:
    at = open_page(page, run=run_id)
    assert "no run" in at.error[0].value
    assert at.page_link[0].proto.page == "history"
    assert not chart_titles(at)


@every_page
def test_names_cannot_smuggle_markup(engine: Any, page: str) -> None:
    names = {"name": "[x](http://evil.example) **b** :red[z]", "target_names": ("**a**", ":red[b]")}
    at = open_page(page, run=keep(engine.store, RUN.model_copy(update=names)))
    if page not in ("batch", "hardware"):  # their heading is their question
        assert "\\[x\\](http" in at.markdown[0].value.replace("&#58;", ":")
    shown = [element.value for kind in ("title", "header", "subheader", "caption") for element in getattr(at, kind)]
    shown += [option.content for group in at.button_group for option in group.proto.options]
    assert not [text for text in shown if ":red[" in text or "[x](" in text or "**a**" in text]


@pytest.mark.parametrize(
    ("page", "sentence"),
    [
        ("crossover", "Nothing was measured."),
        ("batch", "No round was"),
        ("hardware", "No round was"),
        ("overhead", "none to trace"),
        ("diagnosis", "No round was"),
    ],
)
def test_a_run_without_rounds_says_so_and_offers_nothing(engine: Any, page: str, sentence: str) -> None:
    at = open_page(page, run=keep(engine.store, EMPTY, status="failed"))
    says(at, sentence)
    assert not chart_titles(at)
    assert not at.button
    assert not at.tabs


@pytest.mark.parametrize(
    ("page", "sentences"),
    [
        ("crossover", ("No verdict: ", "machine unknown")),
        ("batch", ("Only points were",)),
        ("hardware", ("Only points were",)),
        ("overhead", ("Only points were", "No batch of")),
        ("diagnosis", ("no remedy can",)),
    ],
)
def test_imported_points_open_and_offer_nothing_to_measure(engine: Any, page: str, sentences: tuple[str, ...]) -> None:
    at = open_page(page, run=engine.store.add(read_run(POINTS.encode(), "points.csv")))
    says(at, *sentences)
    assert not [button for button in at.button if not button.disabled]


@pytest.mark.parametrize("page", ["batch", "hardware", "diagnosis"])
def test_a_running_sweep_has_to_end_first(engine: Any, page: str) -> None:
    run = make_run(5, status="running", label="measured")
    engine.jobs.show(sweeping(run))
    at = open_page(page, run=run.id)
    says(at, "still running")
    assert {button.key for button in at.button if not button.disabled} == {"running-cancel"}


@pytest.mark.parametrize(
    ("page", "titles"),
    [
        ("crossover", ["Speed-up and crossover"]),
        ("batch", ["Time to the loss by batch (predicted)"]),
        ("hardware", ["Where each card is faster than 2 threads (modelled)"]),
        ("overhead", ["Traced parts of a step by batch size"]),
    ],
)
def test_embedded_there_are_the_verdict_and_its_charts_only(engine: Any, page: str, titles: list[str]) -> None:
    run_id = keep(engine.store, RUN)
    engine.store.add_study("noise", "20260107-noise", make_noise_study(RUN))
    query = {"batch": "1024", "target": "second"} if page == "overhead" else {}
    at = open_page(page, embedded=True, run=run_id, **query)
    assert chart_titles(at) == [f"<b>{title}</b>" for title in titles]
    assert len(at.header) == 1
    for element in ("title", "button", "tabs", "selectbox", "multiselect", "dataframe", "page_link"):
        assert not getattr(at, element), element


@pytest.mark.parametrize(
    ("page", "label"),
    [
        ("diagnosis", "What would help, measured on this machine"),
        ("batch", "Which batch to train with: noise scale, memory and cost"),
        ("hardware", "Against GPUs that are not here, modelled"),
    ],
)
def test_crossover_links_to_the_pages_of_its_run_and_they_link_back(engine: Any, page: str, label: str) -> None:
    run_id = keep(engine.store, RUN)
    (link,) = [link.proto for link in open_page("crossover", run=run_id).page_link if link.label == label]
    assert (link.page, link.query_string) == (page, f"run={run_id}")
    back = [link.proto for link in open_page(page, run=run_id).page_link]
    assert ("crossover", f"run={run_id}") in [(link.page, link.query_string) for link in back]


def test_the_menu_stays_with_the_run_that_was_opened_until_another_was_measured(engine: Any) -> None:
    older, newer, newest = (
        keep(engine.store, RUN.model_copy(update={"id": f"20260{month}01-aaaaaa", "created_at": f"2026-0{month}-01"}))
        for month in (1, 2, 3)
    )
    engine.store.delete(newest)
    at = open_page("crossover", run=older)
    assert from_the_menu(at, "overhead") == older
    engine.store.restore(newest)
    assert from_the_menu(at, "crossover") == newest
    engine.store.delete(newest)
    assert from_the_menu(at, "overhead") == newer


def from_the_menu(at: AppTest, page: str) -> str:
    """Return the run that a page shows when it is opened without one in its address."""
    at.query_params.clear()
    at._page_hash = calc_hash(page)
    at.run()
    shown = at.query_params["run"]
    return shown if isinstance(shown, str) else str(shown[0])


def test_an_address_that_names_no_traced_cell_is_said_to_be_left_out(engine: Any) -> None:
    run_id = keep(engine.store, RUN)
    assert not open_page("overhead", run=run_id, target="2", batch="32").info
    at = open_page("overhead", run=run_id, target="9", batch="7")
    assert [info.proto.icon for info in at.info] == [":material/link_off:"] * 2


@pytest.mark.parametrize("page", menu.pages())
def test_every_page_opens_after_a_run_of_several_lengths(engine: Any, page: str) -> None:
    workload = Workload(network=network_from_name("gru-8x1-20x4-3"), mode="infer", lengths=((5, 3), (20, 1)))
    plan = SweepPlan(workload=workload, targets=(Target(), Target(pad="longest")), batches=(1, 8, 64))
    assert plan.pipeline.kind == "host"  # nothing else takes them
    run = make_run(4, batches=plan.batches, label="measured").model_copy(update={"plan": plan})
    keep(engine.store, run.model_copy(update={"target_names": plan.target_names}))
    assert not open_page(page).exception


@pytest.mark.parametrize("page", menu.pages())
def test_nothing_can_be_pressed_in_an_embedded_view(engine: Any, page: str) -> None:
    """Check for buttons, since other pages may show it in a frame, where a click may be meant for something else."""
    keep(engine.store, make_run(1))
    for kind in ("frontier", "pipeline", "diagnosis", "noise", "memory", "host"):
        engine.jobs.show(running(kind))
    at = open_page(page, embedded=True)
    assert [button.label for button in at.button] == []
    assert ("no embedded view" in text_of(at)) is not menu.pages()[page].embeds

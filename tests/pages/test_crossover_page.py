"""The Crossover page: verdict first, all charts, the cells, the evidence, links and downloads; every state of a run."""

import json
from dataclasses import replace
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from core.rounds.answer.analyse import analyse
from core.rounds.run import Run, Status
from core.rounds.show import split_figure
from core.rounds.show.imports import read_run
from core.ui import registry
from core.ui.crossover.page import QUESTION
from simulated.commands import holds
from simulated.pages import PATIENCE_S, ROOT, keep, open_page, says, text_of, titles
from simulated.runs import make_run, on_card
from tests.support.downloads import content
from tests.support.loops import loop_cost, with_loops

pytestmark = pytest.mark.usefixtures("engine")
TITLES = [
    "Speed-up and crossover", "Step time by batch size", "Throughput by batch size",
    "Fixed-cost share by batch size (fitted)",
]  # fmt: skip

FOLDS = ("Step time by batch size", "Throughput by batch size", "Fixed-cost share by batch size (fitted)",
         "Every step time", "Fixed cost and cost per sample (fitted)", "How it was measured")  # fmt: skip


def test_the_address_names_the_run_else_the_newest_own_one_or_the_example_opens(engine: Any, example: Run) -> None:
    at = open_page("crossover")
    assert (at.title[0].value, at.markdown[0].value, at.query_params["run"]) == (QUESTION, "The example", example.id)
    older, newest = keep(engine.store, make_run(1)), keep(engine.store, make_run(2))
    for query, opened in (({}, newest), ({"run": older}, older), ({"run": example.id}, example.id)):
        at = open_page("crossover", **query)
        assert at.query_params["run"] == opened
        assert at.markdown[0].value == ("The example" if opened == example.id else engine.store.load(opened).name)


def test_cold_page_gets_its_frame_and_keeps_the_query(engine: Any) -> None:
    run_id = keep(engine.store, make_run(1))
    at = AppTest.from_file(str(ROOT / "dashboard.py"), default_timeout=PATIENCE_S)
    at.switch_page("pages/crossover.py")
    at.query_params["run"] = run_id
    at.run()
    assert at.query_params["run"] == run_id
    assert "from seed 1" in text_of(at)


def test_one_sentence_and_one_picture_and_all_else_folded(engine: Any) -> None:
    at = open_page("crossover", run=keep(engine.store, make_run(4)))
    assert len(at.header) == 1
    assert titles(at) == ["Speed-up and crossover"]
    assert not at.dataframe
    assert [fold.label for fold in at.expander][-len(FOLDS) :] == list(FOLDS)
    assert "95\u00a0% interval" in at.header[0].value, "no line ends between a number and its percent"


def test_the_same_measured_before_is_a_note_and_a_table_of_its_own(engine: Any) -> None:
    run = make_run(4)
    alone = open_page("crossover", run=keep(engine.store, run))
    assert "measured twice" not in text_of(alone)
    again = run.model_copy(update={"id": "20260105-again1", "name": "Once more"})
    newest = keep(engine.store, again)
    at = open_page("crossover", run=newest, folds=("The same, measured before",))
    holds(text_of(at), "was measured twice")
    assert set(at.table[-1].value["Run"]) == {run.name, "Once more"}
    elsewhere = run.model_copy(update={"id": "20260105-other1", "environment": None})
    assert "measured twice" not in text_of(open_page("crossover", run=keep(engine.store, elsewhere)))


def test_verdict_charts_cells_and_evidence(engine: Any) -> None:
    at = open_page("crossover", run=keep(engine.store, make_run(4)), folds=FOLDS)
    text = text_of(at)
    assert titles(at)[:4] == TITLES
    cells = at.dataframe[0].value
    assert len(cells) == 22
    assert {"step_ms", "low_ms", "high_ms", "rounds", "first_call_ms", "warmup_ms", "latency_ms", "memory_mb",
            "stop_reason", "outcome", "label"} <= set(cells.columns)  # fmt: skip
    assert set(cells["label"]) == {"measured"}
    holds(text, "Passes 6", "Worker processes 6")
    machine = at.dataframe[1].value
    assert any("2.4 GHz" in str(value) for value in machine["value"])


def test_what_keras_own_loop_adds_stands_beside_the_step_time(engine: Any) -> None:
    run = with_loops(make_run(4), loop_cost(0), loop_cost(1, 0.0))
    at = open_page("crossover", run=keep(engine.store, run), folds=FOLDS)
    says(at, "adds 0.2 ms", "0.2 to 0.2)", "adds nothing measurable", "8 ms (8")
    at = open_page("crossover", run=keep(engine.store, make_run(5)), folds=FOLDS)
    says(at, "step: not recorded.")


@pytest.mark.parametrize(
    ("run", "status", "sentence"),
    [
        (make_run(4), "cancelled", "This sweep was cancelled"),
        (make_run(5), "interrupted", "interrupted, most likely by a restart"),
        (make_run(4, with_failures=True), "finished", "Not every batch was measured on every target"),
        (make_run(6, floors_ms=(0.3, 1.2), slopes_ms=(0.01, 0.02)), "finished", "No crossover in the measured range"),
    ],
    ids=["cancelled", "interrupted", "failures", "no crossover"],
)
def test_what_qualifies_the_verdict_is_said(engine: Any, run: Run, status: Status, sentence: str) -> None:
    at = open_page("crossover", run=keep(engine.store, run, status=status), folds=FOLDS)
    says(at, sentence)
    assert ("at every batch" in at.header[0].value) is ("crossover" in sentence)
    failed = ["out of memory", "measured", "skipped"]
    assert (list(at.dataframe[0].value["outcome"][-3:]) == failed) is ("Not every" in sentence)


def test_unstable_machine_is_explained(engine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    run = make_run(2)
    answer = analyse(run)
    doubt = replace(answer.verdict, kind="inconclusive", crossovers=(), lead=None, reason="unstable_machine",
                    sentence="Not clear: the machine was too unsteady.")  # fmt: skip
    monkeypatch.setattr(registry, "analyse", lambda _: replace(answer, verdict=doubt))
    at = open_page("crossover", run=keep(engine.store, run))
    says(at, "too unsteady", "same target disagree")


def test_dark_charts_have_light_ink() -> None:
    at = open_page(context={"theme": "dark"})
    layout = json.loads(at.get("plotly_chart")[0].proto.spec)["layout"]
    assert (layout["font"]["color"], layout["paper_bgcolor"]) == ("#E6EDF3", "#10161C")


def test_picture_format_follows_the_choice() -> None:
    at = open_page("crossover")
    at.get_by_key("image").set_value("png").run()
    config = json.loads(at.get("plotly_chart")[0].proto.config)
    assert config["toImageButtonOptions"]["format"] == "png"
    assert config["showSendToCloud"] is False


def test_downloads_hold_the_run(engine: Any) -> None:
    run = engine.store.load(keep(engine.store, make_run(4)))
    assert read_run(content(run, "json"), "a.json").rounds == run.rounds
    assert content(run, "rounds.csv").startswith(b"target,batch,step_ms")
    assert b"overhead_share_fitted" in content(run, "cells.csv").splitlines()[0]
    report = content(run, "html")
    assert b"<html" in report[:2000]
    assert run.name.encode() in report


def test_a_cpu_and_a_gpu_at_once_are_judged_in_one_sentence_and_one_picture(engine: Any) -> None:
    run = on_card(make_run(4, floors_ms=(0.3, 0.9), slopes_ms=(0.02, 0.002), noise=0.005, processes=6))
    at = open_page("crossover", run=keep(engine.store, run), folds=("CPU and GPU together",))
    says(at, "GPU 0 together", "Halves, as Mirrored")
    assert titles(at) == [TITLES[0], split_figure.TITLE]
    few = on_card(make_run(5, batches=(64, 100)))
    at = open_page("crossover", run=keep(engine.store, few), folds=("CPU and GPU together",))
    says(at, "can be divided")

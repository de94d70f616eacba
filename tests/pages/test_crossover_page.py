"""The Crossover page: verdict first, all charts, the cells, the evidence, links and downloads; every state of a run."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from core.analysis.analyse import analyse
from core.imports import read_run
from core.results import Run
from core.ui import downloads, registry
from tests.support.pages import ROOT, chart_titles, keep, open_page, text_of
from tests.support.runs import make_run

pytestmark = pytest.mark.usefixtures("engine")

CHARTS = ["Step time by batch size", "Speed-up and crossover", "Throughput by batch size"]


def test_without_an_id_the_example_opens_and_the_address_names_it(example: Run) -> None:
    at = open_page("crossover")
    assert at.header[0].value == "The example"
    assert at.query_params["run"] == example.id


def test_without_an_id_the_newest_own_run_opens(engine: Any) -> None:
    keep(engine.store, make_run(1))
    newest = keep(engine.store, make_run(2))
    assert open_page("crossover").query_params["run"] == newest


def test_deep_link_opens_exactly_that_run(engine: Any) -> None:
    run_id = keep(engine.store, make_run(1))
    keep(engine.store, make_run(2))
    at = open_page("crossover", run=run_id)
    assert "made from seed 1" in text_of(at)
    assert at.query_params["run"] == run_id


def test_deep_link_to_the_example(engine: Any, example: Run) -> None:
    keep(engine.store, make_run(2))
    assert open_page("crossover", run=example.id).header[0].value == "The example"


def test_cold_page_gets_its_frame_and_keeps_the_query(engine: Any) -> None:
    run_id = keep(engine.store, make_run(1))
    at = AppTest.from_file(str(ROOT / "app.py"), default_timeout=30)
    at.switch_page("pages/crossover.py")
    at.query_params["run"] = run_id
    at.run()
    assert not at.exception
    assert at.query_params["run"] == run_id
    assert "made from seed 1" in text_of(at)


@pytest.mark.parametrize("run_id", ["20260105-gone00", "../../etc/passwd", "<script>"])
def test_unknown_run_is_said_with_a_way_on(run_id: str) -> None:
    at = open_page("crossover", run=run_id)
    assert "There is no run" in at.error[0].value
    assert at.page_link[0].label == "See the runs that are here"
    assert not chart_titles(at)


def test_verdict_charts_cells_and_evidence(engine: Any) -> None:
    at = open_page("crossover", run=keep(engine.store, make_run(4)))
    text = text_of(at)
    assert "ahead from batch" in at.subheader[0].value
    assert [t for t in CHARTS if f"<b>{t}</b>" in chart_titles(at)] == CHARTS
    assert "<b>Overhead share by batch size (fitted)</b>" in chart_titles(at)
    cells = at.dataframe[0].value
    assert len(cells) == 22
    assert {"step_ms", "low_ms", "high_ms", "rounds", "first_call_ms", "warmup_ms", "latency_ms", "memory_mb",
            "stop_reason", "outcome", "label"} <= set(cells.columns)  # fmt: skip
    assert set(cells["label"]) == {"measured"}
    assert "Passes 6" in text
    assert "Worker processes 6" in text
    machine = at.dataframe[1].value
    assert "Example CPU at 2.4 GHz" in set(machine["value"])


def test_failed_cells_are_said_and_kept_in_the_table(engine: Any) -> None:
    at = open_page("crossover", run=keep(engine.store, make_run(4, with_failures=True)))
    assert "Not every cell has a number" in text_of(at)
    cells = at.dataframe[0].value
    assert list(cells["outcome"][-3:]) == ["out of memory", "measured", "skipped"]


def test_cancelled_and_interrupted_runs_say_so(engine: Any) -> None:
    at = open_page("crossover", run=keep(engine.store, make_run(4), status="cancelled"))
    assert "This sweep was cancelled" in text_of(at)
    at = open_page("crossover", run=keep(engine.store, make_run(5), status="interrupted"))
    assert "interrupted, most likely by a restart" in text_of(at)


def test_no_crossover_in_range_says_what_to_do(engine: Any) -> None:
    run = make_run(6, floors_ms=(0.3, 1.2), slopes_ms=(0.01, 0.02))
    at = open_page("crossover", run=keep(engine.store, run))
    assert "ahead throughout" in at.subheader[0].value
    assert "No crossover in the measured range" in text_of(at)


def test_unstable_machine_is_explained(engine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    run = make_run(2)
    answer = analyse(run)
    doubt = replace(answer.verdict, kind="inconclusive", crossovers=(), lead=None, reason="unstable_machine",
                    sentence="Inconclusive: the machine was too unsteady.")  # fmt: skip
    monkeypatch.setattr(registry, "analyse", lambda _: replace(answer, verdict=doubt))
    at = open_page("crossover", run=keep(engine.store, run))
    assert "Inconclusive: the machine was too unsteady." in text_of(at)
    assert "Worker processes of the same target disagree" in text_of(at)


def test_a_run_without_rounds_opens_without_charts(engine: Any) -> None:
    run = make_run(4).model_copy(update={"rounds": (), "cells": ()})
    at = open_page("crossover", run=keep(engine.store, run, status="failed"))
    assert "Nothing was measured." in at.subheader[0].value
    assert not chart_titles(at)


def test_imported_points_without_plan_or_machine_open(engine: Any) -> None:
    data = b"target,batch,step_ms\n" + b"".join(
        f"{t},{b},{m * b + f}\n".encode()
        for t, f, m in (("cpu", 0.1, 0.1), ("gpu", 2.0, 0.01))
        for b in (1, 8, 64, 512)
    )
    at = open_page("crossover", run=engine.store.add(read_run(data, "points.csv")))
    assert "no interval" in text_of(at)
    assert "machine unknown" in text_of(at)


def test_embedded_view_has_verdict_and_two_charts_only(engine: Any) -> None:
    run_id = keep(engine.store, make_run(4))
    at = AppTest.from_file(str(ROOT / "app.py"), default_timeout=30)
    at.context = {"is_embedded": True}
    at.run()
    at.switch_page("pages/crossover.py")
    at.query_params["run"] = run_id
    at.run()
    assert not at.exception
    assert not at.header
    assert chart_titles(at) == ["<b>Speed-up and crossover</b>", "<b>Step time by batch size</b>"]


def test_names_cannot_smuggle_markup(engine: Any) -> None:
    run = make_run(4).model_copy(update={"name": "[x](http://evil.example) **b** :red[z]"})
    at = open_page("crossover", run=keep(engine.store, run))
    assert "\\[x\\](http" in at.header[0].value.replace("&#58;", ":")
    assert ":red[" not in at.header[0].value


def test_dark_charts_have_light_ink() -> None:
    import json

    at = AppTest.from_file(str(ROOT / "app.py"), default_timeout=30)
    at.context = {"theme": "dark"}
    at.run()
    layout = json.loads(at.get("plotly_chart")[0].proto.spec)["layout"]
    assert (layout["font"]["color"], layout["paper_bgcolor"]) == ("#E6EDF3", "#10161C")


def test_picture_format_follows_the_choice() -> None:
    import json

    at = open_page("crossover")
    at.get_by_key("image").set_value("png").run()
    config = json.loads(at.get("plotly_chart")[0].proto.config)
    assert config["toImageButtonOptions"]["format"] == "png"
    assert config["showSendToCloud"] is False


def test_downloads_hold_the_run(engine: Any) -> None:
    run = engine.store.load(keep(engine.store, make_run(4)))
    assert read_run(downloads.content(run, "json"), "a.json").rounds == run.rounds
    assert downloads.content(run, "rounds.csv").startswith(b"target,batch,step_ms")
    assert b"overhead_share_fitted" in downloads.content(run, "cells.csv").splitlines()[0]
    report = downloads.content(run, "html")
    assert b"<html" in report[:2000]
    assert run.name.encode() in report

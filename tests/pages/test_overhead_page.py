"""The Overhead page: where a step goes, for every state of a run's traces; a trace of one more cell on request."""

from __future__ import annotations

import json
import threading
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from core.imports import read_run
from core.measure import process, tracing
from core.measure.jobs import TaskSnapshot
from core.results import Label, Run
from core.traced import TracedCell
from core.ui import registry
from tests.support.pages import ROOT, chart_titles, keep, open_page, snapshot_of, text_of
from tests.support.runs import make_run
from tests.support.traced import cpu_cell, gpu_cell, with_traces

pytestmark = pytest.mark.usefixtures("engine")

SHARES = "<b>Where a step goes, by batch size</b>"
TRACED = (cpu_cell(8), gpu_cell(1, ratio=1.62), gpu_cell(32), gpu_cell(1024))


def open_run(engine: Any, *cells: TracedCell, **query: str) -> AppTest:
    return open_page("overhead", run=keep(engine.store, with_traces(make_run(4), *cells)), **query)


def finished(description: str, error: str | None = None) -> TaskSnapshot:
    task = TaskSnapshot(description)
    task.active, task.error = False, error
    return task


def picture(at: AppTest, index: int) -> str:
    """All that a chart holds, as readable text."""
    return json.dumps(json.loads(at.get("plotly_chart")[index].proto.spec), ensure_ascii=False)


def target_choice(at: AppTest) -> Any:
    return next(group for group in at.button_group if "overhead_target" in str(group.key))


def batch_choice(at: AppTest) -> Any:
    return next(box for box in at.selectbox if "overhead_batch" in str(box.key))


def test_the_answer_comes_first_with_its_label_and_numbers(engine: Any) -> None:
    at = open_run(engine, *TRACED)
    text = text_of(at)
    assert "the device computes during 61 % of a traced step; 39 % is overhead" in at.subheader[0].value
    assert "measured" in str([badge.proto.body for badge in at.get("markdown")])
    assert "Step, unprofiled 1.82 ms" in text
    assert "Step, profiled 2 ms" in text
    assert "Profiled ÷ unprofiled 1.1×" in text
    assert "Compute share, traced 61 %" in text
    assert "Overhead share, traced 39 %" in text
    assert "Overhead share, fitted" in text


def test_both_charts_and_all_tables_stand_on_the_page(engine: Any) -> None:
    at = open_run(engine, *TRACED)
    assert chart_titles(at) == [SHARES, "<b>One traced step at batch 32</b>"]
    kernels, host = at.dataframe[0].value, at.dataframe[1].value
    assert kernels["kernel"][0] == "cutlass::Kernel2"
    assert kernels["name"][0].startswith("void cutlass::Kernel2<")
    assert list(host["operation"]) == ["model/Where", "model/Unique", "while/IteratorGetNext"]
    assert "2 operations fell back to the host" in text_of(at)
    assert "Fitted against traced" in text_of(at)


def test_a_cpu_target_has_operations_and_says_why_it_has_no_placement_table(engine: Any) -> None:
    at = open_run(engine, *TRACED, target="first")
    assert "operations run during 70 %" in at.subheader[0].value
    assert len(at.dataframe) == 1
    assert "Operations that cost most" in text_of(at)
    assert "The target is the host itself" in text_of(at)


def test_the_choice_of_target_and_batch_goes_into_the_address(engine: Any) -> None:
    at = open_run(engine, *TRACED)
    assert (at.query_params["target"], at.query_params["batch"]) == ("second", "32")
    batch_choice(at).select(1024).run()
    assert "<b>One traced step at batch 1,024</b>" in chart_titles(at)
    assert at.query_params["batch"] == "1024"
    target_choice(at).set_value(0).run()
    assert not at.exception
    assert "At batch 8 operations run" in at.subheader[0].value
    assert (at.query_params["target"], at.query_params["batch"]) == ("first", "8")


def test_an_address_opens_exactly_that_cell(engine: Any) -> None:
    at = open_run(engine, *TRACED, target="second", batch="1024")
    assert "<b>One traced step at batch 1,024</b>" in chart_titles(at)


@pytest.mark.parametrize("batch", ["7", "-1", "x", "9" * 5000, "٣"])
def test_a_batch_that_was_not_traced_falls_back(engine: Any, batch: str) -> None:
    assert "<b>One traced step at batch 32</b>" in chart_titles(open_run(engine, *TRACED, target="third", batch=batch))


def test_only_the_first_target_traced_opens_that_one(engine: Any) -> None:
    assert "operations run" in open_run(engine, cpu_cell(8)).subheader[0].value


def test_a_trace_not_to_be_trusted_is_marked_and_explained(engine: Any) -> None:
    at = open_run(engine, *TRACED, batch="1")
    text = text_of(at)
    assert "The split at batch 1 is not to be trusted" in text
    assert "1.62 times as long" in text
    assert "go by the fitted share" in text
    assert "not to be trusted (1.62×)" in picture(at, 0)
    assert "1 (not to be trusted)" in batch_choice(at).options


def test_trusted_cells_are_opened_before_others(engine: Any) -> None:
    at = open_run(engine, gpu_cell(16, ratio=1.5), gpu_cell(32, ratio=1.5), gpu_cell(512))
    assert "<b>One traced step at batch 512</b>" in chart_titles(at)


def test_functions_traced_anew_are_warned_about(engine: Any) -> None:
    assert "traced anew 2 times" in text_of(open_run(engine, gpu_cell(retraces=2)))


def test_a_trace_without_kernels_says_so(engine: Any) -> None:
    cell = gpu_cell(host_ops=())
    at = open_run(engine, cell.model_copy(update={"device": cell.device.model_copy(update={"top": ()})}))
    assert "The trace names no kernel." in text_of(at)
    assert "no operation is known to have run on the host" in text_of(at)
    assert not at.dataframe


def test_a_run_without_traces_says_so_and_offers_one(engine: Any) -> None:
    at = open_run(engine)
    assert "No cell of this run was traced" in at.info[0].value
    assert not chart_titles(at)
    assert not at.button(key="trace").disabled
    assert at.page_link[0].label == "The fitted share of both targets"


def test_a_target_without_traces_points_to_the_other(engine: Any) -> None:
    at = open_run(engine, cpu_cell(8), target="second")
    assert "the other target has a trace" in text_of(at)
    assert not at.button(key="trace").disabled


@pytest.mark.parametrize("label", ["recorded", "modelled"])
def test_runs_not_measured_here_cannot_be_traced_and_say_why(engine: Any, label: Label) -> None:
    run = with_traces(make_run(4, label=label), *TRACED)
    at = open_page("overhead", run=engine.store.add(run))
    assert f"this run is {label}" in text_of(at)
    assert not [button for button in at.button if button.key == "trace"]
    assert chart_titles(at)[0] == SHARES
    assert f"Bars: steps under the profiler, {label}" in picture(at, 0)


def test_imported_points_have_neither_traces_nor_a_button(engine: Any) -> None:
    rows = b"".join(f"{t},{b},{m * b + 1}\n".encode() for t, m in (("a", 0.1), ("b", 0.01)) for b in (1, 8, 64))
    at = open_page("overhead", run=engine.store.add(read_run(b"target,batch,step_ms\n" + rows, "points.csv")))
    assert "Only points were imported" in text_of(at)
    assert "No cell of this run was traced" in text_of(at)


def test_a_run_without_rounds_has_nothing_to_trace(engine: Any) -> None:
    run = make_run(4).model_copy(update={"rounds": (), "cells": ()})
    at = open_page("overhead", run=keep(engine.store, run, status="failed"))
    assert "there is none to trace" in text_of(at)


def test_traces_without_rounds_are_shown_without_a_fit(engine: Any) -> None:
    run = with_traces(make_run(4).model_copy(update={"rounds": (), "cells": ()}), gpu_cell(32))
    at = open_page("overhead", run=keep(engine.store, run, status="failed"))
    assert "Overhead share, fitted none" in text_of(at)
    assert "There is no fitted share to compare with" in text_of(at)
    assert "Too few batch sizes for a fitted line" in picture(at, 0)


def test_tracing_goes_through_the_job_queue_and_the_new_trace_is_shown(
    engine: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def trace_cell(run: Run, target: int, batch: int, launcher: Any) -> TracedCell:
        asked.append((run.id, target, batch, launcher))
        return gpu_cell(batch)

    monkeypatch.setattr(tracing, "trace_cell", trace_cell)
    at = open_run(engine, gpu_cell(32))
    next(box for box in at.selectbox if "trace_batch" in str(box.key)).select(256).run()
    at.button(key="trace").click().run()
    assert not at.exception
    ((description, work),) = engine.jobs.tasks
    assert description == "Tracing cpu,threads=2 at batch 256"
    thread = threading.Thread(target=work)  # as the engine does, without a session of Streamlit
    thread.start()
    thread.join()
    assert asked == [(at.query_params["run"], 1, 256, process.launch_processes)]
    engine.jobs.task = finished(description)
    at.run()
    assert "<b>One traced step at batch 256</b>" in chart_titles(at)
    assert len(json.loads(at.get("plotly_chart")[0].proto.spec)["data"][0]["y"]) == 2


def test_a_trace_made_anew_replaces_the_picture(engine: Any) -> None:
    at = open_run(engine, gpu_cell(32))
    registry.keep_trace(engine.store, at.query_params["run"], gpu_cell(32, step_ms=4.0))
    at.run()
    assert "4 ms under the profiler" in picture(at, 1)


def test_a_running_trace_is_shown_and_cannot_start_twice(engine: Any) -> None:
    engine.jobs.task = TaskSnapshot("Tracing cpu,threads=2 at batch 32")
    at = open_run(engine, *TRACED)
    assert "Tracing cpu,threads=2 at batch 32" in at.get("progress")[0].proto.text
    assert at.button(key="trace").disabled


def test_a_failed_trace_says_why(engine: Any) -> None:
    engine.jobs.task = finished("Tracing cpu at batch 32", "TensorFlow's profiler wrote no trace.")
    at = open_run(engine)
    assert "Tracing cpu at batch 32 failed: TensorFlow's profiler wrote no trace." in text_of(at)


def test_the_demonstrations_error_is_not_shown_here(engine: Any) -> None:
    engine.jobs.task = finished("Timing 784-128-10", "It took longer than 240 s.")
    assert not open_run(engine, *TRACED).error


def test_a_sweep_keeps_a_trace_waiting(engine: Any) -> None:
    engine.jobs.current = snapshot_of(make_run(5, status="running"))
    at = open_run(engine, *TRACED)
    assert at.button(key="trace").disabled
    assert "Only one runs at a time" in text_of(at)


def test_a_refusal_at_the_last_moment_is_said(engine: Any) -> None:
    at = open_run(engine)
    engine.jobs.refusal = "busy"
    at.button(key="trace").click().run()
    assert "try again when it is done" in text_of(at)


def test_embedded_view_has_the_two_charts_only(engine: Any) -> None:
    run_id = keep(engine.store, with_traces(make_run(4), *TRACED))
    at = AppTest.from_file(str(ROOT / "app.py"), default_timeout=30)
    at.context = {"is_embedded": True}
    at.run()
    at.switch_page("pages/overhead.py")
    for name, value in {"run": run_id, "target": "second", "batch": "1024"}.items():
        at.query_params[name] = value
    at.run()
    assert not at.exception
    assert chart_titles(at) == [SHARES, "<b>One traced step at batch 1,024</b>"]
    assert not at.header
    assert not at.subheader
    assert not at.dataframe
    assert not at.button
    assert not at.selectbox


def test_names_cannot_smuggle_markup(engine: Any) -> None:
    run = with_traces(make_run(4), *TRACED).model_copy(
        update={"name": "[x](http://evil.example)", "target_names": ("**a**", ":red[b]")}
    )
    at = open_page("overhead", run=keep(engine.store, run))
    shown = [*(element.value for element in at.caption), at.header[0].value]
    assert not any(":red[" in text or "[x](" in text for text in shown)
    assert not any(":red[" in option.content for option in target_choice(at).proto.options)


def test_unknown_run_is_said_with_a_way_on() -> None:
    at = open_page("overhead", run="20260105-gone00")
    assert "There is no run" in at.error[0].value

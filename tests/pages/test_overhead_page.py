"""The Overhead page: where a step's time goes, for every state of a run's traces; one more trace on request."""

import json
import threading
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from core.base.evidence import Label
from core.rounds.run import Run
from core.studies.sweep import trace
from core.traces.record import TracedCell
from core.ui.overhead import result
from core.ui.words import plain
from simulated.commands import holds
from simulated.pages import chart_titles, ended, keep, open_page, says, text_of, tools_of
from simulated.runs import make_run
from tests.support.traced import cpu_cell, gpu_cell, with_traces

pytestmark = pytest.mark.usefixtures("engine")

SHARES = "<b>Traced parts of a step by batch size</b>"
ON_HOST, TRACING = "On the host instead of the device", "Trace another batch"
FOLDS = (
    *(f"One traced step at batch {batch}" for batch in ("1", "8", "16", "32", "256", "512", "1,024")),
    "Kernels that cost most", "Operations that cost most", ON_HOST, result.FITTED, TRACING, "How it was traced",
)  # fmt: skip
OVERHEAD = "<b>Fixed-cost share by batch size (fitted)</b>"
TRACED = (cpu_cell(8), gpu_cell(1, ratio=1.62), gpu_cell(32), gpu_cell(1024))


def open_run(engine: Any, *cells: TracedCell, **query: Any) -> AppTest:
    return open_page("overhead", run=keep(engine.store, with_traces(make_run(4), *cells)), folds=FOLDS, **query)


def picture(at: AppTest, index: int) -> str:
    """Return the content of a chart as readable text."""
    return json.dumps(json.loads(at.get("plotly_chart")[index].proto.spec), ensure_ascii=False)


def step_chart(batch: object) -> str:
    return f"<b>One traced step at batch {batch}</b>"


def target_choice(at: AppTest) -> Any:
    return next(group for group in at.button_group if "overhead_target" in str(group.key))


def batch_choice(at: AppTest) -> Any:
    return next(box for box in at.selectbox if "overhead_batch" in str(box.key))


def test_the_answer_comes_first_with_its_label_and_numbers_then_charts_and_tables(engine: Any) -> None:
    at = open_run(engine, *TRACED)
    assert len(at.header) == 1
    says(at, "computes during 61", "(61 to 61", "2 operations fell", "two things")
    assert "measured" in str([badge.proto.body for badge in at.get("markdown")])
    numbers = {metric.label: metric.value for metric in at.metric}
    times = {"Step, unprofiled": "1.82 ms", "Step, profiled": "2 ms", "Profiled ÷ unprofiled": "1.1×"}
    assert numbers.items() >= times.items()
    assert chart_titles(at) == [SHARES, step_chart(32), OVERHEAD]
    kernels, host = at.dataframe[0].value, at.dataframe[1].value
    assert kernels["kernel"][0] == "cutlass::Kernel2"
    assert kernels["name"][0].startswith("void cutlass::Kernel2<")
    assert list(host["operation"]) == ["model/Where", "model/Unique", "while/IteratorGetNext"]


def test_the_choice_of_target_and_batch_goes_into_the_address_and_a_cpu_has_operations(engine: Any) -> None:
    at = open_run(engine, *TRACED)
    assert (at.query_params["target"], at.query_params["batch"]) == ("2", "32")
    batch_choice(at).select(1024).run()
    assert step_chart("1,024") in chart_titles(at)
    assert at.query_params["batch"] == "1024"
    target_choice(at).set_value(0).run()
    assert at.header[0].value.startswith("At batch 8 ")
    assert (at.query_params["target"], at.query_params["batch"]) == ("1", "8")
    assert len(at.dataframe) == 2, "operations, and the machine"
    says(at, "during 70 %", "the host itself")


@pytest.mark.parametrize(
    ("cells", "query", "batch"),
    [
        (TRACED, {"target": "second", "batch": "1024"}, "1,024"),
        *((TRACED, {"target": "third", "batch": text}, "32") for text in ("7", "-1", "x", "9" * 5000, "٣")),
        ((cpu_cell(8),), {}, "8"),
        ((gpu_cell(16, ratio=1.5), gpu_cell(32, ratio=1.5), gpu_cell(512)), {}, "512"),
    ],
    ids=["named", "not traced", "below one", "no number", "too long", "not ascii", "first target", "trusted"],
)
def test_the_cell_of_the_address_opens_else_the_one_that_says_most(
    engine: Any, cells: tuple[TracedCell, ...], query: dict[str, str], batch: str
) -> None:
    assert step_chart(batch) in chart_titles(open_run(engine, *cells, **query))


def test_a_trace_not_to_be_trusted_is_marked_and_explained(engine: Any) -> None:
    at = open_run(engine, *TRACED, batch="1")
    holds(at.warning[0].value, "batch 1 ", "1.62 times", "fixed-cost share")
    assert "(1.62×)" in picture(at, 0)
    assert next(option for option in batch_choice(at).options if "trusted" in option).startswith("1 (")


def test_a_trace_that_lost_events_is_not_to_be_trusted_and_what_else_is_to_know_of_it_is_shown(engine: Any) -> None:
    notes = ("The profiler says: 7 events dropped.", "XLA runs its kernels [one] by *one* under the profiler.")
    at = open_run(engine, gpu_cell(32, ratio=1.0, dropped_events=7, retraces=2, notes=notes))
    assert "lost 7 events" in at.warning[0].value
    assert "again 2 times" in text_of(at)
    assert "  \n".join(map(plain, notes)) in [caption.value for caption in at.caption]


@pytest.mark.parametrize(
    ("cells", "sentence"),
    [((), "No batch"), ((cpu_cell(8),), "1 thread has")],
    ids=["run", "target"],
)
def test_what_has_no_trace_says_so_and_offers_one(engine: Any, cells: tuple[TracedCell, ...], sentence: str) -> None:
    at = open_run(engine, *cells, target="second")
    assert sentence in at.info[0].value
    assert chart_titles(at) == [OVERHEAD]
    assert not at.button(key="trace").disabled
    assert at.page_link[0].proto.page == "crossover"


def test_a_trace_without_kernels_says_so(engine: Any) -> None:
    cell = gpu_cell(host_ops=())
    at = open_run(engine, cell.model_copy(update={"device": cell.device.model_copy(update={"top": ()})}))
    says(at, "names no kernel", "no operation is")
    assert len(at.dataframe) == 1, "the machine"


@pytest.mark.parametrize("label", ["recorded", "modelled"])
def test_runs_not_measured_here_cannot_be_traced_and_say_why(engine: Any, label: Label) -> None:
    run = with_traces(make_run(4, label=label), *TRACED)
    at = open_page("overhead", run=engine.store.add(run), folds=FOLDS)
    assert f"this run is {label}" in text_of(at)
    assert not [button for button in at.button if button.key == "trace"]
    assert chart_titles(at)[0] == SHARES
    assert f"the profiler, {label}" in picture(at, 0)


def test_traces_without_rounds_are_shown_without_a_fit(engine: Any) -> None:
    run = with_traces(make_run(4).model_copy(update={"rounds": (), "cells": ()}), gpu_cell(32))
    at = open_page("overhead", run=keep(engine.store, run, status="failed"), folds=FOLDS)
    says(at, "no fixed-cost share")


def test_tracing_goes_through_the_job_queue_and_the_new_trace_is_shown(
    engine: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def trace_cell(used: Any, run: Run, target: int, batch: int) -> TracedCell:
        asked.append((used, run.id, target, batch))
        return gpu_cell(batch)

    monkeypatch.setattr(trace, "trace_cell", trace_cell)
    at = open_run(engine, gpu_cell(32))
    next(box for box in at.selectbox if "trace_batch" in str(box.key)).select(256).run()
    at.button(key="trace").click().run()
    ((task, plan),) = engine.jobs.started
    tools = tools_of(engine)
    thread = threading.Thread(target=task.run, args=(tools, plan))  # like the engine, without a session
    thread.start()
    thread.join()
    assert asked == [(tools, at.query_params["run"], 1, 256)]
    engine.jobs.show(ended("trace"))
    at.run()
    assert step_chart(256) in chart_titles(at)
    assert len(json.loads(at.get("plotly_chart")[0].proto.spec)["data"][0]["y"]) == 2


def test_a_new_trace_replaces_the_picture(engine: Any) -> None:
    at = open_run(engine, gpu_cell(32))
    engine.store.record(at.query_params["run"], (gpu_cell(32, step_ms=4.0),))
    at.run()
    assert "4 ms under" in picture(at, 1)

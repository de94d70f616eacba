"""A trace file on the Overhead page: the views of a trace taken here, labelled as read from a file, and refusals."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from core.ui.overhead import trace_file
from simulated.pages import chart_titles, keep, open_page, says, text_of
from simulated.runs import make_run
from simulated.traces import MadeTrace, gpu_trace
from tests.support.traced import gpu_cell, with_traces

pytestmark = pytest.mark.usefixtures("engine")

FOLDS = (
    trace_file.OPEN, "One traced step", "Kernels that cost most", "Operations that cost most",
    "On the host instead of the device", "Parts of the mean step", "How it was read",
)  # fmt: skip
STEPS, STEP = "<b>Traced parts of each step</b>", "<b>One traced step in this file</b>"


def opened(engine: Any, name: str, data: bytes) -> AppTest:
    """Upload a file on the page of a traced run."""
    run = keep(engine.store, with_traces(make_run(4), gpu_cell(32)))
    at = open_page("overhead", run=run, folds=FOLDS)
    at.file_uploader[0].upload(name, data)
    return at.run()


def pytorch_trace() -> bytes:
    events = [
        {"ph": "X", "cat": "user_annotation", "name": f"ProfilerStep#{step}", "tid": 1, "ts": 100.0 * step, "dur": 90.0}
        for step in range(4)
    ]
    events += [
        {"ph": "X", "cat": "cpu_op", "name": "aten::addmm", "tid": 1, "ts": 100.0 * step + 10, "dur": 45.0}
        for step in range(4)
    ]
    return json.dumps({"schemaVersion": 1, "traceEvents": events}).encode()


def test_a_file_has_the_views_of_a_trace_taken_here_and_says_that_it_is_from_a_file(engine: Any) -> None:
    at = opened(engine, "../vm.xplane.pb", gpu_trace().data())
    assert at.title[0].value == "vm.xplane.pb"
    assert chart_titles(at) == [STEPS, STEP]
    says(at, "from a file", "recorded", "GPU:0 in vm.xplane.pb", "annotated on the")
    kernels, host, parts = (frame.value for frame in at.dataframe)
    assert kernels["kernel"][0] == "gemm"
    assert list(host["operation"]) == ["name/AsString"]
    assert host["label"][0] == "recorded"
    assert parts["share_pct"].sum() == pytest.approx(100)
    assert "run" not in at.query_params
    assert not engine.jobs.started


@pytest.mark.parametrize(
    ("name", "data"),
    [("pt.json", pytorch_trace()), ("pt.json.gz", gzip.compress(pytorch_trace(), mtime=0))],
    ids=["json", "gz"],
)
def test_a_trace_of_pytorch_opens_packed_or_not(engine: Any, name: str, data: bytes) -> None:
    at = opened(engine, name, data)
    says(at, "operations run during", "the host itself")
    assert at.dataframe[0].value["name"][0] == "aten::addmm"
    figure = json.loads(at.get("plotly_chart")[0].proto.spec)
    assert len(figure["data"][0]["y"]) == 4  # one bar per step


def test_each_device_of_a_file_can_be_shown_and_lost_events_are_said(engine: Any) -> None:
    made = gpu_trace()
    made.space.warnings.append(b"Detected GPU events dropped on host: 7 events dropped because the buffer is full.")
    made.plane("/device:GPU:1").line("Stream #1").event("slow_gemm", 0, 190)
    at = opened(engine, "two.xplane.pb", made.data())
    says(at, "lost 7 events")
    (choice,) = (box for box in at.selectbox if box.label == "Device")
    assert choice.options == ["GPU:0", "GPU:1"]
    choice.select_index(1).run()
    assert at.dataframe[0].value["name"][0] == "slow_gemm"


def test_broken_input_is_refused_and_the_run_stays(engine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trace_file, "MAX_BYTES", 1000)
    at = opened(engine, "empty.xplane.pb", b"")
    for name, data, words in (
        ("empty.xplane.pb", b"", "is empty"),
        ("zip.xplane.pb", b"PK\x03\x04", "ZIP archive"),
        ("none.json", b"{}", "traceEvents"),
        ("half.json", b'{"traceEvents": [', "valid JSON"),
        ("half.json.gz", gzip.compress(pytorch_trace(), mtime=0)[:40], "be unpacked"),
        ("idle.xplane.pb", MadeTrace().data() + b"\x0a\x00", "no events"),
        ("large.json", b" " * 2**10, "larger than"),
    ):
        at.file_uploader[0].upload(name, data).run()
        assert words in at.error[0].value
        assert at.header[0].value.startswith("At batch 32 ")
        assert not at.run().error  # said once


def test_the_file_can_be_closed_and_a_link_to_a_run_closes_it(engine: Any) -> None:
    at = opened(engine, "vm.xplane.pb", gpu_trace().data())
    at.button(key="close-trace").click().run()
    assert STEPS not in chart_titles(at)
    at.session_state[f"folded-{trace_file.OPEN}"] = True
    at.run().file_uploader[0].upload("vm.xplane.pb", gpu_trace().data()).run()
    assert STEPS in chart_titles(at)
    at.query_params["run"] = next(summary.id for summary in engine.store.summaries())
    at.run()
    assert at.header[0].value.startswith("At batch 32 ")


def test_a_hostile_name_is_plain_text_and_no_path(tmp_path: Path) -> None:
    victim = tmp_path / "x.xplane.pb"
    read = trace_file.read(f"{victim}", gpu_trace().data())
    assert read.name == "x.xplane.pb"
    assert not victim.exists()
    assert trace_file.read("..\\..\\a[b](c)<d>.xplane.pb", gpu_trace().data()).name == "a_b_(c)_d_.xplane.pb"


def test_a_page_without_menus_shows_the_run_alone(engine: Any) -> None:
    run = keep(engine.store, with_traces(make_run(4), gpu_cell(32)))
    at = open_page("overhead", embedded=True, run=run)
    assert not at.file_uploader
    assert trace_file.OPEN not in text_of(at)

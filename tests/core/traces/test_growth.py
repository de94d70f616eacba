"""Reading and analysis of a trace take time that grows with its events, lines, steps and GPUs, and no faster."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from core.traces import partition
from core.traces import report as timelines
from core.traces import report as traces_report
from core.traces.events import TraceError
from core.traces.report import report
from core.traces.trace_names import kinds
from core.traces.xplane import read
from simulated import large_traces as large
from simulated.traces import MadeTrace
from tests.support.growth import MOST, growth

SHAPES: dict[str, tuple[Callable[[int], bytes], int]] = {
    "events": (large.thread, 2_000),
    "threads": (lambda n: large.threads(n, of=2), 40),
    "streams": (large.streams, 40),
    "steps": (large.steps, 400),
    "GPUs": (lambda n: large.gpus(n, large.thread(2_000)), 4),
    "names": (large.names, 800),
}


@pytest.mark.parametrize("name", SHAPES)
def test_reading_and_analysis_grow_with_the_trace(name: str, tmp_path: Path) -> None:
    make, size = SHAPES[name]

    def work(count: int) -> Callable[[], object]:
        path = tmp_path / f"{count}.xplane.pb"
        large.write(path, [make(count)])
        return lambda: report(read(path))

    assert growth(work, size) < MOST


@pytest.mark.parametrize("part", ["Await", "Synchronize", "cuA", "IteratorGetNext", "a:B", "Dataset"])
def test_what_a_name_says_is_found_in_time_that_grows_with_the_name(part: str) -> None:
    def work(repeats: int) -> Callable[[], object]:
        text = f"cuA{part * repeats}!"
        return lambda: [kinds((text,)) for _ in range(20)]

    assert growth(work, 200) < MOST


def test_more_steps_than_a_trace_is_made_of_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partition, "MAX_STEPS", 20)
    for make in (large.steps, large.gpu_steps):
        large.write(tmp_path / "t.xplane.pb", [make(20)])
        assert len(report(read(tmp_path / "t.xplane.pb")).devices[0].steps) == 20
        large.write(tmp_path / "t.xplane.pb", [make(21)])
        with pytest.raises(TraceError, match="holds 21 steps"):
            report(read(tmp_path / "t.xplane.pb"))


def test_the_host_is_worked_out_once_for_all_gpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counted: list[int] = []
    joined = partition.joined
    monkeypatch.setattr(partition, "joined", lambda parts: counted.append(1) or joined(parts))
    large.write(tmp_path / "t.xplane.pb", [large.gpus(8, large.steps(5))])
    assert len(report(read(tmp_path / "t.xplane.pb")).devices) == 8
    assert len(counted) == 1


def test_of_many_operations_on_the_host_those_that_cost_most_are_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(traces_report, "MAX_HOST_OPS", 3)
    made = MadeTrace()
    thread, stream = made.plane("/host:CPU").line("python"), made.plane("/device:GPU:0").line("Stream #1(Kernel)")
    for index in range(7):
        thread.event(f"op{index}/String:AsString", 10 * index, 1 + index)
    thread.event("cuLaunchKernel", 100, 1, correlation_id=1)
    stream.event("gemm", 0, 200, correlation_id=1)
    found = made.report(tmp_path)
    assert [op.name for op in found.host_ops] == ["op6/String", "op5/String", "op4/String"]
    assert any("the 3 that" in note for note in found.notes)


def test_the_timeline_keeps_the_longest_events_of_all_lanes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = MadeTrace()
    host = made.plane("/host:CPU")
    for lane in range(3):
        thread = host.line(f"thread {lane}")
        for index in range(10):
            thread.event(f"op{lane}{index}/MatMul:MatMul", 20 * index, 1 + 3 * index + lane)
    monkeypatch.setattr(timelines, "MAX_SPANS", 4)
    (device,) = made.report(tmp_path).devices
    spans = [(span.lane, span.name.split("/")[0], round(span.length_ms * 1000)) for span in device.timeline]
    longest = [("thread 0", "op09", 28), ("thread 1", "op19", 29), ("thread 2", "op28", 27), ("thread 2", "op29", 30)]
    assert spans == longest


def test_sums_of_impossibly_long_events_do_not_overflow(tmp_path: Path) -> None:
    made = MadeTrace()
    thread = made.plane("/host:CPU").line("python")
    for index in range(20):
        thread.event("a/MatMul:MatMul", index, 2**59 / 1e6)
    (device,) = made.report(tmp_path).devices
    assert device.top[0].total_ms == pytest.approx(20 * 2**59 / 1e9)

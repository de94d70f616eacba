"""PyTorch's Chrome JSON, read into the same partition: handmade traces, so that the truth about them is known.

The events of a GPU follow Kineto's documented format; no trace of a real one was read.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from core.traces import chrome
from core.traces.events import TraceError
from core.traces.record import PARTS, DeviceTrace, TraceReport
from core.traces.report import report

BEGAN_US = 4_496_626_965_080.25
MAIN, BACKWARD = 18, 19
Event = dict[str, Any]


def made(kind: str, name: str, at_us: float, length_us: float, thread: int = MAIN, **args: Any) -> Event:
    times = {"ts": BEGAN_US + at_us, "dur": length_us}
    return {"ph": "X", "cat": kind, "name": name, "pid": 18, "tid": thread, **times, "args": args}


def op(name: str, at_us: float, length_us: float, thread: int = MAIN) -> Event:
    return made("cpu_op", name, at_us, length_us, thread)


def launch(at_us: float, correlation: int, name: str = "cudaLaunchKernel") -> Event:
    return made("cuda_runtime", name, at_us, 2, correlation=correlation, cbid=211)


def on_gpu(kind: str, name: str, at_us: float, length_us: float, correlation: int, **args: Any) -> Event:
    return made(kind, name, at_us, length_us, 7, device=0, stream=7, correlation=correlation, **args)


def step(number: int, at_us: float, length_us: float) -> Event:
    return made("user_annotation", f"ProfilerStep#{number}", at_us, length_us)


def read(folder: Path, events: list[Event], device: str | None = "CPU") -> TraceReport:
    path = folder / "trace.json"
    names = [{"ph": "M", "name": "thread_name", "pid": 18, "tid": MAIN, "args": {"name": "thread 18 (python)"}}]
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": [*names, *events]}))
    return report(chrome.read(path), None, () if device is None else (device,))


def only(found: TraceReport) -> DeviceTrace:
    (device,) = found.devices
    return device


def parts_us(device: DeviceTrace) -> list[dict[str, float]]:
    rows = [{part: round(1000 * each.part_ms(part), 3) for part in PARTS} for each in device.steps]
    return [{part: value for part, value in row.items() if value} for row in rows]


CPU = [
    step(0, 0, 90),
    made("user_annotation", "Optimizer.step#Adam.step", 60, 30),
    op("aten::linear", 10, 20),
    op("aten::addmm", 12, 15),
    op("aten::view", 32, 5),
    op("autograd::engine::evaluate_function: AddmmBackward0", 40, 15, BACKWARD),
    op("aten::mm", 42, 10, BACKWARD),
    op("aten::to", 70, 8),
    op("aten::copy_", 72, 4),
    step(1, 100, 50),
    op("## Call CompiledFxGraph fdxo ##", 110, 30),
    op("aten::mm", 115, 5),
]


def test_a_step_on_the_cpu_is_its_outermost_operations_and_what_lies_between_them(tmp_path: Path) -> None:
    device = only(read(tmp_path, CPU))
    assert (device.device, device.steps_from) == ("CPU", "host steps")
    assert [1000 * each.step_ms for each in device.steps] == pytest.approx([100, 50])
    assert parts_us(device) == [{"compute": 34, "launch": 66}, {"compute": 30, "launch": 20}]
    assert {(kernel.name, kernel.count) for kernel in device.top} == {
        ("aten::linear", 1), ("aten::mm", 1), ("aten::copy_", 1), ("CompiledFxGraph fdxo", 1)
    }  # fmt: skip
    assert {span.lane for span in device.timeline} >= {"thread 18 (python)"}


def test_a_made_up_gpus_steps_hold_kernels_copies_and_launches(tmp_path: Path) -> None:
    """Launch in each step a copy, a kernel and a copy back; the device runs 50 µs behind the host."""
    events = []
    for number in range(2):
        at, tie = 100 * number, 10 * number
        events += [
            step(number, at, 90), launch(at + 5, tie + 1, "cudaMemcpyAsync"), op("aten::linear", at + 10, 20),
            launch(at + 20, tie + 2), launch(at + 30, tie + 3, "cudaMemcpyAsync"),
            on_gpu("gpu_memcpy", "Memcpy HtoD (Pageable -> Device)", at + 50, 10, tie + 1, bytes=4096),
            on_gpu("kernel", "void gemm<float>(int)", at + 70, 40, tie + 2),
            on_gpu("gpu_memcpy", "Memcpy DtoH (Device -> Pageable)", at + 110, 5, tie + 3, bytes=8),
        ]  # fmt: skip
    events.append(made("cuda_runtime", "cudaDeviceSynchronize", 195, 30))
    device = only(found := read(tmp_path, events, "GPU:0"))
    assert (device.device, device.steps_from, device.kernels) == ("GPU:0", "host steps", 2)
    first, second = parts_us(device)
    assert first == {"h2d": 10, "compute": 40, "d2h": 5, "launch": 17, "other": 28}
    assert sum(second.values()) == pytest.approx(65)
    assert (second["compute"], second["h2d"], second["d2h"]) == (40, 10, 5)
    assert (device.h2d_bytes, device.d2h_bytes) == (8192, 16)
    assert found.host_ops == ()


def test_kernels_on_another_gpu_than_was_asked_are_refused(tmp_path: Path) -> None:
    events = [step(0, 0, 90), launch(5, 1), on_gpu("kernel", "gemm", 50, 10, 1)]
    with pytest.raises(TraceError, match="ran on GPU:0"):
        read(tmp_path, events, "GPU:1")


def test_waiting_for_a_data_loader_is_input(tmp_path: Path) -> None:
    waiting = made("user_annotation", "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 5, 20)
    assert parts_us(only(read(tmp_path, [step(0, 0, 50), waiting, op("aten::mm", 30, 10)]))) == [
        {"compute": 10, "input": 20, "launch": 20}
    ]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "not valid JSON"),
        ("{", "not valid JSON"),
        ("[" * 100_000, "not valid JSON"),
        ("[]", "no list of traceEvents"),
        ('{"traceEvents": 7}', "no list of traceEvents"),
        ('{"traceEvents": []}', "no events"),
        ('{"traceEvents": [3, null, {"ph": "X", "cat": [], "name": {}}]}', "no events"),
        ('{"traceEvents": [{"ph": "X", "cat": "cpu_op", "name": "a", "ts": "x"}]}', "damaged"),
        ('{"traceEvents": [{"ph": "X", "cat": "cpu_op", "name": "a", "ts": 1, "dur": -1}]}', "damaged"),
        ('{"traceEvents": [{"ph": "X", "cat": "cpu_op", "name": "a", "ts": 1, "dur": 1e300}]}', "damaged"),
    ],
)
def test_what_is_no_trace_is_refused_in_a_sentence(text: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    path.write_text(text)
    with pytest.raises(TraceError, match=said):
        chrome.read(path)


def test_sizes_are_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chrome, "MAX_EVENTS", 5)
    with pytest.raises(TraceError, match="than 5 events"):
        read(tmp_path, CPU)
    monkeypatch.setattr(chrome, "MAX_FILE_BYTES", 50)
    with pytest.raises(TraceError, match="larger than 50"):
        read(tmp_path, CPU)

"""Profiler traces made by hand, in microseconds, so that a test knows the truth about them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from core.traces.record import TraceReport
from core.traces.report import report
from core.traces.xplane import message, read

BERT = Path(__file__).parents[2] / "shared/data/traces/bert_multi_gpu_2020.xplane.pb"
"""A recorded trace: a step of BERT on two GPUs."""
needs_bert = pytest.mark.skipif(not BERT.is_file(), reason="needs the recorded GPU trace in ../shared/data/traces")


class MadeLine:
    """A stream or a thread."""

    def __init__(self, plane: MadePlane, line: Any) -> None:
        self._plane, self._line = plane, line

    def event(self, name: str, start_us: float, length_us: float, **stats: int | str) -> MadeLine:
        """Add an event; its whole numbers and texts become values, texts by reference as in TensorFlow."""
        event = self._line.events.add(
            metadata_id=self._plane.name_id(name),
            offset_ps=round(start_us * 1e6) - self._line.timestamp_ns * 1000,
            duration_ps=round(length_us * 1e6),
        )
        for key, value in stats.items():
            stat = event.stats.add(metadata_id=self._plane.stat_id(key.rstrip("_")))
            if isinstance(value, str):
                stat.ref_value = self._plane.stat_id(value)
            elif value >= 2**63:
                stat.uint64_value = value
            else:
                stat.int64_value = value
        return self


class MadePlane:
    def __init__(self, plane: Any) -> None:
        self.message = plane
        self._names: dict[str, int] = {}
        self._stats: dict[str, int] = {}

    def name_id(self, name: str) -> int:
        return self._id_in(self._names, self.message.event_metadata, name)

    def stat_id(self, name: str) -> int:
        return self._id_in(self._stats, self.message.stat_metadata, name)

    def _id_in(self, known: dict[str, int], metadata: Any, name: str) -> int:
        if name not in known:
            known[name] = key = len(known) + 1
            metadata[key].id, metadata[key].name = key, name.encode()
        return known[name]

    def line(self, name: str, thread: int | None = None, timestamp_ns: int = 0) -> MadeLine:
        number = len(self.message.lines) + 1 if thread is None else thread
        return MadeLine(self, self.message.lines.add(id=number, name=name.encode(), timestamp_ns=timestamp_ns))


class MadeTrace:
    def __init__(self) -> None:
        self.space = message("XSpace")(hostnames=[b"host"])

    def plane(self, name: str) -> MadePlane:
        return MadePlane(self.space.planes.add(name=name.encode()))

    def data(self) -> bytes:
        return bytes(self.space.SerializeToString())

    def write(self, folder: Path, name: str = "made.xplane.pb") -> Path:
        path = folder / name
        path.write_bytes(self.data())
        return path

    def report(self, folder: Path, host_nodes: frozenset[str] | None = None) -> TraceReport:
        return report(read(self.write(folder)), host_nodes)


def gpu_trace() -> MadeTrace:
    """Return a trace of two annotated host steps of 100 µs, and a GPU that runs 50 µs behind them.

    Host, on ``python``: steps at 0 and 100; each launches a copy at +10 (ids 1, 11), two kernels at +20 and +30 (2, 12
    and 3, 13), a copy back at +40 (4, 14), and in ``HostOnly:AsString`` nothing; the driver's calls are on a plane of
    their own. Device: copy in 50-60, kernels 60-100 and 90-120 on two streams, copy out 120-125, idle to 150, when the
    second step begins with the same pattern. While the device idles, the host waits for input from 130 to 140, does
    something for the step to 145 and waits for the device after that.
    """
    trace = MadeTrace()
    host, driver, device = trace.plane("/host:CPU"), trace.plane("/host:CUPTI"), trace.plane("/device:GPU:0")
    python, calls = host.line("python", thread=7), driver.line("driver", thread=7)
    copies, first, second = (device.line(f"Stream #{name}") for name in ("14(MemcpyH2D)", "15(Kernel)", "16(Kernel)"))
    back = device.line("Stream #17(MemcpyD2H)")
    device.line("TensorFlow Ops").event("layer/MatMul:MatMul", 0, 1000)
    for step, at in enumerate((0, 100)):
        ids = [10 * step + offset for offset in (1, 2, 3, 4)]
        python.event("train", at, 95, step_num=step)
        python.event("layer/MatMul:MatMul", at + 18, 15)
        python.event("name/AsString:AsString", at + 34, 4)
        for offset, number in zip((10, 20, 30, 40), ids, strict=True):
            call = "cuLaunchKernel" if offset in (20, 30) else "cuMemcpyAsync"
            calls.event(call, at + offset, 2, correlation_id=number)
        sizes = {"memcpy_details": "kind_src:host size:4096 dest:0 async:1"}
        sizes |= {"from_": "name/AsString", "to": "layer/MatMul"}
        copies.event("MemcpyH2D", at + 50, 10, correlation_id=ids[0], **sizes)
        first.event("gemm", at + 60, 40, correlation_id=ids[1])
        second.event("relu", at + 90, 30, correlation_id=ids[2])
        back.event("MemcpyD2H", at + 120, 5, correlation_id=ids[3])
    python.event("IteratorGetNextOp::DoCompute", 130, 10)
    python.event("FunctionRun", 140, 5)
    calls.event("cuStreamSynchronize", 145, 5)
    return trace

"""A short trace of a prepared cell by PyTorch's profiler, partitioned in the worker; only the parts leave it.

Kernels of a GPU are read after their documented format (:mod:`core.traces.chrome`); no GPU was seen to run this.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

from torch.profiler import ProfilerActivity, profile, record_function

from core.traces.chrome import read
from core.traces.events import TraceError
from core.traces.report import report
from core.worker.protocol import CellFailed
from core.worker.torch.device import Device
from core.worker.torch.step import TorchStep
from core.worker.trace_reply import reply_fields

UNPROFILED_BLOCKS = 3
COMPILED_NOTE = "A compiled graph counts as compute whole: PyTorch names none of the kernels that it fused on a CPU."
EAGER_NOTE = "Operations are traced with the cost of starting them, so compute is at most what is shown."


def trace_steps(step: TorchStep, steps: int, device: Device) -> dict[str, Any]:
    """Fields of :class:`core.worker.protocol.Traced`, from ``steps`` calls of a fed step under the profiler.

    The same steps without the profiler are timed before and after. Raises CellFailed when the trace cannot be used.
    """
    if device.kind == "mps":
        raise CellFailed("error", "PyTorch's profiler does not see Apple's GPU, so its steps are not traced.")
    activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if device.kind == "cuda" else [])]
    with profile(activities=activities):
        pass  # the first session loads the profiler's libraries, which would be part of the first trace
    plain_ms = [step.run(steps) / steps for _ in range(UNPROFILED_BLOCKS)]
    with tempfile.TemporaryDirectory(prefix="breakeven-trace-") as folder:
        file = Path(folder, "trace.json")
        with profile(activities=activities) as profiler:
            profiled_ms = _profiled(step, steps)
        profiler.export_chrome_trace(str(file))
        try:
            trace = report(read(file), None, device.shown if device.kind == "cuda" else "CPU")
        except TraceError as error:
            raise CellFailed("error", f"The profiler's trace cannot be used: {error}") from None
    if device.kind == "cpu":
        notes = (*trace.notes, COMPILED_NOTE if step.is_compiled else EAGER_NOTE)
        trace = trace.model_copy(update={"notes": notes})
    plain_ms += [step.run(steps) / steps for _ in range(UNPROFILED_BLOCKS)]
    return reply_fields(trace, steps, 1) | {
        "profiled_step_ms": profiled_ms / steps,
        "unprofiled_step_ms": median(plain_ms),
    }


def _profiled(step: TorchStep, steps: int) -> float:
    """Run annotated steps and wait for the device; milliseconds."""
    with step.mode():
        start = time.perf_counter_ns()
        for number in range(steps):
            with record_function(f"ProfilerStep#{number}"):
                step.last = step.call()
        step.wait(step.last)
        return (time.perf_counter_ns() - start) * 1e-6

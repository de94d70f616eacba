"""A short trace of a prepared cell by PyTorch's profiler.

GPU kernels are read by their documented format (:mod:`core.traces.chrome`); this was never tested on a GPU.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from functools import cache
from pathlib import Path
from typing import Any

from torch.profiler import ProfilerActivity, profile, record_function

from core.worker import profiling
from core.worker.protocol import CellFailed
from core.worker.torch.device import Device, TorchStep

COMPILED_NOTE = "A compiled graph counts as compute whole: PyTorch names none of the kernels that it fused on a CPU."
EAGER_NOTE = "Operations are traced with the cost of starting them, so compute is at most what is shown."


def trace_steps(step: TorchStep, steps: int, device: Device) -> dict[str, Any]:
    """Trace as :func:`core.worker.profiling.trace_steps` does."""
    if device.kind == "mps":
        raise CellFailed("error", "PyTorch's profiler does not see Apple's GPU, so its steps are not traced.")
    _load_profiler(device.kind)
    name = device.shown if device.kind == "cuda" else "CPU"
    fields = profiling.trace_steps(step, steps, None, (name,), _Profiler(device.kind))
    if device.kind == "cpu":
        fields["notes"] = (*fields["notes"], COMPILED_NOTE if step.is_compiled else EAGER_NOTE)
    return fields


class _Profiler:
    title = "PyTorch"
    waits = False

    def __init__(self, kind: str) -> None:
        self._profile = profile(activities=_activities(kind))
        self._folder = ""

    def start(self, folder: str) -> None:
        self._folder = folder
        self._profile.start()

    def stop(self) -> None:
        self._profile.stop()
        self._profile.export_chrome_trace(str(Path(self._folder, "trace.json")))

    def step(self, number: int) -> AbstractContextManager[Any]:
        annotation: AbstractContextManager[Any] = record_function(f"ProfilerStep#{number}")
        return annotation


@cache
def _load_profiler(kind: str) -> None:
    """Run one empty session per process: the first one loads the profiler's libraries into the first trace."""
    with profile(activities=_activities(kind)):
        pass


def _activities(kind: str) -> list[ProfilerActivity]:
    return [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if kind == "cuda" else [])]

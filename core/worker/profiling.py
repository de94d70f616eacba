"""A short profiler trace of a prepared cell, partitioned in the worker; only the parts leave it. No framework.

TensorFlow and JAX have the same profiler and file format; PyTorch's writes JSON.
"""

from __future__ import annotations

import tempfile
import time
from contextlib import AbstractContextManager
from pathlib import Path
from statistics import median
from typing import Any, Protocol

from core.traces.budget import Cut, longest, within
from core.traces.events import TraceError
from core.traces.reading import READERS
from core.traces.record import PARTS, DeviceTrace, StepParts, TraceReport
from core.traces.report import report
from core.worker.protocol import MAX_LINE_BYTES, CellFailed
from core.worker.step import Step
from core.workload.names import all_of

SPANS = 1_200
"""Events of the timeline: enough for a picture."""
TRACE_BYTES = MAX_LINE_BYTES - 64 * 1024
"""For the device, the host operations and the notes; the rest is for the few numbers beside them."""


def reply_fields(trace: TraceReport, steps: int, per_call: int) -> dict[str, Any]:
    """Return fields of :class:`core.worker.protocol.Traced` from a trace of ``steps`` calls.

    Each call runs ``per_call`` steps. Raises CellFailed if the trace cannot be of these.
    """
    device = _all_reduced(trace.devices)
    if len(device.steps) > steps:
        raise CellFailed("error", f"The profiler's trace shows {len(device.steps):,} steps, but {steps} were run.")
    notes, shown = list(trace.notes), longest(device.timeline, SPANS)
    if others := [other.device for other in trace.devices[1:]]:
        notes.append(f"Shown are the steps of {device.device}; {all_of(others)} ran their own share of each.")
    if len(shown) < len(device.timeline):
        notes.append(f"Stored are the {len(shown):,} longest of the {len(device.timeline):,} events of the timeline.")
    device = _a_step_each(device, per_call).model_copy(update={"timeline": shown})
    cut = within(TRACE_BYTES, Cut(device, trace.host_ops, tuple(notes)))
    return {
        "device": cut.device,
        "host_ops": cut.host_ops,
        "notes": cut.notes,
        "retraces": trace.retraces,
        "dropped_events": trace.dropped_events,
    }


def _all_reduced(devices: tuple[DeviceTrace, ...]) -> DeviceTrace:
    """Return the first device with the shortest all-reduces of all: the others' include waiting for the last device."""
    first = devices[0]
    alike = [device.all_reduces_ms for device in devices if len(device.all_reduces_ms) == len(first.steps)]
    return first.model_copy(update={"all_reduces_ms": min(alike, key=sum, default=())})


def _a_step_each(device: DeviceTrace, per_call: int) -> DeviceTrace:
    """Divide each annotated call's parts among its steps."""
    if per_call == 1:
        return device
    shares = ({f"{part}_ms": call.part_ms(part) / per_call for part in PARTS} for call in device.steps)
    steps = tuple(StepParts(step_ms=sum(parts.values()), **parts) for parts in shares)
    exchanges_ms = tuple(ms / per_call for ms in device.all_reduces_ms)
    return device.model_copy(update={"steps": steps, "all_reduces_ms": exchanges_ms})


HOST_TRACER_LEVEL = 2  # operations; level 1 shows calls only, level 3 every cheap operation, at a higher cost per step
UNPROFILED_BLOCKS = 3
WAITED = (
    "Each traced step was waited for, since {title} works on after a call has come back; in blocks, as in training, "
    "the next call is prepared meanwhile."
)


class Profiler(Protocol):
    """A framework's profiler; ``title`` is the framework's name in a sentence.

    ``waits``: whether to wait for every traced step. It is needed where a call returns before its work on a CPU has
    begun, which would then fall outside the step.
    """

    title: str
    waits: bool

    def start(self, folder: str) -> None: ...
    def stop(self) -> None: ...
    def step(self, number: int) -> AbstractContextManager[Any]:
        """Annotate one call, so that the trace shows it as a step."""
        ...


def trace_steps(
    step: Step, steps: int, host_nodes: frozenset[str] | None, devices: tuple[str, ...], profiler: Profiler
) -> dict[str, Any]:
    """Return fields of :class:`core.worker.protocol.Traced`, from ``steps`` calls of the step under the profiler.

    ``devices`` are the trace's names of the step's devices. The same steps are timed without the profiler before and
    after. Raises CellFailed if the trace cannot be used.
    """
    calls = steps * step.per_call
    plain_ms = [step.run(calls) / calls for _ in range(UNPROFILED_BLOCKS)]
    with tempfile.TemporaryDirectory(prefix="breakeven-trace-") as folder:
        profiler.start(folder)
        try:
            profiled_ms = _profiled(step, steps, profiler)
        finally:
            profiler.stop()
        files = [(file, read) for pattern, read in READERS.items() for file in Path(folder).rglob(pattern)]
        if not files:
            raise CellFailed("error", f"{profiler.title}'s profiler wrote no trace.")
        file, read = files[0]
        try:
            trace = report(read(file), host_nodes, devices)
        except TraceError as error:
            raise CellFailed("error", f"The profiler's trace cannot be used: {error}") from None
    plain_ms += [step.run(calls) / calls for _ in range(UNPROFILED_BLOCKS)]
    fields = reply_fields(trace, steps, step.per_call)
    if profiler.waits:
        fields["notes"] = (*fields["notes"], WAITED.format(title=profiler.title))
    return fields | {
        "profiled_step_ms": profiled_ms / steps / step.per_call,
        "unprofiled_step_ms": median(plain_ms),
    }


def _profiled(step: Step, steps: int, profiler: Profiler) -> float:
    """Run annotated steps and wait for the device; return milliseconds."""
    with step.mode():
        start = time.perf_counter_ns()
        for number in range(steps):
            with profiler.step(number):
                last = step.call()
                if profiler.waits:
                    step.wait(last)
        step.wait(last)
        return (time.perf_counter_ns() - start) * 1e-6

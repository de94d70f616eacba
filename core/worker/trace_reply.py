"""The parts of a profiler trace that go into a reply, cut to its size."""

from __future__ import annotations

from typing import Any

from core.names import all_of
from core.traces.budget import Cut, longest, within
from core.traces.record import PARTS, DeviceTrace, StepParts, TraceReport
from core.worker.protocol import MAX_LINE_BYTES, CellFailed

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
